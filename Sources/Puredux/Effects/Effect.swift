/// Work that an action triggers, as a value: what an interceptor returns, in commit order and with the state of that
/// commit (`Interceptor.effects`). The work itself is a task of the store that the action was given to (G8).
///
///     .run { dispatch in dispatch(.found(try await search(text))) }
///       .id("search", .debounced(for: .milliseconds(300)))
///       .retried(.exponential(from: .milliseconds(100), upTo: .seconds(5), attempts: 4))
///       .catching { .failed($0) }
///
/// Ids belong to the store that the action was given to: those of two stores never meet. As of the commit that
/// cancels an effect by its id, be it by `.cancel`, by `.latest` or by `.debounced`, nothing that it dispatches through
/// the `Dispatch` it was given is committed, even if it ignores its cancellation. What it dispatches to a store or
/// proxy that it obtained otherwise is not taken back.
///
/// Time is measured by the clock that the store is made with. Adopted from The Composable Architecture and Actomaton,
/// where effects have ids, too.
public struct Effect<Action: Sendable>: Sendable {
  /// The work of an effect; it is given a way to dispatch to its store.
  public typealias Work = @Sendable (Dispatch<Action>) async throws -> Void

  @usableFromInline enum Content: Sendable {
    /// A `run` of nothing but its work, which most are, and which costs no object of its own.
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
    /// What is done one after the other, in place of the work.
    var steps: [Effect]?
    var id: EffectID?
    var policy = EffectPolicy.latest
    var delay = Duration.zero
    var retry: RetryPolicy?
    var recover: (@Sendable (any Error) -> Action?)?
    /// The longest time that the work may take, and the action if it takes longer.
    var limit: (time: Duration, action: Action)?
    /// The task-local values carried along with the action that it is an effect of.
    var context: CarriedValues.Context?
    /// The parts of the state whose absence cancels it.
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

  /// What it is, with all work as a `run`.
  var detail: Detail {
    switch content {
    case .work(let work): .run(Run(work))
    case .detail(let detail): detail
    }
  }

  /// A task of the store. An error that it throws becomes an action if `catching` says so, and is reported otherwise;
  /// an error thrown after its cancellation is neither.
  @inlinable public static func run(_ work: @escaping Work) -> Effect { Effect(.work(work)) }

  /// Cancels what runs or waits under an id in the store that the action was given to. Does nothing if there is none.
  public static func cancel(_ id: some Hashable & Sendable) -> Effect { Effect(.cancel(EffectID(id))) }

  /// Several effects, in order.
  public static func all(_ effects: Effect...) -> Effect { Effect(combining: effects) }

  /// Combines several effects into one, in order.
  public init(combining effects: [Effect]) {
    self.init(.all(effects.flatMap(\.parts)))
  }

  /// One effect of several, each of which begins when the one before it has ended, whether that failed or not.
  ///
  ///     .inOrder(
  ///       .run { … }.retried(.constant(.seconds(1), attempts: 3)),
  ///       .run { … }.timeout(after: .seconds(5), .late))
  ///       .id("sync", .inTurn())
  ///
  /// The id, the policy, the delay and the time limit of the whole are set on the whole, and its cancellation ends
  /// it: no other begins. Its retries and its `catching` are those of each part that has none of its own: the whole
  /// is never begun again. Of a part, its delay, retries, time limit and `catching` count; its id is only a name, for
  /// reports, and its policy is ignored, as it is the order that says when it begins. Several effects that are one
  /// part (`.all`) run side by side; a `.cancel` is carried out in its turn. An error that nothing turns into an
  /// action is reported.
  public static func inOrder(_ effects: Effect...) -> Effect { Effect(.run(Run(steps: effects))) }

  /// The effects that it consists of.
  var parts: [Effect] { if case .detail(.all(let parts)) = content { parts } else { [self] } }

  /// Gives the work an id, by which it can be cancelled, and says how it behaves alongside others with that id. Ids of
  /// different types are different: `1` and `1.0` are two. Of several effects (`.all`) each gets the id and the policy:
  /// with `.latest` the last of them cancels the others.
  public func id(_ id: some Hashable & Sendable, _ policy: EffectPolicy = .latest) -> Effect {
    let id = EffectID(id)
    return changing {
      $0.id = id
      $0.policy = policy
    }
  }

  /// Waits before the work, which counts as running meanwhile. A delay of zero or less is none.
  public func after(_ delay: Duration) -> Effect {
    changing { $0.delay = delay }
  }

  /// Begins the work again if it throws, unless it was cancelled or its store has ended.
  public func retried(_ policy: RetryPolicy) -> Effect {
    changing { $0.retry = policy }
  }

  /// Turns the error that the work throws, after all retries, into an action. If it returns nil, the error is reported.
  public func catching(_ recover: @escaping @Sendable (any Error) -> Action?) -> Effect {
    changing { $0.recover = recover }
  }

  /// Cancels the work when it has taken longer than a time, and dispatches an action in place of all that it dispatches
  /// later: nothing of that is committed, even if the work ignores its cancellation (G8).
  ///
  ///     .run { dispatch in dispatch(.loaded(try await service.load())) }
  ///       .retried(.exponential(from: .milliseconds(100), upTo: .seconds(1)))
  ///       .timeout(after: .seconds(3), .failed)
  ///
  /// The time is that of the store's clock. It is that of the whole work, with its retries and the times between them,
  /// whatever the order of the modifiers; it begins when the delay (`after`) and the wait of its policy are over. If it
  /// is zero or less, the work does not begin. The action does not come if the work has ended, or the effect is
  /// cancelled, before. Of several effects (`.all`) each has that time; the action is not `catching`'s, and an error
  /// that the work throws after its time is not reported.
  public func timeout(after time: Duration, _ action: Action) -> Effect {
    changing { $0.limit = (time, action) }
  }

  /// The same work for a store with other actions.
  public func map<Other: Sendable>(_ toOther: @escaping @Sendable (Action) -> Other) -> Effect<Other> {
    switch detail {
    case .cancel(let id): return Effect<Other>(.cancel(id))
    case .all(let parts): return Effect<Other>(.all(parts.map { $0.map(toOther) }))
    case .run(let run):
      // The work is given a dispatch for its own actions.
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

  /// The same effects, with ids that belong to one element of several.
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

  /// The same effects, cancelled with a part of the state.
  func owned(by owner: EffectOwner) -> Effect {
    changing { $0.owners.append(owner) }
  }

  /// As a part of a whole, whose retries and `catching` are its own if it has none.
  func inheriting(from whole: Run) -> Effect {
    if whole.retry == nil, whole.recover == nil { return self }
    return changing {
      if $0.retry == nil { $0.retry = whole.retry }
      if $0.recover == nil { $0.recover = whole.recover }
    }
  }

  /// Cancellations stay as they are.
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
