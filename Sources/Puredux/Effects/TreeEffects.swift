/// The tasks of a tree's stores: a runner for each store that has any.
///
/// SAFETY: the lock protects all variables but the owed effects and the last number. These are used only on the tree's
/// executor, where the reentrancy guard admits one caller at a time (`Tree.enter`). The compiler does not check
/// subclasses of `TaskRegistry`.
@usableFromInline final class TreeEffects: TaskRegistry, @unchecked Sendable {
  private struct Table {
    var entries = Entries()
    var endingCount = 0
    /// In the order of their first effects. Nil while no effects are held.
    var holding: Keyed<ObjectIdentifier, EffectRunner>?
  }

  let settings: Settings
  private let priority: TaskPriority?
  /// Without a trunk, tasks are detached.
  private let trunk: EffectRunner?
  private let table = LockedValue(Table())
  /// Started at the end of the commit, because a later interceptor may cancel these effects (G8).
  private var owed: ContiguousArray<(node: any AnyStoreNode, make: (EffectRunner) -> RunningEffect)> = []
  private var lastNumber = 0

  init(priority: TaskPriority? = nil, trunk: EffectRunner? = nil, settings: Settings = Settings()) {
    self.settings = settings
    self.priority = priority
    self.trunk = trunk
    super.init()
  }

  /// Nil for the default, which is made when first needed.
  @usableFromInline static func custom(
    priority: TaskPriority?, clock: any Clock<Duration>, reporting: (@Sendable (EffectReport) -> Void)?,
    trunk: EffectRunner?
  ) -> TaskRegistry? {
    if trunk == nil, reporting == nil, clock is ContinuousClock { return nil }
    return TreeEffects(priority: priority, trunk: trunk, settings: Settings(clock: clock, report: reporting))
  }

  private func spawn(_ run: @escaping @Sendable () async -> Void) {
    if let trunk {
      trunk.add(ClosureEffect(of: trunk) { _ in await run() }, spawn: { _ in })
    } else {
      Task.detached(priority: priority, operation: run)
    }
  }

  /// Only on the tree's executor, while the store has not ended, or from a task of that store.
  ///
  /// - Parameter isObserver: Whether it ends with the store's states, and is not awaited before.
  @discardableResult
  func start(_ body: @escaping ClosureEffect.Body, of node: any AnyStoreNode, isObserver: Bool = false) -> Bool {
    start(of: node, isObserver: isObserver, making: { ClosureEffect(of: $0, body) })
  }

  /// At the end of the commit in progress. Only on the tree's executor.
  func startLater(of node: any AnyStoreNode, making make: @escaping (EffectRunner) -> RunningEffect) {
    guard node.owesStarts() else { return _ = start(of: node, making: make) }
    owed.append((node, make))
  }

