import Foundation
import Programs
import PureduxSimulation
import Testing

/// The random programs of `Tests/Programs`, one in each world, in the order of steps that the seed determines. The
/// number of worlds can be set by the environment.
@Suite(.serialized, .timeLimit(.minutes(60))) struct ProgramsTests {
  private static let count = ProcessInfo.processInfo.environment["PUREDUX_WORLDS"].flatMap { UInt64($0) } ?? 1_000

  @Test func `random programs keep every rule`() async throws { try await simulate(1...Self.count) }

  /// In each process, sets and dictionaries have another order.
  @Test func `each random program has one order of steps`() async throws {
    try await simulate(1...max(1, Self.count / 4), checking: .stepsWithRandomHashing)
  }

  private func simulate(
    _ seeds: ClosedRange<UInt64>, checking check: Simulation.Check = .none, function: String = #function,
    fileID: String = #fileID, line: Int = #line
  ) async throws {
    // An executor that shuffles its jobs has a thread of its own, and here all jobs are shuffled.
    let features = Features.all.subtracting(.shuffling)
    let report = try await Simulation(seeds: seeds) { world in
      let program = AnyProgram(seed: world.seed, features: features)
      world.client {
        let failures = await program.run(features: features).failures
        if !failures.isEmpty { world.fail("a rule is broken", details: failures.joined(separator: "\n")) }
      }
    }.run(checking: check, function: function, fileID: fileID, line: line)
    print("\(report.worlds) programs, \(report.steps) steps")
  }
}
