/// Wraps the reducers of a store: sees each action before they do, and the state afterwards.
///
/// Synchronous, on the tree's executor, for every action given to the store or to one below it. It passes the action on
/// by calling `next`, replaces it by calling `next` with another, or stops it by not calling `next`:
///
///     let audit = Middleware<Account, AccountAction> { action, context, next in
///       guard action.amount > 0 else { return context.reject("Nothing to book.") }
///       let before = context.state.balance
///       next(action)
///       log("\(context.store): \(before) -> \(context.state.balance)")
///     }
///     let store = RootStore(initialState: Account(), middleware: [audit, .timing { print($0, $1) }], reducer: reduce)
///
/// The order of steps: the middleware of the store that the action was given to, in order; that of each store above it;
/// then all reducers of the path; the states are published and the interceptor is asked; and then the middleware
/// continues after its `next`, in reverse order. What it passes on is what all reducers of the path, the histories and
/// the interceptor get. So an action is reduced by its whole path or not at all (G2), and nobody sees anything in
/// between. Calling `next` more than once makes a commit each time, one right after the other.
///
/// What middleware dispatches, through `context.dispatch` or any store, comes later in the order (G10). If it stops an
/// action, `dispatch` cannot report that, as it has returned before; `send` throws `StoreError.rejected`.
///
/// **Middleware or interceptor?** Middleware decides about actions, and measures: it holds up the tree while it runs,
/// so it must be short and cannot `await`. An interceptor does work that an action triggers: it runs alongside the
/// tree, may take its time, and comes too late to stop anything.
public struct Middleware<State: Sendable, Action: Sendable>: Sendable {
  /// A closure, which is specialized where the middleware is made: a store without any has none of this. Nil if there
  /// are several.
  @usableFromInline let handle:
    (@Sendable (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) -> Void)?
  private let parts: [Middleware]
  /// When a root store that follows a log asks the middleware.
  private var decides = Decision.atCommit
  private var isInstrument = false

  private enum Decision {
    case atCommit
    case beforeLog
    case both
  }

  /// - Parameter handle: Called with each action that is given to the store or to one below it, on the tree's executor.
  ///   What it passes to `next` is reduced before that returns, but for a child store in a tree that follows a log
  ///   (G13).
  @inlinable public init(
    _ handle:
      @escaping @Sendable (
        _ action: Action, _ context: MiddlewareContext<State, Action>, _ next: (Action) -> Void
      ) -> Void
  ) {
    self.init(handle: { handler, action, node, stages in
      handle(action, MiddlewareContext(handler: handler, node: node, stages: stages)) { passed in
        var passed = passed
        handler.pass(&passed, node, stages)
      }
    })
  }

  /// Combines several into one: in order before the reducers, in reverse order after them.
  public init(_ middleware: [Middleware]) {
    handle = nil
    parts = middleware
  }

  @usableFromInline init(
    handle: @escaping @Sendable (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) -> Void
  ) {
    self.handle = handle
    parts = []
  }

  /// Middleware that decides before the log, in a root store that follows one: what it stops is not stored.
  ///
  ///     middleware: [
  ///       .admission { bid, context, next in
  ///         guard bid.amount > context.state.highest else { return context.reject("Too low.") }
  ///         next(bid)
  ///       }
  ///     ]
  ///
  /// It runs once, where the action is given to the store or one below it, behind the middleware of child stores, on
  /// what is committed here by then (G13); not when the action is committed, nor on other replicas, nor in replay. Each
  /// `next` submits an action, and returns before its commit. Two actions that are given at the same time may both be
  /// admitted, as neither is committed when the other is decided about: a rule that has to hold is for other
  /// middleware, which decides at the commit, or for the reducer.
  ///
  /// It need not be a function of state and action: it may look at a clock, and at what this replica knows. In a store
  /// that follows no log, and in a child store, it is middleware as any other, in its place. A rule that has to hold
  /// before the log and at the commit is `.guarding(atAdmission: true)`.
  @inlinable public static func admission(
    _ handle:
      @escaping @Sendable (
        _ action: Action, _ context: MiddlewareContext<State, Action>, _ next: (Action) -> Void
      ) -> Void
  ) -> Middleware {
    Middleware(handle).asAdmission
  }