  /// A number for an effect, in commit order. Only on the tree's executor.
  func nextNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }

  @usableFromInline override func startOwed() {
    var owed: ContiguousArray<(node: any AnyStoreNode, make: (EffectRunner) -> RunningEffect)> = []
    swap(&owed, &self.owed)
    for (node, make) in owed { start(of: node, making: make) }
    owed.removeAll(keepingCapacity: owed.capacity <= 64)
    if self.owed.isEmpty { swap(&owed, &self.owed) }
  }

  /// Returns false if the store starts no more tasks.
  @discardableResult @usableFromInline func start(
    of node: any AnyStoreNode, isObserver: Bool = false, making make: (EffectRunner) -> RunningEffect
  ) -> Bool {
    let id = ObjectIdentifier(node)
    let (runner, isHolding) = table.withLock { table in
      let existing = table.entries.runner(of: id)
      let runner = existing ?? EffectRunner(of: node)
      if existing == nil { table.entries.change(along: node.path) { $0.runner = runner } }
      table.holding?[id] = runner
      return (runner, table.holding != nil)
    }
    let isAccepted = runner.add(
      make(runner), isObserver: isObserver, isHeld: isHolding, spawn: { spawn($0, ofRunnerOf: id) })
    // The runner may have been released before the effect was added. If effects are held again, it is released with
    // them.
    let isReleased =
      isHolding
      && table.withLock { table in
        table.holding?[id] = runner
        return table.holding == nil
      }
    if isReleased { runner.release(spawn: { spawn($0, ofRunnerOf: id) }) }
    return isAccepted
  }

  private func spawn(_ run: @escaping @Sendable () async -> Void, ofRunnerOf id: ObjectIdentifier) {
    spawn {
      await run()
      self.runnerEnded(of: id)
    }
  }

  /// Holds effects during a call on the tree's executor: effects that it cancels again do not begin.
  func startingLater(_ body: () -> Void) {
    table.withLock { $0.holding = [:] }
    body()
    for held in table.withLock({ $0.holding.take() }) ?? [:] {
      held.value.release(spawn: { spawn($0, ofRunnerOf: held.key) })
    }
  }

  func existingSlots(of node: any AnyStoreNode) -> EffectSlots? {
    table.withLock { $0.entries.slots(of: ObjectIdentifier(node)) }
  }

  func slots(of node: any AnyStoreNode) -> EffectSlots {
    if let slots = existingSlots(of: node) { return slots }
    let slots = EffectSlots()
    table.withLock { table in table.entries.change(along: node.path) { $0.slots = slots } }
    return slots
  }

  private func runnerEnded(of id: ObjectIdentifier) {
    var slots: EffectSlots?
    change(id) { entry in
      entry.runner = nil
      slots = entry.slots.take()
    }
    withExtendedLifetime(slots) {}
  }

  private func change(_ id: ObjectIdentifier, _ change: (inout Entries.Entry) -> Void) {
    table.releasingOutside { $0.entries.change(id, change) }
  }

  /// Performs an action after a store's last commit; at once if the store has ended.
  @usableFromInline func atEnd(of node: any AnyStoreNode, _ action: @escaping @Sendable () -> Void)
    -> Ending
  {
    let ending = table.withLock { table in
      table.endingCount += 1
      let number = table.endingCount
      table.entries.change(along: node.path) { $0.endings[number] = action }
      return Ending(node: ObjectIdentifier(node), number: number)
    }
    // Only the call that takes the action out performs it.
    if node.refuses(nil) { take(ending)?() }
    return ending
  }

  @usableFromInline func forget(_ ending: Ending) {
    _ = take(ending)
  }

  private func take(_ ending: Ending) -> (@Sendable () -> Void)? {
    var action: (@Sendable () -> Void)?
    change(ending.node) { action = $0.endings.removeValue(forKey: ending.number) }
    return action
  }

  override var runningCount: Int {
    let runners = table.withLock { $0.entries.runners }
    return runners.reduce(0) { $0 + $1.runningCount }
  }

  /// Only on the tree's executor.
  override var namedCounts: [String: Int] {
    let slots = table.withLock { $0.entries.slots }
    var counts: [String: Int] = [:]
    for (name, count) in slots.flatMap(\.counts) { counts[name, default: 0] += count }
    return counts
  }

  var unnamedCount: Int {
    let (runners, slots) = table.withLock { ($0.entries.runners, $0.entries.slots) }
    return runners.reduce(0) { $0 + $1.effectCount } - slots.reduce(0) { $0 + $1.taskCount }
  }

  @usableFromInline override func end(below node: any AnyStoreNode, cancelling: Bool) {
    var runners: [EffectRunner] = []
    var slots: [EffectSlots] = []
    var endings: [(number: Int, action: @Sendable () -> Void)] = []
    table.releasingOutside { table in
      table.entries.visit(ObjectIdentifier(node)) { store in
        guard store.ends(cancelling: cancelling) else { return false }
        if let runner = store.runner { runners.append(runner) }
        if cancelling || store.runner == nil, let ended = store.slots.take() { slots.append(ended) }
        endings.append(contentsOf: store.endings.map { ($0.key, $0.value) })
        store.endings = [:]
        return true
      }
    }
    for runner in runners { runner.end(cancelling: cancelling) }
    for ending in endings.sorted(by: { $0.number < $1.number }) { ending.action() }
    withExtendedLifetime(slots) {}
  }

  /// Returns when the effects of a store and of all stores below it have ended. An effect of this tree does not wait;
  /// an effect of another tree waits at most five seconds of this tree's clock (`OwningStore.shutdown`).
  func untilEnded(below node: any AnyStoreNode) async {
    if isCalledFromWithin { return }
    let runners = runners(below: node)
    guard !RunningEffect.ofCurrentTask.isEmpty else {
      for runner in runners { await runner.untilEnded() }
      return
    }
    // Detached, so that a cancelled effect waits as well.
    await Task.detached { [clock = settings.clock] in
      await withTaskGroup { tasks in
        tasks.addTask { await clock.wait(.longestWaitOfEffects) }
        tasks.addTask { for runner in runners { await runner.untilIdle(.allEnded) } }
        await tasks.next()
        tasks.cancelAll()
      }
    }.value
  }

  var isCalledFromWithin: Bool {
    RunningEffect.ofCurrentTask.contains { ($0.runner.store as? any AnyStoreNode)?.existingEffects === self }
  }

  /// Returns when a store and all stores below it are idle; at once in a cancelled task or an effect of this tree.
  ///
  /// - Parameter settle: Returns when all earlier requests are done.
  func untilIdle(_ idleness: EffectIdleness, below node: any AnyStoreNode, settle: () async -> Void) async {
    let isCalledFromWithin = isCalledFromWithin
    // The change counts when all effects were idle. If they are the same after all requests until then, nothing is left
    // that could start or resume an effect.
    var changesWhenIdle: (runners: [EffectRunner], changes: [Int])?
    while !Task.isCancelled {
      await settle()
      if isCalledFromWithin { return }
      var working: [EffectRunner] = []
      var changes: [Int] = []
      let runners = runners(below: node)
      for runner in runners {
        let workload = runner.workload(idleness)
        if !workload.isIdle { working.append(runner) }
        changes.append(workload.changeCount)
      }
      if working.isEmpty {
        if let last = changesWhenIdle, last.changes == changes, last.runners.elementsEqual(runners, by: ===) { return }
        changesWhenIdle = (runners, changes)
        continue
      }
      changesWhenIdle = nil
      for runner in working { await runner.untilIdle(idleness) }
    }
  }

  /// Cancels effects that only wait for states that do not end with the store, such as those of a store above.
  func cancelFollowers(below node: any AnyStoreNode) async {
    var areFollowing = false
    while !areFollowing, !Task.isCancelled {
      let runners = runners(below: node)
      for runner in runners { await runner.untilIdle(.allFollow) }
      // One may have received a state meanwhile.
      areFollowing = runners.allSatisfy { $0.workload(.allFollow).isIdle }
    }
    if !Task.isCancelled { end(below: node, cancelling: true) }
  }

  var isRestAwaited: Bool { table.withLock { $0.entries.runners }.contains { $0.isRestAwaited } }

  private func runners(below node: any AnyStoreNode) -> [EffectRunner] {
    table.withLock { table in
      var runners: [EffectRunner] = []
      _ = table.entries.visit(ObjectIdentifier(node)) { store in
        if let runner = store.runner { runners.append(runner) }
        return true
      }
      return runners
    }
  }
}

