import Puredux

/// An action that has been submitted and not committed yet. Not generic, so that a queue of these looks up no type at
/// run time.
private struct SubmittedAction {
  let origin: Origin
  var request: (any SubmittingRequest)?
  /// Whether middleware has passed the same action on once more.
  var hasMore = false
}

/// Called when every action up to one has been committed, given up or withdrawn.
private struct CommitFollower {
  /// The id of that action in the outbox.
  let last: UInt64
  let next: @Sendable (isolated any TreeIsolation) -> Void
}

/// The actions that the stores of a tree have submitted to its log, and that have not come back.
///
/// SAFETY: its variables are used on the tree's executor only, in the section of what is done there (`Order`), and each
/// access is over before anything of the user's is called; an action that an assignment releases cannot come back to
/// the same variable. It belongs to one tree.
final class Sequencer<Action: Sendable>: @unchecked Sendable {
  /// The submitted actions, by their ids in the outbox.
  private var pending = WithdrawableQueue<SubmittedAction>()
  private var followers = WithdrawableQueue<CommitFollower>()
  private var lastFollower: UInt64 = 0
  /// The last action whose request has been refused because of the limit for `send`.
  private var lastRefused: UInt64 = 0
  private(set) var hasEnded = false
  /// The request whose turn it is to submit.
  private var request: (any SubmittingRequest)?
  /// The actions that have been submitted in the turn of an action.
  private var submittedIDs: [UInt64] = []
  private var failure: StoreError?
  /// Whether the action that middleware has passed on more than once has been committed at least once.
  private var isCommittedInPart = false
  /// Whether a part of such an action is in the log and was not committed: a decision can bring that part back.
  private var isUnknownInPart = false
  /// Whether the action being committed was in the log when the store was opened.
  var isReplaying = false
  /// The action that is to be committed now, as it came from the log, until it is.
  private var committing: Action?

  var isCommitting: Bool { committing != nil }

  func end() { hasEnded = true }

  // MARK: Submitting

  /// Processes an action of a store: submits it, as its middleware passes it on, or commits the one whose turn it is.
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
      // Of several, one may have gone to the log.
      if submittedIDs.count == 1 { request.canBeWithdrawn { withdraw(last) } }
    }
    // The sender resumes at the commit.
    return .outcomeUnknown
  }

  /// An action that middleware passes on has been given to the outbox, under this id, or has not.
  func submitted(_ outcome: Result<UInt64, StoreError>, _ passage: Passage<Action>) {
    switch outcome {
    case .failure(let error): failure = error
    case .success(let id):
      submittedIDs.append(id)
      pending.append(SubmittedAction(origin: passage.origin), id: id)
    }
  }

  /// Has a request submit its action.
  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation) {
    self.request = request
    submittedIDs.removeAll(keepingCapacity: true)
    request.attempt(on: tree) { !submittedIDs.isEmpty }
    self.request = nil
    submittedIDs.removeAll(keepingCapacity: true)
  }

  // MARK: Waiting for commits

  /// Calls a closure when all submitted actions are committed. Returns the number by which the closure is forgotten. If
  /// they are committed already, returns nil, and does not call the closure.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64? {
    guard let last = pending.lastID else { return nil }
    lastFollower += 1
    followers.append(CommitFollower(last: last, next: next), id: lastFollower)
    return lastFollower
  }

  /// Forgets a closure: it is not called any more.
  func forget(_ follower: UInt64) {
    let forgotten = followers.remove(follower)
    withExtendedLifetime(forgotten) {}
  }

  /// Calls the closures whose actions have all been committed, given up or withdrawn.
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

  /// Commits the first submitted action that is not committed and has not been withdrawn.
  func commit(_ action: Action, _ id: UInt64, on tree: isolated any TreeIsolation) {
    endWithdrawn(before: id, on: tree)
    guard let first = pending.popFirst() else { return }
    committing = action
    first.request?.perform(on: tree)
    if committing != nil { first.origin.commit(action, on: tree) }
    committing = nil
    end(first, on: tree)
  }

  /// Forgets a submitted action that has been withdrawn.
  func withdrawn(_ id: UInt64, on tree: isolated any TreeIsolation) {
    let withdrawn = pending.remove(id)
    withExtendedLifetime(withdrawn) {}
    callFollowers(on: tree)
  }

  /// The actions that were submitted here before that one, and are neither committed nor given up, have been withdrawn.
  private func endWithdrawn(before id: UInt64, on tree: isolated any TreeIsolation) {
    while let next = pending.firstID, next < id { withdrawn(next, on: tree) }
  }

  /// Refuses the requests that wait for actions submitted here up to that one. The actions stay submitted.
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

  /// Gives up the first submitted action that has not been withdrawn.
  func giveUp(_ id: UInt64, _ error: StoreError, on tree: isolated any TreeIsolation) {
    endWithdrawn(before: id, on: tree)
    _ = giveUpFirst(error, on: tree)
  }

  /// Gives up all submitted actions: nobody knows what becomes of them.
  func giveUpAll(on tree: isolated any TreeIsolation) {
    while giveUpFirst(.outcomeUnknown, on: tree) {}
  }

  /// Gives up the first submitted action; false where there is none.
  private func giveUpFirst(_ error: StoreError, on tree: isolated any TreeIsolation) -> Bool {
    guard let first = pending.popFirst() else { return false }
    // Middleware has passed on several actions, of which this is one: those before it may have been committed.
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
