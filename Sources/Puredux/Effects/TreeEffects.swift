/// The tasks of a tree's stores: a runner for each store that has any.
@usableFromInline
final class TreeEffects: Sendable {
  private struct StoreEffects {
    let place: any StorePlace
    var runner: EffectRunner?
    var endings: [Int: @Sendable () -> Void] = [:]

    var isOver: Bool { runner == nil && endings.isEmpty }
  }

  private struct Table {
    var stores: [ObjectIdentifier: StoreEffects] = [:]
    var endingCount = 0

    /// Of the stores that there is something of, a store and those below it. Many stores without any below them, as a server's
    /// connections, are found one by one.
    func stores(below place: any StorePlace) -> [ObjectIdentifier] {
      let id = ObjectIdentifier(place)
      guard place.hasStoresBelow else { return stores[id] == nil ? [] : [id] }
      return stores.filter { $0.value.place.isBelow(place) }.map(\.key)
    }
  }

  private let priority: TaskPriority?
  /// What the tasks are children of, where they are not on their own.
  private let trunk: EffectRunner?
  private let table = Guarded(Table())

  @usableFromInline
  init(priority: TaskPriority? = nil, trunk: EffectRunner? = nil) {
    self.priority = priority
    self.trunk = trunk
  }

  private func spawn(_ run: @escaping EffectRunner.Effect) {
    if let trunk {
      trunk.add(run) { _ in }
    } else {
      Task.detached(priority: priority, operation: run)
    }
  }

  /// Starts a task that belongs to a store. Only on the tree's executor, and while the store has not ended.
  @usableFromInline
  func start(_ work: @escaping @Sendable () async -> Void, of place: any StorePlace) {
    let id = ObjectIdentifier(place)
    let runner = table.withLock { table in
      if let runner = table.stores[id]?.runner { return runner }
      let runner = EffectRunner()
      table.stores[id, default: StoreEffects(place: place)].runner = runner
      return runner
    }
    runner.add(work) { [tree = place.treeID] run in
      spawn {
        let trees = EffectContext.trees.union([tree])
        await EffectContext.$trees.withValue(trees) { await run() }
        self.runnerEnded(of: id)
      }
    }
  }

  private func runnerEnded(of id: ObjectIdentifier) {
    change(id) { $0.runner = nil }
  }

  /// Changes what there is of a store, and drops it where nothing is left.
  private func change(_ id: ObjectIdentifier, _ change: (inout StoreEffects) -> Void) {
    // Returned to be released outside the lock: its place may go with it.
    _ = table.withLock { table -> StoreEffects? in
      guard var store = table.stores[id] else { return nil }
      change(&store)
      return store.isOver ? table.stores.removeValue(forKey: id) : table.stores.updateValue(store, forKey: id)
    }
  }

  /// Has something done when a store ends, after its last commit; at once where it has ended.
  @usableFromInline
  func atEnd(of place: any StorePlace, _ action: @escaping @Sendable () -> Void) -> StoreEnding {
    let ending = table.withLock { table in
      table.endingCount += 1
      let id = ObjectIdentifier(place)
      table.stores[id, default: StoreEffects(place: place)].endings[table.endingCount] = action
      return StoreEnding(place: id, number: table.endingCount)
    }
    // Whoever takes it out does it, so that it is done once: here, or by the end of the store if that is still to come.
    if place.isClosed { take(ending)?() }
    return ending
  }

  /// It does not need to be done any more.
  @usableFromInline
  func forget(_ ending: StoreEnding) {
    _ = take(ending)
  }

  private func take(_ ending: StoreEnding) -> (@Sendable () -> Void)? {
    var action: (@Sendable () -> Void)?
    change(ending.place) { action = $0.endings.removeValue(forKey: ending.number) }
    return action
  }

  /// How many tasks run.
  @usableFromInline
  var runningCount: Int {
    let runners = table.withLock { $0.stores.values.compactMap(\.runner) }
    return runners.reduce(0) { $0 + $1.runningCount }
  }

  /// Ends the effects of a store and of all below it, and does what is to be done at their end.
  @usableFromInline
  func end(below place: any StorePlace, cancelling: Bool) {
    for runner in runners(below: place) { runner.end(cancelling: cancelling) }
    // With their places, which may go here, outside the lock.
    let ended = table.withLock { table in
      table.stores(below: place).compactMap { id -> StoreEffects? in
        guard let store = table.stores[id] else { return nil }
        table.stores[id]?.endings = [:]
        if store.runner == nil { table.stores[id] = nil }
        return store
      }
    }
    for (_, action) in ended.flatMap(\.endings).sorted(by: { $0.key < $1.key }) { action() }
  }

  /// Returns when all effects of a store and of all below it have ended.
  @usableFromInline
  func untilEnded(below place: any StorePlace) async {
    for runner in runners(below: place) { await runner.untilEnded() }
  }

  private func runners(below place: any StorePlace) -> [EffectRunner] {
    table.withLock { table in table.stores(below: place).compactMap { table.stores[$0]?.runner } }
  }
}

extension Origin {
  /// The tasks of the tree's stores. Made under the inbox's lock, so that a store that ends at the same time either finds them or is seen to be
  /// closed by who asked for them.
  @usableFromInline
  var effects: TreeEffects {
    tree.existingEffects
      ?? tree.inbox.withLock { _ in tree.madeExtras.effects { TreeEffects(priority: tree.priority) } }
  }

  /// Ends the tasks of the store and of all below it, where there are any.
  @usableFromInline
  func endEffects(cancelling: Bool) {
    tree.existingEffects?.end(below: self, cancelling: cancelling)
  }
}

/// The trees whose effects the current task is part of: one of them cannot wait for the end of them all.
@usableFromInline
enum EffectContext {
  @TaskLocal static var trees: Set<ObjectIdentifier> = []
}
