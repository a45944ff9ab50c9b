import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// G11 on a log that shows every permitted fault. Replicas agree on one order, with every action once, and each
/// writer's actions in the order in which they were accepted.
@Suite struct UnreliableLogTests {
  @Test(
    "on a log that repeats, loses and reorders entries, each action is committed once, in its writer's order",
    .timeLimit(.minutes(15)), arguments: (0..<12).map { _ in UInt64.random(in: 0 ... .max) })
  func unreliable(seed: UInt64) async throws {
    let memory = MemoryLog()
    var options = LogOptions.quick
    options.actionsPerEntry = Int(seed % 5) + 1
    let logs = (0..<3).map { UnreliableLog(memory, seed: seed &+ UInt64($0)) }
    var stores: [LedgerStore] = []
    for log in logs { stores.append(try await ledger(log, options: options)) }
    let count = 60
    try await withThrowingTaskGroup { tasks in
      for (replica, store) in stores.enumerated() {
        tasks.addTask {
          // One task mixes `dispatch` and `send`, which keep their order.
          for number in 0..<count {
            if number % 3 == 0 {
              try await store.send("\(replica) \(number)")
            } else {
              #expect(store.dispatch("\(replica) \(number)") == .enqueued)
            }
          }
        }
      }
      try await tasks.waitForAll()
    }
    var ledgers: [Ledger] = []
    for store in stores { ledgers.append(await store.state { $0.entries.count >= count * stores.count }) }
    for ledger in ledgers { #expect(ledger == ledgers[0], "seed \(seed)") }
    for replica in stores.indices {
      let own = ledgers[0].entries.filter { $0.hasPrefix("\(replica) ") }
      #expect(own == (0..<count).map { "\(replica) \($0)" }, "seed \(seed)")
    }
    for store in stores { await store.shutdown() }
    #expect(await (try ledger(memory)).state == ledgers[0], "seed \(seed)")
  }

  @Test("an entry that others would overtake is delivered even if nothing else is appended", .timeLimit(.minutes(15)))
  func overtakenByNothing() async throws {
    var rates = UnreliableLog.Rates()
    (rates.lost, rates.unacknowledged, rates.repeated, rates.overtaken, rates.broken) = (0, 0, 0, 100, 0)
    let log = MemoryLog()
    let store = try await ledger(log, options: .once)
    try await store.send("a")
    await store.shutdown()
    let copy = MemoryLog()
    #expect(try await log.copy(to: UnreliableLog(copy, seed: 1, rates: rates)).added > 0)
  }

  @Test(
    "a store on an unreliable log reads its own accepted actions, through children and proxies",
    .timeLimit(.minutes(15)), arguments: (0..<6).map { _ in UInt64.random(in: 0 ... .max) })
  func ownWrites(seed: UInt64) async throws {
    let store = try await ledger(UnreliableLog(MemoryLog(), seed: seed))
    let child = store.childStore(initialState: 0) { count, _ in count += 1 }
    let scope = child.scope { $0.0.entries.count }
    let projection = store.projection(action: { (number: Int) in "\(number)" }, state: { $0.entries.count })
    var total = 0
    for number in 0..<30 {
      switch number % 4 {
      case 0: store.dispatch("root")
      case 1: child.dispatch("child")
      case 2: projection.dispatch(number)
      default: try await scope.send("scope")
      }
      total += 1
      if number % 5 == 0 { #expect(try await scope.state == total, "seed \(seed)") }
    }
    let (ledger, own) = await child.state
    #expect(ledger.entries.count == total, "seed \(seed)")
    #expect(own == ledger.entries.count { $0 == "child" || $0 == "scope" }, "seed \(seed)")
    await store.shutdown()
  }
}
