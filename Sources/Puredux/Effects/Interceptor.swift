/// Starts asynchronous work, or side effects, for actions.
///
/// Every action given to its store, or to one below, reaches an interceptor once, after the reducers, in commit order.
/// The work is a task of the store that got the action (G8).
///
///     let interceptor = Interceptor<AppState, AppAction>(for: Search.self) { search, dispatch in
///       dispatch(SearchResult(await index.find(search.text)))
///     }
///
/// The initializers are short forms of `Interceptor.effects`, which decides with the state of the commit, and returns
/// an `Effect`.
public struct Interceptor<State: Sendable, Action: Sendable>: Sendable {
  /// Called on the tree's executor.
  @usableFromInline struct Asked {
    /// Called before each commit, if it needs that state. Without a source, forgets that state.
    let prepare: ((inout Action, Source<State>?) -> Void)?
    let decide: Decide
    /// Checked after each commit, before `decide`; all found effects are cancelled together. Nil if nothing is lifted.
    let gone: Gone?
    let tell: Tell
    /// Specialized where an interceptor is made: a store without interceptors has none of this code.
    let makeTell: (@escaping Decide) -> Tell

    @usableFromInline typealias Decide = (inout Action, EffectContext<State, Action>) -> Effect<Action>?
    @usableFromInline typealias Tell = CommitHook<Action>.Tell

    @inlinable init(prepare: ((inout Action, Source<State>?) -> Void)?, decide: @escaping Decide) {
      self.init(prepare: prepare, decide: decide, tell: Self.telling(decide)) { Self.telling($0) }
    }

    @usableFromInline init(
      prepare: ((inout Action, Source<State>?) -> Void)?, decide: @escaping Decide, tell: @escaping Tell,
      makeTell: @escaping (@escaping Decide) -> Tell
    ) {
      self.prepare = prepare
      self.decide = decide
      self.tell = tell
      self.makeTell = makeTell
      gone = nil
    }

    init(
      prepare: ((inout Action, Source<State>?) -> Void)?, decide: @escaping Decide,
      gone: Gone?, makeTell: @escaping (@escaping Decide) -> Tell
    ) {
      self.prepare = prepare
      self.decide = decide
      self.makeTell = makeTell
      self.gone = gone
      var told = decide
      if let gone {
        told = { action, context in
          if gone.mayBe() {
            var owners: [EffectOwner] = []
            context.source.withState { gone.collect($0, &owners) }
            if !owners.isEmpty { EffectOwner.cancel(owners) }
          }
          return decide(&action, context)
        }
      }
      tell = makeTell(told)
    }

    /// SAFETY: it is called with the commit context of the `CommitHook` that it is part of, made by `hook(showing:)`.
    @inlinable static func telling(_ decide: @escaping Decide) -> Tell {
      { object, action, node in
        let commit = unsafe unsafeDowncast(object, to: EffectContext<State, Action>.CommitContext.self)
        let effect = commit.asking(about: node) { decide(&action, EffectContext(commit)) }
        if let effect { node.perform(effect) }
      }
    }
  }

  /// Called for each store that has the interceptor. Nil if it is asked about no commit.
  @usableFromInline let makeAsked: (@Sendable () -> Asked)?
  @usableFromInline let stateEffects: [StateEffect<State, Action>]

  @inlinable init(
    asked makeAsked: (@Sendable () -> Asked)? = nil, stateEffects: [StateEffect<State, Action>] = []
  ) {
    self.makeAsked = makeAsked
    self.stateEffects = stateEffects
  }

  @inlinable init(
    decide: @escaping @Sendable (inout Action, EffectContext<State, Action>) -> Effect<Action>?
  ) {
    self.init(asked: { Asked(prepare: nil, decide: decide) })
  }

  /// Decides in commit order, with the state of the commit, which effect an action has.
  ///
  ///     .effects { action, context in
  ///       switch action {
  ///       case .left where context.state.isEmpty: .run { $0(.close) }.after(.seconds(60)).id("idle")
  ///       case .entered: .cancel("idle")
  ///       default: nil
  ///       }
  ///     }
  ///
  /// The closure is called on the tree's executor: it should be cheap.
  @inlinable public static func effects(
    _ decide: @escaping @Sendable (Action, EffectContext<State, Action>) -> Effect<Action>?
  ) -> Interceptor {
    Interceptor(decide: { action, context in decide(action, context) })
  }

  /// Like `effects`, with a value taken from the state before the commit.
  ///
  /// - Parameters:
  ///   - before: Called before each commit of the store. If a lifted part is absent then, the interceptor is not asked.
  ///     The value is held during the commit, so reducers that change it copy it: take a number rather than a part of
  ///     the state.
  ///   - decide: Called after each commit that `before` was called for.
  @inlinable public static func effects<Before>(
    before: @escaping @Sendable (State) -> Before,
    _ decide: @escaping @Sendable (Action, Before, EffectContext<State, Action>) -> Effect<Action>?
  ) -> Interceptor {
    Interceptor(asked: {
      let memory = Box<Before>()
      return Asked(
        prepare: { _, source in
          memory.value = nil
          source?.withState { memory.value = before($0) }
        },
        decide: { action, context in memory.value.take().flatMap { decide(action, $0, context) } })
    })
  }

  /// Effects of the state: work that lasts while a condition holds for the states that the store publishes
  /// (`StateEffect`).
  ///
  ///     .effects(ofState: .while(\.isPolling) { .run { … } }, .forEach(\.jobs) { job in .run { … } })
  @inlinable public static func effects(ofState effects: StateEffect<State, Action>...) -> Interceptor {
    Interceptor(stateEffects: effects)
  }

