import Synchronization

extension Tree {
  @usableFromInline final class Extras: Sendable {
    /// Lives on the tree's executor.
    ///
    /// SAFETY: confined, and so reached only from the tree's isolation, where the reentrancy guard admits one caller at
    /// a time (`Tree.enter`). An access copies a value out, sets it, or exchanges one in a dictionary. The replaced
    /// value is held beyond the access, so that nothing of the user's is released, and so run, within one.
    @usableFromInline final class OnExecutor {
      @exclusivity(unchecked) fileprivate var awaitedWork: AwaitedWork?
      private(set) var watches: Keyed<ObjectIdentifier, ActionWatch<Action>> = [:]
      private var works: [ObjectIdentifier: TreeWork] = [:]
      private var waitingWatches: [ObjectIdentifier: UInt64] = [:]
      typealias Farewell = @Sendable (isolated any TreeIsolation) -> Void
      private typealias Farewells = (node: StoreNode<Action>, all: Keyed<ObjectIdentifier, Farewell>)
      /// Called when a store or one above it is closed: by store, and by owner.
      private var farewells: [ObjectIdentifier: Farewells] = [:]
      /// The stores with farewells below each store.
      private var farewellsBelow: [ObjectIdentifier: Set<ObjectIdentifier>] = [:]

      init() {}

      func watch(as number: ObjectIdentifier, _ watch: ActionWatch<Action>) {
        waitingWatches[number] = nil
        watches[number] = watch
      }

      func waitsToWatch(as number: ObjectIdentifier, _ follower: UInt64) { waitingWatches[number] = follower }

      func stopWatching(as number: ObjectIdentifier) -> UInt64? {
        if let follower = waitingWatches.removeValue(forKey: number) { return follower }
        let watch = watches.removeValue(forKey: number)
        withExtendedLifetime(watch) {}
        return nil
      }

      func setFarewell(_ farewell: Farewell?, of owner: ObjectIdentifier, in node: StoreNode<Action>) {
        var all = removeFarewells(of: node)?.all ?? [:]
        let replaced = all.removeValue(forKey: owner)
        all[owner] = farewell
        if !all.isEmpty {
          farewells[ObjectIdentifier(node)] = (node, all)
          eachParent(of: node) { farewellsBelow[$0, default: []].insert(ObjectIdentifier(node)) }
        }
        withExtendedLifetime(replaced) {}
      }

      private func removeFarewells(of node: StoreNode<Action>) -> Farewells? {
        guard let removed = farewells.removeValue(forKey: ObjectIdentifier(node)) else { return nil }
        eachParent(of: node) { parent in
          farewellsBelow[parent]?.remove(ObjectIdentifier(node))
          if farewellsBelow[parent]?.isEmpty == true { farewellsBelow[parent] = nil }
        }
        return removed
      }

      private func eachParent(of node: StoreNode<Action>, _ body: (ObjectIdentifier) -> Void) {
        var next = node.parentNode
        while let parent = next {
          body(ObjectIdentifier(parent))
          next = parent.parentNode
        }
      }

      /// The lowest store's first.
      func takeFarewells(of node: StoreNode<Action>) -> [Farewell] {
        var taken = (farewellsBelow[ObjectIdentifier(node)] ?? []).compactMap { farewells[$0] }
        taken.sort { ($0.node.depth, $0.node.id.number) > ($1.node.depth, $1.node.id.number) }
        for (lower, _) in taken { _ = removeFarewells(of: lower) }
        if let own = removeFarewells(of: node) { taken.append(own) }
        return taken.flatMap(\.all.values)
      }

      func exchangeWork(of node: StoreNode<Action>, with work: TreeWork?) -> TreeWork? {
        let replaced = works[ObjectIdentifier(node)]
        if replaced != nil || work != nil { works[ObjectIdentifier(node)] = work }
        return replaced
      }

      func committing<Failure: Error>(of awaitedWork: AwaitedWork, _ body: () throws(Failure) -> Void) throws(Failure) {
        guard unsafe self.awaitedWork == nil else { return try body() }
        unsafe self.awaitedWork = awaitedWork
        defer { unsafe self.awaitedWork = nil }
        try body()
      }

      func forget() {
        let dropped = (watches, works, farewells)
        watches = [:]
        works = [:]
        (farewells, farewellsBelow) = ([:], [:])
        withExtendedLifetime(dropped) {}
      }

      func forget(_ node: StoreNode<Action>) {
        let work = exchangeWork(of: node, with: nil)
        let farewell = removeFarewells(of: node)
        withExtendedLifetime((work, farewell)) {}
      }
    }

    final class Top: Sendable {
      let source: Confined<AnySource>

      init(_ source: AnySource) { self.source = Confined(storing: source) }
    }

    @usableFromInline let onExecutor = Confined(OnExecutor())
    let childCount = Atomic(0)
    let releasedChildren = Atomic(0)
    @usableFromInline let taskRegistry: Lazy<TaskRegistry>
    let top = Lazy<Top>()

    let carried: CarriedValues?
    @usableFromInline let order: (any Order<Action>)?
    let instrument: TreeInstrument?

    @usableFromInline init(
      taskRegistry: TaskRegistry? = nil, carrying carried: CarriedValues? = nil, order: (any Order<Action>)? = nil,
      instrument: TreeInstrument? = nil
    ) {
      if let taskRegistry { self.taskRegistry = Lazy(taskRegistry) } else { self.taskRegistry = Lazy() }
      self.carried = instrument?.carrying(carried) ?? carried
      self.order = order
      self.instrument = instrument
    }
  }
}

extension StoreNode {
  /// Passes a committed action to the callers that wait for one. SAFETY: to be called on the tree's executor.
  @unsafe @usableFromInline func tellWatches(_ action: Action) {
    tree.extras.withObject { extras in
      let onExecutor = unsafe extras.onExecutor.unconfined
      // Held beyond its removal.
      for (number, watch) in onExecutor.watches where isAt(orBelow: watch.store) && watch.isOver(action) {
        _ = onExecutor.stopWatching(as: number)
      }
      if onExecutor.watches.isEmpty { tree.hasWatches.store(false, ordering: .relaxed) }
    }
  }
}

extension Tree {
  @usableFromInline nonisolated var carriesValues: Bool { extras.withObject { $0.carried != nil } ?? false }

  @usableFromInline nonisolated var needsPlacing: Bool {
    extras.withObject { $0.carried != nil || $0.order != nil } ?? false
  }

  @usableFromInline nonisolated var order: (any Order<Action>)? { extras.withObject { $0.order } ?? nil }

  @usableFromInline nonisolated var instrument: TreeInstrument? { extras.withObject { $0.instrument } ?? nil }

  /// SAFETY: to be read on the tree's executor.
  @unsafe nonisolated var awaitedWorkOfExecutor: AwaitedWork? {
    extras.withObject { extras in unsafe extras.onExecutor.unconfined.awaitedWork } ?? nil
  }

  @usableFromInline nonisolated var carriedContext: CarriedValues.Context? {
    extras.withObject { $0.carried?.capture() } ?? nil
  }
}
