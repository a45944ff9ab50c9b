import Histories
import Testing

/// Small random histories, correct or not: the checker's single pass agrees with the pairwise definition.
@Suite struct DefinitionTests {
  private struct Call {
    let name: String
    let writer: Int
    let file: Int
    var from = 0
    var to: Int?
    var position = 0
    var claim: Claim?
  }

  private static let seed = UInt64.random(in: 0 ..< .max - 1_000_000)

  @Test func pairByPair() {
    var (reordered, stale, correct) = (0, 0, 0)
    for seed in Self.seed..<Self.seed + 500 {
      let (calls, order) = Self.calls(seed: seed)
      var script = Script()
      for call in calls {
        let (writer, file) = ("w\(call.writer)", "f\(call.file)")
        if let claim = call.claim, let to = call.to {
          script.read(claim, by: writer, call.from, to, position: call.position, in: file, clock: file)
        } else {
          script.call(call.name, by: writer, call.from, call.to, in: file, clock: file)
        }
      }
      script.replica("r", order, clock: "f0")
      let verdict = script.verdict
      let isReordered = Self.isReordered(calls)
      let isStale = Self.isStale(calls)
      #expect((verdict.counts[.reordered] != nil) == isReordered, "seed \(seed): \(verdict)")
      #expect((verdict.counts[.stale] != nil) == isStale, "seed \(seed): \(verdict)")
      #expect(verdict.isCorrect == (!isReordered && !isStale), "seed \(seed): \(verdict)")
      reordered += isReordered ? 1 : 0
      stale += isStale ? 1 : 0
      correct += verdict.isCorrect ? 1 : 0
    }
    #expect(reordered > 20 && stale > 20 && correct > 20, "seed \(Self.seed): \(reordered), \(stale), \(correct)")
  }

  private static func calls(seed: UInt64) -> ([Call], order: [String]) {
    var random = SeededGenerator(seed: seed)
    var calls = (0..<Int.random(in: 2...6, using: &random)).map { number in
      Call(
        name: "a\(number)", writer: Int.random(in: 0..<3, using: &random), file: Int.random(in: 0..<2, using: &random))
    }
    var from = 0
    for index in calls.indices {
      from += Int.random(in: 1...10, using: &random)
      calls[index].from = from
      calls[index].to = Int.random(in: 0..<5, using: &random) == 0 ? nil : from + Int.random(in: 1...20, using: &random)
    }
    // Sometimes in call order, sometimes nearly.
    var order = calls.map(\.name)
    for _ in 0..<Int.random(in: 0...1, using: &random) {
      order.swapAt(
        Int.random(in: 0..<order.count, using: &random), Int.random(in: 0..<order.count, using: &random))
    }
    for index in calls.indices { calls[index].position = (order.firstIndex(of: calls[index].name) ?? 0) + 1 }
    for _ in 0..<Int.random(in: 0...2, using: &random) {
      from += Int.random(in: 0...5, using: &random)
      // Nearly all results are at this position or before it. The last read shows the end of the order.
      calls.append(
        Call(
          name: "read", writer: Int.random(in: 0..<3, using: &random), file: Int.random(in: 0..<2, using: &random),
          from: from, to: from + 5, position: max(0, order.count - Int.random(in: 0...3, using: &random)),
          claim: Claim.allCases.randomElement(using: &random)))
    }
    for file in 0..<2 {
      calls.append(
        Call(name: "read", writer: 9, file: file, from: 1000, to: 1001, position: order.count, claim: .linearizable))
    }
    return (calls, order)
  }

  private static func isReordered(_ calls: [Call]) -> Bool {
    let actions = calls.filter { $0.claim == nil }
    return actions.indices.contains { one in
      actions.indices.contains { other in
        let (first, second) = (actions[one], actions[other])
        guard first.position > second.position, first.file == second.file else { return false }
        return (first.to.map { $0 < second.from } ?? false) || (first.writer == second.writer && one < other)
      }
    }
  }

  private static func isStale(_ calls: [Call]) -> Bool {
    calls.contains { read in
      calls.contains { other in
        guard let claim = read.claim, let to = other.to, to < read.from, other.position > read.position else {
          return false
        }
        switch claim {
        case .committed: return false
        case .ownWrites: return other.file == read.file && other.writer == read.writer
        case .linearizable: return other.file == read.file
        }
      }
    }
  }
}
