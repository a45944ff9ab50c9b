import Puredux

/// The entries that one replica writes: its actions that are not committed yet, and the header of its next entry.
///
/// Invariant: one step decides an entry's actions, their numbers, the rules and the mark that the entry carries. Until
/// that entry has been handed out, there is no further one. So the log gets the actions in the order of their numbers,
/// and the marks of one replica never go back. A hash is carried by one entry at most. A pure state machine.
struct Writing {
  /// An entry for the log.
  struct Append {
    let entry: Outbox.Entry
    let header: LogEntry.Header
    /// The header of an entry without actions that goes first: it carries the last hashed state.
    let sample: LogEntry.Header?
  }

  /// The position, the hashes, the epoch and the rules to which the applied entries have led.
  struct Applied: Equatable {
    var mark: LogEntry.Mark
    /// The rules of the next entries: the program's, or newer ones that the log is sealed for and the program knows.
    var rules: UInt32
    var skipped: UInt64
    var epoch: UInt64

    init(_ fold: Fold, by options: LogOptions) {
      mark = fold.mark
      rules = options.rules(behindSeal: fold.sealedRules)
      skipped = fold.skipped
      epoch = fold.epoch
    }
  }

  /// The age in entries beyond which a hash is not carried, because other replicas forget their hashes.
  static let hashedAgeLimit = Fold.markLimit / 4

  private var outbox: Outbox
  /// The random number under which this replica writes.
  private(set) var writer: UInt64
  private(set) var applied: Applied
  /// The last hashed state that no entry of this replica has carried, and the number of entries applied since.
  private var hashed: (mark: LogEntry.Mark, age: Int)?
  /// The last position that is known to exist.
  private(set) var head: UInt64
  /// How many actions could not be given to the log.
  private(set) var rejected: UInt64 = 0
  private var isHandingOut = false
  private let schema: UInt32
  private let fingerprintVersion: UInt32?
  /// The task that sends failed and missing entries again, as long as actions wait.
  var watcher: Task<Void, Never>?

  init(
    limits: Outbox.Limits, writer: UInt64?, applied: Applied, head: UInt64, schema: UInt32, fingerprintVersion: UInt32?
  ) {
    outbox = Outbox(limits: limits)
    self.writer = writer ?? .random(in: 1 ... .max)
    self.applied = applied
    self.head = head
    self.schema = schema
    self.fingerprintVersion = fingerprintVersion
  }

  var isEmpty: Bool { outbox.isEmpty }
  var isFull: Bool { outbox.isFull }
  var count: Int { outbox.count }
  var bytes: Int { outbox.bytes }
  /// Why the log takes no entries, if it takes none.
  var trouble: LogTrouble? { outbox.trouble?.trouble }
  /// By how many positions the log is known to be ahead.
  var behind: UInt64 { head - min(head, applied.mark.position) }

  /// The header of an entry without actions.
  var header: LogEntry.Header { header(first: outbox.firstPending, rules: applied.rules) }

  private func header(first: UInt64, rules: UInt32) -> LogEntry.Header {
    LogEntry.Header(
      writer: writer, first: first, seen: applied.mark, schema: schema, fingerprintVersion: fingerprintVersion,
      rules: rules)
  }

  // MARK: To the log

  /// Takes an action, unless no entry can hold it. Returns the action's id.
  mutating func submit(_ action: [UInt8], at time: Duration) -> Result<UInt64, StoreError> {
    if action.count + 4 > outbox.limits.bytes {
      return .failure(reject("The action is larger than an entry of the log may be."))
    }
    return .success(outbox.append(action, rules: applied.rules, at: time))
  }

  /// Counts an action that cannot be given to the log.
  mutating func reject(_ reason: RejectionReason) -> StoreError {
    rejected += 1
    return .rejected(reason: reason)
  }

  /// Removes an action, unless the log has been given it.
  mutating func withdraw(_ id: UInt64) -> Bool { outbox.withdraw(id) }

  /// The next entry for the log, if one may go there now.
  mutating func next(at time: Duration) -> Append? {
    guard !isHandingOut, let entry = outbox.next(at: time) else { return nil }
    isHandingOut = true
    let header = header(first: entry.first, rules: entry.rules)
    // An entry with actions always carries the mark of the last applied entry: if the log loses that entry, others
    // notice. Of several entries that are applied together only the last mark is seen, so a hash needs its own entry.
    var sample: LogEntry.Header?
    if let mark = hashed.take()?.mark, applied.mark.fingerprint == 0 {
      sample = header
      sample?.first = outbox.firstPending
      sample?.seen = mark
    }
    return Append(entry: entry, header: header, sample: sample)
  }

