import Synchronization

extension Tree {
  /// What a tree may never need.
  @usableFromInline final class Extras: Sendable {
    /// What lives on the tree's executor.
    ///
    /// SAFETY: confined, and so reached only from the tree's isolation, where one section is entered at a time; an
    /// access copies a value out, sets it, or exchanges one in a dictionary. What that replaces is held beyond the
    /// access, so that nothing of the user's is released, and so run, within one.
    @usableFromInline final class OnExecutor {
      /// What the commit in progress belongs to.
      @exclusivity(unchecked) fileprivate var errand: Errand?
      /// Called for every commit.
      @usableFromInline @exclusivity(unchecked) var onCommit: CommitStep<Action>.OnCommit?
      /// What the stores of the path have called, once a child store has set that itself.
      private var onPath: OnPath<Action>?
      /// What goes on for as long as a store's own is called.
      private var works: [ObjectIdentifier: TreeWork] = [:]

      init() {}

      func set(_ onCommit: CommitStep<Action>.OnCommit?, of node: StoreNode<Action>) {
        if node.depth == 0 {
          if let onPath = onPath {
            let replaced = onPath.root
            onPath.root = onCommit
            withExtendedLifetime(replaced) {}
          } else {
            let replaced = unsafe self.onCommit
            unsafe self.onCommit = onCommit
            withExtendedLifetime(replaced) {}
          }
        } else {
          let replaced = madeOnPath.ofChildren.updateValue(onCommit, forKey: ObjectIdentifier(node))
          withExtendedLifetime(replaced) {}
        }
      }

      private var madeOnPath: OnPath<Action> {
        if let onPath = onPath { return onPath }
        // Holds what is called until now.
        let made = unsafe OnPath(root: onCommit)
        onPath = made
        unsafe onCommit = made.asOne
        return made
      }

      private func dropOnPathIfUnneeded() {
        guard let onPath = onPath, !onPath.isNeeded else { return }
        let replaced = unsafe onCommit
        self.onPath = nil
        unsafe onCommit = onPath.root
        withExtendedLifetime((onPath, replaced)) {}
      }

      func watch(_ node: StoreNode<Action>, as number: ObjectIdentifier, _ isOver: @escaping (Action) -> Bool) {
        madeOnPath.watches[number] = OnPath.Watch(store: node, isOver: isOver)
      }

      func stopWatching(as number: ObjectIdentifier) {
        guard let onPath = onPath else { return }
        let watch = onPath.watches.removeValue(forKey: number)
        dropOnPathIfUnneeded()
        withExtendedLifetime(watch) {}
      }

      /// Returns what it replaces.
      func exchangeWork(of node: StoreNode<Action>, with work: TreeWork?) -> TreeWork? {
        let replaced = works[ObjectIdentifier(node)]
        if replaced != nil || work != nil { works[ObjectIdentifier(node)] = work }
        return replaced
      }

      /// Calls a closure that makes a commit. Within another call, that one's errand stays.
      func committing<Failure: Error>(of errand: Errand, _ body: () throws(Failure) -> Void) throws(Failure) {
        guard unsafe self.errand == nil else { return try body() }
        unsafe self.errand = errand
        defer { unsafe self.errand = nil }
        try body()
      }

      /// The root store has ended, and so there are no more commits.
      func forget() {
        let dropped = unsafe (onCommit, onPath, works)
        unsafe onCommit = nil
        onPath = nil
        works = [:]
        withExtendedLifetime(dropped) {}
      }

      /// A child store has ended.
      func forget(_ node: StoreNode<Action>) {
        let work = exchangeWork(of: node, with: nil)
        defer { withExtendedLifetime(work) {} }
        guard let onPath = onPath, let own = onPath.ofChildren.removeValue(forKey: ObjectIdentifier(node)) else {
          return
        }
        dropOnPathIfUnneeded()
        withExtendedLifetime(own) {}
      }
    }

    /// The source that a tree publishes to first.
    final class Top: Sendable {
      let source: Confined<AnySource>

      init(_ source: AnySource) { self.source = Confined(storing: source) }
    }

    @usableFromInline let onExecutor = Confined(OnExecutor())
    /// How many child stores have been made, and how many of them have been released.
    let childCount = Atomic(0)
    let releasedChildren = Atomic(0)
    @usableFromInline let companion: Lazy<StoreCompanion>
    /// The root store's source, once there is a child of a part.
    let top = Lazy<Top>()

    /// The task-local values that are carried along with actions.
    let carried: CarriedValues?
    /// Where the order comes from, if not from the inbox.
    @usableFromInline let order: (any Order<Action>)?

    @usableFromInline init(
      companion: StoreCompanion? = nil, carrying carried: CarriedValues? = nil, order: (any Order<Action>)? = nil
    ) {
      if let companion { self.companion = Lazy(companion) } else { self.companion = Lazy() }
      self.carried = carried
      self.order = order
    }
  }
}

extension Tree {
  @usableFromInline nonisolated var carriesValues: Bool { extras.withObject { $0.carried != nil } ?? false }

  /// Whether dispatching asks more of it than a place in the order.
  @usableFromInline nonisolated var needsPlacing: Bool {
    extras.withObject { $0.carried != nil || $0.order != nil } ?? false
  }

  @usableFromInline nonisolated var order: (any Order<Action>)? { extras.withObject { $0.order } ?? nil }

  /// What the commit in progress belongs to. SAFETY: to be read on the tree's executor.
  @unsafe nonisolated var errandOfExecutor: Errand? {
    extras.withObject { extras in unsafe extras.onExecutor.unconfined.errand } ?? nil
  }

  /// The present values of the task-locals that the tree carries.
  @usableFromInline nonisolated var carriedContext: CarriedValues.Context? {
    extras.withObject { $0.carried?.capture() } ?? nil
  }
}
