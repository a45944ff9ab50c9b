import Puredux

/// The known decisions about a log's entries. A pure value.
///
/// Invariant: `skipped` has exactly the entries that they together skip.
struct Decisions {
  private var found: [UInt64: UInt64] = [:]
  private(set) var skipped: [UInt64: UInt64] = [:]

  var last: UInt64 { skipped.values.max() ?? 0 }

  mutating func find(_ found: [UInt64: UInt64]) {
    if found.isEmpty { return }
    self.found.merge(found) { $1 }
    skipped = LogEntry.skipped(by: self.found)
  }

  mutating func disregard(_ decision: UInt64) {
    var end = UInt64.max
    while found[end] != nil { end -= 1 }
    find([end: decision])
  }

  /// Whether all writers had the same state at a position. Between a skipped entry and its decision, other writers had
  /// applied the entry, even if the decision was taken back.
  func compares(stateAt position: UInt64) -> Bool {
    found.isEmpty || !found.contains { $0.value <= position && position < $0.key }
  }
}

/// The entries that one replica has applied, and the comparison of its order and states with other writers'. A pure
/// state machine.
///
/// Invariant: between two entries, the fold, the hash and the tree's state have the same position. Snapshots are made
/// only then, of a state that obeys all known decisions. Changed on the tree's executor, except by decisions found
/// ahead and notes on snapshots.
struct Reading {
  private(set) var fold: Fold
  private(set) var decisions = Decisions()
  private(set) var goal: UInt64
  /// How far the log was searched for decisions: to the goal before any entry is applied.
  private(set) var searched: UInt64
  var snapshots: SnapshotSchedule
  private let start: UInt64
  private let fingerprintVersion: UInt32?
  private var sampling: FingerprintSampling
  /// Whether no entry yet carries the hash of the state after the last applied actions.
  private var isUnattested = false
  /// The entry whose last action is being applied: the store may end with it.
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
  var replayed: UInt64 { position - start }
  var recovering: LogStatistics.Phase? { position < goal ? .recovering(replayed, of: goal - start) : nil }

  /// Whether the log is sealed for unknown rules, and the store has all entries that it may apply. The recovery still
  /// reads to its end, because decisions after the seal count.
  func isOver(at position: UInt64, knowing newestRules: UInt32) -> Bool {
    max(fold.sealedRules, fold.rules) > newestRules && position >= goal
  }

  // MARK: Decisions

  mutating func find(_ found: [UInt64: UInt64], through position: UInt64) {
    decisions.find(found)
    searched = max(searched, position)
  }

  /// Notes decisions found ahead. Returns whether all known ones together skip an entry.
  ///
  /// - Parameter isOpening: If true, no state before these decisions may be saved, and the recovery extends to them.
  mutating func find(_ found: [UInt64: UInt64], about position: UInt64, isOpening: Bool) -> Bool {
    decisions.find(found)
    if isOpening { goal = max(goal, found.keys.max() ?? 0) }
    return decisions.skipped[position] != nil
  }

  mutating func disregard(_ decision: UInt64) { decisions.disregard(decision) }

  /// Notes the decision being applied. Returns whether this replica has skipped its entry; if not, no snapshot can be
  /// saved.
  mutating func obey(_ decision: UInt64, skipping position: UInt64) -> Bool {
    decisions.find([decision: position])
    return fold.decided.contains(position)
  }

  /// Whether the state at a position excludes all entries known to be skipped.
  func obeys(at position: UInt64) -> Bool {
    decisions.skipped.keys.allSatisfy { $0 > position || fold.decided.contains($0) }
  }

  // MARK: An entry

  /// Whether an entry is skipped: by decision, or because its rules are older than the last seal's. In the second case
  /// its writer had not seen the seal, and has acknowledged it to nobody.
  mutating func skips(_ outline: Outline) -> Bool {
    if decisions.skipped[outline.position] != nil {
      fold.decide(outline.position)
      return true
    }
    guard fold.sealedRules > 0, case .entry(let header) = outline.kind else { return false }
    return header.rules < fold.sealedRules
  }

  /// Why this program cannot apply an entry. It can apply a repeated entry, whose actions have all been committed or
  /// skipped. If that is unknown, the entry counts as new.
  func interruption(by outline: Outline, isSkipped: Bool) -> Interruption? {
    if let failure = outline.failure, !isSkipped {
      guard case .entry(let header) = outline.kind, last(of: outline, header) == nil else {
        return .failure(failure, position: outline.position)
      }
    }
    if case .standIn = outline.kind, position == 0 { return .truncated(position: outline.position) }
    return nil
  }

