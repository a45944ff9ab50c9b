public import Puredux

/// Which replica of a store does the work that only one is to do: a part of the state, so that the order of the log
/// decides (fencing).
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
/// The holder renews its lease by an action from time to time. A claim or a renewal that is rejected or lost is
/// repeated. A store that is shut down or released, or a store above it, gives up its lease, as its last action, so that
/// another replica takes over at once. If no renewal has come for so long, by the clock of each
/// of the others, they claim it, and the first claim in the log takes it. No clock is compared with another one's, and
/// none is read by the reducer. A holder that does not know yet that it has lost the lease may still be doing work:
/// what it reports then comes later in the log than the claim that took the lease, so that a reducer can tell it by
/// `term`; and what the work does outside needs a key by which that can be done once.
public struct Lease: Codable, Sendable, Hashable {
  /// Who holds it; nobody at first.
  public private(set) var holder: UInt64?
  /// Who gave it up, while nobody holds it.
  public private(set) var releasedBy: UInt64?
  /// How often it has been taken.
  public private(set) var term: UInt64 = 0
  /// How often it has been renewed in this term.
  public private(set) var renewals: UInt64 = 0

  /// Held by nobody.
  public init() {}

  /// What a replica asks for.
  public struct Claim: Codable, Sendable, Hashable {
    /// Who asks: a number that each replica draws for itself.
    public let replica: UInt64
    /// The term that it would begin, or renew.
    public let term: UInt64
    /// How often the lease had been renewed when this was asked for: where it has been since, its holder is alive.
    public let renewals: UInt64
    /// Whether it gives the lease up.
    public let isRelease: Bool

    /// For tests of a reducer: a `Leaseholder` makes its own.
    public init(replica: UInt64, term: UInt64, renewals: UInt64, isRelease: Bool = false) {
      self.replica = replica
      self.term = term
      self.renewals = renewals
      self.isRelease = isRelease
    }
  }

  /// Takes, renews or gives up the lease, if the claim still applies: of several that would begin the same term the
  /// first does, and none where the holder has renewed the lease since. For the reducer.
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

/// Holds a lease for one replica, and runs effects of the state while it is the one that has it.
public struct Leaseholder<State: Sendable, Action: Sendable>: Sendable {
  /// Who this replica is: a number of its own.
  public let replica: UInt64
  private let lease: @Sendable (State) -> Lease
  private let action: @Sendable (Lease.Claim) -> Action
  private let duration: Duration

  /// - Parameters:
  ///   - lease: The lease in the state.
  ///   - action: Makes the action by which the reducer is given a claim.
  ///   - duration: A holder that is not heard of for that long loses the lease; it renews it three times in that time.
  ///     By the store's clock. It is to be longer than the log is away at times, and than the replicas lag behind. Less
  ///     than a tenth of a second counts as that, and more than a hundred years as a hundred years.
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

  /// The effects that claim and renew the lease, and these, which run while this replica holds it. For a store that is
  /// made with them; `hold` subscribes them to one that exists.
  ///
  /// When the store, or one above it, is shut down or released, it gives up the lease, as the last action that it
  /// submits to its log. A lifted interceptor or effect does so for each part.
  /// `shutdown(interceptors: .finish(within:))` waits for the work first, and does not wait for renewals.
  ///
  ///     interceptors: .effects(ofState: holding.effects([.forEach({ $0.pending }) { job in .run { … } }]))
  public func effects(_ effects: [StateEffect<State, Action>]) -> [StateEffect<State, Action>] {
    let claiming = StateEffect<State, Action>.onChange(of: { [lease] in lease($0) }) {
      lease in
      .run { dispatch in
        let isHeld = lease.holder == replica
        if isHeld {
          try await dispatch.pause(for: duration / 3)
        } else if lease.holder != nil || lease.releasedBy == replica {
          // Each replica claims the lease at another time, so that they do not all do it at once. The replica that gave
          // the lease up lets the others go first.
          try await dispatch.pause(for: duration * Double.random(in: 1...1.25))
        }
        let claim = Lease.Claim(
          replica: replica, term: isHeld ? lease.term : lease.term &+ 1, renewals: lease.renewals)
        // Until the lease changes, which ends this work: a claim may be void, rejected, or lost with a sealed log.
        while try await isAnswered(claim, dispatch) { try await dispatch.pause(for: duration / 3) }
      }
    }
    return [claiming.atEnd { [farewell(in: $0)] }]
      + effects.map { effect in effect.lifted(state: { holds($0) ? $0 : nil }, into: { $0 }) }
  }

  /// Gives the lease up in the term that this replica holds, or may be about to hold: its claim can be on its way, and
  /// comes before this in the log. Void otherwise.
  private func farewell(in state: State) -> Action {
    let lease = lease(state)
    return action(
      Lease.Claim(
        replica: replica, term: lease.holder == replica ? lease.term : lease.term &+ 1, renewals: lease.renewals,
        isRelease: true))
  }

  /// Sends a claim, and returns when it has been committed or refused, so that only one claim waits while the log
  /// cannot be reached. False if the store takes no more actions.
  private func isAnswered(_ claim: Lease.Claim, _ dispatch: Dispatch<Action>) async throws(StoreError) -> Bool {
    do throws(StoreError) {
      try await dispatch.send(action(claim))
    } catch {
      switch error {
      case .rejected, .outcomeUnknown, .withdrawn, .stateUnavailable: break
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

  /// The action by which this replica gives up the lease, if it holds it: to move the work to another replica while the
  /// store goes on. A store that ends gives up its lease by itself.
  public func release(in state: State) -> Action? {
    let lease = lease(state)
    guard lease.holder == replica else { return nil }
    return action(Lease.Claim(replica: replica, term: lease.term, renewals: lease.renewals, isRelease: true))
  }
}
