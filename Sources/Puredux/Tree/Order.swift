/// An external order of a tree's commits, in place of the order of its inbox.
///
/// An action first takes its place in the inbox. In its turn it passes the middleware of the child stores on its path,
/// and the root's admission, and is *submitted*. It is committed when the order says so. Later requests that depend on
/// its commit, such as a read or the end of a store, wait until then.
///
/// Called on the tree's executor, within its reentrancy guard (`Tree.enter`), unless a requirement says otherwise.
@usableFromInline package protocol Order<Action>: AnyObject, Sendable {
  associatedtype Action: Sendable

  /// Processes an action that a store is given: passes it through the store's middleware to be submitted, or commits
  /// it. Returns why it was not committed.
  func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError?

  func submit(_ action: Action, _ passage: Passage<Action>)

  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation)

  /// Calls a closure when all submitted actions are committed. Returns a number for `forget`. If they are committed
  /// already, returns nil, and does not call the closure.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64?

  func forget(_ follower: UInt64)

  /// Whether an action that was submitted here is being committed.
  var isCommitting: Bool { get }

  /// Whether the action being committed was in the order when the store was opened.
  var isReplaying: Bool { get }

  func rootEnded(on tree: isolated any TreeIsolation)

  /// The root store has been closed, but actions that it accepted may still have to be committed. From anywhere.
  func rootClosed()

  /// The answer of `dispatch` while no actions are taken; otherwise nil. From anywhere.
  var refusal: DispatchResult? { get }

  /// How many requests may wait for their turn before `dispatch` is refused. From anywhere.
  var inboxBound: Int { get }

  /// From anywhere.
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

  func refuse(_ error: StoreError)
}

/// The origin of a submitted action, and its context. Not generic, so that a queue of these looks up no type at run
/// time.
package struct Origin {
  fileprivate let node: any AnyStoreNode
  fileprivate let context: CarriedValues.Context?
  fileprivate let part: AwaitedWork.Part?

  package func commit<Action: Sendable>(_ action: Action, on tree: isolated any TreeIsolation) {
    guard let node = node as? StoreNode<Action> else { return }
    let commit = { _ = try? node.tree.acceptHere(action, from: node, isPlaced: true) }
    node.committing(of: part?.awaitedWork, on: tree) {
      if let context { context.restore(commit) } else { commit() }
    }
  }
}

/// The way of an action past the stages of the store that it was given to.
@usableFromInline package struct Passage<Action: Sendable> {
  let node: StoreNode<Action>
  let stages: CommitStages<Action>

  package var hasMiddleware: Bool { stages.handler?.next != nil }

  /// Passes an action through the middleware to be submitted. Returns the middleware's reason if nothing was passed on.
  package func submit(_ action: inout Action) -> StoreError? {
    stages.handler?.perform(&action, node, stages)
    return stages.end()
  }

  package func commitSubmitted(_ action: inout Action) -> StoreError? {
    if let middleware = stages.ordered?.middleware {
      middleware.perform(&action, node, stages)
    } else {
      stages.commit(&action, from: node)
    }
    return stages.end()
  }

  package var origin: Origin {
    // SAFETY: stages are passed only on the tree's executor.
    Origin(node: node, context: node.carriedContext, part: unsafe node.tree.awaitedWorkOfExecutor?.enter())
  }
}
