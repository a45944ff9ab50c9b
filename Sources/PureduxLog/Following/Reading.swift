/// The decisions about entries of a log, as far as they are known.
///
/// Invariant: an entry is in `skipped` exactly if, by all known decisions together, it is skipped. A pure value.
struct Decisions {
  /// The positions of the known decisions, each with the position of the entry that it is about.
  private var found: [UInt64: UInt64] = [:]
  /// The entries that are skipped, each with the position of the decision that counts.
  private(set) var skipped: [UInt64: UInt64] = [:]

  /// The position of the last decision that counts; 0 without any.
  var last: UInt64 { skipped.values.max() ?? 0 }

  mutating func find(_ found: [UInt64: UInt64]) {
    if found.isEmpty { return }
    self.found.merge(found) { $1 }
    skipped = LogEntry.skipped(by: self.found)
  }

  /// As if the decision were taken back at the end of the log.
  mutating func disregard(_ decision: UInt64) {
    var end = UInt64.max
    while found[end] != nil { end -= 1 }
    find([end: decision])
  }

  /// Whether every writer had the same state at a position. Between a skipped entry and its decision other writers had
  /// applied the entry, even if the decision was taken back.
  func compares(stateAt position: UInt64) -> Bool {
    found.isEmpty || !found.contains { $0.value <= position && position < $0.key }
  }
}

/// The entries that one replica has applied, and the comparison of its order and states with those of other writers.
///
/// Invariant: between two entries, the fold, the hash and the state of the tree are of the same position. A snapshot is
/// made of such a state only, and only if the state obeys all known decisions. Changed on the tree's executor, except
/// for decisions that are found ahead, and for the notes on snapshots. A pure state machine.
struct Reading {
  private(set) var fold: Fold
  private(set) var decisions = Decisions()
  /// The position at which the store is up to date.
  private(set) var goal: UInt64
  /// How far the log has been searched for decisions: to the goal, before any entry is applied.
  private(set) var searched: UInt64
  var snapshots: SnapshotSchedule
  private let start: UInt64
  /// The number of the function that hashes the states; nil if states are not compared.
  private let fingerprintVersion: UInt32?
  /// Decides after which entries the state is hashed.
  private var sampling: FingerprintSampling
  /// Whether actions have been applied after the last entry that carries the hash of the state that they have led to.
  private var isUnattested = false
  /// The entry whose last action is being applied, with which the store may end.
  private(set) var ending: (outline: Outline, isSkipped: Bool)?

  init(_ stored: Fold, goal: UInt64, fingerprintVersion: UInt32?) {
    fold = stored
    self.goal = goal
    searched = stored.position
    start = stored.position
    snapshots = SnapshotSchedule(lastPosition: stored.position)
    self.fingerprintVersion = fingerprintVersion
    sampling = FingerprintSampling(commits: stored.commits)
  }

  // MARK: How far

  var position: UInt64 { fold.position }
  /// How many positions have been applied since the store was opened.
  var replayed: UInt64 { position - start }
  /// The phase of the recovery; nil if it is over.
  var recovering: LogStatistics.Phase? { position < goal ? .recovering(replayed, of: goal - start) : nil }

  /// Whether the log is sealed for rules that the program does not know, and the store has all entries that it may
  /// apply. The entries of the recovery are read to their end, because decisions behind the seal count.
  func isOver(at position: UInt64, knowing newestRules: UInt32) -> Bool {
    max(fold.sealedRules, fold.rules) > newestRules && position >= goal
  }

  // MARK: Decisions

  /// Notes decisions that were found ahead, in the log up to a position.
  mutating func find(_ found: [UInt64: UInt64], through position: UInt64) {
    decisions.find(found)
    searched = max(searched, position)
  }

  /// Notes decisions that were found ahead. Returns whether an entry is skipped, as far as all known decisions tell.
  ///
  /// - Parameter isOpening: If so, the store is up to date behind these decisions only: no earlier state may be saved.
  mutating func find(_ found: [UInt64: UInt64], about position: UInt64, isOpening: Bool) -> Bool {
    decisions.find(found)
    if isOpening { goal = max(goal, found.keys.max() ?? 0) }
    return decisions.skipped[position] != nil
  }

  mutating func disregard(_ decision: UInt64) { decisions.disregard(decision) }

  /// Notes the decision of an entry that is being applied. Returns whether this replica has skipped the entry that it
  /// is about. If not, no snapshot can be saved.
  mutating func obey(_ decision: UInt64, skipping position: UInt64) -> Bool {
    decisions.find([decision: position])
    return fold.decided.contains(position)
  }

  /// Whether the state at a position is without all entries that are known to be skipped.
  func obeys(at position: UInt64) -> Bool {
    decisions.skipped.keys.allSatisfy { $0 > position || fold.decided.contains($0) }
  }

  // MARK: An entry

  /// Whether an entry is skipped: by decision, or because its writer had not seen the seal before it, and so has
  /// acknowledged it to nobody.
  mutating func skips(_ outline: Outline) -> Bool {
    if decisions.skipped[outline.position] != nil {
      fold.decide(outline.position)
      return true
    }
    guard fold.sealedRules > 0, case .entry(let header) = outline.kind else { return false }
    return header.rules < fold.sealedRules
  }

