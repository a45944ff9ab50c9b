public import Puredux
import Synchronization

/// How far the log has been applied. Used in turns only.
private struct Applying {
  var fold: Fold
  var bytesSinceSnapshot = 0
  var isSaving = false
  /// The position of the last snapshot that was saved here, or begun with.
  var lastSnapshot: UInt64 = 0
  /// The position at which the store is up to date.
  var goal: UInt64
  let start: UInt64
  /// The positions of the known decisions, each with the position of the entry that it is about.
  var found: [UInt64: UInt64] = [:]
  /// The entries that are skipped, as far as is known, and where that was decided.
  private(set) var decisions: [UInt64: UInt64] = [:]
  /// How far the log has been looked through for decisions: to the goal, before anything is applied.
  var searched: UInt64
  /// Whether actions have been applied behind the last entry that says what state they have led to.
  var isUnattested = false
  /// Decides after which entries the state is hashed.
  var sampling: FingerprintSampling
  /// The entry whose last action is being applied, with which the store may end.
  var ending: (outline: Outline, isSkipped: Bool)?

  mutating func find(_ found: [UInt64: UInt64]) {
    if found.isEmpty { return }
    self.found.merge(found) { $1 }
    decisions = LogEntry.skipped(by: self.found)
  }

  /// As if the decision were taken back at the end of the log.
  mutating func disregard(_ decision: UInt64) {
    var end = UInt64.max
    while found[end] != nil { end -= 1 }
    find([end: decision])
  }

  /// Whether a snapshot of the present state may be begun with: it lies behind the decisions that it obeys, as states
  /// before them are not compared.
  var canSave: Bool { canSave(at: fold.position) }
  func canSave(at position: UInt64) -> Bool {
    position >= max(goal, decisions.values.max() ?? 0) && obeys(at: position)
  }

  /// Whether the state at a position is without all entries that are known to be skipped.
  func obeys(at position: UInt64) -> Bool {
    decisions.keys.allSatisfy { $0 > position || fold.decided.contains($0) }
  }

  /// Whether the state at a position has to be the one that another writer had there: not between a skipped entry and
  /// its decision, where others had applied the entry, even if the decision was taken back.
  func compares(stateAt position: UInt64) -> Bool {
    found.isEmpty || !found.contains { $0.value <= position && position < $0.key }
  }

  /// Whether an entry lies behind a seal that its writer had not seen: it was acknowledged to nobody.
  func voids(_ outline: Outline) -> Bool {
    guard fold.sealedRules > 0, case .entry(let header) = outline.kind else { return false }
    return header.rules < fold.sealedRules
  }
}

/// Why applying cannot go on by itself.
private enum Interruption: Sendable {
  case failure(Outline.Failure, position: UInt64)
  /// The entry at a position has been applied here, and it was decided at another one that the entry is skipped.
  case overruled(position: UInt64, by: UInt64)
  /// The log was sealed for rules that this program does not know, and this is the last position that it may apply.
  case sealed(position: UInt64)
  /// A stand-in for an entry that only a snapshot has, and the store has not begun with that snapshot.
  case truncated(position: UInt64)
}

/// A snapshot that is there, and that this program cannot decode.
private struct UndecodableSnapshot: Error {
  let position: UInt64
  let text: String
}

/// An entry as it comes from the log, without its actions.
private struct Outline: Sendable {
  enum Kind: Sendable {
    case entry(LogEntry.Header)
    case decision(skipping: UInt64)
    case seal(rules: UInt32)
    case epoch(UInt64)
    case standIn
    case unreadable
    case newerFormat
  }

  /// Why this program cannot apply the entry, or one of its actions.
  enum Failure: Sendable {
    case newerSchema
    case newerRules
    case olderRules(UInt32)
    case poisoned
    case undecodable(String)
  }

  let position: UInt64
  let bytes: Int
  let kind: Kind
  let actionCount: Int
  let failure: Failure?
  /// The bytes of its actions, where it has this store's number as its writer.
  var own: [ArraySlice<UInt8>] = []
}

/// What is known of the log, and the actions that are on their way there. Not generic, so that no type is looked up at
/// run time.
private struct Sending {
  var outbox: Outbox
  /// The random number of this writer, which its entries carry.
  var writer: UInt64
  var seen: LogEntry.Mark
  /// The last hashed state, until an entry of this store carries it, and the number of entries applied since.
  var hashed: (mark: LogEntry.Mark, age: Int)?
  /// The age in entries beyond which a hash is not carried, because other replicas forget their hashes.
  static let hashedAgeLimit = Fold.markLimit / 4
  var isFingerprintFailureTold = false
  /// The last position that is known to exist.
  var head: UInt64
  /// The rules that are written: the program's, or those that the log is sealed for, where the program knows them.
  var rules: UInt32
  var phase: LogStatistics.Phase
  var hasEnded = false
  var troubleSince: Duration?
  var stop: LogStop?
  var skipped: UInt64 = 0
  var epoch: UInt64
  var isPumping = false
  var watcher: Task<Void, Never>?
  var follower: Task<Void, Never>?
  /// Rises when the log begins to deliver, and when it fails to.
  var delivery = 0
  /// Why the log delivers nothing, if it does not.
  var deliveryTrouble: LogTrouble?
  /// How many actions could not be given to the log.
  var rejected: UInt64 = 0
  /// How many snapshots could not be saved, and whether that has been reported since one was saved.
  var failedSnapshots: UInt64 = 0
  var isSnapshotFailureTold = false
  var endingLimit: Task<Void, Never>?
  var recovery: CheckedContinuation<Void, any Error>?
  var recovered: Result<Void, any Error>?
  /// The callers that wait for a position to be applied.
  var arrivals: [(position: UInt64, continuation: CheckedContinuation<Void, Never>)] = []
  /// The followers of the phase.
  var observers: [Int: AsyncStream<LogStatistics.Phase>.Continuation] = [:]
  var nextObserver = 0
}

/// The writer of the summary, and the kept summary, as far as it is known.
private struct Summarizing: Sendable {
  /// The task that writes, as long as something has been applied that it has not looked at.
  var writer: Task<Void, Never>?
  var isDue = false
  /// Whether the summary that was kept before this store has been looked at.
  var hasLooked = false
  var kept: (position: UInt64, bytes: [UInt8])?
  /// Whether it has been reported, since one was written, that none can be.
  var isFailureTold = false
}

/// Ties a tree to its log: gives the log the actions that the tree's stores accept, and has the actions that come back
/// committed. A thin shell around `Outbox`, `Fold` and `Sequencer`.
///
/// It holds the tree, and the tree holds it, until the root store has ended.
@usableFromInline final class Following<State: Sendable, Action: Sendable>: Order {
  typealias Phase = LogStatistics.Phase

  private let log: any OrderedLog
  /// The probe of the log's engine, if it has one.
  private let probe: Probe?
  private let actions: LogCoding<Action>
  private let states: LogCoding<State>?
  private let options: LogOptions
  private let clock: ElapsedClock
  /// Nil if states are not compared.
  private let fingerprint: StateFingerprint<State>?
  private let summary: (@Sendable (State) -> any (Encodable & Sendable))?
  private let onPhase: (@Sendable (Phase) -> Void)?
  /// When the log's head had been read.
  private let opened: Duration
  private let summarizing = LockedValue(Summarizing())
  private let sending: LockedValue<Sending>
  private let core = LockedValue<StoreCore<State, Action>?>(nil)
  private let sequencer = Sequencer<Action>()
  private let applying: LockedValue<Applying>
  /// Kept for as long as the store recovers.
  private let recovery: LockedValue<RecoveryMark?>
  /// Read by `dispatch`: 0 where actions are taken, 1 at the bound, 2 where the store has stopped.
  private let admission = Atomic<UInt8>(0)

  init(
    log: any OrderedLog, head: UInt64, stored: Fold, recovery: RecoveryMark? = nil,
    codings: LogCodings<State, Action>, options own: FollowingOptions<State, Action>, clock: ElapsedClock
  ) {
    self.log = log
    probe = (log as? any ProbedLog)?.probe
    actions = codings.actions
    states = codings.states
    options = own.log
    self.clock = clock
    fingerprint = own.fingerprint?.hash == nil ? nil : own.fingerprint
    summary = own.summary
    onPhase = own.onPhase
    opened = clock.now
    self.recovery = LockedValue(recovery)
    sending = LockedValue(
      Sending(
        outbox: Outbox(limits: options.limits(entryLimit: log.entryLimit)),
        writer: options.writer ?? .random(in: 1 ... .max), seen: stored.mark, head: head,
        rules: options.rules(behindSeal: stored.sealedRules),
        phase: .recovering(0, of: head - min(head, stored.position)), skipped: stored.skipped,
        epoch: stored.epoch))
    applying = LockedValue(
      Applying(
        fold: stored, lastSnapshot: stored.position, goal: head, start: stored.position,
        searched: stored.position, sampling: FingerprintSampling(commits: stored.commits)))
  }

