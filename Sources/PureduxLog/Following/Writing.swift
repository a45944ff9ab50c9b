import Puredux
import Synchronization

/// The entries that one replica writes: its uncommitted actions, and the header of its next entry. A pure state
/// machine.
///
/// Invariant: one step decides an entry's actions, numbers, rules and mark, and no further entry begins until that one
/// has been handed out. So the log gets the actions in the order of their numbers, and a replica's marks never go back.
/// At most one entry carries a given hash.
struct Writing {
  struct Append {
    let entry: Outbox.Entry
    let header: LogEntry.Header
    let sample: LogEntry.Header?
  }

  struct Applied: Equatable {
    var mark: LogEntry.Mark
    /// The next entries' rules: the program's, or those of a seal if they are newer and known.
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

  /// A hash older than this many entries is not carried, because other replicas forget theirs.
  static let hashedAgeLimit = Fold.markLimit / 4

  private var outbox: Outbox
  private(set) var writer: UInt64
  private(set) var applied: Applied
  private var hashed: (mark: LogEntry.Mark, age: Int)?
  private(set) var head: UInt64
  private(set) var rejected: UInt64 = 0
  private var isHandingOut = false
  private let schema: UInt32
  private let fingerprintVersion: UInt32?
  /// Resends failed and missing entries while actions wait.
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
  var trouble: LogTrouble? { outbox.trouble?.trouble }
  var behind: UInt64 { head - min(head, applied.mark.position) }

  var header: LogEntry.Header { header(first: outbox.firstPending, rules: applied.rules) }

  private func header(first: UInt64, rules: UInt32) -> LogEntry.Header {
    LogEntry.Header(
      writer: writer, first: first, seen: applied.mark, schema: schema, fingerprintVersion: fingerprintVersion,
      rules: rules)
  }

  // MARK: To the log

  mutating func submit(_ action: [UInt8], at time: Duration) -> Result<UInt64, StoreError> {
    if action.count + 4 > outbox.limits.bytes {
      return .failure(reject("The action is larger than an entry of the log may be."))
    }
    return .success(outbox.append(action, rules: applied.rules, at: time))
  }

  mutating func reject(_ reason: RejectionReason) -> StoreError {
    rejected += 1
    return .rejected(reason: reason)
  }

  mutating func withdraw(_ id: UInt64) -> Bool { outbox.withdraw(id) }

  mutating func next(at time: Duration) -> Append? {
    guard !isHandingOut, let entry = outbox.next(at: time) else { return nil }
    isHandingOut = true
    let header = header(first: entry.first, rules: entry.rules)
    // An entry with actions carries the last applied mark, so that other replicas notice if the log loses that entry.
    // Only the last mark of entries applied together is seen, so the hash gets its own entry.
    var sample: LogEntry.Header?
    if let mark = hashed.take()?.mark, applied.mark.fingerprint == 0 {
      sample = header
      sample?.first = outbox.firstPending
      sample?.seen = mark
    }
    return Append(entry: entry, header: header, sample: sample)
  }

  mutating func handedOut() { isHandingOut = false }

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

  /// If the log cannot take the first action, drops it, and returns its id. The rest gets another writer's number.
  mutating func dropRefused(at time: Duration) -> UInt64? {
    guard let dropped = outbox.dropRefused(at: time) else { return nil }
    writer = .random(in: 1 ... .max)
    rejected += 1
    return dropped
  }

  mutating func retry(at time: Duration, patience: Duration) { _ = outbox.retry(at: time, patience: patience) }

  mutating func overdue(before time: Duration) -> UInt64? { outbox.overdue(before: time) }

  // MARK: From the log

  mutating func found(head position: UInt64) { head = max(head, position) }

  /// Whether an entry is another writer's, or one that this replica wrote. Any other entry under this number is a
  /// clone's: if the log has been given none of the waiting actions, the replica takes another number.
  ///
  /// An entry can also set the number back: replicas have forgotten it, and the log repeats its first entry. Then the
  /// waiting actions would be early forever.
  ///
  /// - Parameter last: The last action that the entry commits or skips; nil if it commits none.
  mutating func isNoClones(_ header: LogEntry.Header, _ actions: [ArraySlice<UInt8>], last: UInt64?) -> Bool {
    if header.writer != writer { return true }
    let isSetBack = last.map { $0 + 1 < outbox.firstPending } ?? false
    if !isSetBack, outbox.hasGiven(actions, from: header.first) { return true }
    guard outbox.isUntouched else { return false }
    renumber()
    return true
  }

  /// Returns the id of a delivered action that is the first one waiting here, and is committed.
  mutating func delivered(
    _ number: UInt64, of writer: UInt64, _ verdict: Fold.Verdict, at time: Duration
  ) -> UInt64? {
    guard writer == self.writer else { return nil }
    switch verdict {
    // An action committed here before, and then forgotten, is none of the waiting ones.
    case .commit where outbox.isEmpty || number != outbox.firstPending: break
    case .commit: return outbox.applied(at: time)
    case .early: outbox.foundGap()
    case .unknown where outbox.firstPending == 1: outbox.foundGap()
    // This writer was forgotten after many other writers.
    case .unknown: renumber()
    case .repeated: break
    }
    return nil
  }

  private mutating func renumber() {
    writer = .random(in: 1 ... .max)
    outbox.renumber()
  }

  mutating func advance(to applied: Applied, isHashed: Bool) {
    self.applied = applied
    if isHashed {
      hashed = (applied.mark, 0)
    } else if let (mark, age) = hashed {
      hashed = age < Self.hashedAgeLimit ? (mark, age + 1) : nil
    }
    head = max(head, applied.mark.position)
  }

  mutating func restate(_ mark: LogEntry.Mark) { applied.mark = mark }
}

/// Gives the log the actions that a tree's stores submit, as `Writing` decides.
final class LogWriter<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let phases: Phases<State, Action>

  init(_ replica: Replica<State, Action>, _ phases: Phases<State, Action>) {
    self.replica = replica
    self.phases = phases
  }

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
      // Detached: the tree's work must not run under a caller's task-local values.
      if standing.writing.watcher == nil { standing.writing.watcher = Task.detached { await self.watch() } }
      return outcome
    }
    if case .success = outcome { pump() }
    return outcome
  }

  /// False if the log has been given the action. Callable from anywhere.
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

  func pump() {
    while true {
      // User code, not called under the lock.
      let now = replica.clock.now
      let next = replica.standing.withLock { standing in
        // A stopped replica writes nothing: its state may be wrong. After the end, the rest has been given up.
        standing.life.isOver ? nil : standing.writing.next(at: now)
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
          // In the tree's turn: an action committed before it is not overdue.
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
