/// An external order of a tree's commits.
///
/// In its turn in the inbox, an action passes the middleware of the child stores on its path and the root's admission,
/// and is *submitted*. It is committed when the order says so. Later requests that depend on the commit wait until
/// then.
///
/// Called on the tree's executor, within its reentrancy guard (`Tree.enter`), unless a requirement says otherwise.
@usableFromInline package protocol Order<Action>: AnyObject, Sendable {
  associatedtype Action: Sendable

  /// Submits an action through middleware, or commits it. Returns why it was not committed.
  func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError?

  func submit(_ action: Action, _ passage: Passage<Action>)

  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation)

  /// Calls a closure when all submitted actions are committed. Returns a number for `forget`; nil, without a call, if
  /// they already are.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64?

  func forget(_ follower: UInt64)

  var isCommitting: Bool { get }

  /// Whether the action being committed was in the order when the store was opened.
  var isReplaying: Bool { get }

  func rootEnded(on tree: isolated any TreeIsolation)

  /// The root store is closed, but accepted actions may still have to be committed. From anywhere.
  func rootClosed()

  /// From anywhere.
  var refusal: DispatchResult? { get }

  /// How many requests may wait before `dispatch` is refused. From anywhere.
  var inboxBound: Int { get }

  /// From anywhere.
  var statistics: LogStatistics? { get }
}

@usableFromInline package protocol SubmittingRequest: AnyObject, Sendable {
  /// Ends the request unless `isKept` says that it is performed later.
  func attempt(on tree: isolated any TreeIsolation, isKept: () -> Bool)

  /// `withdraw` withdraws the submitted action when the caller gives up, or returns false if it is too late.
  func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool)

  func perform(on tree: isolated any TreeIsolation)

  func refuse(_ error: StoreError)
}

/// Not generic, so that a queue of these looks up no type at run time.
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

@usableFromInline package struct Passage<Action: Sendable> {
  let node: StoreNode<Action>
  let stages: CommitStages<Action>

  package var hasMiddleware: Bool { stages.handler?.next != nil }

  /// Returns the middleware's reason if nothing was submitted.
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