  /// The same for an array.
  @inlinable public static func effects(ofState effects: [StateEffect<State, Action>]) -> Interceptor {
    Interceptor(stateEffects: effects)
  }

  /// Runs for every action.
  @inlinable public init(_ run: @escaping @Sendable (Action, Dispatch<Action>) async -> Void) {
    self.init(decide: { action, _ in .run { [action] dispatch in await run(action, dispatch) } })
  }

  /// Runs for actions that satisfy a condition, which is evaluated on the tree's executor and should be cheap.
  @inlinable public init(
    where isMeant: @escaping @Sendable (Action) -> Bool,
    _ run: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    self.init(decide: { action, _ in
      isMeant(action) ? .run { [action] dispatch in await run(action, dispatch) } : nil
    })
  }

  /// Runs for actions of one type.
  @inlinable public init<Meant: Sendable>(
    for type: Meant.Type, _ run: @escaping @Sendable (Meant, Dispatch<Action>) async -> Void
  ) {
    self.init(matching: { $0 as? Meant }, run)
  }

  /// Runs for actions that match a pattern, with the value that the pattern extracts.
  ///
  ///     Interceptor(matching: { if case .load(let id) = $0 { id } else { nil } }) { id, dispatch in … }
  @inlinable public init<Found: Sendable>(
    matching pattern: @escaping @Sendable (Action) -> Found?,
    _ run: @escaping @Sendable (Found, Dispatch<Action>) async -> Void
  ) {
    self.init(decide: { action, _ in
      guard let found = pattern(action) else { return nil }
      return .run { dispatch in await run(found, dispatch) }
    })
  }

  /// Combines several interceptors, asked in order.
  @inlinable public init(combining interceptors: [Interceptor]) {
    self = Self.all(nil, interceptors) ?? Interceptor()
  }

  @inlinable package static func all(
    _ run: (@Sendable (Action, Dispatch<Action>) async -> Void)?, _ others: [Interceptor]
  ) -> Interceptor? {
    let first = run.map { Interceptor($0) }
    return others.isEmpty ? first : joined(first, others)
  }

  @usableFromInline static func joined(_ first: Interceptor?, _ others: [Interceptor]) -> Interceptor? {
    guard let others = combined(others[...]) else { return first }
    return first?.and(others) ?? others
  }

  private static func combined(_ interceptors: ArraySlice<Interceptor>) -> Interceptor? {
    guard interceptors.count > 1 else { return interceptors.first }
    let middle = interceptors.startIndex + interceptors.count / 2
    guard let first = combined(interceptors[..<middle]), let second = combined(interceptors[middle...]) else {
      return nil
    }
    return first.and(second)
  }

  @usableFromInline func and(_ other: Interceptor) -> Interceptor {
    var both = makeAsked ?? other.makeAsked
    if let makeFirst = makeAsked, let makeSecond = other.makeAsked { both = { makeFirst().and(makeSecond()) } }
    return Interceptor(asked: both, stateEffects: stateEffects + other.stateEffects)
  }

  @usableFromInline func hook(
    showing source: Source<State>, _ published: Confined<Source<State>>
  ) -> CommitHook<Action>? {
    guard let asked = makeAsked?() else { return nil }
    var prepareHere: ((inout Action, StoreNode<Action>) -> Void)?
    if let prepare = asked.prepare { prepareHere = { action, _ in prepare(&action, source) } }
    return CommitHook(
      EffectContext<State, Action>.CommitContext(source: source, published: published), prepare: prepareHere,
      tell: asked.tell)
  }

  /// Runs every action that is an `AsyncAction`.
  @inlinable public static var asyncActions: Interceptor {
    Interceptor(matching: { $0 as? any AsyncAction<Action> }) { action, dispatch in
      await action.execute(dispatch: dispatch)
    }
  }
}

extension Interceptor.Asked {
  struct Gone {
    /// Whether a part may have effects in progress. Only then is the state read, to find the parts that are gone.
    let mayBe: () -> Bool
    let collect: (State, inout [EffectOwner]) -> Void
  }

  fileprivate func and(_ other: Self) -> Self {
    var both = prepare ?? other.prepare
    if let prepare, let second = other.prepare {
      both = { action, source in
        prepare(&action, source)
        second(&action, source)
      }
    }
    let decide: Decide = { [first = decide, second = other.decide] action, context in
      let effect = first(&action, context)
      guard let other = second(&action, context) else { return effect }
      return effect.map { .all($0, other) } ?? other
    }
    var bothGone = gone ?? other.gone
    if let gone, let second = other.gone {
      bothGone = Gone {
        gone.mayBe() || second.mayBe()
      } collect: { state, owners in
        gone.collect(state, &owners)
        second.collect(state, &owners)
      }
    }
    return Self(prepare: both, decide: decide, gone: bothGone, makeTell: makeTell)
  }
}

/// An action that carries its own asynchronous work, for `Interceptor.asyncActions`.
///
///     struct Refresh: AppAction, AsyncAction {
///       func execute(dispatch: Dispatch<any AppAction>) async {
///         dispatch(Refreshed(items: await service.items()))
///       }
///     }
public protocol AsyncAction<Action>: Sendable {
  /// The actions of the store.
  associatedtype Action: Sendable
  /// The work: a task of the store that got the action (G8).
  ///
  /// - Parameter dispatch: Gives that store further actions, each with its own place in the order.
  func execute(dispatch: Dispatch<Action>) async
}
