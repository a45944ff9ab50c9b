import Puredux

/// An action that has been submitted and not committed yet. Not generic, so that a queue of these looks up no type at
/// run time.
private struct SubmittedAction {
  let origin: Origin
  /// Its id in the outbox, which rises from action to action.
  let id: UInt64
  var request: (any SubmittingRequest)?
  var followers: [@Sendable (isolated any TreeIsolation) -> Void] = []
  /// Whether middleware has passed the same action on once more.
  var hasMore = false
}

/// The actions that the stores of a tree have submitted to its log, and that have not come back.
///
/// SAFETY: its variables are used on the tree's executor only, in the section of what is done there (`Order`), and each
/// access is over before anything of the user's is called; an action that an assignment releases cannot come back to
/// the same variable. It belongs to one tree.
final class Sequencer<Action: Sendable>: @unchecked Sendable {
  private var pending: [SubmittedAction?] = []
  /// Where the first of them is.
  private var head = 0
  private(set) var hasEnded = false
  /// The request whose turn it is to submit.
  private var request: (any SubmittingRequest)?
  /// How many actions have been submitted in the turn of an action.
  private var submittedCount = 0
  private var failure: StoreError?
  /// Whether the action that middleware has passed on more than once has been committed at least once.
  private var isCommittedInPart = false
  /// Whether such an action is in the log in part, and was not committed: a decision can bring that part back.
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
    submittedCount = 0
    failure = nil
    let rejection = passage.submit(&action)
    guard submittedCount > 0 else { return failure ?? rejection }
    let last = pending.count - 1
    for place in (pending.count - submittedCount)..<last { pending[place]?.hasMore = true }
    if let request {
      pending[last]?.request = request
      // Of several, one may have gone to the log.
      if submittedCount == 1, let id = pending[last]?.id { request.canBeWithdrawn { withdraw(id) } }
    }
    // The sender resumes at the commit.
    return .outcomeUnknown
  }

  /// An action that middleware passes on has been given to the outbox, under this id, or has not.
  func submitted(_ outcome: Result<UInt64, StoreError>, _ passage: Passage<Action>) {
    switch outcome {
    case .failure(let error): failure = error
    case .success(let id):
      submittedCount += 1
      pending.append(SubmittedAction(origin: passage.origin, id: id))
    }
  }

  /// Has a request submit its action.
  func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation) {
    self.request = request
    submittedCount = 0
    request.attempt(on: tree) { submittedCount > 0 }
    self.request = nil
    submittedCount = 0
  }

  // MARK: Waiting for commits

  /// Has a closure called when all submitted actions are committed; false, without calling it, if they already are.
  func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Bool {
    guard head < pending.count else { return false }
    pending[pending.count - 1]?.followers.append(next)
    return true
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
    guard let first = popFirst() else { return }
    committing = action
    first.request?.perform(on: tree)
    if committing != nil { first.origin.commit(action, on: tree) }
    committing = nil
    end(first, on: tree)
  }

  /// The actions that were submitted here before that one, and are neither committed nor given up, have been withdrawn.
  func endWithdrawn(before id: UInt64, on tree: isolated any TreeIsolation) {
    while head < pending.count, let next = pending[head]?.id, next < id, let first = popFirst() {
      end(first, on: tree)
    }
  }

  /// Refuses the requests that wait for actions submitted here up to that one. The actions stay submitted.
  func refuseRequests(_ error: StoreError, through id: UInt64) {
    var place = head
    while place < pending.count, let next = pending[place]?.id, next <= id {
      let request = pending[place]?.request.take()
      request?.refuse(error)
      place += 1
    }
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
    guard let first = popFirst() else { return false }
    // Middleware has passed on several actions, of which this is one: those before it may have been committed.
    first.request?.refuse(isCommittedInPart || isUnknownInPart ? .outcomeUnknown : error)
    if error == .outcomeUnknown { isUnknownInPart = true }
    end(first, on: tree)
    return true
  }

  private func end(_ submitted: SubmittedAction, on tree: isolated any TreeIsolation) {
    if !submitted.hasMore { (isCommittedInPart, isUnknownInPart) = (false, false) }
    for follower in submitted.followers { follower(tree) }
  }

  private func popFirst() -> SubmittedAction? {
    guard head < pending.count else { return nil }
    let first = pending[head].take()
    head += 1
    if head == pending.count {
      pending.removeAll(keepingCapacity: head <= 16)
      head = 0
    } else if head >= 32, head * 2 >= pending.count {
      pending.removeFirst(head)
      head = 0
    }
    return first
  }
}
