/// The commit callbacks of a tree's stores, once a child store has set its own after it was made, or a caller waits for
/// an action: one object for all stores, so that the callbacks of a path are called from the lowest store up. Lives on
/// the tree's executor.
final class CommitCallbacks<Action: Sendable> {
  typealias OnCommit = CommitStep<Action>.OnCommit

  var root: OnCommit?
  /// In place of the callbacks that these stores were made with; nil if nothing is called for a store any more.
  var ofChildren: [ObjectIdentifier: OnCommit?] = [:]

  /// The callers that wait for an action that passes a store.
  var watches: [ObjectIdentifier: Watch] = [:]

  struct Watch {
    let store: StoreNode<Action>
    /// Given each action that passes the store, until it returns true.
    let isOver: (Action) -> Bool
  }

  var isNeeded: Bool { !ofChildren.isEmpty || !watches.isEmpty }

  init(root: OnCommit?) { self.root = root }

  /// Called for every commit, in place of the callbacks in the stores' stages.
  var asOne: OnCommit {
    OnCommit(
      self, coversPath: true,
      prepare: { [self] action, node in
        visit(from: node) { $0.prepare?(&action, node) }
        root?.prepare?(&action, node)
      },
      tell: { [self] _, action, node in
        visit(from: node) { $0.tell(&action, node) }
        root?.tell(&action, node)
        if !watches.isEmpty { tellWatches(action, node) }
      })
  }

  private func tellWatches(_ action: Action, _ node: StoreNode<Action>) {
    node.climb { store in
      // Each watch is held beyond its removal.
      for (number, watch) in watches where watch.store === store && watch.isOver(action) {
        watches.removeValue(forKey: number)
      }
      return true
    }
  }

  private func visit(from node: StoreNode<Action>, _ body: (borrowing OnCommit) -> Void) {
    node.climb { store in
      if let own = ofChildren[ObjectIdentifier(store)] {
        if let own { body(own) }
      } else {
        // SAFETY: on the tree's executor.
        unsafe store.withStages { stages in
          if let onCommit = stages.onCommit { body(onCommit) }
        }
      }
      return true
    }
  }
}
