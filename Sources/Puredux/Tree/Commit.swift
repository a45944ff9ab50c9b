import Synchronization

// The path of an action: middleware (`CommitStages.process`), then `StoreNode.commit`: reducers from the action's store
// up to the root, publication (`CommitStep.publishIfFollowed`), interceptors (`CommitHook`). Without middleware, history
// or log, an action starts at `StoreNode.commit`.

/// One object serves all actions of a store, which pass one at a time.
@usableFromInline final class CommitStages<Action: Sendable> {
  @usableFromInline typealias Commit = (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void
  @usableFromInline typealias Record = (inout Action, StoreNode<Action>) -> Void

  // Of this store alone.
  /// Calls the store's reducer, and adds the change to its `History`.
  @usableFromInline let record: Record?
  /// Given to the store at its end, once, even if it is both shut down and released.
  @usableFromInline var last: Action?

  // Of this store or one above it.
  @usableFromInline let handler: CommitHandler<Action>?
  /// Whether one of these stores has a `History`.
  @usableFromInline let records: Bool

  @usableFromInline let committing: Commit
  @usableFromInline let ordered: Ordered?
  /// With an external order: commits the root store's actions from other replicas and from a replay, without effects.
  @usableFromInline let quiet: CommitHandler<Action>?

  // Atomics have no run-time exclusivity checks.
  /// Odd while an action passes.
  @usableFromInline let passages = Atomic(0)
  @usableFromInline let hasCommitted = Atomic(false)
  // SAFETY: reached only from the tree's isolation, where the reentrancy guard admits one caller at a time
  // (`Tree.enter`); an access copies a value out or sets it.
  @usableFromInline @exclusivity(unchecked) var rejection: RejectionReason?

  @usableFromInline init(
    _ handler: CommitHandler<Action>?, committing: @escaping Commit, record: Record?,
    last: Action? = nil, ordered: Ordered? = nil, quiet: CommitHandler<Action>? = nil, above: CommitStages? = nil
  ) {
    self.handler = handler
    self.committing = committing
    self.record = record
    self.last = last
    self.ordered = ordered ?? above?.ordered
    self.quiet = quiet
    records = record != nil || above?.records == true
  }

  var reachesDown: Bool { handler != nil || records }

  @inlinable static var committing: @Sendable (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void {
    { action, node, stages in stages.commit(&action, from: node) }
  }

  @inlinable func process(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    begin()
    if ordered != nil { return processInOrder(&action, from: node) }
    if handler == nil { committing(&action, node, self) } else { handler?.perform(&action, node, self) }
    return end()
  }

  @inlinable func begin() {
    passages.store((passage + 1) | 1, ordering: .relaxed)
    hasCommitted.store(false, ordering: .relaxed)
    unsafe rejection = nil
  }

  @inlinable func end() -> StoreError? {
    passages.store((passage + 1) & ~1, ordering: .relaxed)
    return unsafe isCommitted ? nil : .rejected(reason: rejection)
  }

  /// Commits the action that the handlers passed on. SAFETY: here and below, stages belong to a step, and so are
  /// reached only on the executor of the tree that the node belongs to.
  @inlinable func commit(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.commit(&action, recording: records)
  }

  @inlinable func commitQuietly(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.reduce(&action, recording: records)
  }

  @inlinable var passage: Int { passages.load(ordering: .relaxed) }
  @inlinable var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }
  @usableFromInline var isReplay: Bool { ordered?.order.isReplaying ?? false }

  var reasonGiven: RejectionReason? { unsafe rejection }

  @inlinable func reject(_ reason: RejectionReason) { unsafe rejection = reason }
}

/// A middleware; lives on the tree's executor.
@usableFromInline final class CommitHandler<Action: Sendable> {
  /// Gets this object, so that a closure that captures only the user's closure is specialized.
  @usableFromInline typealias Handle = (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) ->
    Void

  @usableFromInline let handle: Handle
  @usableFromInline let source: AnySource
  @usableFromInline let next: CommitHandler?
  @usableFromInline let isInstrument: Bool

  @usableFromInline init(
    _ handle: @escaping Handle, showing source: AnySource, before next: CommitHandler?, isInstrument: Bool = false
  ) {
    self.handle = handle
    self.source = source
    self.next = next
    self.isInstrument = isInstrument
  }

  /// Without reference counting. SAFETY: the caller holds it.
  @inlinable @inline(__always) func perform(
    _ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>
  ) {
    unsafe Unmanaged.passUnretained(self)._withUnsafeGuaranteedRef { $0.handle($0, &action, node, stages) }
  }

  /// Not inlined, so that the caller copies the action once, and not piece by piece.
  @inline(never) @inlinable func pass(_ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>)
  {
    if let next { return next.perform(&action, node, stages) }
    stages.commit(&action, from: node)
  }
}

/// SAFETY: to be called on the tree's executor, to which all steps and hooks of the tree are confined. The caller holds
/// this node, which holds its parent until it is destroyed, and so on up to the root.
extension StoreNode {
  @unsafe @inlinable @inline(__always) func commit(_ action: inout Action, recording: Bool) {
    unsafe commit(&action, recording: recording, telling: tree.hasHooks.load(ordering: .relaxed))
  }

