import Histories
import Testing

/// Simulated histories are correct, and changed ones are not.
@Suite struct RandomTests {
  private static let seed = UInt64.random(in: 0 ..< .max - 1_000_000)

  @Test func simulated() {
    var figures = Verdict.Figures()
    for seed in Self.seed..<Self.seed + 100 {
      let verdict = Simulation.recording(seed: seed, steps: 300).history.checked()
      #expect(verdict.isCorrect, "seed \(seed): \(verdict)")
      figures.acknowledged += verdict.figures.acknowledged
      figures.failed += verdict.figures.failed
      figures.unknownTaken += verdict.figures.unknownTaken
      figures.reads += verdict.figures.reads
      figures.torn += verdict.figures.torn
      figures.missing += verdict.figures.missing + verdict.figures.twice
    }
    // Every event is frequent.
    #expect(figures.acknowledged > 1000 && figures.failed > 20 && figures.unknownTaken > 100 && figures.reads > 500)
    #expect(figures.torn > 50 && figures.missing == 0)
  }

  @Test(arguments: Mutation.allCases) func mutated(mutation: Mutation) {
    var changed = 0
    for seed in Self.seed..<Self.seed + 40 {
      var random = SeededGenerator(seed: ~seed)
      var recording = Simulation.recording(seed: seed, steps: 200)
      guard mutation.apply(to: &recording, using: &random) else { continue }
      changed += 1
      let verdict = recording.history.checked()
      #expect(verdict.counts[mutation.expected] != nil, "seed \(seed), \(mutation): \(verdict)")
    }
    #expect(changed > 10, "seed \(Self.seed), \(mutation): only \(changed) could be changed")
  }
}
