public import Puredux

/// A lease on work that only one replica is to do. It is part of the state: the order of the log decides who holds it
/// (fencing).
///
///     struct Shop: Codable, Sendable {
///       var lease = Lease()
///       var pending: [Job] = []
///     }
///     enum ShopAction: Codable, Sendable { case lease(Lease.Claim), done(Job.ID) }
///
///     // In the reducer, on every replica:
///     case .lease(let claim): shop.lease.apply(claim)
///
///     // Once for each replica, when it has been made:
///     let holding = Leaseholder(lease: { (shop: Shop) in shop.lease }, action: ShopAction.lease)
///     let subscription = holding.hold(store, effects: [.forEach(\.pending) { job in .run { … } }])
///
/// The holder renews the lease by actions. Rejected and lost claims and renewals are repeated. A store that ends, by
/// shutdown or release of itself or an ancestor, gives up the lease with its last action, and another replica takes
/// over at once. A store that stops (`LogStop`) cancels the work under its lease.
///
/// Without a renewal for a time, by its own clock, each other replica claims the lease, and the first claim in the log
/// takes it. Clocks are not compared, and the reducer reads none.
///
/// A holder that has not yet learned of its loss may still work. Its reports follow the claim in the log: a reducer
/// recognizes them by `term`. Its external effects must be idempotent, by a key.
public struct Lease: Codable, Sendable, Hashable {
  /// The replica that holds it; nil if there is none.
  public private(set) var holder: UInt64?
  /// The replica that gave it up, until it is taken again.
  public private(set) var releasedBy: UInt64?
  /// How often it was taken.
  public private(set) var term: UInt64 = 0
  /// How often it was renewed in this term.
  public private(set) var renewals: UInt64 = 0

  /// A lease without a holder.
  public init() {}

  /// A replica's request to take, renew or give up the lease.
  public struct Claim: Codable, Sendable, Hashable {
    /// The replica's random number.
    public let replica: UInt64
    /// The term that it begins, renews or ends.
    public let term: UInt64
    /// The lease's renewals when the claim was made. A renewal since then voids the claim: the holder is alive.
    public let renewals: UInt64
    /// Whether it gives the lease up.
    public let isRelease: Bool

    /// For tests of a reducer; a `Leaseholder` makes its own.
    public init(replica: UInt64, term: UInt64, renewals: UInt64, isRelease: Bool = false) {
      self.replica = replica
      self.term = term
      self.renewals = renewals
      self.isRelease = isRelease
    }
  }

  /// For the reducer: takes, renews or gives up the lease, if the claim still applies. The first of several claims for
  /// one term takes it; none does if the holder has renewed the lease since.
  public mutating func apply(_ claim: Claim) {
    if claim.term == term, claim.replica == holder {
      if claim.isRelease {
        holder = nil
        releasedBy = claim.replica
      } else {
        renewals &+= 1
      }
    } else if !claim.isRelease, claim.term == term &+ 1, holder == nil || claim.renewals == renewals {
      self.holder = claim.replica
      releasedBy = nil
      self.term = claim.term
      renewals = 0
    }
  }
}

/// Holds a lease for one replica, and runs effects of the state meanwhile.
public struct Leaseholder<State: Sendable, Action: Sendable>: Sendable {
  /// The random number of this replica.
  public let replica: UInt64
  private let lease: @Sendable (State) -> Lease
  private let action: @Sendable (Lease.Claim) -> Action
  private let duration: Duration

  /// - Parameters:
  ///   - lease: The lease in the state.
  ///   - action: Makes the action that passes a claim to the reducer.
  ///   - duration: The time without a renewal, by the store's clock, after which other replicas claim the lease, with
  ///     up to a quarter more at random. The holder renews it three times in that time. It should exceed the log's
  ///     outages and the replicas' lag. Bounded to between 0.1 seconds and 100 years.
  public init(
    lease: @escaping @Sendable (State) -> Lease, action: @escaping @Sendable (Lease.Claim) -> Action,
    duration: Duration = .seconds(10)
  ) {
    replica = UInt64.random(in: 1 ... .max)
    self.lease = lease
    self.action = action
    self.duration = max(duration.clamped, .milliseconds(100))
  }

  /// Whether this replica holds the lease in a state.
  public func holds(_ state: State) -> Bool { lease(state).holder == replica }

  /// The effects that claim and renew the lease, and the given ones, which run while this replica holds it. Pass them
  /// to a new store; `hold` subscribes them to an existing one.
  ///
  ///     interceptors: .effects(ofState: holding.effects([.forEach({ $0.pending }) { job in .run { … } }]))
  ///
  /// A store that ends gives up the lease with its last action in the log; a lifted interceptor or effect does so for
  /// each part. `shutdown(interceptors: .finish(within:))` waits for the work first, and not for renewals.
  public func effects(_ effects: [StateEffect<State, Action>]) -> [StateEffect<State, Action>] {
    let claiming = StateEffect<State, Action>.onChange(of: { [lease] in lease($0) }) {
      lease in
      .run { dispatch in
        let isHeld = lease.holder == replica
        if isHeld {
          try await dispatch.pause(for: duration / 3)
        } else if lease.holder != nil || lease.releasedBy == replica {
          // At a random time, so that replicas do not claim at once. The former holder lets the others go first.
          try await dispatch.pause(for: duration * Double.random(in: 1...1.25))
        }
        let claim = Lease.Claim(
          replica: replica, term: isHeld ? lease.term : lease.term &+ 1, renewals: lease.renewals)
        // Until the lease changes, which ends this work: a claim may be void, rejected, or lost with a sealed log.
        while try await isAnswered(claim, dispatch) { try await dispatch.pause(for: duration / 3) }
      }
    }
    return [claiming.atEnd { [farewell(in: $0)] }]
      + effects.map { effect in
        // A stopped store renews no lease, and its state no longer tells who holds it.
        effect.lifted(state: { holds($0) ? $0 : nil }, into: { $0 }).endedByStop
      }
  }

  /// Gives up the lease in the term that this replica holds, or that its pending claim begins. Void otherwise.
  private func farewell(in state: State) -> Action {
    let lease = lease(state)
    return action(
      Lease.Claim(
        replica: replica, term: lease.holder == replica ? lease.term : lease.term &+ 1, renewals: lease.renewals,
        isRelease: true))
  }

  /// Returns when the claim is committed or refused: only one waits while the log is away. False if the store takes no
  /// more actions.
  private func isAnswered(_ claim: Lease.Claim, _ dispatch: Dispatch<Action>) async throws(StoreError) -> Bool {
    do throws(StoreError) {
      try await dispatch.send(action(claim))
    } catch {
      switch error {
      // The claim may still wait for the log (`LogOptions.sendLimit`).
      case .outcomeUnknown: if !Task.isCancelled { await dispatch.untilCommitted() }
      case .rejected, .withdrawn, .stateUnavailable: break
      case .stopped, .terminated: return false
      case .unmapped, .tooDeep: throw error
      }
    }
    return true
  }

  /// Subscribes the effects to a store of this replica.
  @discardableResult public func hold(
    _ store: some StoreType<State, Action>, effects: [StateEffect<State, Action>]
  ) -> [Subscription] {
    self.effects(effects).map { store.subscribe(effect: $0) }
  }

  /// The action that gives up the lease while the store continues; nil if this replica does not hold it. A store that
  /// ends gives up its lease by itself.
  public func release(in state: State) -> Action? {
    let lease = lease(state)
    guard lease.holder == replica else { return nil }
    return action(Lease.Claim(replica: replica, term: lease.term, renewals: lease.renewals, isRelease: true))
  }
}
