import Puredux

/// A submitted action that is not committed yet. Not generic, so that a queue of these looks up no type at run time.
private struct SubmittedAction {
  let origin: Origin
  var request: (any SubmittingRequest)?
  var hasMore = false
}

/// Called when every action up to `last` has been committed, given up or withdrawn.
private struct CommitFollower {
  let last: UInt64
  let next: @Sendable (isolated any TreeIsolation) -> Void
}

/// The actions that a tree's stores have submitted, and that the log has not delivered.
///
/// SAFETY: Its variables are used only on the tree's executor, within the reentrancy guard (`Order`, `Tree.enter`), and
/// it belongs to one tree. Each access ends before any user code is called. An action that is released by an assignment
/// cannot cause another access to the same variable.
final class Sequencer<Action: Sendable>: @unchecked Sendable {
  private var pending = WithdrawableQueue<SubmittedAction>()
  private var followers = WithdrawableQueue<CommitFollower>()
  private var lastFollower: UInt64 = 0
  /// The last action whose request was refused because of the limit for `send`.
  private var lastRefused: UInt64 = 0
  private(set) var hasEnded = false
  private var request: (any SubmittingRequest)?
  private var submittedIDs: [UInt64] = []
  private var failure: StoreError?
  /// Whether one of the actions that middleware passed on in one turn was committed.
  private var isCommittedInPart = false
  /// Whether one of them is in the log, but uncommitted: a decision can restore it.
  private var isUnknownInPart = false
  var isReplaying = false
  private var committing: Action?

  var isCommitting: Bool { committing != nil }

  func end() { hasEnded = true }

  // MARK: Submitting

  func process(
    _ action: inout Action, _ passage: Passage<Action>, withdraw: @escaping @Sendable (UInt64) -> Bool
  ) -> StoreError? {
    if var action = committing.take() { return commit(&action, passage) }
    submittedIDs.removeAll(keepingCapacity: true)
    failure = nil
    let rejection = passage.submit(&action)
    guard let last = submittedIDs.last else { return failure ?? rejection }
    for id in submittedIDs.dropLast() { pending.update(id) { $0.hasMore = true } }
    if let request {
      pending.update(last) { $0.request = request }
      // If there are several, the log may have one already.
      if submittedIDs.count == 1 { request.canBeWithdrawn { withdraw(last) } }
    }
    return .outcomeUnknown
  }

  func submitted(_ outcome: Result<UInt64, StoreError>, _ passage: Passage<Action>) {
    switch outcome {
    case .failure(let error): failure = error
    case .success(let id):
      submittedIDs.append(id)
      pending.append(SubmittedAction(origin: passage.origin), id: id)
    }
  }

  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation) {
    self.request = request
    submittedIDs.removeAll(keepingCapacity: true)
    request.attempt(on: tree) { !submittedIDs.isEmpty }
    self.request = nil
    submittedIDs.removeAll(keepingCapacity: true)
  }

  // MARK: Waiting for commits

  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64? {
    guard let last = pending.lastID else { return nil }
    lastFollower += 1
    followers.append(CommitFollower(last: last, next: next), id: lastFollower)
    return lastFollower
  }

  func forget(_ follower: UInt64) {
    let forgotten = followers.remove(follower)
    withExtendedLifetime(forgotten) {}
  }

  private func callFollowers(on tree: isolated any TreeIsolation) {
    while let follower = followers.first, follower.last < pending.firstID ?? .max {
      _ = followers.popFirst()
      follower.next(tree)
    }
  }

  // MARK: Committing

  private func commit(_ action: inout Action, _ passage: Passage<Action>) -> StoreError? {
    let rejection = passage.commitSubmitted(&action)
    if rejection == nil { isCommittedInPart = true }
    if isCommittedInPart { return nil }
    return rejection != nil && isUnknownInPart ? .outcomeUnknown : rejection
  }

  func commit(_ action: Action, _ id: UInt64, on tree: isolated any TreeIsolation) {
    endWithdrawn(before: id, on: tree)
    guard let first = pending.popFirst() else { return }
    committing = action
    first.request?.perform(on: tree)
    if committing != nil { first.origin.commit(action, on: tree) }
    committing = nil
    end(first, on: tree)
  }

  func withdrawn(_ id: UInt64, on tree: isolated any TreeIsolation) {
    let withdrawn = pending.remove(id)
    withExtendedLifetime(withdrawn) {}
    callFollowers(on: tree)
  }

  private func endWithdrawn(before id: UInt64, on tree: isolated any TreeIsolation) {
    while let next = pending.firstID, next < id { withdrawn(next, on: tree) }
  }

  func refuseRequests(_ error: StoreError, through id: UInt64) {
    var refused: [any SubmittingRequest] = []
    pending.update(after: lastRefused) { next, submitted in
      guard next <= id else { return false }
      if let request = submitted.request.take() { refused.append(request) }
      return true
    }
    lastRefused = max(lastRefused, id)
    for request in refused { request.refuse(error) }
  }

  func giveUp(_ id: UInt64, _ error: StoreError, on tree: isolated any TreeIsolation) {
    endWithdrawn(before: id, on: tree)
    _ = giveUpFirst(error, on: tree)
  }

  func giveUpAll(on tree: isolated any TreeIsolation) {
    while giveUpFirst(.outcomeUnknown, on: tree) {}
  }

  private func giveUpFirst(_ error: StoreError, on tree: isolated any TreeIsolation) -> Bool {
    guard let first = pending.popFirst() else { return false }
    // If middleware passed on several actions, earlier ones may have been committed.
    first.request?.refuse(isCommittedInPart || isUnknownInPart ? .outcomeUnknown : error)
    if error == .outcomeUnknown { isUnknownInPart = true }
    end(first, on: tree)
    return true
  }

  private func end(_ submitted: SubmittedAction, on tree: isolated any TreeIsolation) {
    if !submitted.hasMore { (isCommittedInPart, isUnknownInPart) = (false, false) }
    callFollowers(on: tree)
  }
}
