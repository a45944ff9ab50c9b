import Puredux

/// What the commits of a run make of the states, one after the other.
struct Model {
  let program: Program
  let commits: [Action]
  /// The ledger of each store after each number of commits.
  private let ledgers: [[Ledger]]
  /// What the root store keeps by keys after each number of commits.
  private let slots: [Keyed<Int, Int>]
  private let paths: [[Int]]

  init(_ program: Program, commits: [Action]) {
    self.program = program
    self.commits = commits
    paths = program.stores.indices.map { program.path(to: $0) }
    var ledgers = program.stores.indices.map { [Ledger(store: $0)] }
    var root = Snapshot(ledgers: [])
    var slots = [root.slots]
    for action in commits {
      for store in program.stores.indices {
        var ledger = ledgers[store][ledgers[store].count - 1]
        if paths[action.store].contains(store) { ledger.reduce(action) }
        ledgers[store].append(ledger)
      }
      root.fillSlots(by: action)
      slots.append(root.slots)
    }
    self.ledgers = ledgers
    self.slots = slots
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

  /// Whether a commit reaches the followers of a store, whatever it leaves out itself: not one that leaves a part as it
  /// is, but for what is given to the child of the part or to a store below it.
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

  /// Whether one of some commits writes a key.
  private func isWritten(_ key: Int, by positions: some Sequence<Int>) -> Bool {
    positions.contains { position in
      let action = commits[position - 1]
      guard Snapshot.slot(writtenBy: action) == key else { return false }
      return slots[position - 1][key] != nil || slots[position][key] != nil
    }
  }

  /// What a subscription yields that takes its place after some commits, without regard to what is kept for it.
  func deliveries(
    via: Via, filter: Filter, from first: Int
  ) -> [(position: Int, state: Snapshot)] {
    var deliveries: [(position: Int, state: Snapshot)] = []
    let emits = program.stores[via.store].emits
    let hasSlots = !paths[via.store].contains { program.stores[$0].isOfPart }
    var reached = first
    for position in first...commits.count {
      let state = state(of: via.store, after: position)
      if position > first {
        guard reaches(via.store, commit: position) else { continue }
        if emits != .always, !emits.publishes(self.state(of: via.store, after: position - 1), state) { continue }
        let commits = reached + 1...position
        reached = position
        if let key = via.views.key, !hasSlots || !isWritten(key, by: commits) { continue }
      }
      guard let seen = via.views(state) else { continue }
      if let last = deliveries.last, filter.areEqual(last.state, seen) { continue }
      deliveries.append((position, seen))
    }
    return deliveries
  }

  /// The commits that pass through a store, by position.
  func positions(through store: Int) -> [Int] {
    commits.indices.filter { paths[commits[$0].store].contains(store) }.map { $0 + 1 }
  }
}
