import Histories
import Testing

/// Events that a history must not contain, and the names of their violations.
@Suite struct ViolationTests {
  /// Expects violations of one kind, and returns the first one.
  private func expect(
    _ kinds: Violation.Kind..., of script: Script, sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Violation {
    let verdict = script.verdict
    #expect(verdict.kinds == Set(kinds), "\(verdict)", sourceLocation: sourceLocation)
    return try #require(verdict.violations.first { $0.kind == kinds[0] }, sourceLocation: sourceLocation)
  }

  private var calls: Script {
    var script = Script()
    script.call("a", by: "w1", 10, 20)
    script.call("b", by: "w2", 30, 40)
    script.call("c", by: "w1", 50, 60)
    return script
  }

  @Test func lost() throws {
    var script = calls
    script.replica("r", ["a", "c"])
    let violation = try expect(.lost, of: script)
    #expect(violation.actions == ["b"])
    #expect(
      violation.description
        == """
        lost: b (call 2 of w2 in writers, at 30, acknowledged at 40) is in nothing that any replica applied [writers]
        """)
    #expect(script.verdict.figures.missing == 1)
  }

  @Test func lostAll() throws {
    #expect(try expect(.lost, of: calls).actions == ["a"])
    #expect(calls.verdict.figures.missing == 3)
  }

  /// The log lost its end, which a replica had applied, and continued.
  @Test func lostEnd() throws {
    var script = calls
    script.call("d", by: "w2", 70, 80)
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a", "b", "d"], at: 65)
    let violation = try expect(.lost, .diverged, of: script)
    #expect(violation.actions == ["c"] && violation.positions == [3])
    #expect(violation.files == ["writers", "r1"])
    #expect(script.verdict.figures.missing == 1)
  }

