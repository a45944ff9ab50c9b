/// What the commits of a run make of the states, one after the other.
struct Model {
  let program: Program
  let commits: [Action]
  /// The ledger of each store after each number of commits.
  private let ledgers: [[Ledger]]
  private let paths: [[Int]]

  init(_ program: Program, commits: [Action]) {
    self.program = program
    self.commits = commits
    paths = program.stores.indices.map { program.path(to: $0) }
    var ledgers = program.stores.indices.map { [Ledger(store: $0)] }
    for action in commits {
      for store in program.stores.indices {
        var ledger = ledgers[store][ledgers[store].count - 1]
        if paths[action.store].contains(store) { ledger.reduce(action) }
        ledgers[store].append(ledger)
      }
    }
    self.ledgers = ledgers
  }

  func ledger(of store: Int, after position: Int) -> Ledger { ledgers[store][position] }

  func state(of store: Int, after position: Int) -> Snapshot {
    Snapshot(at: position, ledgers: paths[store].map { ledgers[$0][position] })
  }

  func state(via: Via, after position: Int) -> Snapshot? { via.views(state(of: via.store, after: position)) }

  /// What a subscription yields that takes its place after some commits, without regard to what is kept for it.
  func deliveries(
    via: Via, filter: Filter, from first: Int
  ) -> [(position: Int, state: Snapshot)] {
    var deliveries: [(position: Int, state: Snapshot)] = []
    let emits = program.stores[via.store].emits
    for position in first...commits.count {
      let state = state(of: via.store, after: position)
      if position > first, emits != .always,
        !emits.publishes(self.state(of: via.store, after: position - 1), state)
      {
        continue
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
