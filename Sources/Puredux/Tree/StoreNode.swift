import Synchronization

/// Where the path of an action begins (G2). Outlives its store, so that proxies notice the store's end. As a command,
/// it is the end of a released store.
@usableFromInline @safe final class StoreNode<Action: Sendable>: Command, AnyStoreNode, @unchecked Sendable {
  @usableFromInline let tree: Tree<Action>
  @usableFromInline let parent: StoreNode?
  @usableFromInline let step: Confined<CommitStep<Action>>
  /// From the lowest bit: closed, closed to all but its own effects, given an action at its end, `needsPlacing`, too
  /// deep. Then 16 bits of depth; from the 25th on, the number.
  @usableFromInline let bits: Atomic<UInt64>
  /// The store's interceptor. SAFETY: reached only on the tree's executor, where the reentrancy guard admits one caller
  /// at a time (`Tree.enter`), or before anything else has the node. An access copies the value out or sets it. Counted
  /// by hand, so that a commit counts no references (20 ns): retained by `init` and `set`, released by `set` and
  /// `deinit`.
  @usableFromInline @exclusivity(unchecked) nonisolated(unsafe) var hook: Unmanaged<CommitHook<Action>>?

  @usableFromInline init(
    tree: Tree<Action>, parent: StoreNode?, isGivenLast: Bool = false,
    step: consuming Confined<CommitStep<Action>>, hook: Confined<CommitHook<Action>?>? = nil
  ) {
    self.tree = tree
    self.parent = parent
    let depth = parent.map { UInt64($0.depth) + 1 } ?? 0
    let number = parent == nil ? 0 : UInt64(truncatingIfNeeded: tree.nextChildNumber())
    let carries = parent?.needsPlacing ?? tree.needsPlacing
    bits = Atomic((number << 24) | (depth << 5) | (carries ? 8 : 0) | (isGivenLast ? 4 : 0))
    self.step = step
    unsafe self.hook = (hook?.unconfined ?? nil).map { unsafe Unmanaged.passRetained($0) }
    super.init()
    guard let hook = unsafe hook?.unconfined ?? nil else { return }
    tree.hasHooks.store(true, ordering: .relaxed)
    if hook.prepare != nil { tree.hasPreparations.store(true, ordering: .relaxed) }
  }

  /// Not during a commit. The replaced interceptor is released after the access: no code of the user's runs within it.
  func set(_ hook: CommitHook<Action>?, on tree: isolated any TreeIsolation) {
    if hook?.prepare != nil { self.tree.hasPreparations.store(true, ordering: .relaxed) }
    let replaced = unsafe self.hook
    unsafe self.hook = hook.map { unsafe Unmanaged.passRetained($0) }
    unsafe replaced?.release()
  }

  /// A store that is too deep (`AnySource.greatestLevel`), or a view of one: closed from the start, and on no other
  /// store's path.
  @usableFromInline init(tooDeepUnder above: StoreNode, isView: Bool, showing source: Confined<AnySource>) {
    tree = above.tree
    parent = above.isTooDeep ? above.parent : above
    let number = isView ? above.bits.load(ordering: .relaxed) >> 24 : UInt64(above.tree.nextChildNumber())
    let depth = UInt64(isView || above.isTooDeep ? above.depth : above.depth + 1)
    bits = Atomic((number << 24) | (depth << 5) | 16 | 8 | 1)
    step = source.map { CommitStep(AnyStateStorage(), reduce: { _, _ in }, stages: nil, source: $0, publish: nil) }
    super.init()
  }

  @usableFromInline func makeClosedView() -> any AnyStoreNode {
    let source = Confined<Source<Void>>.absent()
    return StoreNode(tooDeepUnder: self, isView: true, showing: source.map { $0 })
  }

  @inlinable func dispatch(_ action: Action) -> DispatchResult {
    if needsPlacing { return dispatchAside(action) }
    return tree.enqueue(action, from: self) ? .enqueued : .terminated
  }

  @inlinable var needsPlacing: Bool { bits.load(ordering: .relaxed) & 8 != 0 }

  /// Not inlined, so that the action is written to memory only here.
  @inline(never) @inlinable func dispatchAside(_ action: Action) -> DispatchResult { dispatchSpecially(action) }

  @usableFromInline func dispatchSpecially(_ action: Action) -> DispatchResult {
    if let refusal = refusal(of: nil) { return refusal }
    let isAccepted = tree.carriesValues ? enqueue(placed(action)) : tree.enqueue(action, from: self)
    return isAccepted ? .enqueued : resultWhenClosed
  }