  /// Tells the tree's instrument of each action. It is in front of all middleware, that of child stores included.
  static func telling(_ instrument: TreeInstrument) -> Middleware {
    var telling = Middleware(handle: { handler, action, node, stages in
      let beginning = instrument.begins(at: node.commitCount)
      // Both are specialized, unlike this.
      if let next = handler.next {
        next.perform(&action, node, stages)
      } else {
        stages.committing(&action, node, stages)
      }
      // In front of a commit of what another replica was given, or what was in the log.
      let isGivenElsewhere = stages.quiet === handler
      let event = instrument.event(
        beginning, at: node.commitCount, of: node.id, isReplay: stages.isReplay, isGivenElsewhere: isGivenElsewhere)
      if event.count > 0 {
        instrument.instrument.committed(action, event, in: instrument.store)
      } else {
        instrument.instrument.rejected(action, stages.reasonGiven, event, in: instrument.store)
      }
    })
    telling.isInstrument = true
    return telling
  }

  @usableFromInline var asAdmission: Middleware {
    var admission = self
    admission.decides = .beforeLog
    return admission
  }

  @usableFromInline var alsoAsAdmission: Middleware {
    var both = self
    both.decides = .both
    return both
  }

  /// The single middleware that is asked before the log, or that is asked at the commit.
  @usableFromInline static func all(of middleware: [Middleware], areAdmission: Bool) -> [Middleware] {
    middleware.flatMap { middleware in
      if middleware.handle == nil { return all(of: middleware.parts, areAdmission: areAdmission) }
      return middleware.decides != (areAdmission ? .atCommit : .beforeLog) ? [middleware] : []
    }
  }

  /// The middleware of a store, and behind it that of the stores above; nil if there is none.
  @usableFromInline static func handlers(
    _ middleware: [Middleware], showing source: Source<State>, before next: CommitHandler<Action>?
  ) -> CommitHandler<Action>? {
    if !middleware.isEmpty, let next, next.isInstrument {
      return CommitHandler(
        next.handle, showing: next.source, before: handlers(middleware, showing: source, before: next.next),
        isInstrument: true)
    }
    var first = next
    for middleware in middleware.reversed() {
      if let handle = middleware.handle {
        first = CommitHandler(handle, showing: source, before: first, isInstrument: middleware.isInstrument)
      } else {
        first = handlers(middleware.parts, showing: source, before: first)
      }
    }
    return first
  }
}

/// What middleware can see and do besides passing the action on. Valid while it handles the action: if it is kept for
/// longer, it dispatches nothing (`.terminated`).
public struct MiddlewareContext<State: Sendable, Action: Sendable> {
  @usableFromInline let handler: CommitHandler<Action>
  @usableFromInline let node: StoreNode<Action>
  @usableFromInline let stages: CommitStages<Action>
  @usableFromInline let passage: Int

  @inlinable init(handler: CommitHandler<Action>, node: StoreNode<Action>, stages: CommitStages<Action>) {
    self.handler = handler
    self.node = node
    self.stages = stages
    passage = stages.passage
  }

  /// Whether the action is still being handled.
  @inlinable var isUnderWay: Bool { stages.passage == passage }

  /// The state of the store that the middleware belongs to: the one before the commit until `next` is called, and then
  /// the one after it.
  ///
  /// Holding it while calling `next` makes the reducers copy the collections that they change in it. In a child store
  /// it is composed at each call.
  @inlinable public var state: State {
    var state: State?
    // SAFETY: `Middleware.handlers` has given the handler a source of its middleware's `State`, and this context.
    unsafe handler.source.known(of: State.self).withState { state = $0 }
    // Actions come from stores that were held when the actions were accepted: the stores on their path have a state
    // until the actions are committed.
    return state!
  }

  /// The store that the action was given to: the middleware's own, or one below it. `.root` once the action has been
  /// handled.
  @inlinable public var store: StoreID { isUnderWay ? node.id : .root }

  /// Whether the action has been committed: false before `next`, and false after it if other middleware has stopped the
  /// action.
  @inlinable public var isCommitted: Bool { stages.isCommitted }

  /// Whether the store follows a log and replays what was in it when the store was opened: such an action has been
  /// committed before, in an earlier process or by another replica. What middleware passes on has to be the same then;
  /// what it reports, counts or prints has been reported.
  @inlinable public var isReplay: Bool { stages.isReplay }

  /// Dispatches to the store that the action was given to.
  @inlinable public var dispatch: Dispatch<Action> { Dispatch(node: isUnderWay ? node : nil) }

  /// Gives the reason why the action is stopped: `send` throws `StoreError.rejected` with it.
  @inlinable public func reject(_ reason: RejectionReason) {
    stages.reject(reason)
  }
}
