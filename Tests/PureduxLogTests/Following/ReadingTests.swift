import Puredux
import Testing

@testable import PureduxLog

/// The entries that one replica has applied, without a tree.
@Suite struct ReadingTests {
  private static func header(
    _ first: UInt64 = 1, writer: UInt64 = 8, seen: LogEntry.Mark = .init(), rules: UInt32 = 0, version: UInt32? = 1
  ) -> LogEntry.Header {
    LogEntry.Header(
      writer: writer, first: first, seen: seen, schema: 1, fingerprintVersion: version, rules: rules)
  }

  private static func outline(
    _ position: UInt64, _ kind: Outline.Kind, actions: Int = 0, failure: Outline.Failure? = nil
  ) -> Outline {
    Outline(position: position, bytes: 10, kind: kind, actionCount: actions, failure: failure)
  }

  /// Applies an entry of actions, as the tree would.
  private static func apply(_ outline: Outline, to reading: inout Reading, hash: UInt64? = nil) {
    let isSkipped = reading.skips(outline)
    if case .entry(let header) = outline.kind {
      for offset in 0..<outline.actionCount {
        _ = reading.take(
          header.first + UInt64(offset), of: header.writer, at: outline.position, isCommittable: !isSkipped)
      }
    } else {
      reading.apply(outline.kind, isSkipped: isSkipped)
    }
    guard let verdict = reading.endActions(of: outline) else { return }
    reading.end(outline, isSkipped: isSkipped, verdict, hash.map { StateHash(value: $0, size: 1) })
  }

  @Test("an entry is skipped exactly if all known decisions together say so")
  func decisions() {
    var decisions = Decisions()
    decisions.find([5: 2])
    #expect(decisions.skipped == [2: 5] && decisions.last == 5)
    #expect(!decisions.compares(stateAt: 3) && decisions.compares(stateAt: 1) && decisions.compares(stateAt: 5))
    // A decision about the decision takes it back. States in between are still not compared.
    decisions.find([7: 5])
    #expect(decisions.skipped == [5: 7] && !decisions.compares(stateAt: 3))
    decisions.disregard(7)
    #expect(decisions.skipped[2] == 5 && decisions.skipped[5] == nil)
  }

  @Test("a snapshot is of a state that obeys all known decisions")
  func obeying() {
    var reading = Reading(Fold(), goal: 2, fingerprintVersion: nil)
    Self.apply(Self.outline(1, .entry(Self.header()), actions: 1), to: &reading)
    #expect(!reading.canSave && reading.recovering == .recovering(1, of: 2))
    Self.apply(Self.outline(2, .entry(Self.header(2)), actions: 1), to: &reading)
    #expect(reading.canSave && reading.recovering == nil)
    #expect(reading.beginSnapshot(afterBytes: 20)?.position == 2)
    reading.snapshots.end()
    // A decision about an entry that this replica has applied: no later state may be saved.
    #expect(reading.obey(3, skipping: 2) == false)
    Self.apply(Self.outline(3, .decision(skipping: 2)), to: &reading)
    #expect(!reading.canSave)
    #expect(reading.beginSnapshot(afterBytes: 0) == nil)
    // One that was known before is obeyed.
    var other = Reading(Fold(), goal: 3, fingerprintVersion: nil)
    other.find([3: 2], through: 3)
    for position in [1, 2] as [UInt64] {
      Self.apply(Self.outline(position, .entry(Self.header(position)), actions: 1), to: &other)
    }
    #expect(other.obey(3, skipping: 2) == true)
    #expect(other.fold.decided == [2] && other.fold.skipped == 1)
    Self.apply(Self.outline(3, .decision(skipping: 2)), to: &other)
    #expect(other.canSave)
  }

  @Test("behind a seal an entry of older rules is skipped, and a program that does not know the rules is at its end")
  func sealed() {
    var reading = Reading(Fold(), goal: 1, fingerprintVersion: nil)
    Self.apply(Self.outline(1, .seal(rules: 2)), to: &reading)
    let areSkipped = [1, 2].map { reading.skips(Self.outline(2, .entry(Self.header(rules: $0)), actions: 1)) }
    #expect(areSkipped == [true, false])
    #expect(reading.isOver(at: 1, knowing: 1) && !reading.isOver(at: 1, knowing: 2))
    #expect(!reading.isOver(at: 0, knowing: 1))
  }