  @usableFromInline var refusal: DispatchResult? { needsPlacing ? tree.order?.refusal : nil }

  @usableFromInline func refusal(of effect: RunningEffect?) -> DispatchResult? {
    guard needsPlacing, let order = tree.order else { return nil }
    var refusal = order.refusal
    if refusal == nil, tree.withRequests({ $0.count }) >= order.inboxBound { refusal = .overloaded }
    return refusal == nil || refuses(effect) ? nil : refusal
  }

  @usableFromInline var carriedContext: CarriedValues.Context? { needsPlacing ? tree.carriedContext : nil }

  @inlinable var id: StoreID { StoreID(number: Int(truncatingIfNeeded: bits.load(ordering: .relaxed) >> 24)) }

  @inlinable var depth: Int { Int((bits.load(ordering: .relaxed) >> 5) & 0xffff) }

  @usableFromInline var isTooDeep: Bool { bits.load(ordering: .relaxed) & 16 != 0 }

  @inlinable var isClosedHere: Bool { bits.load(ordering: .relaxed) & 1 != 0 }

  @inlinable var isClosed: Bool {
    if isClosedHere { return true }
    return parent != nil && tree.closedCount.load(ordering: .relaxed) != 0 && isClosedOnPath
  }

  @inlinable var isClosedOnPath: Bool {
    var isOpen = true
    climb { node in
      isOpen = !node.isClosedHere
      return isOpen
    }
    return !isOpen
  }

  /// Calls a closure with this node and its ancestors while it returns true. Reference counting would cost more than
  /// the reducers on the way.
  ///
  /// SAFETY: a node holds its parent, which holds the next, for as long as it lives itself.
  @inlinable @inline(__always) func climb(_ body: (StoreNode) -> Bool) {
    var next = unsafe Optional(Unmanaged.passUnretained(self))
    while let node = unsafe next {
      guard unsafe node._withUnsafeGuaranteedRef({ body($0) }) else { return }
      unsafe next = node._withUnsafeGuaranteedRef { unsafe $0.parent.map { unsafe Unmanaged.passUnretained($0) } }
    }
  }

  /// Under the requests' lock.
  @inlinable func close() {
    countClosed()
    bits.store(bits.load(ordering: .relaxed) & ~2 | 1, ordering: .releasing)
    if isGivenLast { keepLast() }
  }

  /// Under the requests' lock.
  func closeToOthers() {
    countClosed()
    bits.store(bits.load(ordering: .relaxed) | 3, ordering: .releasing)
    if isGivenLast { keepLast() }
  }

  /// From now on, the stores below check the stores above them, and refused callers see the count.
  @inlinable func countClosed() {
    if !isClosedHere { tree.closedCount.wrappingAdd(1, ordering: .relaxed) }
  }

  @inlinable var isGivenLast: Bool { bits.load(ordering: .relaxed) & 4 != 0 }

  @usableFromInline func keepLast() {
    if parent?.hasEnded == false { return }
    bits.store(bits.load(ordering: .relaxed) & ~4, ordering: .relaxed)
  }

  var isFinishingHere: Bool { bits.load(ordering: .relaxed) & 2 != 0 }

  @usableFromInline var hasEnded: Bool { isClosed && firstOnPath { $0.hasEndedHere } != nil }

  private var hasEndedHere: Bool { isClosedHere && !isFinishingHere }

  var hasTreeEnded: Bool { isClosed && firstOnPath { $0.parent == nil && $0.hasEndedHere } != nil }

  /// Each closed store on the path accepts only the effects that it waits for: its own, and those of stores below it.
  ///
  /// - Parameter effect: The caller, if it is not the current task's effect.
  @inline(__always) @inlinable func refuses(_ effect: RunningEffect? = nil) -> Bool {
    isClosed && refusesWhenClosed(effect)
  }

  @usableFromInline func refusesWhenClosed(_ effect: RunningEffect?) -> Bool {
    atomicMemoryFence(ordering: .acquiring)
    guard !hasEnded else { return true }
    let effects = (effect.map { [$0] } ?? []).filter { !$0.hasEnded } + RunningEffect.ofCurrentTask
    guard !effects.isEmpty else { return true }
    return firstOnPath { closed in
      closed.isClosedHere && !effects.contains { ($0.runner.store as? any AnyStoreNode)?.isAt(orBelow: closed) == true }
    } != nil
  }

