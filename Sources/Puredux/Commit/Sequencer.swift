/// An action that has been submitted and not committed yet. Not generic, so that no type is looked up at run time for
/// the queue of them.
private struct SubmittedAction {
  let node: any AnyStoreNode
  /// What the log's side knows it by: in order.
  let id: UInt64
  let context: CarriedValues.Context?
  /// Of what a caller waits for besides.
  let part: Errand.Part?
  var visit: PostponedCommand?
  var followers: [Command] = []
  /// Whether middleware has passed the same action on once more.
  var hasMore = false
}

/// Has the actions of a tree committed in an order that comes from elsewhere: that of a log.
///
/// What a store is given takes its place in the inbox as ever. In its turn it passes the middleware of the child stores
/// on its path, and the root's admission, and is *submitted*; it is committed when the log has it, in one order with
/// what others have written there (G11). What comes behind it and goes by what has been committed, such as a read or
/// the end of a store, waits until then.
///
/// SAFETY: but for constants, its variables are used on the tree's executor only, in the section of what is done there
/// (`Tree.enter`), and each access is over before anything of the user's is called. It belongs to one tree.
@usableFromInline package final class Sequencer<Action: Sendable>: AnySequencer, @unchecked Sendable {
  @usableFromInline typealias Process = CommitStages<Action>.Process
  @usableFromInline typealias Handler = CommitHandler<Action>
  @usableFromInline typealias Stages = CommitStages<Action>

  /// What the log's side does.
  @usableFromInline package struct LogSide: Sendable {
    /// Submits an action: on the tree's executor, in order. Returns what it is known by: more than that of the last.
    package let submit: @Sendable (Action) -> Result<UInt64, StoreError>
    /// Takes one back, if the log has not been given it yet. From anywhere.
    package let withdraw: @Sendable (UInt64) -> Bool
    package let refusal: @Sendable () -> DispatchResult?
    package let inboxBound: Int
    package let statistics: @Sendable () -> LogStatistics?
    package let phases: @Sendable () -> AsyncStream<LogStatistics.Phase>
    /// What an operator asks for; each returns a position.
    package let saveSnapshot: @Sendable () async throws -> UInt64
    package let truncate: @Sendable () async throws -> UInt64
    package let erase: @Sendable () async throws -> UInt64
    package let seal: @Sendable (_ rules: UInt32, _ reason: String) async throws -> UInt64
    package let rootClosed: @Sendable () -> Void
    package let rootEnded: @Sendable () -> Void

    package init(
      submit: @escaping @Sendable (Action) -> Result<UInt64, StoreError>,
      withdraw: @escaping @Sendable (UInt64) -> Bool, refusal: @escaping @Sendable () -> DispatchResult?,
      inboxBound: Int, statistics: @escaping @Sendable () -> LogStatistics?,
      phases: @escaping @Sendable () -> AsyncStream<LogStatistics.Phase>,
      saveSnapshot: @escaping @Sendable () async throws -> UInt64,
      truncate: @escaping @Sendable () async throws -> UInt64,
      erase: @escaping @Sendable () async throws -> UInt64,
      seal: @escaping @Sendable (_ rules: UInt32, _ reason: String) async throws -> UInt64,
      rootClosed: @escaping @Sendable () -> Void,
      rootEnded: @escaping @Sendable () -> Void
    ) {
      self.submit = submit
      self.withdraw = withdraw
      self.refusal = refusal
      self.inboxBound = inboxBound
      self.statistics = statistics
      self.phases = phases
      self.saveSnapshot = saveSnapshot
      self.truncate = truncate
      self.erase = erase
      self.seal = seal
      self.rootClosed = rootClosed
      self.rootEnded = rootEnded
    }
  }

  @usableFromInline let log: LogSide
  /// The middleware of the root store, but for its admission.
  @usableFromInline var middleware: Handler?
  /// Commits an action by the root store alone, and without effects. A closure, made where the actions are known, as
  /// a replay consists of nothing else.
  private let commitQuietly: (Action, Handler?, Stages) -> Void

  private var pending = Queue<SubmittedAction>()
  private var hasEnded = false
  /// The visit whose turn it is to submit.
  private var visit: PostponedCommand?
  /// How many actions have been submitted in the turn of an action.
  private var submittedCount = 0
  private var failure: StoreError?
  /// The action that is to be committed now, as it came from the log, until it is.
  private var committing: Action?
  /// Whether the action that middleware has passed on more than once has been committed at least once.
  private var isCommittedInPart = false
  private var replays = false

  @inlinable package convenience init(_ log: LogSide) {
    self.init(log) { action, middleware, stages in
      guard let middleware else { return stages.commitQuietly(action) }
      unsafe stages.divert = { stages.commitQuietly($0) }
      var action = action
      middleware.perform(&action, stages)
      unsafe stages.divert = nil
    }
  }

  @usableFromInline init(_ log: LogSide, commitQuietly: @escaping (Action, Handler?, Stages) -> Void) {
    self.log = log
    self.commitQuietly = commitQuietly
    super.init()
  }

  override var inboxBound: Int { log.inboxBound }
  override var refusal: DispatchResult? { log.refusal() }
  override var statistics: LogStatistics? { log.statistics() }
  override func rootClosed() { log.rootClosed() }
  override var isCommitting: Bool { committing != nil }
  override var isReplaying: Bool { replays }

  override func rootEnded() {
    hasEnded = true
    log.rootEnded()
  }

  // MARK: Submitting

  /// What a store does with an action: submits it, as its middleware passes it on, or commits the one whose turn it is.
  @usableFromInline func process(_ middleware: Handler?) -> Process {
    { [self] action, node, stages in
      stages.begin(at: node)
      if var action = committing.take() { return commit(&action, stages) }
      return submit(&action, from: node, middleware, stages)
    }
  }

  private func submit(
    _ action: inout Action, from node: StoreNode<Action>, _ middleware: Handler?, _ stages: Stages
  ) -> StoreError? {
    submittedCount = 0
    failure = nil
    unsafe stages.divert = { [self] in submit($0, from: node) }
    if let middleware { middleware.perform(&action, stages) } else { submit(action, from: node) }
    unsafe stages.divert = nil
    let rejection = stages.end()
    guard submittedCount > 0 else { return failure ?? rejection }
    let last = pending.count - 1
    for place in (pending.count - submittedCount)..<last { pending.update(place) { $0?.hasMore = true } }
    if let visit {
      pending.update(last) { $0?.visit = visit }
      // Of several, one may have gone to the log.
      if submittedCount == 1, let id = pending[last]?.id { visit.canBeWithdrawn { [log] in log.withdraw(id) } }
    }
    // Who waits for it goes on at its commit.
    return .outcomeUnknown
  }

  private func submit(_ action: Action, from node: StoreNode<Action>) {
    if hasEnded { return failure = .terminated }
    switch log.submit(action) {
    case .failure(let error): failure = error
    case .success(let id):
      submittedCount += 1
      // SAFETY: on the tree's executor.
      let part = unsafe node.tree.errandOfExecutor?.enter()
      pending.append(SubmittedAction(node: node, id: id, context: node.carriedContext, part: part))
    }
  }

  // MARK: Waiting for commits

  override func ordered(_ visit: PostponedCommand) -> Command {
    .closure { [self] tree in
      self.visit = visit
      submittedCount = 0
      visit.attempt(on: tree) { hasFailed in
        if submittedCount > 0 { return true }
        return !hasFailed && visit.waitsForCommits && follow(visit)
      }
      self.visit = nil
      submittedCount = 0
    }
  }

  override func deferred(_ command: Command) -> Command {
    .closure { [self] tree in
      if !follow(command) { command.perform(on: tree) }
    }
  }

  /// Has a command performed when all that has been submitted is committed; false where all of it is.
  private func follow(_ command: Command) -> Bool {
    guard !pending.isEmpty else { return false }
    pending.update(pending.count - 1) { $0?.followers.append(command) }
    return true
  }

  // MARK: Committing

  private func commit(_ action: inout Action, _ stages: Stages) -> StoreError? {
    if let middleware { middleware.perform(&action, stages) } else { stages.commit(&action) }
    let rejection = stages.end()
    if rejection == nil { isCommittedInPart = true }
    return isCommittedInPart ? nil : rejection
  }

  /// Commits what another replica, or an earlier process, has submitted: by the root store alone, and without effects.
  private func commitForeign(_ action: Action, at root: StoreNode<Action>) {
    guard !hasEnded else { return }
    // SAFETY: called by a `Turn`, which exists only on the tree's executor.
    unsafe root.withStages { stages in
      stages.begin(at: root)
      commitQuietly(action, middleware, stages)
      _ = stages.end()
    }
  }

  /// Commits the first of what has been submitted here, but for what has been withdrawn, and is not committed yet.
  private func commitOwn(_ action: Action, _ id: UInt64, on tree: isolated any TreeIsolation) {
    endWithdrawn(before: id, on: tree)
    guard let first = pending.popFirst() else { return }
    committing = action
    first.visit?.perform(on: tree)
    if committing != nil, let node = first.node as? StoreNode<Action> {
      let commit = { _ = try? node.tree.acceptHere(action, from: node, isPlaced: true) }
      node.committing(of: first.part?.errand, on: tree) {
        if let context = first.context { context.restore(commit) } else { commit() }
      }
    }
    committing = nil
    end(first, on: tree)
  }

  private func end(_ submitted: SubmittedAction, on tree: isolated any TreeIsolation) {
    if !submitted.hasMore { isCommittedInPart = false }
    for follower in submitted.followers { follower.perform(on: tree) }
  }

  /// What was submitted before that and is here still has been withdrawn.
  private func endWithdrawn(before id: UInt64, on tree: isolated any TreeIsolation) {
    while !pending.isEmpty, let next = pending[0]?.id, next < id, let first = pending.popFirst() {
      end(first, on: tree)
    }
  }

  private func refuseVisits(_ error: StoreError, through id: UInt64) {
    for offset in 0..<pending.count {
      guard let next = pending[offset]?.id, next <= id else { return }
      pending.update(offset) { $0?.visit.take() }??.refuse(error)
    }
  }

  /// Gives up the first of what has been submitted here.
  private func giveUpFirst(_ error: StoreError, on tree: isolated any TreeIsolation) -> Bool {
    guard let first = pending.popFirst() else { return false }
    // Middleware has passed on several actions, of which this is one: those before it may have been committed.
    first.visit?.refuse(isCommittedInPart ? .outcomeUnknown : error)
    end(first, on: tree)
    return true
  }
}

