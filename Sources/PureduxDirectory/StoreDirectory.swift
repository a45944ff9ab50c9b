public import Puredux

/// Root stores by key, one for each room, device or document. A store is made when its key is first used, and shut down
/// when it is no longer needed.
///
///     let rooms = StoreDirectory<Room.ID, Room, RoomAction>(idleLimit: .seconds(60)) { id in
///       RootStore(initialState: Room(id: id)) { $0.apply($1) }
///     }
///     try await rooms.withStore(17) { room in try await room.send(.say("Hello")) }
///     for await room in try await rooms.states(of: 17) { show(room) }
///
/// - **Making.** Simultaneous requests for a key share one store. If making it fails, they all get the error, and a
///   later request tries again. A store that was shut down, or stopped by its log, is made again at its next use.
/// - **Use.** A store is in use during `withStore` and `withStoreIfOpen`, and while a sequence of `states(of:)` or a
///   handle of `open` is held.
/// - **Eviction.** An unused store is shut down after the idle limit, or earlier above the count limit. Exception:
///   while it has other followers or effects in progress, it stays, and is examined again after the idle limit. A store
///   whose tree is blocked stays open, and does not keep others open.
/// - **Release.** When the directory is released, unused stores are shut down, without waiting, even if they have
///   followers or effects in progress. A store held by a handle or a sequence of `states(of:)` is shut down when that
///   is released. A maker's task is cancelled, and its store is shut down once made. A maker or an effect that holds
///   the directory keeps it alive: hold it weakly, or call `shutdown`.
///
/// A shutdown loses state that is only in memory: make stores from stored data, or let them follow a log.
public final class StoreDirectory<Key: Hashable & Sendable, State: Sendable, Action: Sendable>: Sendable {
  /// The type of the stores.
  public typealias Root = RootStore<State, Action>

  let table: Table

  /// Makes an empty directory.
  ///
  /// - Parameters:
  ///   - idleLimit: How long an unused store is kept. With zero or less, no unneeded store is kept; more than a hundred
  ///     years counts as a hundred years.
  ///   - countLimit: The number of stores above which the least recently used ones are shut down early. Two are
  ///     examined whenever a store is made or its last use ends. Needed stores stay, and are examined again after the
  ///     idle limit.
  ///   - clock: Measures the idle limit.
  ///   - interceptors: How stores are shut down.
  ///   - name: The directory's name for its instrument; by default the type of the stores' state.
  ///   - instrument: Receives the events of the directory, not those of the stores (`StoreOptions.instrument`).
  ///   - make: Makes the store of a key, in a task of its own, without the caller's task-local values. Calls for one
  ///     key never overlap. It runs to its end even if no caller waits any more. It may request other stores, of any
  ///     directory. A request for a store that cannot be made without its own throws `StoreDirectoryCycle`.
  public init(
    idleLimit: Duration = .seconds(60), countLimit: Int = .max, clock: any Clock<Duration> = ContinuousClock(),
    interceptors: InterceptorShutdown = .cancel, name: String? = nil, instrument: (any StoreInstrument)? = nil,
    make: @escaping @Sendable (Key) async throws -> Root
  ) {
    table = Table(
      idleLimit: idleLimit, countLimit: countLimit, clock: clock, interceptors: interceptors,
      instrument: instrument.map { Instrument(instrument: $0, directory: name ?? "\(State.self)") }, make: make)
  }

  /// All keys, including those of stores being made or shut down, in the order in which the stores were last made or
  /// requested.
  public var keys: [Key] { get async { await table.keys } }