  /// The log has been given the last entry.
  mutating func handedOut() { isHandingOut = false }

  /// The log's answer to an entry. Returns whether the trouble is another one now, and whether the log has refused the
  /// first action by itself.
  mutating func appended(
    _ id: Int, _ outcome: Result<UInt64, LogError>, at time: Duration
  ) -> (isTroubleNew: Bool, isFirstRefused: Bool) {
    let before = trouble
    switch outcome {
    case .success(let position):
      head = max(head, position)
      outbox.ended(id, nil, at: time)
    case .failure(let error): outbox.ended(id, error, at: time)
    }
    return (before != trouble, outbox.isFirstRefused)
  }

  /// Drops the first action if the log never takes it. The others go on, under another number. Returns the action's id.
  mutating func dropRefused(at time: Duration) -> UInt64? {
    guard let dropped = outbox.dropRefused(at: time) else { return nil }
    writer = .random(in: 1 ... .max)
    rejected += 1
    return dropped
  }

  /// Time has passed: entries may be due to be sent again.
  mutating func retry(at time: Duration, patience: Duration) { _ = outbox.retry(at: time, patience: patience) }

  /// The id of the last action that was accepted before a time, if there is one since the last call.
  mutating func overdue(before time: Duration) -> UInt64? { outbox.overdue(before: time) }

  // MARK: From the log

  /// The log is known to go as far as a position.
  mutating func found(head position: UInt64) { head = max(head, position) }

  /// Whether an entry is another writer's, or one that this replica has given to the log. Any other entry under this
  /// number is by a clone of the process. The replica takes another number then, if the log has none of its actions.
  mutating func isNoClones(_ header: LogEntry.Header, _ actions: [ArraySlice<UInt8>]) -> Bool {
    if header.writer != writer || outbox.hasGiven(actions, from: header.first) { return true }
    guard outbox.isUntouched else { return false }
    renumber()
    return true
  }

  /// The log has delivered an action. Returns its id if it is the first one that waits here, and is committed.
  mutating func delivered(
    _ number: UInt64, of writer: UInt64, _ verdict: Fold.Verdict, at time: Duration
  ) -> UInt64? {
    guard writer == self.writer else { return nil }
    switch verdict {
    // An action that has been committed here before, and forgotten since, is none of those that wait.
    case .commit where outbox.isEmpty || number != outbox.firstPending: break
    case .commit: return outbox.applied(at: time)
    case .early: outbox.foundGap()
    case .unknown where outbox.firstPending == 1: outbox.foundGap()
    // So many others have written since that this writer was forgotten.
    case .unknown: renumber()
    case .repeated: break
    }
    return nil
  }

  private mutating func renumber() {
    writer = .random(in: 1 ... .max)
    outbox.renumber()
  }

  /// An entry has been applied.
  ///
  /// - Parameter isHashed: Whether the state was hashed after this entry.
  mutating func advance(to applied: Applied, isHashed: Bool) {
    self.applied = applied
    if isHashed {
      hashed = (applied.mark, 0)
    } else if let (mark, age) = hashed {
      hashed = age < Self.hashedAgeLimit ? (mark, age + 1) : nil
    }
    head = max(head, applied.mark.position)
  }

  /// The present state has been hashed, after its entry was applied.
  mutating func restate(_ mark: LogEntry.Mark) { applied.mark = mark }
}

