/// Wraps a store's reducers: sees each action before them, and the state afterwards.
///
/// Runs synchronously, on the tree's executor, for every action given to the store or below it. It passes the action,
/// or another one, to `next`, or stops the action by not calling `next`:
///
///     let audit = Middleware<Account, AccountAction> { action, context, next in
///       guard action.amount > 0 else { return context.reject("Nothing to book.") }
///       let before = context.state.balance
///       next(action)
///       log("\(context.store): \(before) -> \(context.state.balance)")
///     }
///     let store = RootStore(initialState: Account(), middleware: [audit, .timing { print($0, $1) }], reducer: reduce)
///
/// The order of steps:
///
/// 1. The middleware of the action's store, in order; then that of each store above it.
/// 2. All reducers of the path, for the action passed on.
/// 3. The states are published, and the interceptors are called.
/// 4. The middleware continues after its `next`, in reverse order.
///
/// So either the whole path reduces an action or no store does (G2, G3). Each call of `next` makes its own commit.
/// Actions that middleware dispatches come later in the order (G10). If middleware stops an action, `send` throws
/// `StoreError.rejected`; `dispatch` has already returned.
///
/// **Middleware or interceptor?** Middleware decides about actions, and measures: it holds up the tree, so it must be
/// short and cannot `await`. An interceptor does work that an action triggers: it runs alongside the tree, may take its
/// time, and comes too late to stop anything.
public struct Middleware<State: Sendable, Action: Sendable>: Sendable {
  /// Specialized at its creation. Nil if there are several parts.
  @usableFromInline let handle:
    (@Sendable (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) -> Void)?
  private let parts: [Middleware]
  private var decides = Decision.atCommit
  private var isInstrument = false

  private enum Decision {
    case atCommit
    case beforeLog
    case both
  }

  /// - Parameter handle: Called with each action, on the tree's executor. `next` returns after the action is reduced,
  ///   except in a child store of a tree that follows a log (G13).
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

  /// Combines several: in order before the reducers, in reverse order after them.
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

  /// Middleware that decides before the log that a root store follows. An action that it stops is not stored (G13).
  ///
  ///     middleware: [
  ///       .admission { bid, context, next in
  ///         guard bid.amount > context.state.highest else { return context.reject("Too low.") }
  ///         next(bid)
  ///       }
  ///     ]
  ///
  /// It runs once, where the action is given, after the middleware of child stores, on the state committed here: not at
  /// the commit, on other replicas or in replay. Each `next` submits an action, and returns before its commit.
  ///
  /// Two simultaneous actions may both be admitted. A rule that must hold belongs in the reducer, or in middleware that
  /// decides at the commit; for both, use `.guarding(atAdmission: true)`.
  ///
  /// Admission may read a clock, or data of this replica. In a store that follows no log, and in a child store, it is
  /// ordinary middleware.
  @inlinable public static func admission(
    _ handle:
      @escaping @Sendable (
        _ action: Action, _ context: MiddlewareContext<State, Action>, _ next: (Action) -> Void
      ) -> Void
  ) -> Middleware {
    Middleware(handle).asAdmission
  }

  static func telling(_ instrument: TreeInstrument) -> Middleware {
    var telling = Middleware(handle: { handler, action, node, stages in
      let beginning = instrument.begins(at: node.commitCount)
      if let next = handler.next {
        next.perform(&action, node, stages)
      } else {
        stages.committing(&action, node, stages)
      }
      // The quiet handler commits other replicas' actions, and those of the replay.
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

  @usableFromInline static func all(of middleware: [Middleware], areAdmission: Bool) -> [Middleware] {
    middleware.flatMap { middleware in
      if middleware.handle == nil { return all(of: middleware.parts, areAdmission: areAdmission) }
      return middleware.decides != (areAdmission ? .atCommit : .beforeLog) ? [middleware] : []
    }
  }

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

/// The state and actions available to middleware, while it handles an action. Later, it dispatches nothing
/// (`.terminated`).
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

  @inlinable var isUnderWay: Bool { stages.passage == passage }

  /// The store's own state: before `next`, that before the commit; after it, that after the commit.
  ///
  /// If held during `next`, the reducers copy the collections that they change in it. A child store composes it at each
  /// call.
  @inlinable public var state: State {
    var state: State?
    // SAFETY: `Middleware.handlers` has given the handler a source of its middleware's `State`, and this context.
    unsafe handler.source.known(of: State.self).withState { state = $0 }
    // Accepted actions keep the stores of their path alive.
    return state!
  }

  /// The store that the action was given to. After the action is handled, `.root`.
  @inlinable public var store: StoreID { isUnderWay ? node.id : .root }

  /// False before `next`, and after it if other middleware stopped the action.
  @inlinable public var isCommitted: Bool { stages.isCommitted }

  /// Whether the store replays an entry that was in its log at the opening. Middleware must pass on the same action as
  /// at the first commit, and has made its reports before.
  @inlinable public var isReplay: Bool { stages.isReplay }

  /// Dispatches to the store that the action was given to.
  @inlinable public var dispatch: Dispatch<Action> { Dispatch(node: isUnderWay ? node : nil) }

  /// The reason that `send` throws in `StoreError.rejected` if the action is stopped.
  @inlinable public func reject(_ reason: RejectionReason) {
    stages.reject(reason)
  }
}