  /// The statistics of all open stores, including stopped ones. Makes no store, and keeps none open.
  ///
  /// The trees are visited concurrently, so the figures are not of one moment. The call returns when the last tree has
  /// answered: a blocked tree delays only the result.
  public func statistics(isolation: isolated (any Actor)? = #isolation) async -> [Key: StoreStatistics] {
    let stores = await table.openStores
    return await withTaskGroup { tasks in
      for (key, store) in stores { tasks.addTask { (key, await store.statistics) } }
      return await tasks.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
  }

  /// Runs a body with the store of a key if it is open, and keeps it open meanwhile; otherwise returns nil. A store
  /// that is being made or shut down, or has stopped or ended, is not open; after `shutdown`, no store is.
  @discardableResult public func withStoreIfOpen<Result>(
    _ key: Key, isolation: isolated (any Actor)? = #isolation,
    _ body: (Root) async throws -> Result
  ) async rethrows -> Result? {
    guard let store = await table.acquireIfOpen(key) else { return nil }
    return try await use(store, of: key, body)
  }

  /// Runs a body with the store of a key, and keeps it open meanwhile. The body can use values that are not `Sendable`.
  ///
  /// - Throws: The errors of making the store and of the body; `StoreError.terminated` after `shutdown`;
  ///   `CancellationError` if the task is cancelled before there is a store; `StoreDirectoryCycle` if a maker requests
  ///   a store that cannot be made before its own.
  @discardableResult public func withStore<Result>(
    _ key: Key, isolation: isolated (any Actor)? = #isolation,
    _ body: (Root) async throws -> Result
  ) async throws -> Result {
    try await use(table.acquire(key), of: key, body)
  }

  private func use<Result>(
    _ store: Root, of key: Key, isolation: isolated (any Actor)? = #isolation,
    _ body: (Root) async throws -> Result
  ) async rethrows -> Result {
    do {
      let result = try await body(store)
      await table.release(store, of: key)
      return result
    } catch {
      await table.release(store, of: key)
      throw error
    }
  }

  /// Opens the store of a key, and subscribes to its states.
  ///
  ///     for await room in try await rooms.states(of: 17) { try await writer.write(room.text) }
  ///
  /// The store stays open up to the sequence's end (`HeldStates`). This call subscribes (G5), and throws the maker's
  /// error before anything is delivered: a server can answer 404 for an unknown key.
  ///
  /// - Parameters:
  ///   - key: The store's key.
  ///   - bufferingPolicy: The states that are kept for a slow consumer (G6).
  ///   - equating: As for `StateProvider.states(bufferingPolicy:removeStateDuplicates:)`.
  ///   - isolation: The caller's actor.
  /// - Throws: The errors of opening the store, as `withStore` does.
  public func states(
    of key: Key, bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual, isolation: isolated (any Actor)? = #isolation
  ) async throws -> HeldStates<State> {
    let handle = try await open(key)
    return HeldStates(
      handle.store.states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating), of: handle)
  }

  /// Opens the store of a key, and keeps it open while the handle is held.
  ///
  /// - Throws: The errors of opening the store, as `withStore` does.
  public func open(
    _ key: Key, isolation: isolated (any Actor)? = #isolation
  ) async throws -> StoreHandle<State, Action> {
    let store = try await table.acquire(key)
    return StoreHandle(store) { [table] store in Task { await table.release(store, of: key) } }
  }

  /// Shuts down all stores, including used ones, and returns when they have ended. Tasks that are making stores are
  /// cancelled and awaited. A call by one of these makers, or by a maker that one of them waits for, returns at once.
  /// A call by an effect waits for the tasks of each other store with a limit (`OwningStore.shutdown`). Later requests
  /// are refused.
  public func shutdown(isolation: isolated (any Actor)? = #isolation) async { await table.shutdown() }

  deinit {
    Task.detached { [table] in await table.abandon() }
  }
}

extension StoreDirectory {
  struct Instrument: Sendable {
    let instrument: any StoreInstrument
    let directory: String

    func tell(_ kind: DirectoryEvent.Kind, of key: Key) {
      instrument.directory(DirectoryEvent(kind: kind, directory: directory, key: "\(key)"))
    }
  }

