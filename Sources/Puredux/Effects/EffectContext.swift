import Synchronization

/// The commit that an interceptor is asked about. Valid during that call: later it is another commit, or none.
public struct EffectContext<State: Sendable, Action: Sendable> {
  @usableFromInline let commit: CommitContext

  @inlinable init(_ commit: CommitContext) { self.commit = commit }

  /// For a part of the state.
  ///
  /// - Parameter publishing: Makes the source of the part's states.
  @inlinable init(
    source: Source<State>, publishing: @escaping CommitContext.Publishing, store: StoreID, position: Int,
    dispatch: Dispatch<Action>
  ) {
    commit = CommitContext(source: source, given: (store, position, dispatch, publishing))
  }

  @inlinable var source: Source<State> { commit.source }

  /// The store that the action was given to: the interceptor's own, or one below it.
  @inlinable public var store: StoreID { commit.given?.store ?? commit.node?.id ?? .root }

  /// The place of the commit in the tree's order, counted from one.
  @inlinable public var position: Int { commit.given?.position ?? commit.node?.commitCount ?? 0 }

  /// Dispatches to the store that the action was given to, at once: the action comes later in the order.
  @inlinable public var dispatch: Dispatch<Action> { commit.given?.dispatch ?? Dispatch(node: commit.node) }

  /// The state of the interceptor's store right after the commit. In a child store, each call composes it.
  @inlinable public var state: State {
    // The stores on an action's path were held when it was accepted, so they have a state until it is committed.
    current!
  }

  @inlinable var current: State? {
    var state: State?
    source.withState { state = $0 }
    return state
  }
}

extension EffectContext {
  /// One object for all commits of a store, which come one at a time: counting the references of a new one would double
  /// the cost of a commit.
  @usableFromInline @safe final class CommitContext {
    @usableFromInline let source: Source<State>
    @usableFromInline let published: Confined<Source<State>>?
    @usableFromInline let given: Given?

    @usableFromInline typealias Publishing = () -> Confined<Source<State>>
    @usableFromInline typealias Given = (
      store: StoreID, position: Int, dispatch: Dispatch<Action>, publishing: Publishing
    )

    // SAFETY: set only during the call of `asking`, whose caller holds the node. Without the run-time check for
    // overlapping accesses: reached only on the tree's executor, and an access copies the reference out or sets it.
    @usableFromInline @exclusivity(unchecked) var current: Unmanaged<StoreNode<Action>>?

    @inlinable init(source: Source<State>, published: Confined<Source<State>>? = nil, given: Given? = nil) {
      self.source = source
      self.published = published
      self.given = given
    }

    /// Makes the source of the states that can be followed from here; of a part, only while its context is valid. Does
    /// not hold the store's node.
    @usableFromInline var publishing: Publishing {
      given?.publishing ?? { [source, published] in published ?? Confined(storing: source) }
    }

    @inlinable var node: StoreNode<Action>? { unsafe current?.takeUnretainedValue() }

    @inlinable @inline(__always) func asking<Result>(about node: StoreNode<Action>, _ body: () -> Result) -> Result {
      unsafe current = Unmanaged.passUnretained(node)
      defer { unsafe current = nil }
      return body()
    }
  }
}