  /// The number of the last action that an entry commits or skips; nil if all of them have been before.
  func last(of outline: Outline, _ header: LogEntry.Header) -> UInt64? {
    let count = UInt64(outline.actionCount)
    return fold.takes(header.first, count: count, of: header.writer) ? header.first + count - 1 : nil
  }

  mutating func apply(_ kind: Outline.Kind, isSkipped: Bool) {
    switch kind {
    case .unreadable: fold.skip()
    case .seal(let rules): if !isSkipped { fold.seal(rules) }
    case .epoch(let number): if !isSkipped { fold.begin(epoch: number) }
    case .entry, .decision, .standIn, .newerFormat: break
    }
  }

  mutating func begin(_ outline: Outline, _ header: LogEntry.Header) {
    if outline.actionCount > 0 {
      isUnattested = true
    } else if header.seen.position == position, attests(header) {
      isUnattested = false
    }
  }

  mutating func beginLastAction(of outline: Outline, isSkipped: Bool) { ending = (outline, isSkipped) }

  mutating func take(
    _ number: UInt64, of writer: UInt64, at position: UInt64, isCommittable: Bool
  ) -> Fold.Verdict {
    let verdict = fold.take(number, of: writer, at: position)
    if verdict == .commit, !isCommittable { fold.skip() }
    return verdict
  }

  /// Returns whether the state is to be hashed; nil if the store ended with the entry's last action, and the entry
  /// before this call.
  mutating func endActions(of outline: Outline) -> FingerprintSampling.Verdict? {
    ending = nil
    return position < outline.position ? sampling.advance(to: fold.commits) : nil
  }

  mutating func end(
    _ outline: Outline, isSkipped: Bool, _ verdict: FingerprintSampling.Verdict, _ hash: StateHash?
  ) {
    // An entry without actions, or one committed before, is not reduced by its rules.
    if case .entry(let header) = outline.kind, !isSkipped, outline.actionCount > 0, outline.failure == nil {
      fold.note(header.rules)
    }
    if let hash { sampling.hashed(size: hash.size) }
    fold.ended(at: outline.position, fingerprint: verdict == .unchanged ? fold.mark.fingerprint : hash?.value)
    snapshots.add(outline.bytes)
  }

  // MARK: Fingerprints

  var isHashed: Bool { fold.mark.fingerprint != 0 }

  /// Whether an entry without actions must carry the present state's hash.
  var isToBeAttested: Bool { fingerprintVersion != nil && isUnattested && canSave }

  func attests(_ header: LogEntry.Header) -> Bool {
    fingerprintVersion != nil && header.fingerprintVersion == fingerprintVersion && header.seen.fingerprint != 0
  }

  mutating func restate(_ hash: StateHash?) {
    fold.restate(hash?.value)
    if let hash { sampling.hashed(size: hash.size) }
  }

  struct Divergence {
    let states: LogReport.Fingerprints?
  }

  /// The difference from an entry's writer, as far as the last marks tell. States are compared if one function hashed
  /// both. An older library's entry does not name its function: it is compared if it is newer than the recovery.
  func divergence(from header: LogEntry.Header, at position: UInt64, isSkipped: Bool) -> Divergence? {
    let seen = header.seen
    // A decision to skip the entry also accepts its writer's other order.
    guard fold.agrees(with: seen, inState: false) else { return isSkipped ? nil : Divergence(states: nil) }
    let isComparable =
      decisions.compares(stateAt: seen.position)
      && header.fingerprintVersion.map { $0 == fingerprintVersion } ?? (position > goal)
    if !isComparable || fold.agrees(with: seen) { return nil }
    let here = fold.fingerprint(at: seen.position)
    return Divergence(states: here.map { LogReport.Fingerprints(here: $0, there: seen.fingerprint) })
  }

  // MARK: Snapshots

  /// Whether a store may begin with a snapshot of the present state. It must be past the decisions that it obeys,
  /// because earlier states are not compared.
  var canSave: Bool { canSave(at: position) }

  func canSave(at position: UInt64) -> Bool { position >= max(goal, decisions.last) && obeys(at: position) }

  mutating func beginSnapshot(afterBytes limit: Int) -> Fold? {
    guard snapshots.isDue(afterBytes: limit), canSave else { return nil }
    snapshots.begin()
    return fold
  }
}