  /// Reads what there is: the newest snapshot, and how far the log goes.
  @usableFromInline static func open(
    _ log: any OrderedLog, initialState: State, codings: LogCodings<State, Action>,
    options following: FollowingOptions<State, Action>
  ) async throws -> (Following, State) {
    var following = following
    following.log = following.log.clamped
    let (options, states) = (following.log, codings.states)
    let elapsed = ElapsedClock(following.store.clock)
    let start = elapsed.now
    var found = await read(log, states: options.ignoresSnapshots ? nil : states)
    // A log that is away, or lags, is tried again for a while: its servers may just be starting.
    while case .failure(LogError.unavailable) = found, elapsed.now - start < options.openingLimit {
      guard await elapsed.sleep(for: options.retryInterval) else { throw CancellationError() }
      found = await read(log, states: options.ignoresSnapshots ? nil : states)
    }
    if case .failure(let failure as UndecodableSnapshot) = found {
      options.reporting(.undecodable(key: log.name, position: failure.position, isSnapshot: true, failure.text))
      throw StoreError.stopped(.undecodable(position: failure.position))
    }
    if case .failure(StoreError.stopped(let stop)) = found { options.reporting(.stoppedAs(key: log.name, stop)) }
    let (head, newest) = try found.get()
    let stored = newest ?? SnapshotContent(state: initialState, fold: Fold())
    if stored.fold.rules > options.newestKnownRules, !options.opensWhereStopped {
      let stop = LogStop.newerRules(position: stored.fold.position)
      options.reporting(.stoppedAs(key: log.name, stop))
      throw StoreError.stopped(stop)
    }
    following.reportMissingFingerprint(of: log)
    let recovery = head > stored.fold.position ? await RecoveryMark.of(log, orIn: options.recoveryDirectory) : nil
    let tied = Following(
      log: log, head: head, stored: stored.fold, recovery: recovery, codings: codings, options: following,
      clock: elapsed)
    tied.restate(tied.hash(of: stored.state))
    return (tied, stored.state)
  }

  /// How far the log goes, and the newest snapshot. Fails with a `LogError`, a `StoreError` or an
  /// `UndecodableSnapshot`.
  private static func read(
    _ log: any OrderedLog, states: LogCoding<State>?
  ) async -> Result<(UInt64, SnapshotContent<State>?), any Error> {
    do {
      var newest: SnapshotContent<State>?
      if let states, let snapshot = try await newestSnapshot(of: log) {
        do throws(SnapshotContent<State>.Failure) {
          newest = try SnapshotContent(snapshot.bytes, by: states)
        } catch {
          switch error {
          case .newer: throw StoreError.stopped(.newerSchema(position: snapshot.position))
          case .unreadable:
            throw UndecodableSnapshot(position: snapshot.position, text: "It was not written by this library.")
          case .undecodable(let error): throw UndecodableSnapshot(position: snapshot.position, text: describe(error))
          }
        }
      }
      // Read after the snapshot, so that the log has what the snapshot is of, unless a server of a cluster lags.
      let head = try await log.head()
      if let position = newest?.fold.position, position > head {
        throw LogError.unavailable("The log ends at \(head), and there is a snapshot of what it had up to \(position).")
      }
      return .success((head, newest))
    } catch {
      return .failure(error)
    }
  }

  private static func newestSnapshot(of log: any OrderedLog) async throws(LogError) -> LogSnapshot? {
    guard let snapshots = log.snapshots else { return nil }
    do throws(LogError) {
      return try await snapshots.newest()
    } catch {
      // A snapshot that cannot be read counts as none. Of one that cannot be reached this is not known; and where there
      // is a snapshot of another log, the entries may be that log's, too.
      switch error {
      case .unavailable, .damaged, .removed: throw error
      case .full, .inUse, .refused, .truncated: return nil
      }
    }
  }

  // MARK: The fingerprint

  private var fingerprintVersion: UInt32? { fingerprint?.version(options.fingerprintVersion) }

  /// Nil if states are not compared, or if this state cannot be encoded.
  private func hash(of state: State) -> StateHash? {
    do {
      return try fingerprint?.hash?(state)
    } catch {
      let isTold = sending.withLock { sending in
        defer { sending.isFingerprintFailureTold = true }
        return sending.isFingerprintFailureTold
      }
      if !isTold { options.reporting(.fingerprintFails(key: log.name, describe(error))) }
      return nil
    }
  }

  /// Notes the hash of the present state, which was not due after the last entry, or had no entry before it.
  private func restate(_ hash: StateHash?) {
    let mark = applying.withLock { applying in
      applying.fold.restate(hash?.value)
      if let hash { applying.sampling.hashed(size: hash.size) }
      return applying.fold.mark
    }
    sending.withLock { $0.seen = mark }
  }

  /// Hashes the present state, unless it has been hashed.
  private func hashNow(of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation) {
    guard fingerprint != nil, applying.withLock({ $0.fold.mark.fingerprint == 0 }),
      let hash = core.withState(on: tree, { self.hash(of: $0) }) ?? nil
    else { return }
    restate(hash)
  }

  private var instrument: TreeInstrument? { core.withLock { $0 }?.instrument }

  // MARK: As the order of the tree

  @usableFromInline func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError? {
    guard !sequencer.isCommitting, passage.hasMiddleware else {
      return sequencer.process(&action, passage) { self.withdraw($0) }
    }
    // The rules that the entry will carry: they change on this executor only, and the action keeps them in the outbox.
    return LogRules.$current.withValue(sending.withLock { $0.rules }) {
      sequencer.process(&action, passage) { self.withdraw($0) }
    }
  }

  @usableFromInline func submit(_ action: Action, _ passage: Passage<Action>) {
    sequencer.submitted(sequencer.hasEnded ? .failure(.terminated) : submit(action), passage)
  }

