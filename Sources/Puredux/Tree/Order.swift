/// The order in which the actions of a tree are committed, where it comes from elsewhere than the tree's inbox.
///
/// An action takes its place in the inbox as ever. In its turn it passes the middleware of the child stores on its
/// path, and the root's admission, and is *submitted*; it is committed when the order says so. Requests behind it that
/// depend on its commit, such as a read or the end of a store, wait until then.
///
/// Called on the tree's executor, within its reentrancy guard (`Tree.enter`), unless a requirement says otherwise.
@usableFromInline package protocol Order<Action>: AnyObject, Sendable {
  associatedtype Action: Sendable

  /// Processes an action that a store is given: passes it through the store's middleware to be submitted, or commits
  /// it. Returns why it was not committed.
  func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError?

  /// Submits an action, as a store's middleware passes it on.
  func submit(_ action: Action, _ passage: Passage<Action>)

  /// Has a request submit its action.
  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation)

  /// Calls a closure when all submitted actions are committed. Returns the number by which the closure is forgotten. If
  /// they are committed already, returns nil, and does not call the closure.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64?

  /// Forgets a closure: it is not called any more.
  func forget(_ follower: UInt64)

  /// Whether an action that was submitted here is being committed.
  var isCommitting: Bool { get }

  /// Whether the action being committed was in the order when the store was opened.
  var isReplaying: Bool { get }

  /// The root store has ended.
  func rootEnded(on tree: isolated any TreeIsolation)

  /// The root store has been closed, but actions that it accepted may still have to be committed. From anywhere.
  func rootClosed()

  /// The answer of `dispatch` while no actions are taken; nil while they are. From anywhere.
  var refusal: DispatchResult? { get }

  /// How many requests may wait for their turn before `dispatch` is refused. From anywhere.
  var inboxBound: Int { get }

  /// For `StoreStatistics`. From anywhere.
  var statistics: LogStatistics? { get }
}

/// A request that submits an action in its turn, and is performed when that action is committed.
@usableFromInline package protocol SubmittingRequest: AnyObject, Sendable {
  /// Runs the request, and ends it unless `isKept` says that it is performed later.
  func attempt(on tree: isolated any TreeIsolation, isKept: () -> Bool)

  /// The submitted action can be withdrawn when the caller gives the request up: `withdraw` does so, or returns false
  /// if it is too late.
  func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool)

  func perform(on tree: isolated any TreeIsolation)

  /// Ends the request with an error.
  func refuse(_ error: StoreError)
}

/// Where a submitted action comes from, and what it carries along. Not generic, so that a queue of these looks up no
/// type at run time.
package struct Origin {
  fileprivate let node: any AnyStoreNode
  fileprivate let context: CarriedValues.Context?
  /// The action's part of the work that a caller waits for, if one does.
  fileprivate let part: AwaitedWork.Part?

  /// Gives the action to its store once more, to be committed now.
  package func commit<Action: Sendable>(_ action: Action, on tree: isolated any TreeIsolation) {
    guard let node = node as? StoreNode<Action> else { return }
    let commit = { _ = try? node.tree.acceptHere(action, from: node, isPlaced: true) }
    node.committing(of: part?.awaitedWork, on: tree) {
      if let context { context.restore(commit) } else { commit() }
    }
  }
}

extension CommitStages {
  /// The further stages of a tree whose order comes from elsewhere.
  @usableFromInline final class Ordered {
    let order: any Order<Action>
    /// The middleware of the root store, but for its admission: it decides when the action has come back.
    let middleware: CommitHandler<Action>?

    init(_ order: any Order<Action>, _ middleware: CommitHandler<Action>?) {
      self.order = order
      self.middleware = middleware
    }
  }
}

extension CommitStages {
  @usableFromInline func processInOrder(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    guard let order = ordered?.order else { return nil }
    let isCommitting = order.isCommitting
    let failure = order.process(&action, Passage(node: node, stages: self))
    // Before the log; at the commit the instrument's handler is in front of the middleware.
    if !isCommitting, case .rejected(let reason)? = failure, let instrument = node.tree.instrument {
      let event = instrument.event(instrument.begins(at: node.commitCount), at: node.commitCount, of: node.id)
      instrument.instrument.rejected(action, reason, event, in: instrument.store)
    }
    return failure
  }
}

/// The way of an action past the stages of the store that it was given to.
@usableFromInline package struct Passage<Action: Sendable> {
  let node: StoreNode<Action>
  let stages: CommitStages<Action>

  /// Whether middleware decides about an action before it is submitted.
  package var hasMiddleware: Bool { stages.handler?.next != nil }

  /// Has an action that is to be submitted pass the middleware. Returns the middleware's reason if nothing was passed
  /// on.
  package func submit(_ action: inout Action) -> StoreError? {
    stages.handler?.perform(&action, node, stages)
    return stages.end()
  }

  /// Commits an action that has come back. Returns why there was no commit.
  package func commitSubmitted(_ action: inout Action) -> StoreError? {
    if let middleware = stages.ordered?.middleware {
      middleware.perform(&action, node, stages)
    } else {
      stages.commit(&action, from: node)
    }
    return stages.end()
  }

  /// The origin of the action that is being submitted.
  package var origin: Origin {
    // SAFETY: stages are passed only on the tree's executor.
    Origin(node: node, context: node.carriedContext, part: unsafe node.tree.awaitedWorkOfExecutor?.enter())
  }
}

extension Tree {
  /// The command, which waits for the actions submitted before it where the order comes from elsewhere.
  nonisolated func behindCommits(_ command: Command) -> Command {
    guard let order else { return command }
    return .closure { tree in
      if order.follow({ command.perform(on: $0) }) == nil { command.perform(on: tree) }
    }
  }

  /// A request that submits its action in its turn, or waits for the actions submitted before it.
  nonisolated func inOrder<Value>(_ request: PendingRequest<Value>) -> Command {
    guard let order, request.isSend else { return request.isOrdered ? behindCommits(request) : request }
    return .closure { tree in order.perform(request, on: tree) }
  }
}
