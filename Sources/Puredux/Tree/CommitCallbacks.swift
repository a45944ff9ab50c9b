/// What the stores of a tree have called for each commit, where at least one child store has set that itself since it
/// was made: one for all, so that those of a path are called from the lowest store up. Lives on the tree's executor.
final class CommitCallbacks<Action: Sendable> {
  typealias OnCommit = CommitStep<Action>.OnCommit

  var root: OnCommit?
  /// In place of what these stores were made with; nil if nothing is called for them any more.
  var ofChildren: [ObjectIdentifier: OnCommit?] = [:]

  /// Who waits for an action that passes a store.
  var watches: [ObjectIdentifier: Watch] = [:]

  struct Watch {
    let store: StoreNode<Action>
    /// Given each such action, until it returns true.
    let isOver: (Action) -> Bool
  }

  var isNeeded: Bool { !ofChildren.isEmpty || !watches.isEmpty }

  init(root: OnCommit?) { self.root = root }

  /// Called for every commit, in place of what the stages of the stores say.
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
