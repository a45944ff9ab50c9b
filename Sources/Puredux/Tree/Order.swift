/// The order in which the actions of a tree are committed, where it comes from elsewhere than the tree's inbox.
///
/// What a store is given takes its place in the inbox as ever. In its turn it passes the middleware of the child stores
/// on its path, and the root's admission, and is *submitted*; it is committed when the order has it so. What comes
/// behind it and goes by what has been committed, such as a read or the end of a store, waits until then.
///
/// Called on the tree's executor, within its reentrancy guard (`Tree.enter`), unless a requirement says otherwise.
@usableFromInline package protocol Order<Action>: AnyObject, Sendable {
  associatedtype Action: Sendable

  /// Does what is to be done with an action that a store is given: has it pass the store's middleware, or commits it.
  /// Returns why it was not committed.
  func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError?

  /// Submits an action, as a store's middleware passes it on.
  func submit(_ action: Action, _ passage: Passage<Action>)

  /// Has a request submit its action.
  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation)

  /// Has a closure called when all that has been submitted is committed; false where all of it is.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Bool

  /// Whether an action that was submitted here is being committed.
  var isCommitting: Bool { get }

  /// Whether what is committed now was in the order when the store was opened.
  var isReplaying: Bool { get }

  /// The root store has ended.
  func rootEnded(on tree: isolated any TreeIsolation)

  /// The root store has been closed, but what it accepted may still have to be committed. From anywhere.
  func rootClosed()

  /// What `dispatch` answers while nothing is taken. From anywhere.
  var refusal: DispatchResult? { get }

  /// How many requests may wait for their turn before `dispatch` is refused. From anywhere.
  var inboxBound: Int { get }

  /// For `StoreStatistics`. From anywhere.
  var statistics: LogStatistics? { get }
}

/// A request that submits an action in its turn, and is performed when that action is committed.
@usableFromInline package protocol SubmittingRequest: AnyObject, Sendable {
  /// Runs it, and ends it unless the closure says that it is carried out later.
  func attempt(on tree: isolated any TreeIsolation, isKept: () -> Bool)

  /// What it has submitted can be taken back when its caller gives it up: the closure does, or returns that it is too
  /// late.
  func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool)

  func perform(on tree: isolated any TreeIsolation)

  /// Ends it with an error.
  func refuse(_ error: StoreError)
}

/// Where an action comes from that is submitted, and what it carries along. Not generic, so that no type is looked up
/// at run time for the queue of them.
package struct Origin {
  fileprivate let node: any AnyStoreNode
  fileprivate let context: CarriedValues.Context?
  /// Of what a caller waits for besides.
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
  /// What the actions of a tree pass whose order comes from elsewhere.
  @usableFromInline final class Ordered {
    let order: any Order<Action>
    /// The middleware of the root store but for its admission, which decides when the action has come back.
    let middleware: CommitHandler<Action>?

    init(_ order: any Order<Action>, _ middleware: CommitHandler<Action>?) {
      self.order = order
      self.middleware = middleware
    }
  }
}

extension CommitStages {
  @usableFromInline func processInOrder(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    ordered?.order.process(&action, Passage(node: node, stages: self))
  }
}

/// The way of an action past the stages of the store that it was given to.
@usableFromInline package struct Passage<Action: Sendable> {
  let node: StoreNode<Action>
  let stages: CommitStages<Action>

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

  /// Of the action that is being submitted.
  package var origin: Origin {
    // SAFETY: stages are passed only on the tree's executor.
    Origin(node: node, context: node.carriedContext, part: unsafe node.tree.awaitedWorkOfExecutor?.enter())
  }
}

extension Tree {
  /// A command that waits for what has been submitted before it, where the order comes from elsewhere.
  nonisolated func behindCommits(_ command: Command) -> Command {
    guard let order else { return command }
    return .closure { tree in
      if !order.follow({ command.perform(on: $0) }) { command.perform(on: tree) }
    }
  }

  /// A request that submits its action in its turn, or waits for the actions submitted before it.
  nonisolated func inOrder<Value>(_ request: PendingRequest<Value>) -> Command {
    guard let order, request.isSend else { return request.isOrdered ? behindCommits(request) : request }
    return .closure { tree in order.perform(request, on: tree) }
  }
}