  actor Table {
    private struct Entry {
      enum Phase {
        case opening(Task<Void, Never>, StoreCreation)
        case open(Root)
        case closing(Root, Task<Void, Never>)
      }

      var phase: Phase
      var useCount = 0
      /// Changes with each use, to distinguish idle periods.
      var generation: Int
      var isBeingExamined = false
      var waiters: [Int: Waiter] = [:]

      var waitersInOrder: [Waiter] { waiters.sorted { $0.key < $1.key }.map(\.value) }
    }

    private struct Waiter {
      let continuation: CheckedContinuation<Root, any Error>
      let maker: StoreCreation?
    }

    private struct Idle {
      let key: Key
      let generation: Int
      let time: Duration
    }

    /// In amortized constant time.
    private struct IdleQueue {
      /// In reverse order.
      private var front: [Idle] = []
      private var back: [Idle] = []

      var count: Int { front.count + back.count }
      var first: Idle? { front.last ?? back.first }

      mutating func append(_ idle: Idle) { back.append(idle) }

      mutating func popFirst() -> Idle? {
        if front.isEmpty {
          front = back.reversed()
          back = []
        }
        defer { if front.isEmpty { front = [] } }
        return front.popLast()
      }

      mutating func removeAll(where isObsolete: (Idle) -> Bool) {
        front.removeAll(where: isObsolete)
        back.removeAll(where: isObsolete)
      }
    }

    private let idleLimit: Duration
    private let countLimit: Int
    private let interceptors: InterceptorShutdown
    private let time: ElapsedClock
    private let instrument: Instrument?
    private let make: @Sendable (Key) async throws -> Root
    private var entries: [Key: Entry] = [:]
    private var idle = IdleQueue()
    private var sweeper: Task<Void, Never>?
    private var keptCount = 0
    private var leavingCount = 0
    private var hasEnded = false
    private var isAbandoned = false
    private var nextWaiter = 0
    private var generation = 0

    init(
      idleLimit: Duration, countLimit: Int, clock: any Clock<Duration>, interceptors: InterceptorShutdown,
      instrument: Instrument?, make: @escaping @Sendable (Key) async throws -> Root
    ) {
      self.idleLimit = idleLimit.clamped
      self.countLimit = countLimit
      self.interceptors = interceptors
      self.instrument = instrument
      self.make = make
      time = ElapsedClock(clock)
    }

    deinit { sweeper?.cancel() }

    var keys: [Key] {
      let numbered = entries.map { key, entry in (key: key, generation: entry.generation) }
      return numbered.sorted { $0.generation < $1.generation }.map(\.key)
    }

    var idleCount: Int { idle.count }

    func waiterCount(of key: Key) -> Int { entries[key]?.waiters.count ?? 0 }

    // MARK: Using a store

    func shutdown() async {
      hasEnded = true
      // A maker waits neither for itself nor for makers that wait for it.
      let caller = StoreCreation.current
      var makers: [StoreCreation] = []
      var isAwaited = false
      for key in keys {
        switch entries[key]?.phase {
        case .opening(let task, let maker):
          if caller?.wait(for: maker) != nil { isAwaited = true } else { makers.append(maker) }
          task.cancel()
        case .open(let store): close(store, of: key)
        case .closing, nil: break
        }
      }
      if !isAwaited { await untilEnded() }
      for maker in makers { caller?.waitNoMore(for: maker) }
    }

    private func untilEnded() async {
      await withDiscardingTaskGroup { tasks in
        for key in keys { tasks.addTask { await self.untilClosed(key) } }
      }
    }

    /// If the caller is part of an effect, `RootStore.shutdown` limits the wait.
    private func untilClosed(_ key: Key) async {
      if case .opening(let task, _) = entries[key]?.phase { await task.value }
      guard case .closing(let store, let task) = entries[key]?.phase else { return }
      // Unstructured: the caller's cancellation would cut short effects that another call lets finish.
      await Task { [interceptors] in await store.shutdown(interceptors: interceptors) }.value
      if await store.statistics.runningTasks == 0 { await task.value }
    }

    var openStores: [(Key, Root)] {
      keys.compactMap { key in if case .open(let store) = entries[key]?.phase { (key, store) } else { nil } }
    }

    func acquireIfOpen(_ key: Key) -> Root? {
      guard !hasEnded, case .open(let store) = entries[key]?.phase, store.takesActions else { return nil }
      entries[key]?.useCount += 1
      entries[key]?.generation = nextGeneration()
      return store
    }

    func acquire(_ key: Key) async throws -> Root {
      nextWaiter += 1
      let id = nextWaiter
      return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { ask(for: key, $0, id) }
      } onCancel: {
        Task { await self.giveUp(id, key) }
      }
    }

