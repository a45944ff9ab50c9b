import Synchronization

extension Tree {
  /// What a tree may never need.
  @usableFromInline final class Extras: Sendable {
    /// What lives on the tree's executor.
    ///
    /// SAFETY: confined, and so reached only from the tree's isolation, where one section is entered at a time; an
    /// access copies a value out, sets it or appends to it, and a release caused by setting it has no way back to the
    /// same variable.
    @usableFromInline final class OnExecutor {
      /// Called for every commit.
      @usableFromInline @exclusivity(unchecked) var onCommit: CommitStep<Action>.OnCommit?
      /// What goes on for as long as `onCommit` is called.
      @exclusivity(unchecked) var work: TreeWork?

      init() {}

      func forget() {
        unsafe onCommit = nil
        unsafe work = nil
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
    @usableFromInline let sequencer: AnySequencer?

    @usableFromInline init(
      companion: StoreCompanion? = nil, carrying carried: CarriedValues? = nil, sequencer: AnySequencer? = nil
    ) {
      if let companion { self.companion = Lazy(companion) } else { self.companion = Lazy() }
      self.carried = carried
      self.sequencer = sequencer
    }
  }
}

extension Tree {
  @usableFromInline nonisolated var carriesValues: Bool { extras.withObject { $0.carried != nil } ?? false }

  /// Whether dispatching asks more of it than a place in the order.
  @usableFromInline nonisolated var needsPlacing: Bool {
    extras.withObject { $0.carried != nil || $0.sequencer != nil } ?? false
  }

  @usableFromInline nonisolated var sequencer: AnySequencer? { extras.withObject { $0.sequencer } ?? nil }

  /// The present values of the task-locals that the tree carries.
  @usableFromInline nonisolated var carriedContext: CarriedValues.Context? {
    extras.withObject { $0.carried?.capture() } ?? nil
  }
}