/// Gives the log the actions that the stores of a tree submit: carries out the decisions of `Writing`.
final class LogWriter<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let phases: Phases<State, Action>

  init(_ replica: Replica<State, Action>, _ phases: Phases<State, Action>) {
    self.replica = replica
    self.phases = phases
  }

  /// On the tree's executor. Returns the action's id.
  func submit(_ action: Action) -> Result<UInt64, StoreError> {
    guard let bytes = try? replica.codings.actions.encode(action) else {
      return .failure(replica.standing.withLock { $0.writing.reject("The action cannot be encoded.") })
    }
    let now = replica.clock.now
    let outcome = replica.standing.withLock { standing -> Result<UInt64, StoreError> in
      if let stop = standing.life.stop { return .failure(.stopped(stop)) }
      let outcome = standing.writing.submit(bytes, at: now)
      guard case .success = outcome else { return outcome }
      if standing.writing.isFull { replica.admission.store(1, ordering: .relaxed) }
      // Detached, as all tasks here: the work of the tree does not run under the task-local values of a caller.
      if standing.writing.watcher == nil { standing.writing.watcher = Task.detached { await self.watch() } }
      return outcome
    }
    if case .success = outcome { pump() }
    return outcome
  }

  /// Withdraws an action; false if the log has been given it. From anywhere.
  func withdraw(_ id: UInt64) -> Bool {
    let isWithdrawn = replica.standing.withLock { standing in
      guard standing.life.stop == nil, standing.writing.withdraw(id) else { return false }
      if !standing.writing.isFull { replica.admission.store(0, ordering: .relaxed) }
      return true
    }
    guard isWithdrawn else { return false }
    replica.core.withLock { $0 }?.perform { [replica] in replica.sequencer.withdrawn(id, on: $0) }
    return true
  }

  /// Gives the log the entries that may go to it.
  func pump() {
    while true {
      // The clock is the user's code, which is not called under the lock.
      let now = replica.clock.now
      let next = replica.standing.withLock { standing in
        // A stopped replica writes nothing: the state that it has come to may be wrong.
        standing.life.stop == nil ? standing.writing.next(at: now) : nil
      }
      guard let next else { return }
      if let sample = next.sample { append(sample) }
      let bytes = LogEntry.encode(next.header, actions: next.entry.actions)
      let count = next.entry.actions.count
      replica.log.append(bytes) { [instrument = replica.instrument, id = next.entry.id] outcome in
        let taken = max(.zero, self.replica.clock.now - now)
        instrument?.tell(.appended(actions: count, bytes: bytes.count, after: taken, outcome.failure))
        self.appended(id, outcome)
      }
      replica.standing.withLock { $0.writing.handedOut() }
    }
  }

  /// Appends an entry without actions. If the log does not take it, that does no harm.
  func append(_ header: LogEntry.Header) { replica.log.append(LogEntry.encode(header, actions: [])) { _ in } }

  private func appended(_ id: Int, _ outcome: Result<UInt64, LogError>) {
    let now = replica.clock.now
    let (isTroubleNew, isFirstRefused) = replica.standing.withLock { $0.writing.appended(id, outcome, at: now) }
    if isTroubleNew || isFirstRefused {
      replica.core.withLock { $0 }?.perform { tree in
        self.rejectRefused(on: tree)
        self.phases.tellTrouble(on: tree)
      }
    }
    pump()
  }

  private func rejectRefused(on tree: isolated any TreeIsolation) {
    let now = replica.clock.now
    let dropped = replica.standing.withLock { standing -> UInt64? in
      guard let dropped = standing.writing.dropRefused(at: now) else { return nil }
      if standing.life.stop == nil, !standing.writing.isFull { replica.admission.store(0, ordering: .relaxed) }
      return dropped
    }
    guard let dropped else { return }
    replica.sequencer.giveUp(dropped, .rejected(reason: "The log does not take the action."), on: tree)
    pump()
  }

  /// Sends failed and missing entries again, as long as actions wait.
  private func watch() async {
    let options = replica.options
    while await replica.clock.sleep(for: options.retryInterval) {
      let now = replica.clock.now
      let isOver = replica.standing.withLock { standing in
        guard !standing.writing.isEmpty, !standing.life.hasEnded, standing.life.stop == nil else {
          standing.writing.watcher = nil
          return true
        }
        standing.writing.retry(at: now, patience: options.patience)
        return false
      }
      if isOver { return }
      if let limit = options.sendLimit {
        replica.core.withLock { $0 }?.perform { [replica] tree in
          // In the turn: an action that is committed before it is not overdue any more.
          let overdue = replica.standing.withLock { $0.writing.overdue(before: now - limit) }
          if let overdue { replica.sequencer.refuseRequests(.outcomeUnknown, through: overdue) }
        }
      }
      pump()
      // With a limit, overdue actions are looked for at each interval.
      if options.sendLimit == nil, replica.standing.withLock({ $0.writing.trouble == .unavailable }) {
        await replica.probe?.untilAnswered()
      }
    }
  }
}

extension Result {
  fileprivate var failure: Failure? {
    if case .failure(let error) = self { error } else { nil }
  }
}
