import Foundation
import Puredux
import PureduxLog
import PureduxSimulation
import Testing

/// Clients append numbers to a ledger on three servers, which crash, pause and lose their connection to the log.
@Suite(.serialized, .timeLimit(.minutes(60))) struct LedgerTests {
  private static let count = ProcessInfo.processInfo.environment["PUREDUX_WORLDS"].flatMap { UInt64($0) } ?? 300

  struct Ledger: Codable, Sendable {
    var numbers: [Int] = []
  }

  /// The numbers whose `send` has returned, in the order in which it did.
  ///
  /// SAFETY: used only by jobs of one simulation, which run on one thread.
  final class Acknowledged: @unchecked Sendable {
    /// Each with the numbers that were acknowledged before it was sent.
    var numbers: [(number: Int, before: Int)] = []
    /// The numbers whose `send` has thrown an error that excludes a commit.
    var refused: Set<Int> = []
    /// The numbers that one request passes to one store, in order.
    var requests: [[Int]] = []
  }

  @Test func `acknowledged actions are in the log, once, and in order`() async throws {
    let report = try await Simulation(seeds: 1...Self.count) { world in
      let log = world.log(.unreliable)
      let acknowledged = Acknowledged()
      let rare = [
        "a server crashes during a request", "an outcome is unknown", "a store stops, because the log was truncated",
      ]
      for name in rare { world.sometimes(name, false) }
      let open: @Sendable (any OrderedLog) async throws -> RootStore<Ledger, Int> = { log in
        var options = FollowingOptions<Ledger, Int>(fingerprint: .encoded)
        options.log.snapshotBytes = 500
        options.log.truncatesBehindSnapshots = true
        options.onPhase = { phase in
          if case .stopped(.unreadable) = phase { return }
          if case .stopped = phase { world.fail("a store stops", details: "\(phase)") }
        }
        return try await RootStore(following: log, initialState: Ledger(), options: options) { $0.numbers.append($1) }
      }
      let servers = (1...3).map { number in
        world.process(
          "server \(number)",
          [
            .crashing(every: .seconds(40)), .pausing(every: .seconds(20), for: .seconds(3)),
            .disconnecting(every: .seconds(30), for: .seconds(5)),
            .clockJumping(every: .seconds(30), by: .seconds(600)),
          ]
        ) { process in
          let store = try await open(log)
          process.offer(store)
          for await case .stopped in store.logPhases() { break }
          // It was cut off while the others truncated the log. Every other stop is a fault.
          world.sometimes(rare[2], true)
          process.crash()
        }
      }
      for client in 0..<6 {
        world.client {
          for place in 0..<10 {
            try await Task.sleep(for: .milliseconds(Int.random(in: 0..<8_000)))
            let number = client * 100 + place
            let before = acknowledged.numbers.count
            let earlier = (0..<Int.random(in: 0...3)).map { 1_000 + number * 3 + $0 }
            acknowledged.requests.append(earlier + [number])
            do {
              try await servers.randomElement()!.call { (store: RootStore<Ledger, Int>) in
                // So the log has several entries of one writer at a time.
                for number in earlier {
                  store.dispatch(number)
                  try await Task.sleep(for: .milliseconds(Int.random(in: 1..<20)))
                }
                try await store.send(number)
              }
              acknowledged.numbers.append((number, before))
            } catch is SimulatedProcess.Crashed {
              world.sometimes(rare[0], true)
            } catch StoreError.outcomeUnknown {
              world.sometimes(rare[1], true)
            } catch StoreError.stopped(.unreadable) {
              acknowledged.refused.insert(number)
            }
          }
        }
      }
      let observed: @Sendable () async throws -> RootStore<Ledger, Int> = { try await open(log.reliable) }
      world.always("no refused number is there", in: observed) { acknowledged.refused.isDisjoint(with: $0.numbers) }
      world.always("each number is there once", in: observed) { Set($0.numbers).count == $0.numbers.count }
      world.eventually("no refused number is there at the end", in: observed) {
        acknowledged.refused.isDisjoint(with: $0.numbers)
      }
      world.eventually("each acknowledged number is there", in: observed) { ledger in
        acknowledged.numbers.allSatisfy { ledger.numbers.contains($0.number) }
      }
      world.eventually("of each request, the first numbers are there, in order", in: observed) { ledger in
        let places = Dictionary(uniqueKeysWithValues: ledger.numbers.enumerated().map { ($1, $0) })
        return acknowledged.requests.allSatisfy { numbers in
          let found = numbers.prefix { places[$0] != nil }.compactMap { places[$0] }
          return found == found.sorted() && numbers.dropFirst(found.count).allSatisfy { places[$0] == nil }
        }
      }
      world.eventually("the log has the order of the acknowledgements", in: observed) { ledger in
        let places = Dictionary(uniqueKeysWithValues: ledger.numbers.enumerated().map { ($1, $0) })
        return acknowledged.numbers.allSatisfy { number, before in
          acknowledged.numbers.prefix(before).allSatisfy { places[$0.number, default: 0] < places[number, default: 0] }
        }
      }
    }.run()
    if Self.count >= 100 { #expect(report.neverReached == []) }
    print("\(report.worlds) worlds, \(report.steps) steps")
  }
}
