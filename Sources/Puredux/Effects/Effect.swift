/// Work that an action triggers, as a value: a task of the store that got the action (G8). The closure of
/// `Interceptor.effects` returns it.
///
///     .run { dispatch in dispatch(.found(try await search(text))) }
///       .id("search", .debounced(for: .milliseconds(300)))
///       .retried(.exponential(from: .milliseconds(100), upTo: .seconds(5), attempts: 4))
///       .catching { .failed($0) }
///
/// Ids belong to the store that got the action: those of two stores never meet. From the commit on that cancels an
/// effect by its id (`.cancel`, `.latest`, `.newest`, `.debounced`), none of its actions is committed (G8). Time is
/// measured by the store's clock.
public struct Effect<Action: Sendable>: Sendable {
  /// The work of an effect. Its `Dispatch` goes to the effect's store.
  public typealias Work = @Sendable (Dispatch<Action>) async throws -> Void

  @usableFromInline enum Content: Sendable {
    case work(Work)
    case detail(Detail)
  }

  @usableFromInline indirect enum Detail: Sendable {
    case run(Run)
    case cancel(EffectID)
    case all([Effect])
  }

  @usableFromInline struct Run: Sendable {
    @usableFromInline let work: Work
    var steps: [Effect]?
    var id: EffectID?
    var policy = EffectPolicy.latest
    var delay = Duration.zero
    var retry: RetryPolicy?
    var recover: (@Sendable (any Error) -> Action?)?
    var limit: (time: Duration, action: Action)?
    var context: CarriedValues.Context?
    var owners: [EffectOwner] = []

    @usableFromInline init(_ work: @escaping Work) { self.work = work }

    init(steps: [Effect]) {
      self.init { _ in }
      self.steps = steps
    }
  }

  @usableFromInline let content: Content

  @usableFromInline init(_ content: Content) { self.content = content }

  init(_ detail: Detail) { content = .detail(detail) }

  var detail: Detail {
    switch content {
    case .work(let work): .run(Run(work))
    case .detail(let detail): detail
    }
  }

  /// Work in a task of the store. If it throws, `catching` can make an action of the error; otherwise the error is
  /// reported. An error after the effect's cancellation, or its store's end, is dropped.
  @inlinable public static func run(_ work: @escaping Work) -> Effect { Effect(.work(work)) }

  /// Cancels the running and waiting effects of an id in the store that got the action, and ends its throttling. Does
  /// nothing for an unused id.
  public static func cancel(_ id: some Hashable & Sendable) -> Effect { Effect(.cancel(EffectID(id))) }

  /// Combines several effects, in order.
  public static func all(_ effects: Effect...) -> Effect { Effect(combining: effects) }

  /// Combines several effects, in order.
  public init(combining effects: [Effect]) {
    self.init(.all(effects.flatMap(\.parts)))
  }

  /// Combines several effects, which run in sequence: each begins when the one before it has ended, or failed.
  ///
  /// Set the id, the policy, the delay and the time limit on the whole. If the whole is cancelled, no other part
  /// begins. It is never retried as a whole: its retries and `catching` apply to each part that has none of its own.
  ///
  /// A part has its own delay, retries, time limit and `catching`. Its id is only a name, for reports, and its policy
  /// is ignored. An `.all` part runs its effects side by side, and is never at rest (`settled`). A `.cancel` is carried
  /// out in its turn.
  public static func inOrder(_ effects: Effect...) -> Effect { Effect(.run(Run(steps: effects))) }

  var parts: [Effect] { if case .detail(.all(let parts)) = content { parts } else { [self] } }

  /// Gives the work an id, by which it can be cancelled, and a policy. Ids of different types are different: `1` and
  /// `1.0` are two. In `.all`, each effect gets both: with `.latest`, the last one cancels the others.
  public func id(_ id: some Hashable & Sendable, _ policy: EffectPolicy = .latest) -> Effect {
    let id = EffectID(id)
    return changing {
      $0.id = id
      $0.policy = policy
    }
  }

  /// Waits before the work, and counts as running meanwhile. A delay of zero or less is none.
  public func after(_ delay: Duration) -> Effect {
    changing { $0.delay = delay }
  }

  /// Retries the work if it throws, unless it was cancelled or its store has ended.
  public func retried(_ policy: RetryPolicy) -> Effect {
    changing { $0.retry = policy }
  }

  /// Makes an action of the error that the work throws after all retries. If the closure returns nil, the error is
  /// reported.
  public func catching(_ recover: @escaping @Sendable (any Error) -> Action?) -> Effect {
    changing { $0.recover = recover }
  }

  /// Cancels the work when a time limit is over, and dispatches an action. Nothing that the work dispatches after that
  /// is committed, even if it ignores its cancellation.
  ///
  /// The limit covers all retries and the times between them, whatever the order of the modifiers. It begins after the
  /// delay (`after`) and the wait of the policy. If it is zero or less, the action is dispatched, and the work does not
  /// begin.
  ///
  /// If the work ends, or the effect is cancelled, before the limit, the action is not dispatched. In `.all`, each
  /// effect has that limit. `catching` does not apply to the limit, and later errors of the work are not reported.
  public func timeout(after time: Duration, _ action: Action) -> Effect {
    changing { $0.limit = (time, action) }
  }