  /// Effects that the interceptors return start at the end.
  @unsafe @inlinable @inline(__always) func commit(_ action: inout Action, recording: Bool, telling hasHooks: Bool) {
    guard hasHooks else { return unsafe reduce(&action, recording: recording) }
    if tree.hasPreparations.load(ordering: .relaxed) { unsafe prepare(&action) }
    unsafe reduce(&action, recording: recording)
    unsafe tell(&action)
    tree.startOwed()
  }

  @unsafe @inlinable @inline(__always) func reduce(_ action: inout Action, recording: Bool) {
    if recording { unsafe reduceAndRecord(&action) } else { unsafe reduce(&action) }
    tree.countCommit()
  }

  @unsafe @inlinable @inline(__always) func reduce(_ action: inout Action) {
    var last = unsafe Unmanaged.passUnretained(self)
    var next = unsafe Optional(last)
    while let node = unsafe next {
      unsafe node._withUnsafeGuaranteedRef { unsafe $0.step.unconfined.reduce(&action) }
      unsafe last = node
      unsafe next = node._withUnsafeGuaranteedRef { unsafe $0.parent.map { unsafe Unmanaged.passUnretained($0) } }
    }
    unsafe last._withUnsafeGuaranteedRef { unsafe $0.step.unconfined.publishIfFollowed() }
  }

  @unsafe @inline(never) @inlinable func reduceAndRecord(_ action: inout Action) {
    climb { node in
      var isRecorded = false
      unsafe node.withStages { stages in
        guard stages.record != nil else { return }
        isRecorded = true
        stages.record?(&action, self)
      }
      if !isRecorded { unsafe node.step.unconfined.reduce(&action) }
      if node.parent == nil { unsafe node.step.unconfined.publishIfFollowed() }
      return true
    }
  }

  @unsafe @inline(never) @inlinable func prepare(_ action: inout Action) {
    climb { node in
      unsafe node.withHook { if $0.prepare != nil { $0.prepare?(&action, self) } }
      return true
    }
  }

  @unsafe @inline(never) @inlinable func tell(_ action: inout Action) {
    climb { node in
      unsafe node.withHook { $0.tell($0.context, &action, self) }
      return true
    }
    if tree.hasWatches.load(ordering: .relaxed) { unsafe tellWatches(action) }
  }

  /// Passes the store's own stages to a closure, without reference counting. SAFETY: this node holds them.
  @unsafe @inlinable @inline(__always) func withStages(_ body: (CommitStages<Action>) -> Void) {
    guard let stages = unsafe step.unconfined.stages else { return }
    unsafe Unmanaged.passUnretained(stages)._withUnsafeGuaranteedRef { body($0) }
  }

  /// Passes the store's hook to a closure, without reference counting. SAFETY: this node holds it, and no hook is
  /// replaced during a commit.
  @unsafe @inlinable @inline(__always) func withHook(_ body: (CommitHook<Action>) -> Void) {
    guard let hook = unsafe hook else { return }
    unsafe hook._withUnsafeGuaranteedRef { body($0) }
  }
}

/// A store's interceptor; lives on the tree's executor.
@usableFromInline final class CommitHook<Action: Sendable> {
  /// Gets `context`, so that a closure that otherwise captures only constants is specialized.
  @usableFromInline typealias Tell = (AnyObject, inout Action, StoreNode<Action>) -> Void

  @usableFromInline let prepare: ((inout Action, StoreNode<Action>) -> Void)?
  @usableFromInline let tell: Tell
  @usableFromInline let context: AnyObject

  @usableFromInline init(
    _ context: AnyObject, prepare: ((inout Action, StoreNode<Action>) -> Void)?, tell: @escaping Tell
  ) {
    self.context = context
    self.prepare = prepare
    self.tell = tell
  }
}

struct ActionWatch<Action: Sendable>: Sendable {
  let store: StoreNode<Action>
  /// Called with each action until it returns true.
  let isOver: @Sendable (Action) -> Bool
}

extension CommitStages {
  @usableFromInline final class Ordered {
    let order: any Order<Action>
    /// Runs at the commit; excludes the admission.
    let middleware: CommitHandler<Action>?

    init(_ order: any Order<Action>, _ middleware: CommitHandler<Action>?) {
      self.order = order
      self.middleware = middleware
    }
  }

  @usableFromInline func processInOrder(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    guard let order = ordered?.order else { return nil }
    let isCommitting = order.isCommitting
    let failure = order.process(&action, Passage(node: node, stages: self))
    // At the commit, the instrument's handler precedes the middleware.
    if !isCommitting, case .rejected(let reason)? = failure, let instrument = node.tree.instrument {
      let event = instrument.event(instrument.begins(at: node.commitCount), at: node.commitCount, of: node.id)
      instrument.instrument.rejected(action, reason, event, in: instrument.store)
    }
    return failure
  }
}