    private func giveUp(_ id: Int, _ key: Key) {
      guard let waiter = entries[key]?.waiters.removeValue(forKey: id) else { return }
      if case .opening(_, let maker) = entries[key]?.phase { waiter.maker?.waitNoMore(for: maker) }
      waiter.continuation.resume(throwing: CancellationError())
    }

    private func ask(for key: Key, _ continuation: CheckedContinuation<Root, any Error>, _ id: Int) {
      if hasEnded { return continuation.resume(throwing: StoreError.terminated) }
      if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
      let waiter = Waiter(continuation: continuation, maker: StoreCreation.current)
      // The entry is changed in place: with a copy of it, each request would copy all waiters.
      switch entries[key]?.phase {
      case nil: open(key, for: [id: waiter])
      case .open(let store) where store.takesActions:
        entries[key]?.useCount += 1
        entries[key]?.generation = nextGeneration()
        continuation.resume(returning: store)
      case .open(let store):
        entries[key]?.waiters[id] = waiter
        close(store, of: key)
      case .opening(_, let maker):
        if let cycle = waiter.maker?.wait(for: maker) {
          return continuation.resume(throwing: StoreDirectoryCycle(keys: cycle.map(\.key)))
        }
        entries[key]?.waiters[id] = waiter
      case .closing: entries[key]?.waiters[id] = waiter
      }
    }

    func release(_ store: Root, of key: Key) {
      guard var entry = entries[key], case .open(let current) = entry.phase, current === store else { return }
      entry.useCount -= 1
      entries[key] = entry
      if entry.useCount == 0 { beginIdling(key) }
    }

    // MARK: Making and ending stores

    private func nextGeneration() -> Int {
      generation += 1
      return generation
    }

    private func open(_ key: Key, for waiters: [Int: Waiter]) {
      let maker = StoreCreation(of: key)
      // The new creation waits for none yet, so this closes no cycle.
      for waiter in waiters.values { _ = waiter.maker?.wait(for: maker) }
      // Detached, so that no store is made under the first caller's task-local values.
      instrument?.tell(.opening, of: key)
      let start = time.now
      let task = Task.detached { [make] in
        let result: Result<Root, any Error>
        do {
          result = .success(try await maker.run { try await make(key) })
        } catch {
          result = .failure(error)
        }
        await self.opened(key, result, since: start)
      }
      entries[key] = Entry(phase: .opening(task, maker), generation: nextGeneration(), waiters: waiters)
      keptCount += 1
      letGoOfTooMany()
    }

    private func opened(_ key: Key, _ result: Result<Root, any Error>, since start: Duration) {
      guard let entry = entries[key], case .opening(_, let maker) = entry.phase else { return }
      defer { tellOpened(key, result, after: max(.zero, time.now - start)) }
      let waiters = entry.waitersInOrder
      for waiter in waiters { waiter.maker?.waitNoMore(for: maker) }
      switch result {
      case .failure(let error):
        entries[key] = nil
        keptCount -= 1
        for waiter in waiters { waiter.continuation.resume(throwing: hasEnded ? StoreError.terminated : error) }
      case .success(let store) where hasEnded:
        entries[key]?.waiters = [:]
        for waiter in waiters { waiter.continuation.resume(throwing: StoreError.terminated) }
        close(store, of: key)
      case .success(let store):
        entries[key]?.phase = .open(store)
        entries[key]?.useCount = waiters.count
        entries[key]?.generation = nextGeneration()
        entries[key]?.waiters = [:]
        for waiter in waiters { waiter.continuation.resume(returning: store) }
        if waiters.isEmpty { beginIdling(key) }
      }
    }

    private func tellOpened(_ key: Key, _ result: Result<Root, any Error>, after taken: Duration) {
      guard let instrument else { return }
      switch result {
      case .success: instrument.tell(.opened(after: taken), of: key)
      case .failure(let error): instrument.tell(.failed(error, after: taken), of: key)
      }
    }

    private func close(_ store: Root, of key: Key) {
      keptCount -= 1
      entries[key]?.useCount = 0
      // Detached, so that it waits for all effects, even if an effect closes the store.
      let task = Task.detached { [interceptors] in
        await store.shutdown(interceptors: interceptors)
        await self.closed(key)
      }
      entries[key]?.phase = .closing(store, task)
    }

