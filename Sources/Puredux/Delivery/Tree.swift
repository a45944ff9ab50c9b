import Synchronization

/// The isolation of one tree of stores, and its one order (G1).
///
/// Whatever is asked of a tree takes its place in the inbox, synchronously and from any thread, and is done by a drain on the
/// tree's executor. `send` and reads go to the executor themselves; there they first do all that was asked before them.
@usableFromInline
final actor Tree<Action: Sendable>: TreeIsolation {
  @usableFromInline
  enum Entry: Sendable {
    /// The origin first, which makes an entry smaller.
    case commit(from: Borrowed<Origin<Action>>, Action)
    case command(Owed<Command>)
  }

  /// What keeps those out who enter from within: code that the tree calls, and that gets back onto the executor before it returns, as
  /// `Task.immediate` does and executors that run jobs inside jobs. They wait for their turn, so that nobody sees a half-done commit.
  @usableFromInline
  struct Section: OptionSet, Hashable, AtomicRepresentable, Sendable {
    @usableFromInline
    let rawValue: UInt8

    @inlinable
    init(rawValue: UInt8) { self.rawValue = rawValue }

    @inlinable
    static var entered: Section { Section(rawValue: 1) }
    /// A drain that came meanwhile has still to be done.
    @inlinable
    static var owesDrain: Section { Section(rawValue: 2) }
    /// The turn of visitors who came from within has come.
    @inlinable
    static var owesTurns: Section { Section(rawValue: 4) }
  }

  /// What is done about an action once it is committed.
  @usableFromInline
  typealias CommitObserver = (inout Action, Origin<Action>) -> Void

  /// How many entries a drain works off before it lets others on the executor (G10).
  @inlinable
  static var quantum: Int { 1024 }

  // In an order that leaves no gaps: a tree is most of what an idle store takes.
  @usableFromInline
  nonisolated let executor: ExecutorReference
  @usableFromInline
  nonisolated let inbox = Guarded(Inbox<Entry, Waiter<Void>>())
  /// Whether the inbox is not idle: what a visitor looks at before it takes the lock. Set under the lock.
  @usableFromInline
  nonisolated let isBusy = Atomic(false)
  /// Whether something is done on the executor now, and what is owed at its end.
  @usableFromInline
  nonisolated let section = Atomic(Section([]))
  @usableFromInline
  nonisolated let priority: TaskPriority?
  /// Sends and reads that have set out for the executor, and those that are through: two counts, as only the executor writes the
  /// second, which it can do by a plain move.
  @usableFromInline
  nonisolated let departed = Atomic<UInt32>(0)
  @usableFromInline
  nonisolated let ended = Atomic<UInt32>(0)
  @usableFromInline
  nonisolated let storeCount = Atomic(0)
  @usableFromInline
  nonisolated let extras: Lazily<TreeExtras<Action>>
  /// How many commits there have been. Written on the executor only; an atomic is read from anywhere, and without the run-time
  /// check of accesses that a variable has.
  @usableFromInline
  nonisolated let commitCount = Atomic(0)

  @usableFromInline
  var batch: ContiguousArray<Entry> = []
  @usableFromInline
  var batchPosition = 0
  /// What attended the last action, where one was attended. Forgotten with every command: that may end a store, or set the observer.
  @usableFromInline
  var lastAttended: AttendedAction<Action>?

  @inlinable
  init(executor: StoreExecutor, priority: TaskPriority?, effects: TreeEffects? = nil) {
    self.executor = ExecutorReference(executor)
    self.priority = priority
    extras = Lazily(effects.map { TreeExtras(effects: $0) })
  }

  @inlinable
  nonisolated func nextStoreID() -> StoreID {
    StoreID(number: storeCount.add(1, ordering: .relaxed).oldValue)
  }

  @inlinable
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.unowned }

  // MARK: Ordering

  /// Gives an action its place in the order; false where its store is closed.
  @inlinable
  nonisolated func order(_ action: Action, from origin: Origin<Action>) -> Bool {
    order(.commit(from: Borrowed(origin), action), for: origin)
  }

  /// Gives a command its place in the order; false where the store it is meant for is closed.
  @inlinable
  nonisolated func order(_ command: Command, for origin: Origin<Action>) -> Bool {
    let command = Owed(command)
    let isOrdered = order(.command(command), for: origin)
    if !isOrdered { _ = command.take() }
    return isOrdered
  }

  @inlinable
  nonisolated func order(_ entry: Entry, for origin: Origin<Action>) -> Bool {
    let schedules: Bool? = inbox.withLock { inbox in
      guard !origin.isClosed else { return nil }
      return append(entry, to: &inbox)
    }
    if schedules == true { scheduleDrain() }
    return schedules != nil
  }

  /// Under the inbox's lock. True where the caller has to schedule a drain.
  @inlinable
  nonisolated func append(_ entry: Entry, to inbox: inout Inbox<Entry, Waiter<Void>>) -> Bool {
    let schedules = inbox.append(entry)
    if schedules { isBusy.store(true, ordering: .relaxed) }
    return schedules
  }

  /// Closes a store to everything that comes later; the end of its sequences takes its place in the order. Nothing where a
  /// store on its path is closed already.
  @inlinable
  nonisolated func end(_ origin: Origin<Action>, cancelling: Bool) {
    let schedules = inbox.withLock { inbox in
      guard !origin.isClosed else { return false }
      origin.close()
      return append(.command(Owed(End(of: origin, cancelling: cancelling))), to: &inbox)
    }
    if schedules { scheduleDrain() }
  }

  /// The store is gone: ends it, and then drops its state.
  ///
  /// The origin is held until everything that was accepted from it is done, as that borrows it. Where nothing is under way in the tree, and the
  /// store had ended before or is the root, so that nothing can follow, it goes at once, without a task.
  @inlinable
  nonisolated func release(_ origin: Origin<Action>) {
    if origin.depth > 0 { madeExtras.releasedChildren.wrappingAdd(1, ordering: .relaxed) }
    let way = inbox.withLock { inbox -> ReleaseWay in
      let isIdle = inbox.phase == .idle
      if isIdle, origin.closed.load(ordering: .relaxed) { return .endedBefore }
      origin.close()
      if isIdle, isLastAndAlone(origin) { return .alone }
      return .ordered(schedules: append(.command(Owed(End(ofReleased: origin))), to: &inbox))
    }
    switch way {
    case .ordered(let schedules): if schedules { scheduleDrain() }
    case .endedBefore: origin.node.withValueOfReleasedStore { $0.source.release() }
    case .alone:
      origin.node.withValueOfReleasedStore {
        $0.source.end()
        $0.source.release()
      }
      origin.endEffects(cancelling: true)
    }
  }

  /// Whether a root store that has just been closed is the only one to know of its tree, so that what belongs to it can be dropped here.
  ///
  /// Visitors who have set out and are not through would show in the counts. One that sets out later sees that the store is closed, and asks nothing of
  /// it: `closed` is stored before this read-modify-write of `departed`, and the visitor's own, which comes after it, acquires what this one releases.
  @inlinable
  nonisolated func isLastAndAlone(_ origin: Origin<Action>) -> Bool {
    guard origin.depth == 0, !origin.isAttended, !hasObserver else { return false }
    let (departed, _) = departed.wrappingAdd(0, ordering: .acquiringAndReleasing)
    return departed == ended.load(ordering: .acquiring)
  }

  @inlinable
  nonisolated func scheduleDrain() {
    onExecutor { tree in
      // SAFETY: nobody else has the closure: the task is given it, and this function returns.
      nonisolated(unsafe) let drain: @isolated(any) () async -> Void = { tree.drain() }
      unsafe Task.detached(priority: tree.priority, operation: drain)
    }
  }

  // MARK: On the executor

  /// Enters the section of what is done on the executor; false where the caller is within it already, and has to wait.
  @inline(__always)
  @inlinable
  func enter() -> Bool {
    guard section.load(ordering: .relaxed) == [] else { return false }
    section.store(.entered, ordering: .relaxed)
    return true
  }

  @inline(__always)
  @inlinable
  func leave() {
    let section = section.load(ordering: .relaxed)
    self.section.store([], ordering: .relaxed)
    if section != .entered { pay(section) }
  }

  /// Within the section: has something done at its end.
  @inlinable
  func owe(_ debt: Section) {
    section.store(section.load(ordering: .relaxed).union(debt), ordering: .relaxed)
  }

  /// Does what was owed at the end of the section. An executor that runs jobs where they are enqueued runs these here.
  @inline(never)
  @inlinable
  func pay(_ debts: Section) {
    let turns = debts.contains(.owesTurns) ? takeTurns() : []
    if debts.contains(.owesDrain) { scheduleDrain() }
    for visitor in turns { visitor.resume(returning: ()) }
  }

  @inlinable
  func drain() {
    guard enter() else { return owe(.owesDrain) }
    defer { leave() }
    var left = Self.quantum
    if batch.isEmpty { takeBatch() }
    performRest(&left)
    let visitorExpected = departed.load(ordering: .relaxed) != ended.load(ordering: .relaxed)
    finish(
      inbox.withLock { inbox in
        let end = inbox.drainEnded(withRest: !batch.isEmpty, visitorExpected: visitorExpected)
        if inbox.phase == .idle { isBusy.store(false, ordering: .relaxed) }
        return end
      })
  }

  /// Does what the end of a drain or of a visitor's work asks for.
  @inlinable
  func finish(_ end: Inbox<Entry, Waiter<Void>>.DrainEnd) {
    switch end {
    case .again: scheduleDrain()
    case .leftToOther: break
    case .idle(let waiters):
      if batch.capacity > Inbox<Entry, Waiter<Void>>.keptCapacity { batch = [] }
      for waiter in waiters { waiter.resume(returning: ()) }
    }
  }

  /// Returns when nothing waits, and no drain is on its way or under way.
  @usableFromInline
  func untilIdle(isolation: isolated (any Actor)? = #isolation) async {
    await Waiter<Void>.wait { waiter in
      if inbox.withLock({ $0.isIdle(orTells: waiter) }) { waiter.resume(returning: ()) }
    }
  }

  /// Takes everything that waits. Only while the batch is done.
  @inlinable
  func takeBatch() {
    var taken = ContiguousArray<Entry>()
    swap(&taken, &batch)
    inbox.withLock { $0.takeAll(into: &taken) }
    swap(&taken, &batch)
  }

  /// Performs what is left of the batch, as far as the quantum goes.
  @inlinable
  func performRest(_ quantum: inout Int) {
    guard !batch.isEmpty else { return }
    var performing = ContiguousArray<Entry>()
    swap(&performing, &batch)
    let end = batchPosition + min(quantum, performing.count - batchPosition)
    quantum -= end - batchPosition
    var position = batchPosition
    while position < end {
      switch performing[position] {
      case .commit(let origin, _):
        position = origin.withObject { object in
          let rest = position..<end
          return object.isAttended
            ? attendRun(from: origin, object, in: performing, rest)
            : commitRun(from: origin, object, in: performing, rest)
        }
      case .command(let command):
        lastAttended = nil
        command.take().perform(on: self)
        position += 1
      }
    }
    if end == performing.count {
      batchPosition = 0
      performing.removeAll(keepingCapacity: true)
    } else {
      batchPosition = end
    }
    swap(&performing, &batch)
  }

  /// Commits the actions that come one after the other from the same store, and returns where they end. What a commit needs is looked up
  /// once for all of them.
  @inlinable
  func commitRun(
    from origin: Borrowed<Origin<Action>>, _ object: Origin<Action>, in entries: ContiguousArray<Entry>,
    _ range: Range<Int>
  ) -> Int {
    let observer = observer
    var position = range.lowerBound
    object.node.withValue(on: self) { node in
      while position < range.upperBound, case .commit(let next, var action) = entries[position], next == origin {
        node.commit(&action)
        observer?(&action, object)
        position += 1
      }
    }
    count(position - range.lowerBound)
    return position
  }

  /// As `commitRun`, with the middleware and the histories on the path.
  @inlinable
  func attendRun(
    from origin: Borrowed<Origin<Action>>, _ object: Origin<Action>, in entries: ContiguousArray<Entry>,
    _ range: Range<Int>
  ) -> Int {
    let attended = takeAttended(for: object)
    var position = range.lowerBound
    while position < range.upperBound, case .commit(let next, let action) = entries[position], next == origin {
      attended.handle(action)
      position += 1
    }
    commitCount.store(attended.value.position, ordering: .relaxed)
    lastAttended = attended
    return position
  }

  // MARK: Visitors

  /// Runs a closure on the executor after everything that was asked before.
  @inline(__always)
  @inlinable
  func visit<Result: Sendable>(
    isolation: isolated (any Actor)? = #isolation, _ body: @Sendable (isolated Tree) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    announceVisit()
    while true {
      if let result = try await visitNow(body) { return result }
      await untilTurn()
    }
  }

  /// Nil where the visitor has come from within what the tree is doing.
  @inlinable
  func visitNow<Result: Sendable>(
    _ body: @Sendable (isolated Tree) throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    guard enterOnVisit() else { return nil }
    defer { leaveFromVisit() }
    settle()
    return try body(self)
  }

  /// Commits an action after everything that was asked before.
  @inline(__always)
  @inlinable
  func send(
    _ action: Action, from origin: Origin<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    announceVisit()
    while true {
      if try await sendNow(action, from: origin) { return }
      await untilTurn()
    }
  }

  /// False where the visitor has come from within what the tree is doing.
  @inlinable
  func sendNow(_ action: Action, from origin: Origin<Action>) throws(StoreError) -> Bool {
    guard enterOnVisit() else { return false }
    defer { leaveFromVisit() }
    settle()
    try accept(action, from: origin)
    return true
  }

  /// Returns when the tree has done what it is in the middle of, and all that was asked before; the visit has been announced again then, so that no
  /// flood comes before it.
  @usableFromInline
  func untilTurn(isolation: isolated (any Actor)? = #isolation) async {
    await Waiter<Void>.wait { waiter in
      let turn = Entry.command(Owed(Call { tree in tree.giveTurn(to: waiter) }))
      if inbox.withLock({ append(turn, to: &$0) }) { scheduleDrain() }
    }
  }

  /// The turn of a visitor has come, who is resumed at the end of the section: where that makes it run at once, it is not to be within it again.
  @usableFromInline
  func giveTurn(to visitor: Waiter<Void>) {
    announceVisit()
    madeExtras.turns.withValue(on: self) { $0.value.append(visitor) }
    owe(.owesTurns)
  }

  @usableFromInline
  func takeTurns() -> ContiguousArray<Waiter<Void>> {
    madeExtras.turns.withValue(on: self) { turns in
      defer { turns.value = [] }
      return turns.value
    }
  }

  @inlinable
  func accept(_ action: Action, from origin: Origin<Action>) throws(StoreError) {
    guard !origin.isClosed else { throw .terminated }
    if let rejection = attend(action, from: origin) { throw rejection }
  }

  /// As `accept`, for those who are on the executor without the compiler's knowing: that is checked.
  @usableFromInline
  nonisolated func acceptHere(_ action: Action, from origin: Origin<Action>) throws(StoreError) {
    let outcome = assumeIsolated { tree in
      Result<Void, StoreError> { () throws(StoreError) in try tree.accept(action, from: origin) }
    }
    try outcome.get()
  }

  @inlinable
  func count(_ commits: Int) {
    commitCount.store(commitCount.load(ordering: .relaxed) &+ commits, ordering: .relaxed)
  }

  /// Commits an action and tells the observer. Where middleware stops the action, returns the error that says so.
  @inlinable
  func attend(_ action: Action, from origin: Origin<Action>) -> StoreError? {
    if origin.isAttended { return attendFully(action, from: origin) }
    count(1)
    var reduced = action
    origin.node.withValue(on: self) { $0.commit(&reduced) }
    observer?(&reduced, origin)
    return nil
  }

  /// With the middleware and the histories on its path.
  @inline(never)
  @inlinable
  func attendFully(_ action: Action, from origin: Origin<Action>) -> StoreError? {
    let attended = takeAttended(for: origin)
    attended.handle(action)
    let outcome = attended.value
    commitCount.store(outcome.position, ordering: .relaxed)
    lastAttended = attended
    return outcome.isCommitted ? nil : .rejected(reason: outcome.rejection)
  }

  /// What attends the next action of a store that is attended: what attended the last one, if that was of the same store.
  @inlinable
  func takeAttended(for origin: Origin<Action>) -> AttendedAction<Action> {
    let position = commitCount.load(ordering: .relaxed)
    if let last = lastAttended.take(), last.origin === origin {
      last.value.position = position
      return last
    }
    let attendance = origin.node.withValue(on: self) { $0.attendance ?? Attendance(commit: $0.commit) }
    return AttendedAction(origin: origin, attendance: attendance, observer: observer, position: position)
  }

  /// A visitor is about to go to the executor.
  @inlinable
  nonisolated func announceVisit() {
    departed.wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  /// A visitor is on the executor; where that does not let it in, the visit has ended.
  @inline(__always)
  @inlinable
  func enterOnVisit() -> Bool {
    let isIn = enter()
    if !isIn { endVisit() }
    return isIn
  }

  /// First the visit ends, and then the section: the drain that is owed at the end of that may run at once, and is not to leave anything to this visitor.
  @inline(__always)
  @inlinable
  func leaveFromVisit() {
    endVisit()
    leave()
  }

  /// A visitor is through.
  @inlinable
  func endVisit() {
    ended.store(ended.load(ordering: .relaxed) &+ 1, ordering: .releasing)
  }

  /// Does what was asked before a visitor came.
  @inlinable
  func settle() {
    if isBusy.load(ordering: .acquiring) { RunningEffect.outsideOfAny { performAll() } }
  }

  @inlinable
  func performAll() {
    var quantum = Int.max
    performRest(&quantum)
    takeBatch()
    performRest(&quantum)
    finish(
      inbox.withLock { inbox in
        let end = inbox.visitorLeft()
        isBusy.store(inbox.phase != .idle, ordering: .relaxed)
        return end
      })
  }

  /// Who is told of every commit.
  @inlinable
  var observer: CommitObserver? {
    extras.withObject { extras in extras.observer.withValue(on: self) { $0.value } } ?? nil
  }

  @inlinable
  nonisolated var hasObserver: Bool { extras.withObject { $0.hasObserver.load(ordering: .relaxed) } ?? false }

  // MARK: What not every tree has

  @inlinable
  nonisolated var madeExtras: TreeExtras<Action> { extras { TreeExtras() } }

  /// The tasks of its stores, once there are any.
  @usableFromInline
  nonisolated var existingEffects: TreeEffects? { extras.withObject { $0.effects.withObject { $0 } } ?? nil }

  @usableFromInline
  nonisolated var releasedChildren: Int { extras.withObject { $0.releasedChildren.load(ordering: .relaxed) } ?? 0 }
}

/// How a store that is gone is released.
@usableFromInline
enum ReleaseWay {
  case ordered(schedules: Bool)
  case endedBefore
  case alone
}

/// What a tree may never need.
@usableFromInline
final class TreeExtras<Action: Sendable>: Sendable {
  @usableFromInline
  let effects: Lazily<TreeEffects>
  @usableFromInline
  let observer = Confined(Variable<Tree<Action>.CommitObserver?>(nil))
  /// Whether an observer has been set, or is about to be.
  @usableFromInline
  let hasObserver = Atomic(false)
  /// Visitors who came from within, and whose turn has come.
  let turns = Confined(Variable<ContiguousArray<Waiter<Void>>>([]))
  @usableFromInline
  let releasedChildren = Atomic(0)

  @usableFromInline
  init(effects: TreeEffects? = nil) {
    self.effects = Lazily(effects)
  }

  /// After the last commit: the observer may hold a proxy, and with that the tree.
  @usableFromInline
  func forgetObserver(on tree: isolated any TreeIsolation) { observer(on: tree).value = nil }

  @usableFromInline
  func expectObserver() { hasObserver.store(true, ordering: .relaxed) }
}