extension AnyStoreNode {
  fileprivate var path: some Sequence<any AnyObject & Sendable> {
    sequence(first: self as any AnyStoreNode, next: \.parentNode).lazy.map { $0 }
  }
}

extension AnyStoreNode {
  @usableFromInline var effects: TreeEffects { .known(taskRegistry { TreeEffects(priority: $0) }) }

  var existingEffects: TreeEffects? { existingTaskRegistry.map { .known($0) } }

  func settled(isolation: isolated (any Actor)?) async {
    await untilQuiet(isolation: isolation)
    guard let effects = existingEffects else { return }
    await effects.untilIdle(.nothingRuns, below: self) { await untilQuiet(isolation: nil) }
  }
}

extension TreeEffects {
  /// SAFETY: there is no other task registry.
  fileprivate static func known(_ taskRegistry: TaskRegistry) -> TreeEffects {
    unsafe unsafeDowncast(taskRegistry, to: TreeEffects.self)
  }
}

extension TreeEffects {
  @usableFromInline struct Ending: Sendable {
    let node: ObjectIdentifier
    let number: Int
  }
}

extension TreeEffects {
  @usableFromInline struct Settings: Sendable {
    let clock: ElapsedClock
    let report: @Sendable (EffectReport) -> Void

    @usableFromInline init(
      clock: any Clock<Duration> = ContinuousClock(), report: (@Sendable (EffectReport) -> Void)? = nil
    ) {
      self.clock = ElapsedClock(clock)
      self.report = report ?? { EffectReport.print($0) }
    }
  }
}

