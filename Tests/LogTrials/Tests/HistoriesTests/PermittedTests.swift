import Histories
import Testing

/// Events that a correct history may contain.
@Suite struct PermittedTests {
  private func expectCorrect(
    _ script: Script, sourceLocation: SourceLocation = #_sourceLocation
  ) -> Verdict {
    let verdict = script.verdict
    #expect(verdict.isCorrect, "\(verdict)", sourceLocation: sourceLocation)
    return verdict
  }

  @Test func nothing() {
    #expect(History().checked().isCorrect)
    var script = Script()
    script.add(to: "a")
    #expect(expectCorrect(script).figures == Verdict.Figures.with { $0.files = 1 })
  }

  @Test func figures() {
    var script = Script()
    script.call("a", 10, 20, position: 1)
    script.call("b", 30, 40, .failed)
    script.call("c", 50, 60, .unknown)
    script.call("d", 70, nil)
    script.call("e", 80, 95)
    script.read(.linearizable, 100, 110, position: 3)
    script.replica("r1", ["a", "d", "e"])
    script.replica("r2", ["a", "d"])
    #expect(
      expectCorrect(script).figures
        == Verdict.Figures.with {
          $0.files = 3; $0.acknowledged = 2; $0.failed = 1; $0.unknown = 2; $0.unknownTaken = 1; $0.reads = 1;
          $0.incarnations = 2; $0.positions = 3; $0.longestStall = 75; $0.longestStallFile = "writers"
        })
  }

  @Test func unknownThatComesLater() {
    var script = Script()
    script.call("a", by: "w1", 10, 20, .unknown)
    script.call("b", by: "w2", 30, 40)
    script.call("c", by: "w2", 50, 60)
    script.replica("r", ["b", "a", "c"])
    #expect(expectCorrect(script).figures.unknownTaken == 1)
  }

  @Test func callsAtTheSameTimeInEitherOrder() {
    var script = Script()
    script.call("a", by: "w1", 10, 30)
    script.call("b", by: "w2", 20, 40)
    script.call("c", by: "w3", 30, 50)
    script.replica("r", ["c", "b", "a"])
    _ = expectCorrect(script)
  }

  @Test func triedAgain() {
    var script = Script()
    script.call("a", by: "w1", 10, 20, .failed)
    script.call("a", by: "w1", 30, 40, .unknown)
    script.call("b", by: "w2", 50, 60)
    script.call("a", by: "w1", 70, 80)
    script.replica("r", ["b", "a"])
    #expect(expectCorrect(script).figures.acknowledged == 2)
  }

  /// The call between the two attempts may precede or follow either.
  @Test func triedAgainAroundAnother() {
    var script = Script()
    script.call("a", 10, 20, .unknown)
    script.call("b", 30, 40)
    script.call("a", 50, 60)
    script.replica("r", ["b", "a"])
    _ = expectCorrect(script)
  }

  @Test func replicaFromASnapshot() {
    var script = Script()
    for (index, action) in ["a", "b", "c"].enumerated() { script.call(action, index * 10, index * 10 + 5) }
    script.replica("r1", ["a", "b"])
    script.replica("r2", behind: ["a"], ["b", "c"])
    script.replica("r3", behind: ["a", "b", "c"], [])
    _ = expectCorrect(script)
  }

  /// The replica had applied and saved the second action when it ended. Another replica shows the action.
  @Test func crashBetweenApplicationAndRecord() {
    var script = Script()
    script.call("a", 10, 20)
    script.call("b", 30, 40, position: 2, hash: Script.hash(["a", "b"]))
    script.call("c", 50, 60)
    script.replica("r", ["a"])
    script.replica("r", behind: ["a", "b"], ["c"])
    script.replica("other", ["a", "b"])
    _ = expectCorrect(script)
  }

  /// No replica shows the action. Only its acknowledgement names a position, which nobody has recorded.
  @Test func positionsThatNobodyRecorded() {
    var script = Script()
    script.call("a", 10, 20)
    script.call("b", 30, 40, position: 2)
    script.call("c", 50, 60)
    script.replica("r", ["a"])
    script.replica("r", behind: ["a", "b"], ["c"])
    #expect(expectCorrect(script).notes == ["positions after 1 up to 2 were not recorded"])
  }

  @Test func positionsWithGapsAndSeveralActions() {
    var script = Script()
    for (index, action) in ["a", "b", "c"].enumerated() { script.call(action, index * 10, index * 10 + 5) }
    script.replica("r", [])
    script.add(
      .applied(replica: "r", position: 3, actions: ["a", "b"], hash: 1),
      .applied(replica: "r", position: 4, actions: [], hash: 1),
      .applied(replica: "r", position: 900, actions: ["c"], hash: 2), to: "r")
    _ = expectCorrect(script)
  }

  @Test func clocksOfTwoMachines() {
    var script = Script()
    script.call("a", 1000, 1100, in: "one", clock: "one")
    script.call("b", 10, 20, in: "two", clock: "two")
    script.read(.linearizable, 30, 40, position: 0, in: "three", clock: "three")
    script.replica("r", ["a", "b"], clock: "two")
    _ = expectCorrect(script)
  }

  /// The files have the same writers' names and call numbers.
  @Test func writersOfTheSameName() {
    var script = Script()
    script.add(
      .invocation(call: 1, writer: "w", action: "a", at: 10), .invocation(call: 2, writer: "w", action: "b", at: 20),
      to: "one")
    script.add(.invocation(call: 1, writer: "w", action: "c", at: 10), to: "two")
    script.replica("r", ["a", "c", "b"])
    _ = expectCorrect(script)
  }

  @Test func readsThatClaimLess() {
    var script = Script()
    script.call("a", by: "w1", 10, 20)
    script.call("b", by: "w2", 30, 40)
    script.read(.ownWrites, by: "w1", 50, 60, position: 1)
    script.read(.committed, by: "w1", 70, 80, position: 0, hash: Script.hash([]))
    script.read(.linearizable, by: "w1", 25, 90, position: 1, hash: Script.hash(["a"]))
    script.replica("r", ["a", "b"])
    #expect(expectCorrect(script).figures.reads == 3)
  }

  @Test func tornLastLine() {
    var script = Script()
    script.call("a", 10, 20)
    script.call("b", 30, 40)
    script.replica("r1", ["a", "b"])
    script.replica("r2", ["a", "b"])
    for file in script.files {
      let lines = file.events.flatMap(\.line)
      var history = History()
      for other in script.files where other.name != file.name {
        history.add(other.events.flatMap(\.line), named: other.name)
      }
      let last = file.events.last?.line.count ?? 0
      // Up to the line's last byte, the newline.
      for missing in 1..<last {
        var history = history
        history.add(lines.dropLast(missing), named: file.name)
        let verdict = history.checked()
        #expect(verdict.isCorrect && verdict.figures.torn == 1, "\(verdict)")
        #expect(verdict.notes == ["the last line of \(file.name) is torn"])
      }
    }
  }

  /// Canonically equivalent texts are two names.
  @Test func namesOfOtherBytes() {
    var script = Script()
    script.call("\u{E9}", 10, 20)
    script.call("e\u{301}", 30, 40)
    script.replica("r", ["\u{E9}", "e\u{301}"])
    #expect(expectCorrect(script).figures.acknowledged == 2)
  }

  @Test func timesFarApart() {
    var script = Script()
    script.call("a", -.max, -.max)
    script.call("b", .max, .max)
    script.replica("r", ["a", "b"])
    #expect(expectCorrect(script).figures.longestStall == .max)
  }

  /// The first attempt may have had an effect; the second certainly had none.
  @Test func refusedAttemptAfterAnother() {
    var script = Script()
    script.call("a", by: "w1", 10, 20, .unknown)
    script.call("b", by: "w2", 30, 40)
    script.call("a", by: "w1", 50, 60, .failed)
    script.replica("r", ["a", "b"])
    _ = expectCorrect(script)
  }
}
