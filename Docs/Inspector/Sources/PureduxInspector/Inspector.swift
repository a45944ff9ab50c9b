public import Puredux

/// Shows the stores of a running server on read-only pages of a Hummingbird server.
///
///     let inspector = Inspector()
///     let history = History<Room, RoomAction>(limit: 100)
///     let room = RootStore(
///       initialState: Room(), options: StoreOptions(name: "rooms/1", instrument: inspector), history: history,
///       reducer: reduce)
///     inspector.show(room, named: "rooms/1", history: history) { $0.password = "…" }
///     inspector.mount(on: router, token: token)
///
/// The inspector is an instrument of stores and directories; combine it with others by `CombinedInstrument`. It lists
/// its stores with their figures, last commits, running effects and logs. It shows states only of stores that were
/// passed to `show`.
///
/// It keeps no store, state or history alive. Its memory is limited (`Limits`): about 150 bytes for each commit, with
/// the name of the action but not the action itself. A commit costs one to three microseconds on the tree's executor.
/// Figures and states are read only while a page is open, in the tree's order like any read. States are redacted,
/// described and compared outside of the tree's executor. Meanwhile reducers copy the parts of the state that they
/// change.
public final class Inspector: StoreInstrument {
  /// Bounds on memory, and the interval of open pages.
  public struct Limits: Sendable {
    /// The number of recent commits and rejections kept for each store.
    public var commits = 100
    /// The number of listed stores. If there is room, the last twenty ended stores are included.
    public var stores = 1_000
    /// The number of listed keys of each directory. At most a hundred directories are listed.
    public var keys = 1_000
    /// The maximum length of a state's text, in bytes. Longer texts are truncated.
    public var stateBytes = 64 << 10
    /// The number of pages that may be open at the same time. A further page gets 503.
    public var streams = 32
    /// The interval at which an open page reads figures, at least 10 ms.
    public var interval = Duration.seconds(1)

    /// The defaults.
    public init() {}
  }

  public let limits: Limits
  public let timesCommits: Bool
  let stores: StoreTable
  let directories: DirectoryTable
  /// The number of open pages.
  let streams = Counter()

  /// - Parameter timesCommits: Whether commits are timed (`CommitEvent`), which costs some 700 ns each.
  public init(limits: Limits = Limits(), timesCommits: Bool = true) {
    self.limits = limits
    self.timesCommits = timesCommits
    stores = StoreTable(limit: limits.stores, commitLimit: limits.commits)
    directories = DirectoryTable(limit: limits.keys)
  }

  /// Shows the state of a store on the page of its tree, as text, with the latest changes.
  ///
  /// Call this right after creating the store, before another store of the same name is created: the state is assigned
  /// to the newest tree of that name that does not show this store yet. The inspector does not keep the store alive,
  /// and a directory can still close it. A tree shows at most fifty stores; a further one replaces the oldest child
  /// store.
  ///
  /// - Parameters:
  ///   - store: A root store, a child store, or a proxy for a part of the state.
  ///   - name: The name of the tree (`StoreOptions.name`); for a child store, the name of its root. The default is the
  ///     name of the state's type, which is also the default name of a root store.
  ///   - history: The store's history. The page can step through its commits, reducer by reducer, so visitors see the
  ///     states in it. The inspector does not keep it alive.
  ///   - redacting: Removes secrets from a state before it is described. It is called for each shown state, including
  ///     those of the history, outside of the tree's executor.
  /// - Returns: Whether there is such a tree. If not, the store has another instrument or another name.
  @discardableResult public func show<State: Sendable, Action: Sendable>(
    _ store: some StoreType<State, Action>, named name: String? = nil, history: History<State, Action>? = nil,
    redacting: @escaping @Sendable (inout State) -> Void = { _ in }
  ) -> Bool {
    guard let tree = stores.newest(named: name ?? "\(State.self)", without: store.id) else { return false }
    tree.show(
      ShownStore(store.store(), history: history, limit: limits.stateBytes, redacting: redacting))
    return true
  }

  // MARK: Events

  public func opened(_ store: InstrumentedStore) { stores.opened(store) }
  public func closed(_ store: InstrumentedStore) { stores.closed(store) }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    guard let entry = stores.entry(of: store) else { return }
    // Only counted: a log may replay millions of commits.
    if commit.isReplay { return entry.noteReplay(upTo: commit.position) }
    entry.note(commit, of: Self.name(of: action).cut(to: 80))
  }

  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    guard !commit.isReplay, let entry = stores.entry(of: store) else { return }
    entry.note(
      commit, of: Self.name(of: action).cut(to: 80), rejectedAs: reason.map { "\($0)".cut(to: 200) } ?? "for no reason")
  }

  // These events may come after the end of the store, so they create no entry for a removed store.
  public func effect(_ event: EffectEvent, in store: InstrumentedStore) { stores[store.number]?.note(event) }
  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) { stores[store.number]?.note(event) }
  public func directory(_ event: DirectoryEvent) { directories.note(event) }
}

extension String {
  /// Limits a text from outside. Counts scalars, because one character can have any number of them.
  func cut(to limit: Int) -> String {
    // The byte count is a fast check: most texts are short.
    utf8.count <= limit || unicodeScalars.count <= limit ? self : String(unicodeScalars.prefix(limit)) + "…"
  }
}