extension Duration {
  fileprivate static let longestWaitOfEffects = Duration.seconds(5)
}

extension TreeEffects {
  /// An entry for each store with a runner, slots or endings, and for those above it, so that no search visits all
  /// stores.
  struct Entries {
    typealias Place = any AnyObject & Sendable

    struct Entry {
      /// Held, because its address identifies the entry.
      let place: Place
      /// In the order in which entries are made.
      fileprivate let number: Int
      var runner: EffectRunner?
      var slots: EffectSlots?
      var endings: [Int: @Sendable () -> Void] = [:]
      private var end: End?
      fileprivate var above: ObjectIdentifier?
      /// By number.
      fileprivate var below: [Int: ObjectIdentifier] = [:]

      fileprivate init(place: Place, number: Int) {
        self.place = place
        self.number = number
      }

      fileprivate var isOver: Bool { runner == nil && slots == nil && endings.isEmpty && below.isEmpty }

      /// False if this end was already recorded.
      mutating func ends(cancelling: Bool) -> Bool {
        guard end == nil || (end == .finishing && cancelling) else { return false }
        end = cancelling ? .cancelling : .finishing
        return true
      }
    }

    private enum End { case finishing, cancelling }

    private var entries: [ObjectIdentifier: Entry] = [:]
    private var lastNumber = 0

    var isEmpty: Bool { entries.isEmpty }
    var runners: [EffectRunner] { entries.values.compactMap(\.runner) }

    var slots: [EffectSlots] { entries.values.compactMap(\.slots) }

    func runner(of id: ObjectIdentifier) -> EffectRunner? { entries[id]?.runner }
    func slots(of id: ObjectIdentifier) -> EffectSlots? { entries[id]?.slots }

    mutating func change(along path: some Sequence<Place>, _ change: (inout Entry) -> Void) {
      var below: ObjectIdentifier?
      for place in path {
        let id = ObjectIdentifier(place)
        let isNew = entries[id] == nil
        let number = lastNumber + 1
        if let below {
          entries[below]?.above = id
          // The entry below was just made, so it has the last number.
          entries[id, default: Entry(place: place, number: number)].below[lastNumber] = below
        } else {
          change(&entries[id, default: Entry(place: place, number: number)])
        }
        guard isNew else { return }
        lastNumber = number
        below = id
      }
    }

    /// Returns the dropped, empty entries, to be released outside the lock.
    mutating func change(_ id: ObjectIdentifier, _ change: (inout Entry) -> Void) -> [Entry] {
      visit(id) { entry in
        change(&entry)
        return false
      }
    }

    /// Visits a store and, if the closure returns true, the stores below it, in the order of their numbers. Returns the
    /// dropped entries, like `change`.
    mutating func visit(_ id: ObjectIdentifier, _ body: (inout Entry) -> Bool) -> [Entry] {
      var waiting = [id]
      var visited: [ObjectIdentifier] = []
      while let id = waiting.popLast() {
        guard let index = entries.index(forKey: id) else { continue }
        visited.append(id)
        guard body(&entries.values[index]) else { continue }
        waiting += entries.values[index].below.sorted { $0.key > $1.key }.map(\.value)
      }
      var dropped: [Entry] = []
      for id in visited { drop(id, into: &dropped) }
      return dropped
    }

    private mutating func drop(_ id: ObjectIdentifier, into dropped: inout [Entry]) {
      var next: ObjectIdentifier? = id
      while let id = next, let entry = entries[id], entry.isOver {
        entries[id] = nil
        dropped.append(entry)
        next = entry.above
        if let next { entries[next]?.below[entry.number] = nil }
      }
    }
  }
}
