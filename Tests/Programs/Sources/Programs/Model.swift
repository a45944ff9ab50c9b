import Puredux

/// The states that the commits of a run produce.
struct Model {
  let program: Program
  let commits: [Action]
  private let ledgers: [[Ledger]]
  /// The root store's slots after each number of commits.
  private let slots: [Keyed<Int, Int>]
  /// The identity of the slots' collection after each commit: new after a write, and an earlier one when that is
  /// restored.
  private let collections: [Int]
  private let paths: [[Int]]

  init(_ program: Program, commits: [Action]) {
    self.program = program
    self.commits = commits
    paths = program.stores.indices.map { program.path(to: $0) }
    var ledgers = program.stores.indices.map { [Ledger(store: $0)] }
    var root = Snapshot(ledgers: [])
    var slots = [root.slots]
    var (collections, kept) = ([0], 0)
    for (place, action) in commits.enumerated() {
      for store in program.stores.indices {
        var ledger = ledgers[store][ledgers[store].count - 1]
        if paths[action.store].contains(store) { ledger.reduce(action) }
        ledgers[store].append(ledger)
      }
      root.fillSlots(by: action)
      slots.append(root.slots)
      var collection = collections[place]
      switch action.change {
      case .keep: kept = collection
      case .bringBack: collection = kept
      case .nothing, .number, .optional:
        let key = Snapshot.slot(writtenBy: action)
        if let key, slots[place][key] != nil || slots[place + 1][key] != nil { collection = place + 1 }
      }
      collections.append(collection)
    }
    self.ledgers = ledgers
    self.slots = slots
    self.collections = collections
  }

  func ledger(of store: Int, after position: Int) -> Ledger { ledgers[store][position] }

  func state(of store: Int, after position: Int) -> Snapshot {
    let ledger = ledgers[store][position]
    let spec = program.stores[store]
    guard spec.parent >= 0 else {
      var root = Snapshot(at: position, ledgers: [ledger])
      root.slots = slots[position]
      return root
    }
    let parent = state(of: spec.parent, after: position)
    return (spec.isOfPart ? parent.part : parent).with(ledger)
  }

  func state(via: Via, after position: Int) -> Snapshot? { via.views(state(of: via.store, after: position)) }

  /// Whether a commit reaches the followers of a store, before the store's own emission rule. A commit that leaves a
  /// part equal does not, unless its action was given to the part's child or to a store below it.
  private func reaches(_ store: Int, commit position: Int) -> Bool {
    let spec = program.stores[store]
    guard spec.parent >= 0 else { return true }
    if spec.isOfPart {
      if paths[commits[position - 1].store].contains(store) { return true }
      let (before, after) = (
        state(of: spec.parent, after: position - 1).part, state(of: spec.parent, after: position).part
      )
      if before == after { return false }
    }
    return reaches(spec.parent, commit: position)
  }

  /// Whether a commit changes the collection, by a write or by restoring another one.
  private func changesSlots(_ position: Int) -> Bool { collections[position] != collections[position - 1] }

  private func bringsBack(_ position: Int) -> Bool { commits[position - 1].change == .bringBack }

  /// Whether a commit writes a key. If it restores another collection, all keys count as written.
  private func writes(_ key: Int, _ position: Int) -> Bool {
    changesSlots(position) && (bringsBack(position) || Snapshot.slot(writtenBy: commits[position - 1]) == key)
  }

  /// Whether a commit reaches the store's own subscribers.
  private func publishes(_ store: Int, commit position: Int) -> Bool {
    let emits = program.stores[store].emits
    return reaches(store, commit: position)
      && (emits == .always
        || emits.publishes(state(of: store, after: position - 1), state(of: store, after: position)))
  }

  struct KeyDelivery {
    var position: Int
    var state: Snapshot
    /// Whether it must be yielded; otherwise it may be.
    var isDue: Bool
  }

  /// The deliveries of a scope of a key, in a store that leaves out commits, to a subscriber that subscribes after
  /// `first` commits. A write in a commit that is left out counts with the next commit that is not. That commit may
  /// yield nothing if it restores the collection shown last. It may yield the same value again to a subscriber that
  /// came in between.
  func keyDeliveries(via: Via, key: Int, from first: Int) -> [KeyDelivery] {
    var deliveries: [KeyDelivery] = []
    if let state = state(via: via, after: first) {
      deliveries.append(KeyDelivery(position: first, state: state, isDue: true))
    }
    if paths[via.store].contains(where: { program.stores[$0].isOfPart }) { return deliveries }
    var shown = stride(from: first, to: 0, by: -1).first { publishes(via.store, commit: $0) } ?? 0
    var seen = slots[first][key]
    for position in (first + 1)..<(commits.count + 1) where publishes(via.store, commit: position) {
      let left = shown + 1...position
      shown = position
      let isNew = slots[position][key] != seen
      seen = slots[position][key]
      let isBroughtBack = left.contains { bringsBack($0) }
      let isWritten = left.contains { $0 > first && writes(key, $0) }
      // After more copies than a collection remembers, all keys count as written.
      let mayBe = left.contains { writes(key, $0) } || isBroughtBack || left.count(where: changesSlots) > 8
      guard isNew || isWritten || mayBe, let state = state(via: via, after: position) else { continue }
      deliveries.append(
        KeyDelivery(position: position, state: state, isDue: isNew || isWritten && !isBroughtBack))
    }
    return deliveries
  }

  /// The elements of a subscription made after `first` commits, regardless of its buffering.
  func deliveries(
    via: Via, filter: Filter, from first: Int
  ) -> [(position: Int, state: Snapshot)] {
    var deliveries: [(position: Int, state: Snapshot)] = []
    let hasSlots = !paths[via.store].contains { program.stores[$0].isOfPart }
    for position in first...commits.count {
      if position > first {
        guard publishes(via.store, commit: position) else { continue }
        if let key = via.views.key, !hasSlots || !writes(key, position) { continue }
      }
      guard let seen = state(via: via, after: position) else { continue }
      if let last = deliveries.last, filter.areEqual(last.state, seen) { continue }
      deliveries.append((position, seen))
    }
    return deliveries
  }

  /// The positions of the commits that pass through a store.
  func positions(through store: Int) -> [Int] {
    commits.indices.filter { paths[commits[$0].store].contains(store) }.map { $0 + 1 }
  }
}