  private func firstOnPath(where condition: (StoreNode) -> Bool) -> StoreNode? {
    var next: StoreNode? = self
    while let node = next {
      if condition(node) { return node }
      next = node.parent
    }
    return nil
  }

  @usableFromInline override func perform(on tree: isolated any TreeIsolation) {
    end(on: tree, cancelling: true)
    step.withValue(on: tree) { $0.source.release() }
  }

  // MARK: AnyStoreNode

  @usableFromInline var parentNode: (any AnyStoreNode)? { parent }

  @inlinable func enqueue(_ command: Command) -> Bool { tree.enqueue(command, for: self) }

  @usableFromInline func enqueueDetachment(_ command: Command) { tree.enqueueDetachment(command, for: self) }

  @usableFromInline func place(_ command: Command) { tree.place(command) }

  @usableFromInline func placeBehindCommits(_ command: Command) { tree.place(tree.behindCommits(command)) }

  @usableFromInline func enqueue(_ command: Command, by effect: RunningEffect) -> Bool {
    tree.enqueue(command, for: self, by: effect)
  }

  @usableFromInline func hosts(_ effect: RunningEffect) -> Bool { (effect.runner.store as? StoreNode)?.tree === tree }

  @usableFromInline var existingTaskRegistry: TaskRegistry? { tree.existingTaskRegistry }

  @usableFromInline func taskRegistry(orMake make: (TaskPriority?) -> TaskRegistry) -> TaskRegistry {
    tree.taskRegistry { make(tree.priority) }
  }

  @usableFromInline func owesStarts() -> Bool { tree.owesStarts() }

  @usableFromInline var commitsSubmitted: Bool { tree.order?.isCommitting == true }

  @usableFromInline func committing<Failure: Error>(
    of awaitedWork: AwaitedWork?, on tree: isolated any TreeIsolation, _ body: () throws(Failure) -> Void
  ) throws(Failure) {
    guard let awaitedWork else { return try body() }
    try self.tree.madeExtras.onExecutor(on: tree).committing(of: awaitedWork, body)
  }

  @inlinable func run<Result: Sendable>(
    isolation: isolated (any Actor)?, by effect: RunningEffect?,
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result,
    pending: @Sendable () -> PendingRequest<Result>
  ) async throws(StoreError) -> Result {
    try await tree.run(for: self, by: effect, isolation: isolation) { tree throws(StoreError) in
      try body(tree)
    } pending: {
      pending()
    }
  }

  @usableFromInline func setFarewell(
    _ farewell: (@Sendable (isolated any TreeIsolation) -> Void)?, of owner: ObjectIdentifier,
    on tree: isolated any TreeIsolation
  ) {
    guard self.tree.order != nil else { return }
    self.tree.madeExtras.onExecutor(on: tree).setFarewell(farewell, of: owner, in: self)
  }

  @usableFromInline var instrument: TreeInstrument? { tree.instrument }

  @usableFromInline var commitCount: Int { tree.commitCount.load(ordering: .relaxed) }

  /// Each round takes its turn, so that a cancelled caller can leave an endless chain of requests.
  @usableFromInline func untilQuiet(isolation: isolated (any Actor)?) async {
    var commits: Int
    repeat {
      commits = commitCount
      try? await tree.run(isolation: isolation) { _ throws(StoreError) in }
    } while (commitCount != commits || tree.hasWaiting) && !Task.isCancelled
  }

  deinit {
    unsafe hook?.release()
    if isClosedHere, !isTooDeep { tree.closedCount.wrappingSubtract(1, ordering: .relaxed) }
  }
}

extension StoreNode {
  func commitLast(on tree: isolated any TreeIsolation) {
    guard let action = step.withValue(on: tree, { $0.stages?.last.take() }) else { return }
    try? self.tree.acceptHere(action, from: self, isPlaced: true)
  }

  func bidFarewell(on tree: isolated any TreeIsolation) {
    for farewell in self.tree.madeExtras.onExecutor(on: tree).takeFarewells(of: self) { farewell(tree) }
  }

  func end(on tree: isolated any TreeIsolation, cancelling: Bool) {
    if isGivenLast { commitLast(on: tree) }
    step.withValue(on: tree) { $0.source.close() }
    set(nil, on: tree)
    if depth == 0 {
      self.tree.extras.withObject { extras in
        extras.onExecutor(on: tree).forget()
        extras.order?.rootEnded(on: tree)
      }
    } else {
      self.tree.extras.withObject { $0.onExecutor(on: tree).forget(self) }
    }
    self.tree.existingTaskRegistry?.end(below: self, cancelling: cancelling)
  }
}