  /// The log lost its end and did not continue. Only a read of the log can show that.
  @Test func lostEndThatIsRead() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a", "b"], at: 65)
    #expect(script.verdict.isCorrect)
    script.read(.linearizable, by: "w3", 70, 80, position: 2)
    let violation = try expect(.lost, .stale, of: script)
    #expect(violation.actions == ["c"] && violation.positions == [3, 2])
    #expect(script.verdict.figures.missing == 1)
  }

  @Test func unrecorded() throws {
    var script = calls
    script.replica("r", ["a"])
    script.replica("r", behind: ["a", "b"], ["c"])
    #expect(try expect(.unrecorded, of: script).actions == ["b"])
  }

  @Test func doubled() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c", "b"])
    script.replica("r2", ["a", "b", "c"])
    let violation = try expect(.doubled, of: script)
    #expect(violation.actions == ["b"] && violation.positions == [2, 4])
    #expect(script.verdict.figures.twice == 1)
  }

  @Test func doubledInOneEntry() throws {
    var script = calls
    script.replica("r", ["a", "b"])
    script.add(.applied(replica: "r", position: 3, actions: ["c", "c"], hash: 1), to: "r")
    #expect(try expect(.doubled, of: script).positions == [3, 3])
  }

  @Test func doubledBehindASnapshot() throws {
    var script = calls
    script.replica("r1", ["a", "b"])
    script.replica("r2", behind: ["a", "b"], ["c", "a"])
    let violation = try expect(.doubled, of: script)
    #expect(violation.positions == [1, 4] && violation.files == ["r1", "r2", "writers"])
  }

  @Test func doubledByOne() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a", "a"])
    #expect(try expect(.doubled, .diverged, of: script).files == ["r2", "writers"])
  }

  @Test func unknownDoubled() throws {
    var script = Script()
    script.call("a", 10, nil)
    script.replica("r", ["a", "a"])
    _ = try expect(.doubled, of: script)
  }

  /// Among several writers, an acknowledged action precedes later calls.
  @Test func reorderedInTime() throws {
    var script = calls
    script.replica("r", ["b", "a", "c"])
    let violation = try expect(.reordered, of: script)
    #expect(violation.actions == ["b", "a"] && violation.positions == [1, 2])
    #expect(
      violation.text
        == """
        b (call 2 of w2 in writers, at 30, acknowledged at 40) is at position 1, before a (call 1 of w1 in writers, at \
        10, acknowledged at 20) at position 2, which had been acknowledged before the first was called
        """)
  }

  @Test func unknownReorderedInTime() throws {
    var script = Script()
    script.call("a", by: "w1", 10, 20)
    script.call("b", by: "w2", 30, nil)
    script.replica("r", ["b", "a"])
    _ = try expect(.reordered, of: script)
  }

  /// One writer's actions keep the order of its calls, even if it did not wait.
  @Test func reorderedByWriter() throws {
    var script = Script()
    script.call("a", 10, 100)
    script.call("b", 20, 90)
    script.replica("r", ["b", "a"])
    #expect(try expect(.reordered, of: script).actions == ["b", "a"])
  }

  @Test func reorderedInOneEntry() throws {
    var script = calls
    script.replica("r", [])
    script.add(.applied(replica: "r", position: 1, actions: ["a", "c", "b"], hash: 1), to: "r")
    #expect(try expect(.reordered, of: script).positions == [1, 1])
  }

  @Test func stale() throws {
    var script = calls
    script.read(.linearizable, by: "w3", 70, 80, position: 2)
    script.read(.linearizable, by: "w3", 70, 80, position: 3)
    script.replica("r", ["a", "b", "c"])
    let violation = try expect(.stale, of: script)
    #expect(violation.positions == [2, 3] && violation.actions == ["c"])
  }

  @Test func olderThanAnotherRead() throws {
    var script = Script()
    script.call("a", by: "w1", 10, nil)
    script.read(.linearizable, by: "w2", 20, 30, position: 1)
    script.read(.linearizable, by: "w3", 40, 50, position: 0)
    script.replica("r", ["a"])
    _ = try expect(.stale, of: script)
  }

  @Test func olderThanOwnWrites() throws {
    var script = calls
    script.read(.ownWrites, by: "w2", 70, 80, position: 1)
    script.replica("r", ["a", "b", "c"])
    #expect(try expect(.stale, of: script).actions == ["b"])
  }

  @Test func divergedActions() throws {
    var script = calls
    script.call("d", by: "w3", 0, 100)
    script.replica("r1", ["a", "b", "c", "d"])
    script.replica("r2", ["a", "d", "b"])
    let violation = try expect(.diverged, of: script)
    #expect(violation.positions == [2] && violation.actions == ["d"] && violation.files == ["r2"])
    #expect(violation.text.hasPrefix("r2 in r2 applied d at position 2, where r1 in r1 applied b and has the state "))
    #expect(violation.text.hasSuffix("; 1 more follow"))
  }

  @Test func divergedStates() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a"])
    script.add(.applied(replica: "r2", position: 2, actions: ["b"], hash: 0xBAD), to: "r2")
    #expect(
      try expect(.diverged, of: script).text.hasPrefix("r2 in r2 has the state bad at position 2, where r1 in r1"))
  }

  @Test func divergedSnapshots() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c"])
    script.add(.incarnation(replica: "r2", after: 2, hash: 0xBAD, at: 0), to: "r2")
    #expect(try expect(.diverged, of: script).positions == [2])
    script = calls
    script.replica("r1", ["a", "b", "c"])
    script.add(.incarnation(replica: "r2", after: 0, hash: 0xBAD, at: 0), to: "r2")
    #expect(try expect(.diverged, of: script).positions == [0])
  }

  @Test func divergedReads() throws {
    var script = calls
    script.read(.committed, 70, 80, position: 2, hash: 0xBAD)
    script.replica("r", ["a", "b", "c"])
    #expect(try expect(.diverged, of: script).positions == [2])
  }

  @Test func toldAnotherPosition() throws {
    var script = Script()
    script.call("a", 10, 20, position: 2)
    script.call("b", by: "w2", 10, 20, position: 2, hash: 0xBAD)
    script.replica("r", ["a", "b"])
    let verdict = script.verdict
    #expect(verdict.counts == [.diverged: 2])
    #expect(verdict.violations.map(\.positions) == [[2, 1], [2]])
  }

  @Test func refusedYetApplied() throws {
    var script = calls
    script.call("d", 70, 80, .failed)
    script.replica("r1", ["a", "b", "c", "d"])
    script.replica("r2", ["a", "b", "c", "d"])
    let violation = try expect(.refusedYetApplied, of: script)
    #expect(violation.actions == ["d"] && violation.positions == [4] && script.verdict.counts[violation.kind] == 1)
  }

  @Test func passedOver() throws {
    var script = calls
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a"])
    script.add(.applied(replica: "r2", position: 3, actions: ["c"], hash: Script.hash(["a", "b", "c"])), to: "r2")
    let violation = try expect(.notAPrefix, of: script)
    #expect(violation.positions == [2] && violation.text.hasPrefix("r2 in r2 passed over position 2, where r1"))
  }

  @Test func passedOverByTheFurthest() throws {
    var script = calls
    script.call("d", by: "w2", 70, 80)
    script.replica("r1", ["a", "b", "c"])
    script.replica("r2", ["a"])
    script.add(.applied(replica: "r2", position: 3, actions: ["c"], hash: Script.hash(["a", "b", "c"])), to: "r2")
    script.add(.applied(replica: "r2", position: 4, actions: ["d"], hash: 0), to: "r2")
    #expect(try expect(.notAPrefix, .lost, of: script).files == ["r1"])
  }

  @Test func beganWhereThereIsNothing() throws {
    var script = calls
    script.replica("r1", [])
    for (index, action) in ["a", "b", "c"].enumerated() {
      script.add(.applied(replica: "r1", position: index * 10 + 10, actions: [action], hash: 1), to: "r1")
    }
    script.add(.incarnation(replica: "r2", after: 15, hash: 1, at: 0), to: "r2")
    #expect(try expect(.notAPrefix, of: script).positions == [15])
  }

  @Test func ofNobody() throws {
    var script = calls
    script.replica("r", ["a", "b", "x", "c"])
    #expect(try expect(.ofNobody, of: script).actions == ["x"])
  }

  @Test func readOfNobody() throws {
    var script = calls
    script.read(.committed, 70, 80, position: 4)
    script.replica("r", ["a", "b", "c"])
    #expect(try expect(.ofNobody, of: script).positions == [4])
  }

  @Test func notRising() throws {
    var script = calls
    script.replica("r", ["a", "b", "c"])
    script.add(.applied(replica: "r", position: 3, actions: [], hash: 1), to: "r")
    #expect(try expect(.notRising, of: script).positions == [3, 3])
  }

  @Test func unreadable() throws {
    for (line, why) in [
      ("{\"apply\":\"r\",\"position\":", "this is no event of a history"),
      ("", "this is no event of a history"),
      ("{\"return\":9,\"outcome\":\"acknowledged\",\"at\":1}", "call 9 has not begun, or has returned before"),
      ("{\"return\":4,\"outcome\":\"unknown\",\"at\":69}", "call 4 returns before it began"),
      ("{\"invoke\":4,\"writer\":\"w\",\"action\":\"z\",\"at\":1}", "call 4 is not newer than call 4"),
      ("{\"apply\":\"q\",\"position\":1,\"actions\":[],\"hash\":\"0\"}", "replica q has not begun"),
      ("{\"process\":\"p\",\"clock\":\"c\"}", "it is not the first line"),
    ] {
      var script = calls
      script.call("d", 70, nil)
      script.replica("r", ["a", "b", "c"])
      var history = History()
      for file in script.files {
        history.add(
          file.events.flatMap(\.line) + (file.name == "writers" ? Array("\(line)\n".utf8) : []), named: file.name)
      }
      let verdict = history.checked()
      #expect(verdict.counts == [.unreadable: 1])
      #expect(verdict.violations.map(\.text) == ["line 9: \(why)"])
    }
  }

  /// The check continues after the first violation, and the report is bounded.
  @Test func severalAtOnce() {
    var script = Script()
    for number in 0..<1000 { script.call("lost-\(number)", number * 10, number * 10 + 5) }
    script.replica("r", ["x", "y"])
    let verdict = script.history.checked(limit: 3)
    #expect(verdict.counts == [.lost: 1000, .ofNobody: 2])
    #expect(verdict.violations.count == 5)
    let lines = verdict.description.split(separator: "\n")
    #expect(lines.contains("lost: 997 more"))
    #expect(lines.last == "No order explains it: lost 1000, ofNobody 2")
  }

  // MARK: Several calls of one action

  /// A call that certainly had no effect does not explain the action's place.
  @Test func refusedAttemptBeforeAnother() throws {
    var script = Script()
    script.call("a", by: "w1", 10, 20, .failed)
    script.call("b", by: "w2", 30, 40)
    script.call("a", by: "w1", 50, 60)
    script.replica("r", ["a", "b"])
    #expect(try expect(.reordered, of: script).actions == ["a", "b"])
  }

  @Test func refusedAttemptOfTheSameWriter() throws {
    var script = Script()
    script.call("a", by: "w1", 10, 20, .failed)
    script.call("b", by: "w1", 30, nil)
    script.call("a", by: "w1", 35, nil)
    script.replica("r", ["a", "b"])
    #expect(try expect(.reordered, of: script).actions == ["a", "b"])
  }

  /// Files are read in any order. The earliest acknowledgement counts.
  @Test func acknowledgedEarlierInALaterFile() throws {
    var script = Script()
    script.call("a", by: "w1", 10, 500, in: "one")
    script.call("a", by: "w2", 20, 100, in: "two")
    script.call("b", by: "w3", 200, 300, in: "three")
    script.replica("r", ["b", "a"])
    #expect(try expect(.reordered, of: script).actions == ["b", "a"])
  }

  @Test func acknowledgedByAnotherClock() throws {
    var script = Script()
    script.call("a", by: "w1", 10, 50, in: "one", clock: "one")
    script.call("a", by: "w2", 20, 100, in: "two", clock: "two")
    script.call("b", by: "w3", 200, 300, in: "three", clock: "two")
    script.replica("r", ["b", "a"])
    #expect(try expect(.reordered, of: script).actions == ["b", "a"])
  }

  // MARK: Unrecorded positions

  /// A replica that begins after four entries, which nobody has recorded.
  private var beginsBehind: Script {
    var script = Script()
    script.replica("r", behind: ["a", "b", "c", "d"], ["e"])
    script.call("e", by: "w9", 1000, 1010)
    return script
  }

  @Test func reorderedWhereNobodyRecorded() throws {
    var script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 3)
    script.call("y", by: "w2", 30, 40, position: 2)
    let violation = try expect(.reordered, of: script)
    #expect(violation.actions == ["y", "x"] && violation.positions == [2, 3])
  }

  @Test func reorderedBeforeWhatIsRecorded() throws {
    var script = beginsBehind
    script.call("x", by: "w1", 2000, 2010, position: 3)
    #expect(try expect(.reordered, of: script).actions == ["x", "e"])
  }

  @Test func togetherWhereNobodyRecorded() {
    var script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 3)
    script.call("y", by: "w2", 30, 40, position: 3)
    #expect(script.verdict.isCorrect, "\(script.verdict)")
  }

  @Test func toldTwoPositionsThatNobodyRecorded() throws {
    var script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 2)
    script.call("x", by: "w1", 30, 40, position: 3)
    #expect(try expect(.diverged, of: script).positions == [2, 3])
  }

  @Test func twoStatesThatNobodyRecorded() throws {
    var script = beginsBehind
    script.read(.committed, 10, 20, position: 2, hash: 5)
    script.read(.committed, 30, 40, position: 2, hash: 6)
    #expect(try expect(.diverged, of: script).positions == [2])
    script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 2, hash: 5)
    script.read(.committed, 30, 40, position: 2, hash: 6)
    #expect(try expect(.diverged, of: script).positions == [2])
    script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 4, hash: 5)
    #expect(try expect(.diverged, of: script).actions == ["x"])
  }

  @Test func twoStatesBeforeAllEntries() throws {
    var script = Script()
    script.read(.committed, 10, 20, position: 0, hash: 5)
    script.read(.committed, 30, 40, position: 0, hash: 6)
    #expect(try expect(.diverged, of: script).positions == [0])
  }

  @Test func staleWhereNobodyRecorded() throws {
    var script = beginsBehind
    script.call("x", by: "w1", 10, 20, position: 3)
    script.read(.ownWrites, by: "w1", 30, 40, position: 2)
    #expect(try expect(.stale, of: script).actions == ["x"])
  }

  // MARK: Impossible reads

  @Test func readOfWhatIsCalledLater() throws {
    var script = calls
    script.replica("r", ["a", "b", "c"])
    script.read(.committed, by: "w3", 22, 29, position: 2)
    let violation = try expect(.ofNobody, of: script)
    #expect(violation.actions == ["b"] && violation.positions == [2, 2])
  }

  @Test func stateOfNoPosition() throws {
    var script = calls
    script.replica("r", ["a", "b", "c"])
    script.add(
      .read(call: 9, writer: "w3", claim: .committed, at: 70),
      .response(call: 9, outcome: .acknowledged, position: nil, hash: 5, at: 80), to: "writers")
    _ = try expect(.ofNobody, of: script)
    script = calls
    script.call("d", by: "w3", 70, 80, hash: 5)
    script.replica("r", ["a", "b", "c", "d"])
    #expect(try expect(.diverged, of: script).actions == ["d"])
  }
}
