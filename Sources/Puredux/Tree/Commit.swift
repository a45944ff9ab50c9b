import Synchronization

// The path of an action that middleware has passed on: from the node of its store up to the root's.

/// SAFETY: to be called on the tree's executor, to which all steps and hooks of the tree are confined. The caller holds
/// this node, which holds its parent until it is destroyed, and so on up to the root.
extension StoreNode {
  /// The interceptors of the path see the state before, the reducers change the states, and the root store publishes
  /// its state. Then the interceptors return effects, which start at the end.
  @unsafe @inlinable @inline(__always) func commit(_ action: inout Action, recording: Bool) {
    guard tree.hasHooks.load(ordering: .relaxed) else { return unsafe reduce(&action, recording: recording) }
    unsafe prepare(&action)
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
    unsafe Unmanaged.passUnretained(hook)._withUnsafeGuaranteedRef { body($0) }
  }
}
