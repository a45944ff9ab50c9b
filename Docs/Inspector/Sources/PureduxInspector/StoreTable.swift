import Puredux
import Synchronization

/// The open trees, and the last ended ones.
final class StoreTable: Sendable {
  /// The trees with the same remainder of their numbers. Sharding reduces lock contention between trees.
  private final class Shard: Sendable {
    let stores = Mutex<[Int: WatchedStore]>([:])
  }

  /// The number of ended trees that are kept.
  static let endedLimit = 20

  private let limit: Int
  private let commitLimit: Int
  private let shards = (0..<64).map { _ in Shard() }
  /// The number of trees in the table, and the number of open trees.
  private let count = Atomic(0)
  private let openCount = Atomic(0)
  /// The numbers of ended trees, in the order of their ends.
  private let ended = Mutex<[Int]>([])

  init(limit: Int, commitLimit: Int) {
    self.limit = max(limit, 1)
    self.commitLimit = commitLimit
  }

  private func shard(_ number: Int) -> Shard { shards[number & 63] }

  subscript(number: Int) -> WatchedStore? { shard(number).stores.withLock { $0[number] } }

  /// The entry of an open tree. If the table was full when the tree was opened, the entry is added as soon as there is
  /// room.
  func entry(of store: InstrumentedStore) -> WatchedStore? {
    self[store.number] ?? (count.load(ordering: .relaxed) < limit ? add(store) : nil)
  }

  /// All entries, in the order of opening.
  var all: [WatchedStore] {
    shards.flatMap { $0.stores.withLock { Array($0.values) } }.sorted { $0.number < $1.number }
  }

  /// The number of open trees that are not in the table.
  func unlistedCount(beside listed: [WatchedStore]) -> Int {
    max(0, openCount.load(ordering: .relaxed) - listed.count { $0.isOpen })
  }

  func newest(named name: String, without store: StoreID) -> WatchedStore? {
    all.last { $0.name == name && $0.isOpen && !$0.shows(store) }
  }

  func opened(_ store: InstrumentedStore) {
    openCount.add(1, ordering: .relaxed)
    removeEnded()
    add(store)
  }

  func closed(_ store: InstrumentedStore) {
    openCount.subtract(1, ordering: .relaxed)
    guard let entry = self[store.number] else { return }
    entry.noteEnd()
    ended.withLock { $0.append(store.number) }
    removeEnded()
  }

  @discardableResult private func add(_ store: InstrumentedStore) -> WatchedStore? {
    guard count.wrappingAdd(1, ordering: .relaxed).newValue <= limit else {
      count.subtract(1, ordering: .relaxed)
      return nil
    }
    let made = WatchedStore(store, commitLimit: commitLimit)
    let there = shard(store.number).stores.withLock { stores in
      let there = stores[store.number]
      if there == nil { stores[store.number] = made }
      return there
    }
    if there != nil { count.subtract(1, ordering: .relaxed) }
    return there ?? made
  }

  /// Removes ended trees above their limit, or to make room for open trees.
  private func removeEnded() {
    let room = max(0, min(Self.endedLimit, limit - openCount.load(ordering: .relaxed)))
    let numbers = ended.withLock { ended in
      let numbers = ended.prefix(max(0, ended.count - room))
      ended.removeFirst(numbers.count)
      return numbers
    }
    for number in numbers {
      let removed = shard(number).stores.withLock { $0.removeValue(forKey: number) }
      if removed != nil { count.subtract(1, ordering: .relaxed) }
    }
  }
}