extension Sequencer {
  /// What the log's side may do in its turn on the tree's executor. Does not leave it, as it is not `Sendable`.
  package struct Turn {
    private let sequencer: Sequencer
    private let root: StoreNode<Action>

    init(_ sequencer: Sequencer, at root: StoreNode<Action>, on tree: isolated any TreeIsolation) {
      self.sequencer = sequencer
      self.root = root
    }

    package var hasEnded: Bool { sequencer.hasEnded }

    /// Whether what is committed from now on was in the log when the store was opened.
    package func setReplaying(_ replays: Bool) { sequencer.replays = replays }

    /// Commits what another replica, or an earlier process, has submitted: by the root store alone, and without
    /// effects.
    package func commitForeign(_ action: Action) { sequencer.commitForeign(action, at: root) }

    /// Commits what has been submitted here and is not committed yet: the first that has not been withdrawn.
    package func commitOwn(_ action: Action, _ id: UInt64) {
      root.tree.assumeIsolated { [sequencer] in sequencer.commitOwn(action, id, on: $0) }
    }

    /// What was submitted here before that, and is neither committed nor given up, has been withdrawn.
    package func endWithdrawn(before id: UInt64) {
      root.tree.assumeIsolated { [sequencer] in sequencer.endWithdrawn(before: id, on: $0) }
    }

    /// Those who wait for what has been submitted here, up to that, wait no more. What was submitted stays.
    package func refuseVisits(_ error: StoreError, through id: UInt64) {
      sequencer.refuseVisits(error, through: id)
    }

    /// Gives up what has been submitted here: the first that has not been withdrawn.
    package func giveUp(_ id: UInt64, _ error: StoreError) {
      root.tree.assumeIsolated { [sequencer] tree in
        sequencer.endWithdrawn(before: id, on: tree)
        _ = sequencer.giveUpFirst(error, on: tree)
      }
    }

    /// Gives up the first of what has been submitted here; false where there is nothing.
    package func giveUpFirst(_ error: StoreError) -> Bool {
      root.tree.assumeIsolated { [sequencer] in sequencer.giveUpFirst(error, on: $0) }
    }
  }
}

@available(*, unavailable) extension Sequencer.Turn: Sendable {}