    private func closed(_ key: Key) {
      guard let entry = entries[key] else { return }
      instrument?.tell(.closed, of: key)
      if entry.waiters.isEmpty || hasEnded {
        entries[key] = nil
        for waiter in entry.waitersInOrder { waiter.continuation.resume(throwing: StoreError.terminated) }
      } else {
        open(key, for: entry.waiters)
      }
    }

    // MARK: Letting go

    func abandon() {
      isAbandoned = true
      idle = IdleQueue()
      for key in keys {
        guard let entry = entries[key] else { continue }
        switch entry.phase {
        case .opening(let task, _) where entry.waiters.isEmpty: task.cancel()
        case .open(let store) where entry.useCount == 0: close(store, of: key)
        case .opening, .open, .closing: break
        }
      }
    }

    private func beginIdling(_ key: Key) {
      if isAbandoned, case .open(let store) = entries[key]?.phase { return close(store, of: key) }
      appendIdle(key)
      letGoOfTooMany()
    }

    /// - Parameter pause: Delays the examination beyond the idle limit.
    private func appendIdle(_ key: Key, pause: Duration = .zero) {
      guard let entry = entries[key] else { return }
      idle.append(Idle(key: key, generation: entry.generation, time: time.now + pause))
      // Most may be obsolete: each end of a use adds one.
      if idle.count > 2 * entries.count + 64 {
        idle.removeAll { isIdle($0) == nil }
      }
      if sweeper == nil {
        // The sleeping task does not retain the table, and is cancelled with it.
        sweeper = Task.detached { [weak self, time] in
          while let rest = await self?.sweep(), await time.sleep(for: rest) {}
        }
      }
    }

    /// Each store is evicted in its own task: a blocked tree delays no others.
    ///
    /// - Returns: The time until the next store is due; nil if there is none.
    private func sweep() -> Duration? {
      while let first = idle.first {
        let rest = first.time + idleLimit - time.now
        if rest > .zero { return rest }
        _ = idle.popFirst()
        if isIdle(first) != nil { Task.detached { await self.letGo(first) } }
      }
      sweeper = nil
      return nil
    }

    private func letGoOfTooMany() {
      // At most two per call, which adds at most one: examining many stores would take long.
      var left = 2
      while left > 0, keptCount - leavingCount > countLimit, let first = idle.popFirst() {
        guard isIdle(first) != nil else { continue }
        left -= 1
        leavingCount += 1
        Task.detached { await self.letGoOfSurplus(first) }
      }
    }

    private func letGoOfSurplus(_ candidate: Idle) async {
      await letGo(candidate)
      leavingCount -= 1
    }

    private func isIdle(_ candidate: Idle) -> Root? {
      guard let entry = entries[candidate.key], entry.useCount == 0, entry.generation == candidate.generation,
        case .open(let store) = entry.phase
      else { return nil }
      return store
    }

    private func letGo(_ candidate: Idle) async {
      let key = candidate.key
      guard let store = isIdle(candidate), let entry = entries[key] else { return }
      if entry.isBeingExamined { return lookAgain(at: key) }
      entries[key]?.isBeingExamined = true
      let isNeeded = await store.statistics.isNeeded
      if case .open(let current) = entries[key]?.phase, current === store { entries[key]?.isBeingExamined = false }
      guard isIdle(candidate) != nil else { return }
      if isNeeded, store.takesActions { lookAgain(at: key) } else { close(store, of: key) }
    }

    /// Later, but not at once, however short the limit is.
    private func lookAgain(at key: Key) {
      appendIdle(key, pause: idleLimit < .milliseconds(100) ? .milliseconds(100) - idleLimit : .zero)
    }
  }
}

/// Keeps a directory's store open while the handle is held.
public final class StoreHandle<State: Sendable, Action: Sendable>: Sendable {
  /// The store. Once the handle is released, the directory may shut it down, even if the store itself is still held.
  public let store: RootStore<State, Action>
  private let release: @Sendable (RootStore<State, Action>) -> Void

  init(_ store: RootStore<State, Action>, release: @escaping @Sendable (RootStore<State, Action>) -> Void) {
    self.store = store
    self.release = release
  }

  deinit { release(store) }
}