  /// Why this program cannot apply an entry, if it cannot. All actions of a repeated entry have been committed or
  /// skipped: it can be applied. An entry of which that is not known counts as one with a new action.
  func interruption(by outline: Outline, isSkipped: Bool) -> Interruption? {
    if let failure = outline.failure, !isSkipped {
      guard case .entry(let header) = outline.kind,
        !fold.takes(header.first, count: UInt64(outline.actionCount), of: header.writer)
      else { return .failure(failure, position: outline.position) }
    }
    if case .standIn = outline.kind, position == 0 { return .truncated(position: outline.position) }
    return nil
  }

  /// Applies an entry that has no actions: unreadable bytes, a seal, or the beginning of an epoch.
  mutating func apply(_ kind: Outline.Kind, isSkipped: Bool) {
    switch kind {
    case .unreadable: fold.skip()
    case .seal(let rules): if !isSkipped { fold.seal(rules) }
    case .epoch(let number): if !isSkipped { fold.begin(epoch: number) }
    case .entry, .decision, .standIn, .newerFormat: break
    }
  }

  /// An entry of actions begins, which agrees with this replica.
  mutating func begin(_ outline: Outline, _ header: LogEntry.Header) {
    if outline.actionCount > 0 {
      isUnattested = true
    } else if header.seen.position == position, attests(header) {
      isUnattested = false
    }
  }

  /// The last action of an entry begins.
  mutating func beginLastAction(of outline: Outline, isSkipped: Bool) { ending = (outline, isSkipped) }

  /// - Parameter isCommittable: Whether the action is there, and its entry is not skipped.
  mutating func take(
    _ number: UInt64, of writer: UInt64, at position: UInt64, isCommittable: Bool
  ) -> Fold.Verdict {
    let verdict = fold.take(number, of: writer, at: position)
    if verdict == .commit, !isCommittable { fold.skip() }
    return verdict
  }

  /// All actions of an entry have been applied. Returns whether the state is to be hashed; nil if the entry has ended
  /// before, as the store has ended with its last action.
  mutating func endActions(of outline: Outline) -> FingerprintSampling.Verdict? {
    ending = nil
    return position < outline.position ? sampling.advance(to: fold.commits) : nil
  }

  /// An entry has been applied.
  ///
  /// - Parameters:
  ///   - verdict: The answer of `endActions`.
  ///   - hash: The hash of the state, if it was due.
  mutating func end(
    _ outline: Outline, isSkipped: Bool, _ verdict: FingerprintSampling.Verdict, _ hash: StateHash?
  ) {
    // An entry without actions, or one whose actions were committed before, changes nothing by its rules.
    if case .entry(let header) = outline.kind, !isSkipped, outline.actionCount > 0, outline.failure == nil {
      fold.note(header.rules)
    }
    if let hash { sampling.hashed(size: hash.size) }
    fold.ended(at: outline.position, fingerprint: verdict == .unchanged ? fold.mark.fingerprint : hash?.value)
    snapshots.add(outline.bytes)
  }

  // MARK: Fingerprints

  var isHashed: Bool { fold.mark.fingerprint != 0 }

  /// Whether the present state is to be attested, by an entry without actions: no entry carries its hash.
  var isToBeAttested: Bool { fingerprintVersion != nil && isUnattested && canSave }

  /// Whether an entry carries the hash of a state, by the function that this replica has.
  func attests(_ header: LogEntry.Header) -> Bool {
    fingerprintVersion != nil && header.fingerprintVersion == fingerprintVersion && header.seen.fingerprint != 0
  }

  /// Notes the hash of the present state, which was not due after the last entry, or had no entry before it.
  mutating func restate(_ hash: StateHash?) {
    fold.restate(hash?.value)
    if let hash { sampling.hashed(size: hash.size) }
  }

  /// The order or the state that another writer had at a position is not the one of this replica.
  struct Divergence {
    /// The hashes of the states, if the states differ and not the order.
    let states: LogReport.Fingerprints?
  }

  /// Whether the writer of an entry had come to the same as this replica, as far as that is remembered. The states are
  /// compared if the same function has hashed both. Entries by an older version of this library do not say that: their
  /// states are compared if both versions run at the same time.
  func divergence(from header: LogEntry.Header, at position: UInt64, isSkipped: Bool) -> Divergence? {
    let seen = header.seen
    // A decision to skip the entry covers that its writer had seen other entries than there are.
    guard fold.agrees(with: seen, inState: false) else { return isSkipped ? nil : Divergence(states: nil) }
    let isComparable =
      decisions.compares(stateAt: seen.position)
      && header.fingerprintVersion.map { $0 == fingerprintVersion } ?? (position > goal)
    if !isComparable || fold.agrees(with: seen) { return nil }
    let here = fold.fingerprint(at: seen.position)
    return Divergence(states: here.map { LogReport.Fingerprints(here: $0, there: seen.fingerprint) })
  }

  // MARK: Snapshots

  /// Whether a store may begin with a snapshot of the present state. It lies behind the decisions that it obeys, as
  /// states before them are not compared.
  var canSave: Bool { canSave(at: position) }

  func canSave(at position: UInt64) -> Bool { position >= max(goal, decisions.last) && obeys(at: position) }

  /// Returns the fold of the snapshot that is to be saved now, if one is due.
  mutating func beginSnapshot(afterBytes limit: Int) -> Fold? {
    guard snapshots.isDue(afterBytes: limit), canSave else { return nil }
    snapshots.begin()
    return fold
  }
}