  @Test("an entry that this program cannot apply interrupts, unless all of its actions have been there before")
  func interrupted() {
    var reading = Reading(Fold(), goal: 0, fingerprintVersion: nil)
    Self.apply(Self.outline(1, .entry(Self.header()), actions: 1), to: &reading)
    let repeated = Self.outline(2, .entry(Self.header()), actions: 1, failure: .poisoned)
    let new = Self.outline(2, .entry(Self.header()), actions: 2, failure: .poisoned)
    #expect(reading.interruption(by: repeated, isSkipped: false) == nil)
    #expect(reading.interruption(by: new, isSkipped: true) == nil)
    guard case .failure(.poisoned, position: 2) = reading.interruption(by: new, isSkipped: false) else {
      Issue.record("It does not interrupt.")
      return
    }
  }

  @Test("another order diverges always, and another state if the same function has hashed both")
  func diverged() {
    var reading = Reading(Fold(), goal: 0, fingerprintVersion: 1)
    Self.apply(Self.outline(1, .entry(Self.header()), actions: 1), to: &reading, hash: 5)
    var seen = reading.fold.mark
    #expect(reading.divergence(from: Self.header(seen: seen), at: 2, isSkipped: false) == nil)
    seen.fingerprint = 6
    let states = reading.divergence(from: Self.header(seen: seen), at: 2, isSkipped: true)?.states
    #expect(states == LogReport.Fingerprints(here: 5, there: 6))
    #expect(reading.divergence(from: Self.header(seen: seen, version: 2), at: 2, isSkipped: false) == nil)
    seen.chain = 0
    let order = reading.divergence(from: Self.header(seen: seen, version: 2), at: 2, isSkipped: false)
    #expect(order != nil && order?.states == nil)
    // A decision about the entry covers another order.
    #expect(reading.divergence(from: Self.header(seen: seen), at: 2, isSkipped: true) == nil)
  }

  @Test("a state is to be attested from its actions on until an entry carries its hash")
  func attested() {
    var reading = Reading(Fold(), goal: 0, fingerprintVersion: 1)
    let entry = Self.outline(1, .entry(Self.header()), actions: 1)
    reading.begin(entry, Self.header())
    Self.apply(entry, to: &reading, hash: 5)
    #expect(reading.isToBeAttested && reading.isHashed)
    let attesting = Self.header(2, seen: reading.fold.mark)
    reading.begin(Self.outline(2, .entry(attesting)), attesting)
    #expect(!reading.isToBeAttested)
  }

  @Test("an entry ends once, though the store may end with its last action")
  func endedOnce() {
    var reading = Reading(Fold(), goal: 0, fingerprintVersion: nil)
    let entry = Self.outline(1, .entry(Self.header()), actions: 1)
    reading.beginLastAction(of: entry, isSkipped: false)
    #expect(reading.ending?.outline.position == 1)
    Self.apply(entry, to: &reading)
    #expect(reading.endActions(of: entry) == nil)
    #expect(reading.ending == nil && reading.position == 1)
  }

  @Test("the actions of an entry that this program must not apply are not decoded, and leave the others their places")
  func decoded() {
    var options = LogOptions()
    options.newestRules = 1
    let decoder = EntryDecoder<Int>(
      actions: .json(), newestRules: options.newestKnownRules, oldestRules: 0, writer: 8, goal: 0, skipped: [3: 9],
      recovery: nil)
    func record(_ position: UInt64, _ rules: UInt32, _ actions: String...) -> LogRecord {
      LogRecord(
        position: position, bytes: LogEntry.encode(Self.header(rules: rules), actions: actions.map { Array($0.utf8) }))
    }
    let (outlines, actions) = decoder.decode([
      record(1, 0, "1", "2"), record(2, 2, "3"), record(3, 0, "x"), record(4, 0, "y", "4"),
      LogRecord(position: 5, bytes: [0]),
    ])
    #expect(actions == [1, 2, nil, nil, nil, 4])
    #expect(outlines.map(\.actionCount) == [2, 1, 1, 2, 0])
    #expect(outlines.map { $0.failure != nil } == [false, true, false, true, true])
    #expect(outlines.map { $0.own.count } == [2, 0, 0, 2, 0])
  }
}
