import Synchronization

/// The isolation of one tree of stores, and its order (G1).
///
/// Every request takes its place in the inbox, from any thread, and a drain performs it. `send` and reads go to the
/// executor themselves, and take a place only if requests wait.
@usableFromInline final actor Tree<Action: Sendable>: TreeIsolation {
  /// Keeps out reentrant callers, such as `Task.immediate` and executors that run jobs inside jobs: they take a place
  /// in the order (`PendingRequest`), so that nobody sees a half-done commit.
  @usableFromInline struct ReentrancyGuard: OptionSet, Hashable, AtomicRepresentable, Sendable {
    @usableFromInline let rawValue: UInt8

    @inlinable init(rawValue: UInt8) { self.rawValue = rawValue }

    @inlinable static var entered: ReentrancyGuard { ReentrancyGuard(rawValue: 1) }
    @inlinable static var owesDrain: ReentrancyGuard { ReentrancyGuard(rawValue: 2) }
    @inlinable static var owesStarts: ReentrancyGuard { ReentrancyGuard(rawValue: 4) }
  }

  /// Unless the executor goes step by step.
  static var greatestQuantum: UInt16 { 1024 }

  // Without gaps: most of an idle store's memory is its tree.
  @usableFromInline nonisolated let executor: ExecutorReference
  // SAFETY: used in `withRequests` only, under the lock.
  @usableFromInline @exclusivity(unchecked) nonisolated(unsafe) var requestsUnderLock: Requests<Action>
  @usableFromInline nonisolated let requestsLock = BriefLock()
  /// Set under the requests' lock; visitors read it before they take the lock.
  @usableFromInline nonisolated let isBusy = Atomic(false)
  @usableFromInline nonisolated let reentrancyGuard = Atomic(ReentrancyGuard(rawValue: 0))
  /// Whether a store has, had or is about to have an interceptor, or a caller that waits for an action.
  @usableFromInline nonisolated let hasHooks = Atomic(false)
  @usableFromInline nonisolated let hasPreparations = Atomic(false)
  @usableFromInline nonisolated let hasWatches = Atomic(false)
  @usableFromInline nonisolated let priority: TaskPriority?
  /// Entries of a drain before it lets others onto the executor (G10).
  nonisolated let quantum: UInt16
  /// The visitors that have set out for the executor, and those that have finished. The second is written only on the
  /// executor.
  @usableFromInline nonisolated let departed = Atomic<UInt32>(0)
  @usableFromInline nonisolated let ended = Atomic<UInt32>(0)
  /// While it is zero, no store checks those above it.
  @usableFromInline nonisolated let closedCount = Atomic<UInt32>(0)
  /// On the executor only. Atomics have no run-time access check.
  @usableFromInline nonisolated let nextRun = Atomic<Int32>(0)
  @usableFromInline nonisolated let nextAction = Atomic<Int32>(0)
  @usableFromInline nonisolated let extras: Lazy<Extras>
  /// Specialized where the tree is made.
  nonisolated let performDrain: @Sendable (isolated Tree, _ quantum: Int) -> Void
  /// Written only on the executor.
  @usableFromInline nonisolated let commitCount = Atomic(0)

  /// The entries being performed, including those that are done.
  ///
  /// SAFETY: isolated, and accessed in this file only, where it is swapped or replaced while it is empty, and read:
  /// nothing of the user's runs within an access.
  @usableFromInline @exclusivity(unchecked) var batch = Requests<Action>.Batch()

  @inlinable init(
    executor: StoreExecutor, priority: TaskPriority?, taskRegistry: TaskRegistry? = nil,
    carrying carried: CarriedValues? = nil, instrument: TreeInstrument? = nil
  ) {
    self.init(
      executor: executor, priority: priority, taskRegistry: taskRegistry, carrying: carried, order: nil,
      instrument: instrument, requests: Requests()
    ) { $0.drain($1) }
  }

  /// Its drain is not specialized: it commits nothing itself.
  @usableFromInline init(
    executor: StoreExecutor, priority: TaskPriority?, taskRegistry: TaskRegistry?, carrying carried: CarriedValues?,
    order: any Order<Action>, instrument: TreeInstrument?
  ) {
    self.init(
      executor: executor, priority: priority, taskRegistry: taskRegistry, carrying: carried, order: order,
      instrument: instrument, requests: Requests()
    ) { tree, quantum in
      tree.drain(quantum)
      // Keeps visitors out, so that their requests take places in the order.
      tree.isBusy.store(true, ordering: .relaxed)
    }
    isBusy.store(true, ordering: .relaxed)
  }

  /// Not specialized: values whose creation would look up types are passed in.
  @usableFromInline init(
    executor: StoreExecutor, priority: TaskPriority?, taskRegistry: TaskRegistry?, carrying carried: CarriedValues?,
    order: (any Order<Action>)?, instrument: TreeInstrument?, requests: Requests<Action>,
    performDrain: @escaping @Sendable (isolated Tree, _ quantum: Int) -> Void
  ) {
    self.executor = ExecutorReference(executor)
    self.priority = priority
    self.performDrain = performDrain
    quantum = executor.goesStepByStep ? 1 : Self.greatestQuantum
    unsafe requestsUnderLock = requests
    if taskRegistry == nil, carried == nil, order == nil, instrument == nil {
      extras = Lazy()
    } else {
      extras = Lazy(Extras(taskRegistry: taskRegistry, carrying: carried, order: order, instrument: instrument))
    }
  }

  @usableFromInline nonisolated func nextChildNumber() -> Int {
    madeExtras.childCount.wrappingAdd(1, ordering: .relaxed).newValue
  }

  @inlinable nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.unowned }

  // MARK: Ordering

  @inline(__always) @inlinable nonisolated func withRequests<Result>(
    _ body: (inout Requests<Action>) -> Result
  ) -> Result {
    requestsLock.withLock { unsafe body(&requestsUnderLock) }
  }

  @inlinable nonisolated func enqueue(_ action: Action, from node: StoreNode<Action>) -> Bool {
    enqueue(for: node) { $0.append(action, from: node) }
  }

  @inlinable nonisolated func enqueue(
    _ command: Command, for node: StoreNode<Action>, by effect: RunningEffect? = nil
  ) -> Bool {
    enqueue(for: node, by: effect) { $0.append(command) }
  }

  @inlinable @inline(__always) nonisolated func enqueue(
    for node: StoreNode<Action>, by effect: RunningEffect? = nil, _ append: (inout Requests<Action>) -> Bool
  ) -> Bool {
    let schedules: Bool? = withRequests { requests in
      guard !node.refuses(effect) else { return nil }
      return self.append(to: &requests, append)
    }
    if schedules == true { scheduleDrain() }
    return schedules != nil
  }

  /// Under the requests' lock. Returns whether the caller has to schedule a drain.
  @inlinable nonisolated func append(
    to requests: inout Requests<Action>, _ append: (inout Requests<Action>) -> Bool
  ) -> Bool {
    let schedules = append(&requests)
    if schedules { isBusy.store(true, ordering: .relaxed) }
    return schedules
  }

  /// Performs a command if nothing waits. With an external order, this lets a visitor in, which waits for its result in
  /// any case.
  nonisolated func performInTurn(
    _ command: Command, for node: StoreNode<Action>?, by effect: RunningEffect? = nil
  ) -> Bool {
    assumeIsolated { tree in
      let isAllowed = withRequests { $0.inbox.phase == .idle && node?.refuses(effect) != true }
      guard isAllowed, tree.enter() else { return false }
      defer { tree.leave() }
      command.perform(on: tree)
      return true
    }
  }

  func performInOrder(_ command: Command) async {
    if performInTurn(command, for: nil) { return }
    await Waiter<Void>.wait { waiter in
      place(
        .closure { tree in
          command.perform(on: tree)
          waiter.resume(returning: ())
        })
    }
  }

  nonisolated func place(_ command: Command) {
    if withRequests({ append(to: &$0) { $0.append(command) } }) { scheduleDrain() }
  }

  /// Not after the tree's end: a release of the root store without a task (`release`) relies on that.
  nonisolated func enqueueDetachment(_ command: Command, for node: StoreNode<Action>) {
    let schedules = withRequests { requests in
      !node.hasTreeEnded && append(to: &requests) { $0.append(command) }
    }
    if schedules { scheduleDrain() }
  }

  /// The end of the store's sequences takes its place in the order. Does nothing if the store or one above it has
  /// ended.
  @usableFromInline nonisolated func close(_ node: StoreNode<Action>, cancelling: Bool) {
    let schedules = withRequests { requests in
      guard !node.hasEnded else { return false }
      node.close()
      return append(to: &requests) {
        $0.appendEnd(behindCommits(.closure { tree in node.end(on: tree, cancelling: cancelling) }), of: node)
      }
    }
    if schedules { scheduleDrain() }
    if node.depth == 0 { order?.rootClosed() }
  }

  /// The store's last action takes its place in the order. Does nothing if a store on its path is closed.
  nonisolated func closeToOthers(_ node: StoreNode<Action>) {
    let schedules = withRequests { requests in
      guard !node.isClosed else { return false }
      node.closeToOthers()
      return node.isGivenLast && append(to: &requests) { $0.append(.closure { tree in node.commitLast(on: tree) }) }
    }
    if schedules { scheduleDrain() }
  }

  /// Ends a released store: without a task if nothing is in progress in the tree, and the store had ended before or is
  /// the root, so that nothing can follow.
  @usableFromInline nonisolated func release(_ node: StoreNode<Action>) {
    if node.depth > 0 { madeExtras.releasedChildren.wrappingAdd(1, ordering: .relaxed) }
    // Released with the last reference: an anchor of the store may still make children.
    if node.isTooDeep { return }
    let way = withRequests { requests -> ReleaseWay in
      let isIdle = requests.inbox.phase == .idle && order == nil
      if isIdle, node.isClosedHere, !node.isFinishingHere { return .endedBefore }
      node.close()
      if isIdle, isLastAndAlone(node) { return .alone }
      return .ordered(
        schedules: append(to: &requests) { $0.appendEnd(behindCommits(node), of: node) })
    }
    if node.depth == 0 { order?.rootClosed() }
    // SAFETY: a node lives on its tree's executor, but nothing is in progress there, which was checked under the lock.
    // Whatever runs there later first checks whether the store is closed. A store that has ended has no subscribers,
    // and only its own release touches its source and state.
    switch way {
    case .ordered(let schedules): if schedules { scheduleDrain() }
    case .endedBefore: unsafe node.step.unconfined.source.release()
    case .alone:
      unsafe node.step.unconfined.source.close()
      unsafe node.step.unconfined.source.release()
      existingTaskRegistry?.end(below: node, cancelling: true)
    }
  }

  /// Whether nothing else knows of a closed root store's tree, so that its contents can be dropped here.
  ///
  /// Unfinished visitors show in the counts. One that sets out later sees that the store is closed. The store was
  /// closed before this read-modify-write of `departed`. The visitor's own comes after it, and acquires the values that
  /// this one releases.
  private nonisolated func isLastAndAlone(_ node: StoreNode<Action>) -> Bool {
    guard node.depth == 0, !hasHooks.load(ordering: .relaxed) else { return false }
    let (departed, _) = departed.wrappingAdd(0, ordering: .acquiringAndReleasing)
    return departed == ended.load(ordering: .acquiring)
  }

  @usableFromInline nonisolated func scheduleDrain() {
    onExecutor { tree in
      // SAFETY: nothing else holds the closure: it is passed to the task, and this function returns.
      nonisolated(unsafe) let drain: @isolated(any) () async -> Void = { tree.performDrain(tree, Int(tree.quantum)) }
      unsafe Task.detached(priority: tree.priority, operation: drain)
    }
  }

  // MARK: On the executor

  @inline(__always) @inlinable func enter() -> Bool {
    guard reentrancyGuard.load(ordering: .relaxed) == [] else { return false }
    reentrancyGuard.store(.entered, ordering: .relaxed)
    return true
  }

  @inline(__always) @inlinable func leave() {
    if reentrancyGuard.load(ordering: .relaxed) != .entered { return leaveOwing() }
    reentrancyGuard.store([], ordering: .relaxed)
  }

  @usableFromInline func leaveOwing() {
    // An executor that runs jobs as they are enqueued runs it here.
    if leavesOwingDrain() { scheduleDrain() }
  }

  @usableFromInline func leavesOwingDrain() -> Bool {
    startOwed()
    let owesDrain = reentrancyGuard.load(ordering: .relaxed).contains(.owesDrain)
    reentrancyGuard.store([], ordering: .relaxed)
    return owesDrain
  }

  /// False if the tree is not at work. Only on the executor.
  @usableFromInline nonisolated func owesStarts() -> Bool {
    let phase = reentrancyGuard.load(ordering: .relaxed)
    if phase.contains(.entered) { reentrancyGuard.store(phase.union(.owesStarts), ordering: .relaxed) }
    return phase.contains(.entered)
  }

  /// Only on the executor.
  @inlinable nonisolated var isOwingStarts: Bool { reentrancyGuard.load(ordering: .relaxed).contains(.owesStarts) }

  @inline(__always) @inlinable nonisolated func startOwed() { if isOwingStarts { startOwedNow() } }

  @usableFromInline nonisolated func startOwedNow() {
    let phase = reentrancyGuard.load(ordering: .relaxed)
    reentrancyGuard.store(phase.subtracting(.owesStarts), ordering: .relaxed)
    existingTaskRegistry?.startOwed()
  }

  @inlinable func drain(_ quantum: Int) {
    guard enter() else {
      let phase = reentrancyGuard.load(ordering: .relaxed)
      return reentrancyGuard.store(phase.union(.owesDrain), ordering: .relaxed)
    }
    // An executor that runs jobs as they are enqueued has run the next drain within this one. Begun there again, each
    // drain of a flood would run within the one before.
    repeat { drainEntered(quantum) } while leavesOwingDrain() && enter()
  }

  @inline(__always) @inlinable func drainEntered(_ quantum: Int) {
    var left = quantum
    var isMore = true
    while isMore, left > 0 {
      isMore = unsafe batch.isEmpty ? withRequests { unsafe $0.take(into: &batch) } : hasSegments
      performRest(&left)
    }
    let visitorExpected = departed.load(ordering: .relaxed) != ended.load(ordering: .relaxed)
    let end = withRequests { requests in
      let end = requests.drainEnded(withRest: unsafe !batch.isEmpty, visitorExpected: visitorExpected)
      if requests.inbox.phase == .idle { isBusy.store(false, ordering: .relaxed) }
      return end
    }
    switch end {
    case .again: scheduleDrain()
    case .leftToVisitor: break
    case .idle(let waiters):
      if unsafe batch.actions.capacity >= Requests<Action>.greatestKept {
        unsafe batch = Requests<Action>.Batch()
      }
      for waiter in waiters { waiter.resume(returning: ()) }
    }
  }

  @usableFromInline nonisolated var hasSegments: Bool { withRequests { !$0.full.isEmpty } }

  var waitingCount: Int {
    let (run, action) = progress
    let done = unsafe action + batch.runs.commandCount(before: run)
    return unsafe batch.count - done + withRequests { $0.count }
  }

  nonisolated var hasWaiting: Bool { withRequests { $0.inbox.phase != .idle } }

  @usableFromInline func untilIdle(isolation: isolated (any Actor)? = #isolation) async {
    await Waiter<Void>.wait { waiter in
      if withRequests({ $0.inbox.isIdle(orTells: waiter) }) { waiter.resume(returning: ()) }
    }
  }

  @inlinable var progress: (run: Int, action: Int) {
    get { (Int(nextRun.load(ordering: .relaxed)), Int(nextAction.load(ordering: .relaxed))) }
    set {
      nextRun.store(Int32(truncatingIfNeeded: newValue.run), ordering: .relaxed)
      nextAction.store(Int32(truncatingIfNeeded: newValue.action), ordering: .relaxed)
    }
  }

  @inlinable func performRest(_ quantum: inout Int) {
    if unsafe batch.isEmpty { return }
    var performing = Requests<Action>.Batch()
    unsafe swap(&performing, &batch)
    let (runs, actions) = (performing.runs.count, performing.actions.count)
    var (run, action) = progress
    while run < runs, quantum > 0 {
      if performing.runs.all[run].isCommand {
        quantum -= 1
        run += 1
        // SAFETY: this run is a command.
        unsafe perform(run - 1, of: &performing.runs, left: actions - action)
      } else {
        let end = performing.runs.end(of: run, in: actions)
        let part = action..<min(end, action + quantum)
        // SAFETY: these are this tree's requests, and this run is no command.
        let node: StoreNode<Action> = unsafe performing.runs.node(at: run)
        commit(part, of: &performing.actions, from: node)
        quantum -= part.count
        action = part.upperBound
        if action == end { run += 1 }
      }
    }
    if run == runs {
      performing.removeAll()
      (run, action) = (0, 0)
    }
    progress = (run, action)
    unsafe swap(&performing, &batch)
  }

  /// Performs a command. SAFETY: called for runs that are one.
  ///
  /// - Parameter left: The actions of the batch left afterwards, for a command that reads `waitingCount`.
  @unsafe @usableFromInline func perform(_ run: Int, of runs: inout Runs, left: Int) {
    let rest = left + runs.commandCount - runs.commandCount(before: run + 1)
    progress = (0, -rest)
    unsafe runs.perform(at: run, on: self)
    startOwed()
  }

  @inlinable func commit(_ range: Range<Int>, of actions: inout ContiguousArray<Action>, from node: StoreNode<Action>) {
    let hasStages = node.step.withValue(on: self) { $0.stages != nil }
    // Loaded once, because producers write the same cache line. No hook joins this run's path within it: setting an
    // interceptor and waiting for an action have places of their own, and a new child store is not on the path.
    let hasHooks = hasHooks.load(ordering: .relaxed)
    var actions = actions.mutableSpan
    for place in range {
      if hasStages {
        _ = process(&actions[place], from: node)
      } else {
        // SAFETY: on this tree's executor.
        unsafe node.commit(&actions[place], recording: false, telling: hasHooks)
      }
    }
  }

  @inlinable func process(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    node.step.withValue(on: self) { $0.stages?.process(&action, from: node) }
  }
  /// Only on the executor.
  @inlinable nonisolated func countCommit() {
    commitCount.store(commitCount.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  // MARK: Visitors

  /// Runs a closure on the executor after all earlier requests. If some wait, or the visitor comes from the tree's own
  /// work, it takes a place in the order by `pending`. So no other request is performed in the visitor's task, under
  /// its task-local values.
  ///
  /// - Parameter effect: The caller, if it is not the current task's effect.
  @inline(__always) @inlinable func run<Result: Sendable>(
    for node: StoreNode<Action>?, by effect: RunningEffect? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: @Sendable (isolated Tree) throws(StoreError) -> Result, pending: @Sendable () -> PendingRequest<Result>
  ) async throws(StoreError) -> Result {
    announceVisit()
    switch try await runNow(for: node, by: effect, body, pending: pending) {
    case .done(let result): return result
    case .pending(let request): return try await request.value()
    }
  }

  @usableFromInline func run<Result: Sendable>(
    isolation: isolated (any Actor)? = #isolation,
    _ body: @escaping @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await run(for: nil) { tree throws(StoreError) in
      try body(tree)
    } pending: {
      PendingRequest(body)
    }
  }

  @inlinable func runNow<Result: Sendable>(
    for node: StoreNode<Action>?, by effect: RunningEffect? = nil,
    _ body: @Sendable (isolated Tree) throws(StoreError) -> Result, pending: @Sendable () -> PendingRequest<Result>
  ) throws(StoreError) -> Visit<Result> {
    guard enterOnVisit() else { return .pending(postpone(pending(), for: node, by: effect)) }
    defer { leaveFromVisit() }
    return .done(try body(self))
  }

  @inline(__always) @inlinable func send(
    _ action: consuming Action, from node: StoreNode<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    announceVisit()
    if let request = try await sendNow(&action, from: node) { try await request.value() }
  }

  @inlinable func sendNow(
    _ action: inout Action, from node: StoreNode<Action>
  ) throws(StoreError) -> PendingRequest<Void>? {
    guard enterOnVisit() else { return postpone(action, from: node) }
    defer { leaveFromVisit() }
    try accept(&action, from: node)
    return nil
  }

  @usableFromInline nonisolated func postpone(_ action: Action, from node: StoreNode<Action>) -> PendingRequest<Void> {
    postpone(
      PendingRequest(isSend: true) { [self] _ throws(StoreError) in try acceptHere(action, from: node, isPlaced: true)
      },
      for: node)
  }

  /// Either way, requests that a drain has left to the visitor are picked up.
  @usableFromInline nonisolated func postpone<Value>(
    _ request: PendingRequest<Value>, for node: StoreNode<Action>?, by effect: RunningEffect? = nil
  ) -> PendingRequest<Value> {
    request.context = carriedContext
    let isOrdered = order != nil
    request.isGivenUpOnCancel = request.isSend && isOrdered
    let isGivenUp = request.isGivenUp
    let command = isOrdered ? inOrder(request) : request
    if isOrdered, !isGivenUp, performInTurn(command, for: node, by: effect) { return request }
    let (refusal, schedules) = withRequests { requests -> (StoreError?, Bool) in
      let takesUp = requests.inbox.visitorCame()
      if let node, node.refuses(effect) { return (node.errorWhenClosed, takesUp) }
      if isGivenUp { return (.withdrawn, takesUp) }
      return (nil, append(to: &requests) { $0.append(command) } || takesUp)
    }
    if schedules { scheduleDrain() }
    if let refusal { request.refuse(refusal) }
    return request
  }

  @inlinable func accept(
    _ action: inout Action, from node: StoreNode<Action>, isPlaced: Bool = false
  ) throws(StoreError) {
    guard isPlaced || !node.refuses() else { throw node.errorWhenClosed }
    if node.step.withValue(on: self, { $0.stages != nil }) {
      if let rejection = process(&action, from: node) { throw rejection }
    } else {
      // SAFETY: on this tree's executor.
      unsafe node.commit(&action, recording: false)
    }
  }

  /// Like `accept`, checking at run time that the caller is on the executor.
  ///
  /// - Parameter isPlaced: Whether the action was placed while the store was open, and so is committed even after the
  ///   store's end.
  @usableFromInline nonisolated func acceptHere(
    _ action: Action, from node: StoreNode<Action>, isPlaced: Bool
  ) throws(StoreError) {
    let outcome = assumeIsolated { tree in
      var action = action
      return Result<Void, StoreError> { () throws(StoreError) in
        try tree.accept(&action, from: node, isPlaced: isPlaced)
      }
    }
    try outcome.get()
  }

  @inlinable nonisolated func announceVisit() {
    departed.wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  /// If the visitor is not let in, its visit has ended.
  @inline(__always) @inlinable func enterOnVisit() -> Bool {
    let isIn = !isBusy.load(ordering: .acquiring) && enter()
    if !isIn { endVisit() }
    return isIn
  }

  /// Ends the visit first: the drain that is owed may run at once, and must leave nothing to this visitor.
  @inline(__always) @inlinable func leaveFromVisit() {
    endVisit()
    leave()
  }

  @inlinable func endVisit() {
    ended.store(ended.load(ordering: .relaxed) &+ 1, ordering: .releasing)
  }

  /// - Parameter work: Begins at this place in the order, too, and ends when the next call for the store replaces it.
  @usableFromInline nonisolated func set(
    _ hook: Confined<CommitHook<Action>?>, inOrderOf node: StoreNode<Action>, with work: TreeWork?
  ) {
    let extras = madeExtras
    hasHooks.store(true, ordering: .relaxed)
    let setting = Command.closure { tree in
      let replaced = extras.onExecutor(on: tree).exchangeWork(of: node, with: work)
      node.set(hook(on: tree), on: tree)
      replaced?.end(tree)
      work?.begin(tree)
    }
    _ = enqueue(behindCommits(setting), for: node)
  }

  /// Calls a closure with each action of the store committed from this place in the order on, until it returns true.
  /// False if the store is closed.
  nonisolated func watch(
    _ node: StoreNode<Action>, as number: ObjectIdentifier, _ isOver: @escaping @Sendable (Action) -> Bool
  ) -> Bool {
    let extras = madeExtras
    hasHooks.store(true, ordering: .relaxed)
    let order = order
    let watch = ActionWatch(store: node, isOver: isOver)
    let watching = Command.closure { [self] tree in
      let begin = { @Sendable (tree: isolated any TreeIsolation) in
        extras.onExecutor(on: tree).watch(as: number, watch)
        self.hasWatches.store(true, ordering: .relaxed)
      }
      guard let waiting = order?.follow({ begin($0) }) else { return begin(tree) }
      extras.onExecutor(on: tree).waitsToWatch(as: number, waiting)
    }
    return enqueue(watching, for: node)
  }

  nonisolated func stopWatching(as number: ObjectIdentifier) {
    let extras = madeExtras
    let order = order
    // Not behind earlier commits: no closure outlives its caller.
    let stopping = Command.closure { tree in
      if let waiting = extras.onExecutor(on: tree).stopWatching(as: number) { order?.forget(waiting) }
    }
    place(stopping)
  }

  // MARK: Extras

  @inlinable nonisolated var madeExtras: Extras { extras { Extras() } }

  @usableFromInline nonisolated var existingTaskRegistry: TaskRegistry? {
    extras.withObject { $0.taskRegistry.withObject { $0 } } ?? nil
  }

  /// Under the requests' lock, so that a store that ends at the same time either finds it or is seen to be closed.
  nonisolated func taskRegistry(orMake make: () -> TaskRegistry) -> TaskRegistry {
    existingTaskRegistry ?? withRequests { _ in madeExtras.taskRegistry(orMake: make) }
  }

  nonisolated var childCount: Int {
    extras.withObject { extras in
      let released = extras.releasedChildren.load(ordering: .relaxed)
      return extras.childCount.load(ordering: .relaxed) - released
    } ?? 0
  }

  private nonisolated func onExecutor(_ make: (isolated Tree) -> Void) {
    // SAFETY: `isolated` does not change how a function is called, and the closure passed here makes a task of the
    // tree, and accesses none of its state.
    withoutActuallyEscaping(make) { make in
      unsafe unsafeBitCast(make, to: ((Tree) -> Void).self)(self)
    }
  }
}

extension Tree {
  @usableFromInline enum ReleaseWay {
    case ordered(schedules: Bool)
    case endedBefore
    case alone
  }
}