  @usableFromInline func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation) {
    sequencer.perform(request, on: tree)
  }

  @usableFromInline func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64? {
    sequencer.follow(next)
  }

  @usableFromInline func forget(_ follower: UInt64) { sequencer.forget(follower) }

  @usableFromInline var isCommitting: Bool { sequencer.isCommitting }
  @usableFromInline var isReplaying: Bool { sequencer.isReplaying }
  @usableFromInline var inboxBound: Int { max(1, options.pendingBytes / Outbox.overhead) }

  // MARK: To the log

  /// On the tree's executor. Returns the action's id in the outbox.
  private func submit(_ action: Action) -> Result<UInt64, StoreError> {
    guard let bytes = try? actions.encode(action) else {
      sending.withLock { $0.rejected += 1 }
      return .failure(.rejected(reason: "The action cannot be encoded."))
    }
    let now = clock.now
    let outcome = sending.withLock { sending -> Result<UInt64, StoreError> in
      if let stop = sending.stop { return .failure(.stopped(stop)) }
      if bytes.count + 4 > sending.outbox.limits.bytes {
        sending.rejected += 1
        return .failure(.rejected(reason: "The action is larger than an entry of the log may be."))
      }
      let id = sending.outbox.append(bytes, rules: sending.rules, at: now)
      if sending.outbox.isFull { admission.store(1, ordering: .relaxed) }
      // Detached, here and below: nothing that the tree does is to be done under the task-local values of a caller.
      if sending.watcher == nil { sending.watcher = Task.detached { await self.watch() } }
      return .success(id)
    }
    if case .success = outcome { pump() }
    return outcome
  }

  /// Withdraws an action that the log has not been given; false if the log has been given it. From anywhere.
  private func withdraw(_ id: UInt64) -> Bool {
    let isWithdrawn = sending.withLock { sending in
      guard sending.stop == nil, sending.outbox.withdraw(id) else { return false }
      if !sending.outbox.isFull { admission.store(0, ordering: .relaxed) }
      return true
    }
    guard isWithdrawn else { return false }
    core.withLock { $0 }?.perform { self.sequencer.withdrawn(id, on: $0) }
    return true
  }

  /// Gives the log the entries that may go to it. One call at a time does, as entries are to be appended in order.
  private func pump() {
    while true {
      // The clock is the user's code, which is not called under the lock.
      let now = clock.now
      let next = sending.withLock { sending -> (Outbox.Entry, LogEntry.Header, LogEntry.Header?)? in
        // A replica that has stopped writes nothing more: what it has applied may be wrong.
        guard sending.stop == nil, !sending.isPumping, let entry = sending.outbox.next(at: now) else { return nil }
        sending.isPumping = true
        let header = LogEntry.Header(
          writer: sending.writer, first: entry.first, seen: sending.seen, schema: actions.schema,
          fingerprintVersion: fingerprintVersion, rules: entry.rules)
        // The last hashed state, once: of several entries that are applied together only the last would be seen. An
        // entry with actions always tells of the last entry that its writer has applied, so that a log which has lost
        // that one is found out.
        var sample: LogEntry.Header?
        if let mark = sending.hashed.take()?.mark, sending.seen.fingerprint == 0 {
          sample = header
          sample?.first = sending.outbox.firstPending
          sample?.seen = mark
        }
        return (entry, header, sample)
      }
      guard let (entry, header, sample) = next else { return }
      // If it does not arrive, that does no harm.
      if let sample { log.append(LogEntry.encode(sample, actions: [])) { _ in } }
      let bytes = LogEntry.encode(header, actions: entry.actions)
      log.append(bytes) { [instrument] outcome in
        let taken = max(.zero, self.clock.now - now)
        instrument?.tell(
          .appended(actions: entry.actions.count, bytes: bytes.count, after: taken, self.error(of: outcome)))
        self.appended(entry.id, outcome)
      }
      sending.withLock { $0.isPumping = false }
    }
  }

  private func error(of outcome: Result<UInt64, LogError>) -> LogError? {
    if case .failure(let error) = outcome { error } else { nil }
  }

  private func appended(_ id: Int, _ outcome: Result<UInt64, LogError>) {
    let now = clock.now
    let (changed, isRefused) = sending.withLock { sending in
      let before = sending.outbox.trouble
      switch outcome {
      case .success(let position):
        sending.head = max(sending.head, position)
        sending.outbox.ended(id, nil, at: now)
      case .failure(let error): sending.outbox.ended(id, error, at: now)
      }
      return (before?.trouble != sending.outbox.trouble?.trouble, sending.outbox.isFirstRefused)
    }
    if changed || isRefused {
      core.withLock { $0 }?.perform { tree in
        self.rejectRefused(on: tree)
        self.tellTrouble(on: tree)
      }
    }
    pump()
  }

  /// The log does not take the first action that waits, and never will: it is rejected, and the others go on.
  private func rejectRefused(on tree: isolated any TreeIsolation) {
    let now = clock.now
    let dropped = sending.withLock { sending -> UInt64? in
      guard let dropped = sending.outbox.dropRefused(at: now) else { return nil }
      sending.writer = .random(in: 1 ... .max)
      sending.rejected += 1
      if sending.stop == nil, !sending.outbox.isFull { admission.store(0, ordering: .relaxed) }
      return dropped
    }
    guard let dropped else { return }
    sequencer.giveUp(dropped, .rejected(reason: "The log does not take the action."), on: tree)
    pump()
  }

  /// Sends failed and missing entries again, as long as something waits.
  private func watch() async {
    while await clock.sleep(for: options.retryInterval) {
      let now = clock.now
      let isOver = sending.withLock { sending in
        guard !sending.outbox.isEmpty, !sending.hasEnded, sending.stop == nil else {
          sending.watcher = nil
          return true
        }
        _ = sending.outbox.retry(at: now, patience: options.patience)
        return false
      }
      if isOver { return }
      if let limit = options.sendLimit {
        core.withLock { $0 }?.perform { tree in
          // In the turn: an action that is committed before it is not overdue any more.
          let overdue = self.sending.withLock { $0.outbox.overdue(before: now - limit) }
          if let overdue { self.sequencer.refuseRequests(.outcomeUnknown, through: overdue) }
        }
      }
      pump()
      // With a limit, overdue actions are looked for at each interval.
      if options.sendLimit == nil, sending.withLock({ $0.outbox.trouble?.trouble == .unavailable }) {
        await probe?.untilAnswered()
      }
    }
  }

  // MARK: From the log

  /// Follows the log from now on.
  @usableFromInline func begin(_ core: StoreCore<State, Action>) {
    self.core.withLock { $0 = core }
    core.perform { tree in
      self.tell(self.sending.withLock { $0.phase })
      if self.isOver(at: self.applying.withLock { $0.fold.position }) {
        self.stop(.newerRules(position: self.applying.withLock { $0.fold.position }), on: tree)
      } else {
        self.progress(on: tree)
      }
    }
    let follower = Task.detached { await self.follow() }
    sending.withLock { $0.follower = follower }
  }

  /// Returns when the store is up to date.
  @usableFromInline func untilRecovered() async throws {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = sending.withLock { sending -> Result<Void, any Error>? in
          if sending.recovered == nil { sending.recovery = continuation }
          return sending.recovered
        }
        if let outcome { continuation.resume(with: outcome) }
      }
    } onCancel: {
      endRecovery(CancellationError())
    }
  }

  /// Whether it has stopped while it was opened.
  @usableFromInline var hasStopped: Bool { sending.withLock { $0.stop != nil } }

  /// Once: it is up to date, or will not be.
  private func endRecovery(_ failure: (any Error)?) {
    let outcome = failure.map { Result<Void, any Error>.failure($0) } ?? .success(())
    let (isFirst, isComplete, waiting) = sending.withLock { sending in
      defer { sending.recovered = sending.recovered ?? outcome }
      return (sending.recovered == nil, failure == nil && sending.stop == nil, sending.recovery.take())
    }
    if isFirst, isComplete {
      let (position, start) = applying.withLock { ($0.fold.position, $0.start) }
      instrument?.tell(.replayed(positions: position - start, after: max(.zero, clock.now - opened)))
    }
    if isFirst, isComplete { recovery.withLock { $0.take() }?.end() }
    if isFirst, !isComplete { recovery.withLock { $0 }?.giveUp() }
    if isFirst, isComplete { keepSummaryLater(isOpening: true) }
    waiting?.resume(with: outcome)
  }

  private func follow() async {
    var hasFailed = false
    // How far the log was applied when that was last looked at, and when it last got further.
    var latest = (position: applying.withLock { $0.fold.position }, time: clock.now)
    while !Task.isCancelled, let core = core.withLock({ $0 }) {
      let delivery = sending.withLock { sending in
        sending.delivery += 1
        return sending.delivery
      }
      let sign = hasFailed ? Task.detached { await self.tellReturn(of: delivery, to: core) } : nil
      let ending = await applyAll(of: core)
      sign?.cancel()
      let problem: LogError
      switch ending {
      case .over: return
      case .resolved: continue
      case .failed(let error): problem = error
      }
      hasFailed = true
      sending.withLock { $0.delivery += 1 }
      switch problem {
      case .removed:
        options.reporting(.stoppedAs(key: log.name, .removed))
        endRecovery(problem)
        return await core.turn { self.stop(.removed, on: $0) }
      case .truncated, .damaged, .refused, .inUse:
        let position = applying.withLock { $0.fold.position } &+ 1
        // A replica that lags behind a truncation is to be opened anew, and that is all. An operator has to know of any
        // other failure.
        switch problem {
        case .truncated, .deathOfProcess: break
        default: options.reporting(.stopped(problem.of(log.name)))
        }
        endRecovery(problem)
        return await core.turn { self.stop(.unreadable(position: position), on: $0) }
      case .unavailable, .full:
        let position = applying.withLock { max($0.fold.position, $0.searched) }
        if position > latest.position { latest = (position, clock.now) }
        // The caller that opens the store does not wait longer than that; it makes no difference once it is open.
        if clock.now - latest.time >= options.openingLimit { endRecovery(problem) }
        await core.turn { tree in
          self.sending.withLock { $0.deliveryTrouble = problem.trouble }
          self.enter(.waiting(problem.trouble), on: tree)
        }
      }
      guard await clock.sleep(for: options.retryInterval) else { return }
      // A store that is being opened tries by itself until its limit is over.
      if sending.withLock({ $0.recovered != nil }) { await probe?.untilAnswered() }
    }
  }

  /// It may be long until something comes that would tell that the log is back: it is if nothing fails for a while, and
  /// it has no more than was applied.
  private func tellReturn(of delivery: Int, to core: StoreCore<State, Action>) async {
    while await clock.sleep(for: options.retryInterval) {
      guard let head = try? await log.head() else {
        await probe?.untilAnswered()
        continue
      }
      let isTold = LockedValue(false)
      await core.turn { tree in
        let position = self.applying.withLock { $0.fold.position }
        let isBack = self.sending.withLock { sending in
          guard sending.delivery == delivery else { return false }
          sending.head = max(sending.head, head)
          guard position >= sending.head else { return false }
          sending.deliveryTrouble = nil
          return true
        }
        guard isBack else { return }
        self.progress(on: tree)
        isTold.withLock { $0 = true }
      }
      if isTold.withLock({ $0 }) { return }
    }
  }

  private enum Ending {
    /// The store needs no more.
    case over
    /// The interruption is resolved: following begins again behind the last entry that has been applied.
    case resolved
    case failed(LogError)
  }

  /// Applies what the log delivers until it cannot go on.
  private func applyAll(of core: StoreCore<State, Action>) async -> Ending {
    do {
      try await findDecisions()
      for try await records in log.records(after: applying.withLock { $0.fold.position }) {
        let (outlines, actions) = decode(records)
        let interruption = LockedValue<Interruption?>(nil)
        await core.turn { tree in
          let found = self.apply(outlines, actions, of: core, on: tree)
          interruption.withLock { $0 = found }
        }
        if let found = interruption.withLock({ $0 }) { return try await resolve(found, of: core) }
        if sending.withLock({ $0.stop != nil || $0.hasEnded }) { return .over }
      }
    } catch {
      return Task.isCancelled ? .over : .failed((error as? LogError) ?? .unavailable("\(error)"))
    }
    return Task.isCancelled ? .over : .failed(.unavailable("The log's entries have come to an end."))
  }

  /// Looks for the decisions about the entries that are to be replayed, before any is: one that ends every process that
  /// applies it is then skipped, and not applied.
  private func findDecisions() async throws {
    let (searched, goal) = applying.withLock { ($0.searched, $0.goal) }
    guard searched < goal else { return }
    for try await records in log.records(after: searched) {
      let found = Self.decisions(in: records)
      guard let last = records.last?.position else { continue }
      applying.withLock { applying in
        applying.find(found)
        applying.searched = max(applying.searched, last)
      }
      if last >= goal { return }
    }
    if !Task.isCancelled { throw LogError.unavailable("The log's entries have come to an end.") }
  }

  /// The positions of the decisions among records, each with the position of the entry that it is about.
  private static func decisions(in records: [LogRecord]) -> [UInt64: UInt64] {
    var found: [UInt64: UInt64] = [:]
    for record in records { found[record.position] = record.skipped }
    return found
  }

  private func resolve(_ interruption: Interruption, of core: StoreCore<State, Action>) async throws -> Ending {
    switch interruption {
    case .failure(let failure, let position):
      let found = try await decisions(behind: position)
      if Task.isCancelled { return .over }
      if find(found, about: position) { return .resolved }
      switch failure {
      case .newerSchema: await core.turn { self.stop(.newerSchema(position: position), on: $0) }
      case .newerRules:
        // Behind a seal, this program is asked for no more than the entries before it.
        if applying.withLock({ $0.fold.sealedRules > options.newestKnownRules }) {
          await saveSealed(through: applying.withLock { $0.fold.position })
        }
        await core.turn { self.stop(.newerRules(position: position), on: $0) }
      case .poisoned:
        options.reporting(.poisoned(key: log.name, position: position))
        await core.turn { self.stop(.poisoned(position: position), on: $0) }
      case .olderRules(let rules):
        options.reporting(.olderRules(key: log.name, position: position, rules: rules))
        await core.turn { self.stop(.olderRules(position: position), on: $0) }
      case .undecodable(let text):
        options.reporting(.undecodable(key: log.name, position: position, isSnapshot: false, text))
        await core.turn { self.stop(.undecodable(position: position), on: $0) }
      }
    case .overruled(let position, let decision):
      if try await takeBack(decision, about: position) { return .resolved }
      if Task.isCancelled { return .over }
      options.reporting(.skippedElsewhere(key: log.name, position: position, by: decision))
      await core.turn { self.stop(.diverged(position: position), on: $0) }
    case .truncated(let position): return .failed(.truncated(first: position + 1))
    case .sealed(let position):
      await saveSealed(through: position)
      await core.turn { self.stop(.newerRules(position: position), on: $0) }
    }
    return .over
  }

  /// Whether an entry is skipped, as far as the known decisions and the found ones tell.
  private func find(_ found: [UInt64: UInt64], about position: UInt64) -> Bool {
    let isOpening = sending.withLock { $0.recovered == nil }
    return applying.withLock { applying in
      applying.find(found)
      // Up to date only behind the decisions: a snapshot may be saved once the store is opened.
      if isOpening { applying.goal = max(applying.goal, found.keys.max() ?? 0) }
      return applying.decisions[position] != nil
    }
  }

  /// Whether a decision does not count: it has been taken back, or this call takes it back, as no program can carry it
  /// out. The order of the log decides, so all replicas agree.
  private func takeBack(_ decision: UInt64, about position: UInt64) async throws -> Bool {
    let applied = applying.withLock { $0.fold.position }
    if find(try await decisions(behind: applied), about: decision) { return true }
    guard let covering = try await log.covering(position) else { return false }
    let reason = "The snapshot at position \(covering.snapshot) has the entry, and the log was truncated."
    let report = LogReport.takenBack(
      key: log.name, position: position, decision: decision, snapshot: covering.snapshot)
    if options.isTrial {
      options.reporting(report)
      applying.withLock { $0.disregard(decision) }
      return true
    }
    do throws(LogError) {
      try await log.takeBack(decision, reason: reason)
    } catch {
      // A read-only log takes no decision.
      if case .refused = error { return false }
      throw error
    }
    options.reporting(report)
    return find(try await decisions(behind: applied), about: decision)
  }

  /// The decisions behind a position, as far as the log goes now, each with the position of the entry that it is about.
  private func decisions(behind position: UInt64) async throws -> [UInt64: UInt64] {
    let head = try await log.head()
    var found: [UInt64: UInt64] = [:]
    guard head > position else { return found }
    for try await records in log.records(after: position) {
      found.merge(Self.decisions(in: records)) { $1 }
      if let last = records.last, last.position >= head { break }
    }
    return found
  }

  /// Off the tree's executor. The actions of all entries are one behind the other; an action that could not be decoded
  /// is nil.
  private func decode(_ records: [LogRecord]) -> ([Outline], [Action?]) {
    let (goal, decisions) = applying.withLock { ($0.goal, $0.decisions) }
    let writer = sending.withLock { $0.writer }
    let recovery = recovery.withLock { $0 }
    defer {
      if let last = records.last { recovery?.pause(behind: applying.withLock { min($0.fold.position, last.position) }) }
    }
    var outlines: [Outline] = []
    var decoded: [Action?] = []
    outlines.reserveCapacity(records.count)
    decoded.reserveCapacity(records.count)
    for record in records {
      var kind = Outline.Kind.unreadable
      var failure: Outline.Failure?
      var own: [ArraySlice<UInt8>] = []
      let before = decoded.count
      switch LogEntry.decode(record.bytes) {
      case .unreadable: failure = .undecodable("It was not written by this library.")
      case .newerFormat: kind = .newerFormat
      case .decision(let decision): kind = .decision(skipping: decision.skipped)
      case .seal(let seal): kind = .seal(rules: seal.rules)
      case .epoch(let epoch): kind = .epoch(epoch.number)
      case .standIn: kind = .standIn
      case .entry(let header, let encoded)
      where header.schema > actions.newestSchema || header.rules > options.newestKnownRules:
        kind = .entry(header)
        failure = header.schema > actions.newestSchema ? .newerSchema : .newerRules
        decoded += [Action?](repeating: nil, count: encoded.count)
      case .entry(let header, let encoded) where decisions[record.position] != nil:
        kind = .entry(header)
        decoded += [Action?](repeating: nil, count: encoded.count)
      case .entry(let header, let encoded) where recovery?.isFatal(record.position) == true:
        kind = .entry(header)
        failure = .poisoned
        decoded += [Action?](repeating: nil, count: encoded.count)
      case .entry(let header, let encoded):
        kind = .entry(header)
        if header.writer == writer { own = encoded }
        // Decoding runs the program's code as well.
        if record.position <= goal { recovery?.begin(record.position) }
        for bytes in encoded {
          do {
            decoded.append(try actions.decode(bytes, header.schema))
          } catch {
            decoded.append(nil)
            failure = failure ?? .undecodable(describe(error))
          }
        }
        if header.rules < options.oldestRules, !encoded.isEmpty { failure = .olderRules(header.rules) }
      }
      outlines.append(
        Outline(
          position: record.position, bytes: record.bytes.count, kind: kind, actionCount: decoded.count - before,
          failure: failure, own: own))
    }
    return (outlines, decoded)
  }

  /// Returns the interruption, if there is one.
  private func apply(
    _ outlines: [Outline], _ actions: [Action?], of core: StoreCore<State, Action>,
    on tree: isolated any TreeIsolation
  ) -> Interruption? {
    let now = clock.now
    var next = 0
    var interruption: Interruption?
    defer { sequencer.isReplaying = false }
    for outline in outlines {
      let (position, first) = (outline.position, next)
      next += outline.actionCount
      guard applying.withLock({ position > $0.fold.position }), !sequencer.hasEnded,
        sending.withLock({ $0.stop == nil })
      else { continue }
      let isSkipped = applying.withLock { applying in
        guard applying.decisions[position] != nil else { return applying.voids(outline) }
        applying.fold.decide(position)
        return true
      }
      if let failure = outline.failure, !isSkipped, isToBeCommitted(outline) {
        interruption = .failure(failure, position: position)
        break
      }
      if case .standIn = outline.kind, applying.withLock({ $0.fold.position == 0 }) {
        interruption = .truncated(position: position)
        break
      }
      let isReplayed = applying.withLock { position <= $0.goal }
      sequencer.isReplaying = isReplayed
      if isReplayed { options.replaying?(position) }
      if isReplayed, !isSkipped { recovery.withLock { $0 }?.begin(position) }
      switch outline.kind {
      case .newerFormat:
        stop(.newerSchema(position: position), on: tree)
        return nil
      case .unreadable: applying.withLock { $0.fold.skip() }
      case .seal(let rules): if !isSkipped { applying.withLock { $0.fold.seal(rules) } }
      case .epoch(let number): if !isSkipped { applying.withLock { $0.fold.begin(epoch: number) } }
      case .standIn: break
      case .decision(let skipped):
        guard !isSkipped, skipped < position else { break }
        let isObeyed = applying.withLock { applying in
          // A decision that is not obeyed keeps snapshots from being saved.
          applying.find([position: skipped])
          return applying.fold.decided.contains(skipped)
        }
        if !isObeyed { interruption = .overruled(position: skipped, by: position) }
      case .entry(let header):
        guard agrees(with: header, at: position, isSkipped: isSkipped, of: core, on: tree) else {
          stop(.diverged(position: header.seen.position), on: tree)
          return nil
        }
        guard isNoClones(outline, header) else {
          options.reporting(.cloned(key: log.name, position: position))
          stop(.cloned(position: position), on: tree)
          return nil
        }
        applying.withLock { applying in
          if outline.actionCount > 0 {
            applying.isUnattested = true
          } else if header.seen.position == applying.fold.position, attests(header) {
            applying.isUnattested = false
          }
        }
        LogRules.$current.withValue(header.rules) {
          for offset in 0..<outline.actionCount {
            if offset == outline.actionCount - 1 { applying.withLock { $0.ending = (outline, isSkipped) } }
            apply(
              isSkipped ? nil : actions[first + offset], header.first + UInt64(offset), of: header.writer, at: position,
              now, of: core, on: tree)
          }
        }
      }
      if interruption != nil { break }
      endEntry(outline, isSkipped: isSkipped, of: core, on: tree)
      if isOver(at: position) {
        interruption = .sealed(position: position)
        break
      }
    }
    recovery.withLock { $0 }?.pause(behind: applying.withLock { $0.fold.position })
    // The caller that waits for a seal is told by the stop, when there is a snapshot.
    if case .sealed = interruption { return interruption }
    tellArrivals()
    progress(on: tree)
    saveSnapshot(of: core, on: tree)
    if !sequencer.hasEnded { keepSummaryLater() }
    pump()
    return interruption
  }

  /// An entry has been applied. Once: where the store ends with its last action, before that end.
  private func endEntry(
    _ outline: Outline, isSkipped: Bool, of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) {
    let position = outline.position
    let isFirst = applying.withLock { applying in
      applying.ending = nil
      return applying.fold.position < position
    }
    guard isFirst else { return }
    let verdict = applying.withLock { $0.sampling.advance(to: $0.fold.commits) }
    let hash = verdict == .due && fingerprint != nil ? core.withState(on: tree) { self.hash(of: $0) } ?? nil : nil
    let (mark, skipped, rules, epoch) = applying.withLock { applying in
      // An entry without actions, or one whose actions were committed before, changes nothing by its rules.
      if case .entry(let header) = outline.kind, !isSkipped, outline.actionCount > 0, outline.failure == nil {
        applying.fold.note(header.rules)
      }
      if let hash { applying.sampling.hashed(size: hash.size) }
      applying.fold.ended(
        at: position, fingerprint: verdict == .unchanged ? applying.fold.mark.fingerprint : hash?.value)
      applying.bytesSinceSnapshot += outline.bytes
      let fold = applying.fold
      return (fold.mark, fold.skipped, options.rules(behindSeal: fold.sealedRules), fold.epoch)
    }
    sending.withLock { sending in
      sending.deliveryTrouble = nil
      sending.seen = mark
      if hash != nil {
        sending.hashed = (mark, 0)
      } else if let age = sending.hashed?.age {
        sending.hashed = age < Sending.hashedAgeLimit ? (sending.hashed!.mark, age + 1) : nil
      }
      sending.rules = rules
      sending.skipped = skipped
      sending.epoch = epoch
      sending.head = max(sending.head, position)
    }
  }

  /// Whether the log is sealed for rules that this program does not know, and the store has all that it may apply: the
  /// entries that were in the log when the store was opened are looked at to the end, as behind the seal only decisions
  /// count.
  private func isOver(at position: UInt64) -> Bool {
    applying.withLock { max($0.fold.sealedRules, $0.fold.rules) > options.newestKnownRules && position >= $0.goal }
  }

  /// Whether any action of an entry is to be committed: all actions of a repeated entry have been committed or skipped.
  /// An entry of which that is not known counts as one with such an action.
  private func isToBeCommitted(_ outline: Outline) -> Bool {
    guard case .entry(let header) = outline.kind else { return true }
    return applying.withLock { $0.fold.takes(header.first, count: UInt64(outline.actionCount), of: header.writer) }
  }

  /// Whether an entry is another writer's, or one that this store has given to the log. Any other entry under this
  /// store's number is by a clone of the process: the store takes another number, if nothing of its own is on its way.
  private func isNoClones(_ outline: Outline, _ header: LogEntry.Header) -> Bool {
    sending.withLock { sending in
      if header.writer != sending.writer || sending.outbox.hasGiven(outline.own, from: header.first) { return true }
      guard sending.outbox.isUntouched else { return false }
      sending.writer = .random(in: 1 ... .max)
      sending.outbox.renumber()
      return true
    }
  }

  /// Whether the state that an entry tells of was hashed by the function that this replica has.
  private func attests(_ header: LogEntry.Header) -> Bool {
    fingerprint != nil && header.fingerprintVersion == fingerprintVersion && header.seen.fingerprint != 0
  }

  /// Whether the writer of an entry had come to the same as this replica, as far as that is remembered. The states are
  /// compared where the same function has hashed both; of entries by an older version of this library, that is known
  /// only where the versions run at the same time.
  private func agrees(
    with header: LogEntry.Header, at position: UInt64, isSkipped: Bool, of core: StoreCore<State, Action>,
    on tree: isolated any TreeIsolation
  ) -> Bool {
    let seen = header.seen
    // The entry's writer has hashed the present state, as it ended or was opened there.
    if attests(header), applying.withLock({ $0.fold.position == seen.position }) { hashNow(of: core, on: tree) }
    let (inOrder, inState, here) = applying.withLock { applying in
      let isComparable =
        applying.compares(stateAt: seen.position)
        && header.fingerprintVersion.map { $0 == fingerprintVersion } ?? (position > applying.goal)
      let inState = !isComparable || applying.fold.agrees(with: seen)
      return (
        applying.fold.agrees(with: seen, inState: false), inState,
        inState ? nil : applying.fold.fingerprint(at: seen.position)
      )
    }
    // A decision to skip the entry covers that its writer had seen other entries than there are.
    if inOrder ? inState : isSkipped { return true }
    let states = inOrder ? here.map { LogReport.Fingerprints(here: $0, there: seen.fingerprint) } : nil
    options.reporting(.diverged(key: log.name, position: seen.position, entry: position, states: states))
    return false
  }

  /// Inlined, so that types are looked up once for all entries.
  @inline(__always) private func apply(
    _ action: Action?, _ number: UInt64, of writer: UInt64, at position: UInt64, _ now: Duration,
    of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) {
    let verdict = applying.withLock { applying in
      let verdict = applying.fold.take(number, of: writer, at: position)
      if verdict == .commit, action == nil { applying.fold.skip() }
      return verdict
    }
    // The id of the action, if it is one that waits here.
    let own = sending.withLock { sending -> UInt64? in
      guard writer == sending.writer else { return nil }
      switch verdict {
      // An action that has been committed here before, and forgotten since, is none of those that wait.
      case .commit where sending.outbox.isEmpty || number != sending.outbox.firstPending: break
      case .commit:
        let id = sending.outbox.applied(at: now)
        if !sending.outbox.isFull { admission.store(0, ordering: .relaxed) }
        return id
      case .early: sending.outbox.foundGap()
      case .unknown where sending.outbox.firstPending == 1: sending.outbox.foundGap()
      case .unknown:
        // So many others have written since that this writer was forgotten.
        sending.writer = .random(in: 1 ... .max)
        sending.outbox.renumber()
      case .repeated: break
      }
      return nil
    }
    guard verdict == .commit else { return }
    switch (action, own) {
    case (let action?, let own?): sequencer.commit(action, own, on: tree)
    case (let action?, nil): if !sequencer.hasEnded { core.commitQuietly(action, on: tree) }
    // The action is in the log, and counts again if the seal before it is skipped, or the decision is taken back.
    case (nil, let own?): sequencer.giveUp(own, .outcomeUnknown, on: tree)
    case (nil, nil): break
    }
  }

  // MARK: What it is doing

  @usableFromInline var refusal: DispatchResult? {
    switch admission.load(ordering: .relaxed) {
    case 0: nil
    case 1: .overloaded
    default: .stopped
    }
  }

  @usableFromInline var statistics: LogStatistics? {
    let now = clock.now
    return sending.withLock { sending in
      var statistics = LogStatistics(
        phase: sending.phase, position: sending.seen.position,
        waiting: sending.troubleSince.map { now - $0 },
        behind: sending.head - min(sending.head, sending.seen.position),
        pendingActions: sending.outbox.count, pendingBytes: sending.outbox.bytes, skipped: sending.skipped,
        rejected: sending.rejected)
      statistics.failedSnapshots = sending.failedSnapshots
      statistics.epoch = sending.epoch
      return statistics
    }
  }

  func phases() -> AsyncStream<Phase> {
    let (phases, continuation) = AsyncStream.makeStream(of: Phase.self, bufferingPolicy: .bufferingNewest(1))
    let id = sending.withLock { sending -> Int? in
      continuation.yield(sending.phase)
      if sending.hasEnded { return nil }
      sending.nextObserver += 1
      sending.observers[sending.nextObserver] = continuation
      return sending.nextObserver
    }
    guard let id else {
      continuation.finish()
      return phases
    }
    continuation.onTermination = { [weak self] _ in
      // What is removed is released outside the lock.
      _ = self?.sending.withLock { $0.observers.removeValue(forKey: id) }
    }
    return phases
  }

  private func enter(_ phase: Phase, on tree: isolated any TreeIsolation) {
    let now = clock.now
    let observers = sending.withLock { sending -> [Int: AsyncStream<Phase>.Continuation]? in
      if sending.phase == phase { return nil }
      switch sending.phase {
      case .stopped, .ended:
        guard case .ended = phase else { return nil }
      default: break
      }
      sending.phase = phase
      if case .waiting = phase {
        sending.troubleSince = sending.troubleSince ?? now
      } else {
        sending.troubleSince = nil
      }
      return sending.observers
    }
    guard let observers else { return }
    // Here, on the tree's executor, phases change one after the other.
    for observer in observers.values { observer.yield(phase) }
    tell(phase)
  }

  private func tell(_ phase: Phase) {
    onPhase?(phase)
    instrument?.tell(.entered(phase))
  }

  private var trouble: LogTrouble? { sending.withLock { $0.outbox.trouble?.trouble ?? $0.deliveryTrouble } }

  private func tellTrouble(on tree: isolated any TreeIsolation) {
    if let trouble { enter(.waiting(trouble), on: tree) } else { progress(on: tree) }
  }

  private func progress(on tree: isolated any TreeIsolation) {
    let (position, goal, start) = applying.withLock { ($0.fold.position, $0.goal, $0.start) }
    if position < goal { return enter(.recovering(position - start, of: goal - start), on: tree) }
    enter(trouble.map { .waiting($0) } ?? .following, on: tree)
    endRecovery(nil)
  }

  private func stop(_ reason: LogStop, on tree: isolated any TreeIsolation) {
    let isNew = sending.withLock { sending in
      defer { sending.stop = reason }
      return sending.stop == nil && !sending.hasEnded
    }
    switch reason {
    case .newerSchema, .newerRules: if isNew { options.reporting(.stoppedAs(key: log.name, reason)) }
    // Reported where more is known.
    case .diverged, .undecodable, .olderRules, .poisoned, .cloned, .unreadable, .removed: break
    }
    // No process has died of the entry that this stops at.
    recovery.withLock { $0 }?.pause(behind: applying.withLock { $0.fold.position })
    admission.store(2, ordering: .relaxed)
    enter(.stopped(reason), on: tree)
    // Actions that were on their way may be committed elsewhere.
    sequencer.giveUpAll(on: tree)
    tellArrivals()
    endRecovery(options.opensWhereStopped ? nil : StoreError.stopped(reason))
  }

  // MARK: The end

  @usableFromInline func rootClosed() {
    core.withLock { $0 }?.perform { _ in
      // The first one's time counts, however often the end is asked for.
      let begins = self.sending.withLock { !$0.outbox.isEmpty && $0.endingLimit == nil && !$0.hasEnded }
      guard begins else { return }
      let limit = Task.detached {
        guard await self.clock.sleep(for: self.options.endingLimit) else { return }
        self.core.withLock { $0 }?.perform { self.sequencer.giveUpAll(on: $0) }
      }
      self.sending.withLock { $0.endingLimit = limit }
    }
  }

  @usableFromInline func rootEnded(on tree: isolated any TreeIsolation) {
    sequencer.end()
    if sending.withLock({ $0.hasEnded }) { return }
    if let ending = applying.withLock({ $0.ending }), let core = core.withLock({ $0 }) {
      endEntry(ending.outline, isSkipped: ending.isSkipped, of: core, on: tree)
    }
    attest(on: tree)
    keepLastSummary(on: tree)
    let (tasks, observers) = sending.withLock { sending in
      sending.phase = .ended
      defer { sending.observers = [:] }
      sending.hasEnded = true
      return ([sending.follower.take(), sending.endingLimit.take(), sending.watcher.take()], sending.observers)
    }
    let writer = summarizing.withLock { $0.writer.take() }
    for observer in observers.values {
      observer.yield(.ended)
      observer.finish()
    }
    let instrument = instrument
    // The tree holds this, and this held the tree.
    core.releasingOutside { $0.take() }
    for task in tasks + [writer] { task?.cancel() }
    tellArrivals()
    onPhase?(.ended)
    instrument?.tell(.entered(.ended))
    endRecovery(StoreError.terminated)
  }

  /// At the end of a store that hashes its state: an entry without actions has the fingerprint of the last state, as no
  /// other entry has, so that the next program is compared with that as well. If it does not arrive, that does no harm.
  private func attest(on tree: isolated any TreeIsolation) {
    guard fingerprint != nil, applying.withLock({ $0.isUnattested && $0.canSave }),
      sending.withLock({ $0.stop == nil && $0.outbox.isEmpty })
    else { return }
    if let core = core.withLock({ $0 }) { hashNow(of: core, on: tree) }
    let header = sending.withLock { sending -> LogEntry.Header? in
      guard sending.seen.fingerprint != 0, sending.outbox.isEmpty else { return nil }
      return LogEntry.Header(
        writer: sending.writer, first: sending.outbox.firstPending, seen: sending.seen, schema: actions.schema,
        fingerprintVersion: fingerprintVersion, rules: sending.rules)
    }
    if let header { log.append(LogEntry.encode(header, actions: [])) { _ in } }
  }

  // MARK: Snapshots

  /// The state as far as the log has been applied; nil once the store has ended.
  private func content() async throws(StoreError) -> SnapshotContent<State>? {
    guard let core = core.withLock({ $0 }) else { return nil }
    let found = LockedValue<SnapshotContent<State>?>(nil)
    await core.turn { tree in
      let fold = self.applying.withLock { $0.fold }
      let state = core.withState(on: tree) { $0 }
      found.withLock { $0 = state.map { SnapshotContent(state: $0, fold: fold) } }
    }
    if let stop = sending.withLock({ $0.stop }) { throw .stopped(stop) }
    return found.withLock { $0 }
  }

  /// Where existing snapshots have been left aside, a snapshot of what has been replayed takes their place.
  @usableFromInline func replaceSnapshots() async throws {
    guard options.ignoresSnapshots, !hasStopped, let states, let snapshots = log.snapshots,
      var content = try await content()
    else { return }
    // A newer snapshot, of entries that the log has, is replaced by one that is as new: the log may be truncated behind
    // it.
    while let newest = try await Self.readable(in: snapshots), newest.position > content.fold.position,
      try await newest.position <= log.head()
    {
      await untilApplied(newest.position)
      guard let later = try await self.content(), later.fold.position >= newest.position else { return }
      content = later
    }
    try await keep(content, by: states, in: snapshots, inPlaceOfAll: true)
    applying.withLock { $0.lastSnapshot = max($0.lastSnapshot, content.fold.position) }
  }

  /// The newest snapshot; nil where the one that is kept is not this log's.
  private static func readable(in snapshots: any SnapshotStore) async throws(LogError) -> LogSnapshot? {
    do throws(LogError) {
      return try await snapshots.newest()
    } catch {
      if case .damaged = error { return nil }
      throw error
    }
  }

  private func snapshot(
    of content: SnapshotContent<State>, by states: LogCoding<State>
  ) throws(LogError) -> LogSnapshot {
    do {
      return LogSnapshot(position: content.fold.position, bytes: try content.encode(by: states))
    } catch {
      throw .refused("The state cannot be encoded: \(error)")
    }
  }

  /// Saves a snapshot, and tells the instrument whether it has been.
  private func keep(
    _ content: SnapshotContent<State>, by states: LogCoding<State>, in snapshots: any SnapshotStore,
    inPlaceOfAll isFirst: Bool = false
  ) async throws(LogError) {
    let (instrument, start) = (instrument, clock.now)
    var byteCount = 0
    var failure: LogError?
    do throws(LogError) {
      let snapshot = try snapshot(of: content, by: states)
      byteCount = snapshot.bytes.count
      if isFirst { try await snapshots.replace(with: snapshot) } else { try await snapshots.save(snapshot) }
    } catch {
      failure = error
    }
    let taken = max(.zero, clock.now - start)
    instrument?.tell(
      .savedSnapshot(position: content.fold.position, bytes: byteCount, after: taken, failure))
    if let failure { throw failure }
  }

  private func keptSnapshots() throws(LogError) -> (any SnapshotStore, LogCoding<State>) {
    guard let snapshots = log.snapshots else { throw .refused("The log keeps no snapshots.") }
    guard let states else { throw .refused("The store has no coding for its states.") }
    return (snapshots, states)
  }

  func saveSnapshotNow() async throws -> UInt64 {
    let (snapshots, states) = try keptSnapshots()
    let position = try await saveSnapshotNow(in: snapshots, by: states)
    await keepSummary()
    return position
  }

  private func saveSnapshotNow(in snapshots: any SnapshotStore, by states: LogCoding<State>) async throws -> UInt64 {
    guard let content = try await content() else { throw StoreError.terminated }
    guard content.fold.position > 0 else { throw LogError.refused("There is nothing in the log.") }
    // Of that position: the store may have gone on since.
    guard applying.withLock({ $0.canSave(at: content.fold.position) }) else {
      throw LogError.unavailable("The store is behind what has been decided of the log.")
    }
    do throws(LogError) {
      try await keep(content, by: states, in: snapshots)
    } catch {
      snapshotFailed(error)
      throw error
    }
    applying.withLock { $0.lastSnapshot = max($0.lastSnapshot, content.fold.position) }
    sending.withLock { $0.isSnapshotFailureTold = false }
    return content.fold.position
  }

  /// Returns when a position has been applied, or never will be.
  private func untilApplied(_ position: UInt64) async {
    await withCheckedContinuation { continuation in
      let isWaiting = sending.withLock { sending in
        if sending.hasEnded || sending.stop != nil || sending.seen.position >= position { return false }
        sending.arrivals.append((position, continuation))
        return true
      }
      if !isWaiting { continuation.resume() }
    }
  }

  private func tellArrivals() {
    let told = sending.withLock { sending -> [CheckedContinuation<Void, Never>] in
      if sending.arrivals.isEmpty { return [] }
      let isOver = sending.hasEnded || sending.stop != nil
      let told = sending.arrivals.filter { isOver || $0.position <= sending.seen.position }
      sending.arrivals.removeAll { isOver || $0.position <= sending.seen.position }
      return told.map(\.continuation)
    }
    for continuation in told { continuation.resume() }
  }

  func sealNow(for rules: UInt32, _ reason: String) async throws -> UInt64 {
    let (snapshots, states) = try keptSnapshots()
    guard rules > options.rules else { throw LogError.refused("A log is sealed for newer rules than its writers'.") }
    if let stop = sending.withLock({ $0.stop }) { throw StoreError.stopped(stop) }
    let position = try await log.append(.init(rules: rules, time: LogEntry.now, reason: reason))
    await untilApplied(position)
    // A program that does not know the new rules stops at the seal, and has saved a snapshot by then.
    if isOver(at: position) { await untilApplied(.max) }
    if let saved = try? await snapshots.newest(), saved.position >= position,
      (try? SnapshotContent(saved.bytes, by: states)) != nil
    {
      return position
    }
    _ = try await saveSnapshotNow()
    return position
  }

  /// Saves a snapshot of the last entry that this program may apply.
  private func saveSealed(through position: UInt64) async {
    guard let (snapshots, states) = try? keptSnapshots(), let content = try? await content(),
      content.fold.position == position, applying.withLock({ $0.obeys(at: position) })
    else { return }
    do throws(LogError) {
      try await keep(content, by: states, in: snapshots, inPlaceOfAll: options.ignoresSnapshots)
    } catch {
      snapshotFailed(error)
    }
    await keepSummary()
  }

  func truncateNow() async throws -> UInt64 {
    let (snapshots, states) = try keptSnapshots()
    if let stop = sending.withLock({ $0.stop }) { throw StoreError.stopped(stop) }
    guard let newest = try await snapshots.newest() else { throw LogError.refused("There is no snapshot.") }
    guard let fold = try? SnapshotContent(newest.bytes, by: states).fold, fold.position == newest.position else {
      throw LogError.refused("The snapshot at position \(newest.position) cannot be decoded.")
    }
    let position = fold.position
    // A server of a cluster may lag; and entries that are not applied here are not to be removed here.
    guard position <= applying.withLock({ $0.fold.position }) else {
      throw LogError.unavailable("The store is behind the snapshot at position \(position).")
    }
    try await log.expectCarriedOut(by: fold)
    try await log.truncate(through: position)
    return position
  }

  func eraseNow() async throws -> UInt64 {
    let (snapshots, states) = try keptSnapshots()
    let position = try await saveSnapshotNow(in: snapshots, by: states)
    // The snapshot that is kept is looked at, and may be newer.
    guard let newest = try await snapshots.newest(), newest.position >= position,
      let kept = try? SnapshotContent(newest.bytes, by: states), kept.fold.position == newest.position
    else { throw LogError.unavailable("The snapshot at position \(position) is not there.") }
    // A summary of that position or later, so that no earlier one is kept any more, even if a writer still has one on
    // its way.
    if let error = await keepSummary(always: true) { throw error }
    try await log.expectCarriedOut(by: kept.fold)
    // The last entry of a log stays: one without actions is added, so that none of those that are to go is the last.
    let header = sending.withLock { sending in
      LogEntry.Header(
        writer: sending.writer, first: sending.outbox.firstPending, seen: sending.seen, schema: actions.schema,
        fingerprintVersion: fingerprintVersion, rules: sending.rules)
    }
    let outcome = await withCheckedContinuation { continuation in
      log.append(LogEntry.encode(header, actions: [])) { continuation.resume(returning: $0) }
    }
    _ = try outcome.get()
    // Somebody may have decided about an entry meanwhile.
    try await log.expectCarriedOut(by: kept.fold)
    try await log.erase(through: position)
    return position
  }

  private func saveSnapshot(of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation) {
    guard let limit = options.snapshotBytes, let states, let snapshots = log.snapshots, !sequencer.hasEnded,
      sending.withLock({ $0.stop == nil })
    else { return }
    let fold = applying.withLock { applying -> Fold? in
      guard applying.bytesSinceSnapshot >= max(1, limit), !applying.isSaving, applying.canSave
      else { return nil }
      applying.bytesSinceSnapshot = 0
      applying.isSaving = true
      return applying.fold
    }
    guard let fold, let state = core.withState(on: tree, { $0 }) else { return }
    Task.detached {
      await self.save(SnapshotContent(state: state, fold: fold), by: states, to: snapshots)
      self.applying.withLock { $0.isSaving = false }
      // More may have come meanwhile.
      core.perform { self.saveSnapshot(of: core, on: $0) }
    }
  }

  private func save(
    _ content: SnapshotContent<State>, by states: LogCoding<State>, to snapshots: any SnapshotStore
  ) async {
    let position = content.fold.position
    do throws(LogError) {
      try await keep(content, by: states, in: snapshots)
    } catch {
      return snapshotFailed(error)
    }
    sending.withLock { $0.isSnapshotFailureTold = false }
    await keepSummary()
    // Behind the snapshot before, so that a replica that lags a little still finds what it needs.
    let before = applying.withLock { applying in
      defer { applying.lastSnapshot = max(applying.lastSnapshot, position) }
      return applying.lastSnapshot
    }
    // The snapshot that is kept is looked at: no entries go unless a store can begin behind them.
    guard options.truncatesBehindSnapshots, before > 0, before < position, let newest = try? await snapshots.newest(),
      newest.position >= before, let kept = try? SnapshotContent(newest.bytes, by: states),
      kept.fold.position == newest.position, newest.position <= sending.withLock({ $0.head })
    else { return }
    // Entries that are not truncated now are with the next snapshot.
    do {
      try await log.expectCarriedOut(by: kept.fold)
      try await log.truncate(through: before)
    } catch {}
  }

  /// A snapshot is a cache, and the next one may succeed; but where none does, an operator has to know.
  private func snapshotFailed(_ error: LogError) {
    let isPassing = Self.isPassing(error)
    let isTold = sending.withLock { sending in
      sending.failedSnapshots += 1
      // A failure that passes by itself is only counted.
      defer { if !isPassing { sending.isSnapshotFailureTold = true } }
      return isPassing || sending.isSnapshotFailureTold
    }
    if !isTold { options.reporting(.snapshotsFail(error.of(log.name))) }
  }

  private static func isPassing(_ error: LogError) -> Bool {
    switch error {
    case .unavailable, .full, .removed: true
    case .inUse, .refused, .truncated, .damaged: false
    }
  }

  // MARK: The summary

  /// Has the summary looked at when its interval is over, or at once where the store has just been opened, unless that
  /// is going to happen.
  private func keepSummaryLater(isOpening: Bool = false) {
    guard summary != nil, !isOpening || applying.withLock({ $0.fold.position > 0 }) else { return }
    summarizing.withLock { summarizing in
      summarizing.isDue = true
      guard summarizing.writer == nil else { return }
      summarizing.writer = Task.detached { await self.keepSummaries(isOpening: isOpening) }
    }
  }

  /// Runs until nothing has been applied since the summary was looked at.
  private func keepSummaries(isOpening: Bool) async {
    var waits = !isOpening
    while true {
      if waits { guard await clock.sleep(for: options.summaryInterval) else { return } }
      waits = true
      summarizing.withLock { $0.isDue = false }
      let error = await keepSummary()
      let isOver = summarizing.withLock { summarizing in
        if case .unavailable? = error { return false }
        if case .full? = error { return false }
        if summarizing.isDue { return false }
        summarizing.writer = nil
        return true
      }
      if isOver || sending.withLock({ $0.stop != nil || $0.hasEnded }) { return }
    }
  }

  /// Writes the summary of what has been applied, where it differs from the one that is kept. Returns why the log did
  /// not take it.
  @discardableResult private func keepSummary(always: Bool = false) async -> LogError? {
    guard summary != nil, let core = core.withLock({ $0 }) else { return nil }
    guard let summaries = log.summaries else {
      summaryFailed(.refused("The log keeps no summaries."))
      return nil
    }
    if !summarizing.withLock({ $0.hasLooked }), !always {
      // A summary that cannot be read is written over.
      let kept = try? await summaries.kept()
      summarizing.withLock { summarizing in
        if !summarizing.hasLooked { summarizing.kept = kept.map { ($0.position, $0.bytes) } }
        summarizing.hasLooked = true
      }
    }
    let found = LockedValue<(UInt64, any Encodable & Sendable)?>(nil)
    await core.turn { tree in
      guard !self.sequencer.hasEnded, let now = self.summarized(of: core, on: tree) else { return }
      found.withLock { $0 = now }
    }
    guard let (position, value) = found.withLock({ $0 }), let bytes = encode(value) else { return nil }
    let kept = summarizing.withLock { $0.kept }
    if !always, let kept, kept.bytes == bytes, kept.position <= position {
      if kept.position == position { return nil }
      // Another replica may have written one of a state in between.
      let now = try? await summaries.kept()
      if let now, now.bytes == bytes, now.position <= position {
        noteSummary((now.position, bytes))
        return nil
      }
    }
    do throws(LogError) {
      let isKept = try await summaries.save(bytes, at: position)
      noteSummary(isKept ? (position, bytes) : nil)
      return nil
    } catch {
      noteSummary(nil)
      summaryFailed(error)
      return error
    }
  }

  /// What the program says of the state, and the position that it is of; nothing where the state is not to be gone by.
  private func summarized(
    of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) -> (UInt64, any Encodable & Sendable)? {
    guard let summary, sending.withLock({ $0.stop == nil }) else { return nil }
    let (position, counts) = applying.withLock { ($0.fold.position, $0.canSave) }
    guard counts, position > 0, let value = core.withState(on: tree, summary) else { return nil }
    return (position, value)
  }

  /// At the end: begins to write the summary of the last state, which only the caller that closes the log waits for.
  private func keepLastSummary(on tree: isolated any TreeIsolation) {
    guard summary != nil, let summaries = log.summaries, let core = core.withLock({ $0 }) else { return }
    let position = applying.withLock { $0.fold.position }
    guard summarizing.withLock({ $0.kept?.position != position }),
      let (position, value) = summarized(of: core, on: tree),
      let bytes = encode(value)
    else { return }
    summaries.save(bytes, at: position) { outcome in
      if case .failure(let error) = outcome { self.summaryFailed(error) }
    }
  }

  private func encode(_ value: any Encodable & Sendable) -> [UInt8]? {
    do {
      let bytes = try LogSummary.encode(value)
      if bytes.count <= LogSummary.byteLimit { return bytes }
      summaryFailed(.refused("It has \(bytes.count) bytes."))
    } catch {
      summaryFailed(.refused("It cannot be encoded: \(describe(error))"))
    }
    return nil
  }

  private func noteSummary(_ kept: (position: UInt64, bytes: [UInt8])?) {
    summarizing.withLock { summarizing in
      // Two summaries may be on their way: for the interval, and for a snapshot.
      if let kept, let known = summarizing.kept, known.position > kept.position { return }
      summarizing.kept = kept
      summarizing.hasLooked = true
      if kept != nil { summarizing.isFailureTold = false }
    }
  }

  private func summaryFailed(_ error: LogError) {
    let isTold =
      Self.isPassing(error)
      || summarizing.withLock { summarizing in
        defer { summarizing.isFailureTold = true }
        return summarizing.isFailureTold
      }
    if !isTold { options.reporting(.summariesFail(key: log.name, error)) }
  }
}
