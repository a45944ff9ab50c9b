public import Puredux

/// Looks into the stores of a running server, and shows them on pages that a Hummingbird server mounts. Read-only.
///
///     let inspector = Inspector()
///     let history = History<Room, RoomAction>(limit: 100)
///     let room = RootStore(
///       initialState: Room(), options: StoreOptions(name: "rooms/1", instrument: inspector), history: history,
///       reducer: reduce)
///     inspector.show(room, named: "rooms/1", history: history) { $0.password = "…" }
///     inspector.mount(on: router, token: token)
///
/// It is an instrument: given to stores and directories, beside others by `CombinedInstrument`, it lists them, with
/// their figures, their last commits, the effects under way, and where they stand with their logs. States are shown of
/// the stores that `show` was called for, and of no others.
///
/// It keeps no store, no state and no history alive, and no more than its limits say: some 150 bytes for a commit, with
/// the name of its action, never the action itself. On a tree's executor it takes that name, the time and a place in a
/// list: one to three microseconds a commit. Figures and states are read while somebody looks, in the order of the tree
/// as everybody's reads are; a state is described, redacted and compared elsewhere. While it is, reducers copy what
/// they change of it, as for any other reader.
public final class Inspector: StoreInstrument {
  /// What is kept at most, and how often a page that is open looks.
  public struct Limits: Sendable {
    /// How many of the last commits and rejections are kept of each store.
    public var commits = 100
    /// How many stores are listed. Of those that have ended the last twenty are, for as long as there is room.
    public var stores = 1_000
    /// How many keys are listed of each directory, of which there may be a hundred.
    public var keys = 1_000
    /// How long the text of a state may be, in bytes; what is beyond is left out.
    public var stateBytes = 64 << 10
    /// How many pages may be open at a time; a further one gets 503.
    public var streams = 32
    /// How often an open page reads the figures of the stores on it; at most a hundred times a second.
    public var interval = Duration.seconds(1)

    /// The defaults.
    public init() {}
  }

  /// As it was made with.
  public let limits: Limits
  public let timesCommits: Bool
  let stores: StoreTable
  let directories: DirectoryTable
  /// How many pages are open.
  let streams = Counter()

  /// - Parameter timesCommits: Whether it shows how long actions waited and took (`CommitEvent`), which costs a commit
  ///   some 700 ns more.
  public init(limits: Limits = Limits(), timesCommits: Bool = true) {
    self.limits = limits
    self.timesCommits = timesCommits
    stores = StoreTable(limit: limits.stores, commitLimit: limits.commits)
    directories = DirectoryTable(limit: limits.keys)
  }

  /// Shows the state of a store, too: on the page of its tree, as text, with what has changed in it.
  ///
  /// Call it when the store has been made, before another one of the same name is: it belongs to the newest tree of
  /// that name that does not show this store yet. The store is not kept, nor kept from being let go by its directory.
  /// Of each tree fifty stores can be shown; a further one takes the place of the oldest child store.
  ///
  /// - Parameters:
  ///   - store: A root store, a child store, or a proxy, for a part of the state.
  ///   - name: The name of the tree (`StoreOptions.name`); for a child store that of its root. By default the type of
  ///     the state, which is the name of a root store that was given none.
  ///   - history: The history that the store keeps: its commits can be gone through, reducer by reducer. Whoever can
  ///     see the pages sees the states in it. It is not kept either.
  ///   - redacting: Takes out of a state what nobody is to see, before it is described. It is called for each state
  ///     that is shown, those of the history included, not on the tree's executor.
  /// - Returns: Whether there is such a tree; without one, the store has another instrument, or another name.
  @discardableResult public func show<State: Sendable, Action: Sendable>(
    _ store: some StoreType<State, Action>, named name: String? = nil, history: History<State, Action>? = nil,
    redacting: @escaping @Sendable (inout State) -> Void = { _ in }
  ) -> Bool {
    guard let tree = stores.newest(named: name ?? "\(State.self)", without: store.id) else { return false }
    tree.show(
      ShownStore(store.store(), history: history, limit: limits.stateBytes, redacting: redacting))
    return true
  }

  // MARK: Told

  public func opened(_ store: InstrumentedStore) { stores.opened(store) }
  public func closed(_ store: InstrumentedStore) { stores.closed(store) }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    guard let entry = stores.entry(of: store) else { return }
    // A log may have millions: those are counted.
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

  // These may come after the end of the store: they make no entry for one that has been removed.
  public func effect(_ event: EffectEvent, in store: InstrumentedStore) { stores[store.number]?.note(event) }
  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) { stores[store.number]?.note(event) }
  public func directory(_ event: DirectoryEvent) { directories.note(event) }
}

extension String {
  /// At most so many scalars, as one character may have any number: what others say about themselves may be long.
  func cut(to limit: Int) -> String {
    // Most are short: their bytes are counted at once.
    utf8.count <= limit || unicodeScalars.count <= limit ? self : String(unicodeScalars.prefix(limit)) + "…"
  }
}
