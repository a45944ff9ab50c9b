import Foundation
import Puredux
import PureduxLog
import PureduxSimulation
import Testing

/// Three servers deliver orders: the holder of the lease works. Each server crashes, pauses, loses its connection to the
/// log, and has a wrong clock.
@Suite(.timeLimit(.minutes(60))) struct LeaseTests {
  private static let count = ProcessInfo.processInfo.environment["PUREDUX_WORLDS"].flatMap { UInt64($0) } ?? 100

  struct Shop: Codable, Sendable {
    var lease = Lease()
    var orders: Set<Int> = []
    var pending: [Int] = []
    /// How often each order's delivery was reported in the term of the lease at that time.
    var delivered: [Int: Int] = [:]

    mutating func reduce(_ action: ShopAction) {
      switch action {
      case .claim(let claim): lease.apply(claim)
      case .order(let number): if orders.insert(number).inserted { pending.append(number) }
      case .delivered(let work):
        // A former holder's report.
        guard work.term == lease.term else { return }
        delivered[work.id, default: 0] += 1
        pending.removeAll { $0 == work.id }
      }
    }
  }

  struct Work: Codable, Sendable, Hashable, Identifiable {
    let id: Int
    let term: UInt64
  }

  enum ShopAction: Codable, Sendable {
    case claim(Lease.Claim)
    case order(Int)
    case delivered(Work)
  }

  /// SAFETY: used only by jobs of one simulation, which run on one thread.
  final class Observed: @unchecked Sendable {
    /// The replica that works in each term.
    var workers: [UInt64: UInt64] = [:]
    var works: Set<Work> = []
    var lease = Lease()
    var lastChange = ContinuousClock.now
  }

  @Test func `one replica works in each term, and every order is delivered once`() async throws {
    let report = try await Simulation(seeds: 1...Self.count) { world in
      let log = world.log(.unreliable)
      let observed = Observed()
      world.sometimes("another replica repeats work", false)
      let open: @Sendable (any OrderedLog) async throws -> RootStore<Shop, ShopAction> = { log in
        let options = FollowingOptions<Shop, ShopAction>(
          store: StoreOptions(instrument: world.instrument), fingerprint: .encoded)
        return try await RootStore(following: log, initialState: Shop(), options: options) { $0.reduce($1) }
      }
      let servers = (1...3).map { number in
        world.process(
          "server \(number)",
          [
            .crashing(every: .seconds(60)), .pausing(every: .seconds(60), for: .seconds(20)),
            .disconnecting(every: .seconds(60), for: .seconds(15)),
            .clockJumping(every: .seconds(60), by: .seconds(3_600)),
          ]
        ) { server in
          let store = try await open(log)
          let holding = Leaseholder<Shop, ShopAction>(lease: { $0.lease }, action: ShopAction.claim)
          let deliver = StateEffect<Shop, ShopAction>.forEach({ shop in
            shop.pending.map { Work(id: $0, term: shop.lease.term) }
          }) { work in
            .run { dispatch in
              let worker = observed.workers.updateValue(holding.replica, forKey: work.term)
              if let worker, worker != holding.replica { world.fail("two replicas work in one term") }
              if !observed.works.insert(work).inserted { world.fail("work begins twice in one term") }
              let isRepeated = observed.works.contains { $0.id == work.id && $0 != work }
              world.sometimes("another replica repeats work", isRepeated)
              try await Task.sleep(for: .seconds(Int.random(in: 1..<10)))
              dispatch(.delivered(work))
            }
          }
          holding.hold(store, effects: [deliver])
          server.offer(store)
          for await case .stopped in store.logPhases() { break }
        }
      }
      for number in 1...10 {
        world.client {
          try await Task.sleep(for: .seconds(Int.random(in: 0..<200)))
          while true {
            do {
              return try await servers.randomElement()!.call { (shop: RootStore<Shop, ShopAction>) in
                try await shop.send(.order(number))
              }
            } catch is SimulatedProcess.Crashed {} catch is StoreError {}
            try await Task.sleep(for: .seconds(1))
          }
        }
      }
      world.eventually("every order is delivered", in: { try await open(log.reliable) }) { $0.delivered.count == 10 }
      world.always("each order is delivered once", in: { try await open(log.reliable) }) { shop in
        shop.delivered.allSatisfy { $0.value == 1 }
      }
      world.always("nobody takes a lease that is renewed", in: { try await open(log.reliable) }) { shop in
        let (now, before) = (ContinuousClock.now, observed.lease)
        guard shop.lease != before else { return true }
        defer { (observed.lease, observed.lastChange) = (shop.lease, now) }
        let isTaken = shop.lease.term != before.term && before.holder != nil
        world.sometimes("the lease moves", isTaken)
        return !isTaken || now - observed.lastChange > .seconds(9)
      }
    }.run()
    if Self.count >= 30 { #expect(report.neverReached == []) }
    print("\(report.worlds) worlds, \(report.steps) steps")
  }
}
