import Puredux
import PureduxLog
import PureduxLogTesting

package struct RemovalProblem: Error, CustomStringConvertible {
  package let description: String
}

/// A random program: in several processes, stores follow trees of one directory of logs while the trees are removed,
/// mostly before or during their first entry.
package struct RandomRemovals {
  private typealias ListStore = RootStore<[String], String>

  private struct Tree {
    /// Incremented by each removal.
    var number = 0
    var entries: [String] = []
  }

  private struct Opened {
    let key: Int
    let number: Int
    let store: ListStore
  }

  private let seed: UInt64
  private let processes: [any LogDirectory]
  private var random: SeededGenerator
  private var trees = [Tree](repeating: Tree(), count: 3)
  private var stores: [Opened] = []
  private var steps: [String] = []
  private var sent = 0

  /// - Parameter processes: The directory of logs, as opened by each process.
  package init(seed: UInt64, in processes: [any LogDirectory]) {
    self.seed = seed
    self.processes = processes
    random = SeededGenerator(seed: seed)
  }

  package static func run(_ seeds: Range<UInt64>, in processes: [any LogDirectory]) async throws {
    for seed in seeds {
      var program = RandomRemovals(seed: seed, in: processes)
      try await program.run()
    }
  }

  package mutating func run(steps count: Int = 25) async throws {
    for _ in 0..<count { try await step() }
    for opened in stores { try await checkEnd(of: opened) }
    for key in trees.indices { try await processes[0].remove(name(key)) }
  }

  private func name(_ key: Int) -> String { "\(seed)/\(key)" }

  private mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  private func problem(_ text: String) -> RemovalProblem {
    RemovalProblem(description: "seed \(seed): \(text), after \(steps.joined(separator: ", "))")
  }

  private mutating func step() async throws {
    let (key, process) = (below(trees.count), processes[below(processes.count)])
    switch below(10) {
    case 0...3: try await open(key, in: process)
    case 4, 5:
      for _ in 0...below(2) { try await remove(key, in: process) }
    case 6:
      // The tree's first entry may still be on its way.
      if let opened = stores.first(where: { $0.key == key }) {
        steps.append("dispatch to \(key)")
        opened.store.dispatch("on its way")
        try await remove(key, in: process)
      }
    case 7, 8:
      if !stores.isEmpty { try await send(to: stores[below(stores.count)]) }
    default:
      var listed: Set<String> = []
      for try await key in process.keys(prefix: "\(seed)/") { listed.insert(key) }
      let expected = Set(trees.indices.filter { !trees[$0].entries.isEmpty }.map(name))
      guard listed == expected else { throw problem("\(listed) are listed, and not \(expected)") }
    }
  }

  private mutating func open(_ key: Int, in process: any LogDirectory) async throws {
    steps.append("open \(key)")
    let log = process[name(key)]
    let store = try await ListStore(
      following: below(3) == 0 ? UnreliableLog(log, seed: random.next()) : log, initialState: [],
      options: FollowingOptions(log: .quick)
    ) { $0.append($1) }
    let state = await store.state
    guard state == trees[key].entries else { throw problem("\(key) is opened with \(state)") }
    stores.append(Opened(key: key, number: trees[key].number, store: store))
  }

  private mutating func remove(_ key: Int, in process: any LogDirectory) async throws {
    steps.append("remove \(key)")
    try await process.remove(name(key))
    trees[key].number += 1
    trees[key].entries = []
  }

  private mutating func send(to opened: Opened) async throws {
    sent += 1
    let action = "\(sent)"
    steps.append("send to \(opened.key)")
    let isSent: Bool
    do {
      try await opened.store.send(action)
      isSent = true
    } catch {
      isSent = false
    }
    let isThere = opened.number == trees[opened.key].number
    guard isSent == isThere else { throw problem(isSent ? "an action is in a removed tree" : "an action is refused") }
    if isSent { trees[opened.key].entries.append(action) }
  }

  private func checkEnd(of opened: Opened) async throws {
    let tree = trees[opened.key]
    if opened.number == tree.number {
      for await state in opened.store.states() where state == tree.entries { break }
    } else {
      for await phase in opened.store.logPhases() { if case .stopped(.removed) = phase { break } }
      guard case .stopped(.removed)? = await opened.store.statistics.log?.phase else {
        throw problem("a store of a removed tree has not stopped as that")
      }
    }
    await opened.store.shutdown()
  }
}

/// Removes a tree without entries in one process, while a store and two log objects of another process use it.
///
/// - Parameters:
///   - isEmpty: Whether nothing is left of removed trees that were never used.
///   - whenRemoved: Called after the store has stopped, with a log object that has not noticed the removal.
package func checkRemovalWithoutEntries(
  in here: any LogDirectory, followedIn there: any LogDirectory, isEmpty: () async throws -> Bool,
  whenRemoved: (_ unaware: any OrderedLog) async throws -> Void
) async throws {
  func expect(_ holds: Bool, _ text: String) throws {
    if !holds { throw RemovalProblem(description: text) }
  }
  func failure(of body: () async throws -> Void) async -> (any Error)? {
    do { try await body() } catch { return error }
    return nil
  }
  for number in 0..<3 { try await here.remove("\(number)") }
  try expect(try await isEmpty(), "the removal of trees that nobody uses leaves something")
  let store = try await RootStore<[String], String>(
    following: there["list"], initialState: [], options: FollowingOptions(log: .quick, fingerprint: .unchecked)
  ) { $0.append($1) }
  let (tree, unaware) = (there["list"], there["list"])
  for log in [tree, unaware] { try expect(try await log.head() == 0, "the tree has an entry") }
  try expect(try await all(here.keys(prefix: "")).isEmpty, "a tree without entries is in the list")
  try await here.remove("list")
  for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
  let sending = await failure { try await store.send("late") }
  try expect(sending as? StoreError == .stopped(.removed), "a send in a removed tree: \(String(describing: sending))")
  await store.shutdown()
  try await whenRemoved(unaware)
  let reading = await failure { for try await _ in tree.records(after: 0) {} }
  try expect(reading as? LogError == .removed, "a reading of a removed tree: \(String(describing: reading))")
  let asking = await failure { _ = try await tree.head() }
  try expect(asking as? LogError == .removed, "the head of a removed tree: \(String(describing: asking))")
  try expect(try await all(there.keys(prefix: "")).isEmpty, "a removed tree is in the list")
  try expect(try await there["list"].head() == 0, "the next tree has an entry")
}