  /// The same work for a store with other actions.
  public func map<Other: Sendable>(_ toOther: @escaping @Sendable (Action) -> Other) -> Effect<Other> {
    switch detail {
    case .cancel(let id): return Effect<Other>(.cancel(id))
    case .all(let parts): return Effect<Other>(.all(parts.map { $0.map(toOther) }))
    case .run(let run):
      let work = run.work
      var mapped = Effect<Other>.Run { dispatch in try await work(dispatch.map(toOther)) }
      mapped.id = run.id
      mapped.policy = run.policy
      mapped.delay = run.delay
      mapped.retry = run.retry
      mapped.owners = run.owners
      mapped.steps = run.steps?.map { $0.map(toOther) }
      if let recover = run.recover { mapped.recover = { recover($0).map(toOther) } }
      if let limit = run.limit { mapped.limit = (limit.time, toOther(limit.action)) }
      return Effect<Other>(.run(mapped))
    }
  }

  func of(element: some Hashable & Sendable) -> Effect {
    switch detail {
    case .cancel(let id): return Effect(.cancel(id.of(element: element)))
    case .all(let parts): return Effect(.all(parts.map { $0.of(element: element) }))
    case .run(var run):
      run.id = run.id?.of(element: element)
      run.steps = run.steps?.map { $0.of(element: element) }
      return Effect(.run(run))
    }
  }

  func owned(by owner: EffectOwner) -> Effect {
    changing { $0.owners.append(owner) }
  }

  func inheriting(from whole: Run) -> Effect {
    if whole.retry == nil, whole.recover == nil { return self }
    return changing {
      if $0.retry == nil { $0.retry = whole.retry }
      if $0.recover == nil { $0.recover = whole.recover }
    }
  }

  private func changing(_ change: (inout Run) -> Void) -> Effect {
    switch detail {
    case .cancel: return self
    case .all(let parts): return Effect(.all(parts.map { $0.changing(change) }))
    case .run(var run):
      change(&run)
      return Effect(.run(run))
    }
  }
}

/// The type counts, because values of different types may be equal as `AnyHashable`.
///
/// SAFETY: it holds a `Sendable` value, although `AnyHashable` does not record that.
@usableFromInline struct EffectID: Hashable, @unchecked Sendable, CustomStringConvertible {
  private let type: ObjectIdentifier
  private let value: AnyHashable

  @usableFromInline static let only = EffectID(0)

  @usableFromInline init<Value: Hashable & Sendable>(_ value: Value) {
    type = ObjectIdentifier(Value.self)
    self.value = AnyHashable(value)
  }

  func of(element: some Hashable & Sendable) -> EffectID { EffectID(OfElement(element: EffectID(element), id: self)) }

  @usableFromInline var description: String { "\(value)" }

  private struct OfElement: Hashable, Sendable, CustomStringConvertible {
    let element: EffectID
    let id: EffectID

    var description: String { "\(id)[\(element)]" }
  }
}

/// How an effect treats earlier effects of its id, in the same store. The policy is applied when the effect's action is
/// committed, whatever the policies of the earlier effects. Later effects never hold an effect up.
///
/// An effect is *unfinished* while it runs, waits for others, or is held until its time, and until its actions are
/// committed. A cancelled or left-out effect is finished. An effect has left its id when `perform`, `settled` or
/// `shutdown` returns because of its end, and when `statistics` omit its task.
///
/// Effects that wait for others begin in commit order.
public enum EffectPolicy: Sendable, Hashable {
  /// Cancels all earlier effects, ends their throttling, and begins at once.
  case latest
  /// Cancels the oldest earlier effects, so that at most `limit` are unfinished, and begins at once. A limit below one
  /// counts as one.
  case newest(limit: Int)
  /// Begins only if no earlier effect is unfinished; otherwise it is left out. An effect that has dispatched this very
  /// action still counts.
  case first
  /// Begins when no earlier effect is unfinished. At most `limit` effects wait, and none with a limit of zero or less.
  /// An effect beyond the limit is left out, and reported.
  case inTurn(limit: Int = .max)
  /// Begins when fewer than `limit` earlier effects are unfinished, and none of them waits for its turn. A limit below
  /// one counts as one.
  case concurrent(limit: Int)
  /// Cancels all earlier effects, ends their throttling, and begins after this time, unless a later effect cancels or
  /// replaces it by then. A time of zero or less is none.
  case debounced(for: Duration)
  /// Begins at once, alongside running effects, and then holds back other throttled effects for this time. The last of
  /// these begins when the time is over; without `latest`, all are left out. A throttled effect neither waits for a
  /// debounced effect nor replaces it. A time of zero or less is none.
  case throttled(for: Duration, latest: Bool = true)
}

/// When work that has thrown is retried.
public struct RetryPolicy: Sendable {
  /// The maximum number of attempts.
  public let attempts: Int
  private let delay: @Sendable (_ failures: Int) -> Duration

  /// - Parameters:
  ///   - attempts: One or less means a single attempt.
  ///   - delay: The time to wait after that many failures. Zero or less is none.
  public init(attempts: Int, delay: @escaping @Sendable (_ failures: Int) -> Duration) {
    self.attempts = attempts
    self.delay = delay
  }

  /// Waits the same time after every failure.
  public static func constant(_ delay: Duration, attempts: Int = .max) -> RetryPolicy {
    RetryPolicy(attempts: attempts) { _ in delay }
  }

  /// Waits twice as long after each failure, up to a limit.
  public static func exponential(from first: Duration, upTo limit: Duration, attempts: Int = .max) -> RetryPolicy {
    RetryPolicy(attempts: attempts) { failures in
      var delay = min(first, limit)
      var doublings = failures - 1
      while doublings > 0, delay > .zero, delay < limit {
        delay = delay > limit / 2 ? limit : delay * 2
        doublings -= 1
      }
      return delay
    }
  }

  func delay(after failures: Int) -> Duration? { failures < attempts ? delay(failures) : nil }
}
