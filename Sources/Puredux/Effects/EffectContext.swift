import Synchronization

/// The commit that an interceptor is asked about. Valid only during that call.
public struct EffectContext<State: Sendable, Action: Sendable> {
  @usableFromInline let commit: CommitContext

  @inlinable init(_ commit: CommitContext) { self.commit = commit }

  @inlinable init(
    source: Source<State>, publishing: @escaping CommitContext.Publishing, store: StoreID, position: Int,
    dispatch: Dispatch<Action>
  ) {
    commit = CommitContext(source: source, given: (store, position, dispatch, publishing))
  }

  @inlinable var source: Source<State> { commit.source }

  /// The store that the action was given to: the interceptor's own, or one below it.
  @inlinable public var store: StoreID { commit.given?.store ?? commit.node?.id ?? .root }

  /// The place of the commit in the tree's order, counted from one.
  @inlinable public var position: Int { commit.given?.position ?? commit.node?.commitCount ?? 0 }

  /// Dispatches at once to the store that the action was given to. The new action comes later in the order.
  @inlinable public var dispatch: Dispatch<Action> { commit.given?.dispatch ?? Dispatch(node: commit.node) }

  /// The state of the interceptor's store right after the commit. A child store composes it at each call.
  @inlinable public var state: State {
    // Stores on an action's path are held until its commit, so they have a state.
    current!
  }

  @inlinable var current: State? {
    var state: State?
    source.withState { state = $0 }
    return state
  }
}

extension EffectContext {
  /// One object for all commits of a store: a new one each time would double a commit's cost.
  @usableFromInline @safe final class CommitContext {
    @usableFromInline let source: Source<State>
    @usableFromInline let published: Confined<Source<State>>?
    @usableFromInline let given: Given?

    @usableFromInline typealias Publishing = () -> Confined<Source<State>>
    @usableFromInline typealias Given = (
      store: StoreID, position: Int, dispatch: Dispatch<Action>, publishing: Publishing
    )

    // SAFETY: set only during the call of `asking`, whose caller holds the node. Without the run-time check for
    // overlapping accesses: reached only on the tree's executor, and an access copies the reference out or sets it.
    @usableFromInline @exclusivity(unchecked) var current: Unmanaged<StoreNode<Action>>?

    @inlinable init(source: Source<State>, published: Confined<Source<State>>? = nil, given: Given? = nil) {
      self.source = source
      self.published = published
      self.given = given
    }

    /// The source of a part is valid only with its context. Does not hold the store's node.
    @usableFromInline var publishing: Publishing {
      given?.publishing ?? { [source, published] in published ?? Confined(storing: source) }
    }

    @inlinable var node: StoreNode<Action>? { unsafe current?.takeUnretainedValue() }

    @inlinable @inline(__always) func asking<Result>(about node: StoreNode<Action>, _ body: () -> Result) -> Result {
      unsafe current = Unmanaged.passUnretained(node)
      defer { unsafe current = nil }
      return body()
    }
  }
}

/// A failure without a caller to throw to. It goes to the store's `reporting` closure, or else to standard error.
public struct EffectReport: Sendable, CustomStringConvertible {
  /// The failure.
  public enum Reason: Sendable {
    /// The work threw on its last attempt, and the error was not made into an action.
    case failed(any Error)
    /// The work was not begun, because too many effects wait (`EffectPolicy.inTurn`).
    case turnedAway
    /// A store, scope or projection was made below the 100th level. It is closed from the start: its sequences are
    /// empty, and its observers, interceptors and effects are never called. Only the call that makes it is reported,
    /// not stores or proxies made of it.
    case tooDeep
  }

  /// The failure.
  public let reason: Reason
  /// The store that the effect belongs to, or that the store, scope or projection was made of.
  public let store: StoreID
  /// The description of the effect's id; nil if it has none.
  public let effect: String?

  /// For tests of a `reporting` closure.
  public init(_ reason: Reason, store: StoreID, effect: String? = nil) {
    self.reason = reason
    self.store = store
    self.effect = effect
  }

  public var description: String {
    let effect = effect.map { "effect \"\($0)\"" } ?? "an effect"
    return switch reason {
    case .failed(let error): "Puredux: \(effect) of store \(store) failed: \(error)"
    case .turnedAway: "Puredux: \(effect) of store \(store) was not begun, as too many wait."
    case .tooDeep:
      "Puredux: a store, scope or projection made of store \(store) lies below the \(AnySource.greatestLevel)th level: "
        + "it is closed from the start."
    }
  }

  @usableFromInline static func print(_ report: EffectReport) {
    var errors = StandardError()
    Swift.print(report, to: &errors)
  }
}

extension Dispatch {
  /// Sleeps on the store's clock; not at all for a duration of zero or less.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(for duration: Duration) async throws {
    try await sleep { clock, effect in await clock.wait(duration, in: effect) }
  }

  /// Sleeps on the store's clock until a time of day and year; not at all if it has come.
  ///
  /// If the clock is set back meanwhile, it sleeps on until the time has come. If the clock is set forward, the sleep
  /// ends when the time that was left is over.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(until time: WallTime) async throws {
    try await sleep { clock, effect in await clock.wait(until: time, in: effect) }
  }

  /// Like `sleep(for:)`, but a finishing store (`InterceptorShutdown.finish`) does not wait for it.
  package func pause(for duration: Duration) async throws {
    try await sleep { clock, effect in await clock.wait(duration, in: effect, for: .interval) }
  }

  /// Returns when the actions that the store's tree has accepted by now are committed or given up, even in a cancelled
  /// task.
  package func untilCommitted() async {
    try? await node?.run(isolation: nil, by: effect) { _ throws(StoreError) in
    } pending: {
      PendingRequest { _ throws(StoreError) in }
    }
  }

  /// The time of day and year by the store's clock, if it is a `WallClock`; by the system for the continuous or
  /// suspending clock. Any other clock goes on from the system's time when the store was made.
  public var now: WallTime { node?.wallTime ?? .now }

  private func sleep(_ wait: (ElapsedClock, RunningEffect?) async -> Void) async throws {
    if let node {
      await wait(node.effects.settings.clock, RunningEffect.current.flatMap { node.hosts($0) ? $0 : nil })
    } else {
      await wait(ElapsedClock(ContinuousClock()), nil)
    }
    try Task.checkCancellation()
  }
}

extension EffectContext {
  /// The time of day and year, like `Dispatch.now`.
  public var now: WallTime { dispatch.now }
}

extension AnyStoreNode {
  var wallTime: WallTime { existingEffects?.settings.clock.wallTime ?? .now }
}
