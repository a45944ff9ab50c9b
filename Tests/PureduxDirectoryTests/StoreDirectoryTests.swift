import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxDirectory

@Suite(.timeLimit(.minutes(15))) struct StoreDirectoryTests {
  typealias Directory = StoreDirectory<Int, Int, Int>
  struct Refused: Error {}

  /// How often the store of each key was made.
  actor Made {
    private(set) var counts: [Int: Int] = [:]
    func add(_ key: Int) -> Int {
      counts[key, default: 0] += 1
      return counts[key]!
    }
  }

  func directory(
    _ made: Made, idleLimit: Duration = .seconds(60), countLimit: Int = .max, clock: any Clock<Duration> = ManualClock()
  ) -> Directory {
    Directory(idleLimit: idleLimit, countLimit: countLimit, clock: clock) { key in
      _ = await made.add(key)
      return RootStore(initialState: key) { $0 += $1 }
    }
  }

  @Test func `a store is made once, however many ask for it at the same time`() async throws {
    let made = Made()
    let gate = Gate()
    let directory = Directory(clock: ManualClock()) { key in
      _ = await made.add(key)
      await gate.wait()
      return RootStore(initialState: key) { $0 += $1 }
    }
    try await withThrowingTaskGroup { tasks in
      for _ in 0..<50 {
        tasks.addTask { try await directory.withStore(7) { try await $0.send(1) } }
      }
      gate.open()
      try await tasks.waitForAll()
    }
    #expect(await made.counts == [7: 1])
    #expect(try await directory.withStore(7) { await $0.state } == 57)
  }

  @Test func `a failure is told to those who asked, and is not remembered`() async throws {
    let made = Made()
    let gate = Gate()
    let directory = Directory(clock: ManualClock()) { key in
      let isFirst = await made.add(key) == 1
      await gate.wait()
      if isFirst { throw Refused() }
      return RootStore(initialState: key) { $0 += $1 }
    }
    let asking = (0..<5).map { _ in Task { try await directory.withStore(1) { await $0.state } } }
    // All of them have asked before it fails.
    while await directory.table.waiterCount(of: 1) < 5 { await Task.yield() }
    gate.open()
    for task in asking { await #expect(throws: Refused.self) { try await task.value } }
    #expect(try await directory.withStore(1) { await $0.state } == 1)
    #expect(await made.counts == [1: 2])
  }

  @Test func `one who asks and is cancelled does not wait, and the others get their store`() async throws {
    let gate = Gate()
    let directory = Directory(clock: ManualClock()) { key in
      await gate.wait()
      return RootStore(initialState: key) { $0 += $1 }
    }
    let cancelled = Task { try await directory.withStore(1) { await $0.state } }
    let other = Task { try await directory.withStore(1) { await $0.state } }
    while await directory.table.waiterCount(of: 1) < 2 { await Task.yield() }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    gate.open()
    #expect(try await other.value == 1)
  }

  @Test func `a store that nobody needs goes after the idle limit, and not before`() async throws {
    let (made, clock) = (Made(), ManualClock())
    let directory = directory(made, idleLimit: .seconds(10), clock: clock)
    try await directory.withStore(1) { try await $0.send(1) }
    let kept = try await directory.open(2)
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(9))
    #expect(try await directory.withStore(1) { await $0.state } == 2)
    clock.advance(by: .seconds(9))
    // The end of the first idleness is none any more.
    await clock.untilAsleep(1)
    #expect(await directory.keys.sorted() == [1, 2])
    clock.advance(by: .seconds(2))
    while await directory.keys.count > 1 { await Task.yield() }
    #expect(await kept.store.state == 2)
    #expect(try await directory.withStore(1) { await $0.state } == 1)
    #expect(await made.counts == [1: 2, 2: 1])
  }

  @Test func `statistics make no store, and keep none`() async throws {
    let (made, clock) = (Made(), ManualClock())
    let directory = directory(made, idleLimit: .seconds(10), clock: clock)
    #expect(await directory.statistics().isEmpty)
    let kept = try await directory.open(2)
    try await directory.withStore(1) { try await $0.send(1) }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(9))
    let statistics = await directory.statistics()
    #expect(statistics.mapValues(\.commits) == [1: 1, 2: 0])
    // Its ten seconds are over in spite of that.
    clock.advance(by: .seconds(1))
    while await directory.keys != [2] { await Task.yield() }
    #expect(await directory.statistics().mapValues(\.commits) == [2: 0])
    #expect(await made.counts == [1: 1, 2: 1])
    withExtendedLifetime(kept) {}
    await directory.shutdown()
    #expect(await directory.statistics().isEmpty)
  }

  @Test func `a store that is open is used, one that is not is not made`() async throws {
    let (made, clock, gate) = (Made(), ManualClock(), Gate())
    let directory = directory(made, idleLimit: .seconds(10), clock: clock)
    #expect(await directory.withStoreIfOpen(1) { await $0.state } == nil)
    #expect(await made.counts.isEmpty)
    try await directory.withStore(1) { _ in }
    await clock.untilAsleep(1)
    let entered = Gate()
    let using = Task {
      await directory.withStoreIfOpen(1) { store in
        entered.open()
        await gate.wait()
        return await store.state
      }
    }
    await entered.wait()
    clock.advance(by: .seconds(60))
    // The sweeper has looked: nothing sleeps any more, as nothing is idle.
    await clock.untilAsleep(0)
    #expect(await directory.withStoreIfOpen(1) { await $0.state } == 1)
    gate.open()
    #expect(await using.value == 1)
    await #expect(throws: Refused.self) { try await directory.withStoreIfOpen(1) { _ in throw Refused() } }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(10))
    while await !directory.keys.isEmpty { await Task.yield() }
    #expect(await made.counts == [1: 1])
  }

  @Test func `one that is being made, shut down, or has ended, is not open`() async throws {
    let (making, ending, began) = (Gate(), Gate(), Gate())
    let directory = Directory(idleLimit: .zero, clock: ManualClock(), interceptors: .finish(within: .seconds(60))) {
      key in
      if key == 1 { await making.wait() }
      return RootStore(
        initialState: key,
        interceptor: { _, _ in
          began.open()
          await ending.wait()
        }
      ) { $0 += $1 }
    }
    let asking = Task { try await directory.withStore(1) { await $0.state } }
    while await directory.table.waiterCount(of: 1) < 1 { await Task.yield() }
    #expect(await directory.withStoreIfOpen(1) { _ in true } == nil)
    #expect(await directory.statistics().isEmpty)
    making.open()
    #expect(try await asking.value == 1)
    let handle = try await directory.open(2)
    handle.store.dispatch(1)
    await began.wait()
    let shutdown = Task { await directory.shutdown() }
    while handle.store.dispatch(0) != .terminated { await Task.yield() }
    #expect(await directory.withStoreIfOpen(2) { _ in true } == nil)
    #expect(await directory.statistics()[2] == nil)
    ending.open()
    await shutdown.value
    #expect(await directory.withStoreIfOpen(2) { _ in true } == nil)
  }

  @Test(arguments: [false, true])
  func `a store is kept until the last of those who use it leaves, whenever they have asked`(together: Bool)
    async throws
  {
    let (made, clock, gate) = (Made(), ManualClock(), Gate())
    let directory = Directory(idleLimit: .seconds(10), clock: clock) { key in
      _ = await made.add(key)
      if together { await gate.wait() }
      return RootStore(initialState: key) { $0 += $1 }
    }
    let (entered, stays) = (Gate(), Gate())
    let staying = Task {
      try await directory.withStore(1) { store in
        entered.open()
        await stays.wait()
        try await store.send(1)
      }
    }
    if !together { await entered.wait() }
    let leaving = Task { try await directory.withStore(1) { _ in } }
    if together {
      while await directory.table.waiterCount(of: 1) < 2 { await Task.yield() }
      gate.open()
    }
    try await leaving.value
    await entered.wait()
    // Somebody else's store goes idle, so that there is a time to wait for.
    try await directory.withStore(2) { _ in }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(11))
    while await directory.keys.count > 1 { await Task.yield() }
    #expect(await directory.keys == [1])
    stays.open()
    try await staying.value
    #expect(try await directory.withStore(1) { await $0.state } == 2)
    #expect(await made.counts == [1: 1, 2: 1])
  }

  @Test func `a store that is followed, or whose effects run, is kept`() async throws {
    let (made, clock) = (Made(), ManualClock())
    let directory = directory(made, idleLimit: .seconds(10), clock: clock)
    let states = try await directory.withStore(1) { $0.states() }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(11))
    await clock.untilAsleep(1)
    #expect(await directory.keys.count == 1)
    var iterator = states.makeAsyncIterator()
    #expect(await iterator.next() == 1)
    try await directory.withStore(1) { try await $0.send(1) }
    #expect(await iterator.next() == 2)
    #expect(await made.counts == [1: 1])
  }

  @Test func `beyond the count limit those go that have not been needed for longest`() async throws {
    let made = Made()
    let directory = directory(made, countLimit: 2)
    for key in 1...2 { try await directory.withStore(key) { _ in } }
    let kept = try await directory.open(1)
    try await directory.withStore(3) { _ in }
    while await directory.keys.count > 2 { await Task.yield() }
    #expect(await directory.keys.sorted() == [1, 3])
    let others = try await [directory.open(4), directory.open(5)]
    #expect(await directory.keys.count >= 3)
    withExtendedLifetime((kept, others)) {}
  }

  @Test func `a store that was shut down otherwise is made anew`() async throws {
    let made = Made()
    let directory = directory(made)
    let old = try await directory.open(1)
    await old.store.shutdown()
    #expect(try await directory.withStore(1) { try await $0.send(1) { $0 } } == 2)
    #expect(await made.counts == [1: 2])
  }

  @Test func `a shutdown ends all stores, and what is asked for later is refused`() async throws {
    let made = Made()
    let gate = Gate()
    let asked = Gate()
    let directory = Directory(clock: ManualClock()) { key in
      _ = await made.add(key)
      if key == 3 {
        asked.open()
        await gate.wait()
      }
      return RootStore(initialState: key) { $0 += $1 }
    }
    let handles = try await [directory.open(1), directory.open(2)]
    let opening = Task { try await directory.open(3) }
    await asked.wait()
    let ending = Task { await directory.shutdown() }
    while (try? await directory.open(4)) != nil { await Task.yield() }
    gate.open()
    await ending.value
    await #expect(throws: StoreError.terminated) { try await opening.value }
    await #expect(throws: StoreError.terminated) { try await directory.withStore(1) { _ in } }
    for handle in handles { #expect(handle.store.dispatch(1) == .terminated) }
    #expect(await directory.keys.count == 0)
    await directory.shutdown()
  }

  @Test func `a shutdown does not wait for who would make a store for ever`() async throws {
    let asked = Gate()
    let directory = Directory(clock: ManualClock()) { key in
      asked.open()
      await untilCancelled()
      throw CancellationError()
    }
    let opening = Task { try await directory.open(1) }
    await asked.wait()
    await directory.shutdown()
    await #expect(throws: StoreError.terminated) { try await opening.value }
  }

  @Test func `an effect of a store can shut its directory down`() async throws {
    let ended = Gate()
    let directories = LockedValue<[Directory]>([])
    let directory = Directory(clock: ManualClock()) { key in
      let store = RootStore<Int, Int>(initialState: key) { $0 += $1 }
      store.interceptActions { _, _ in
        await directories.withLock { $0.first }?.shutdown()
        ended.open()
      }
      return store
    }
    directories.withLock { $0 = [directory] }
    try await directory.withStore(1) { try await $0.send(1) }
    await ended.wait()
    await directory.shutdown()
    #expect(await directory.keys.isEmpty)
    directories.withLock { $0 = [] }
  }

  /// The first call cancels the other effects. They shut the directory down as well, and wait for each other for five
  /// seconds.
  @Test(arguments: [false, true])
  func `effects of several stores, and others, can shut their directory down at the same time`(fromOutside: Bool)
    async throws
  {
    let begun = Record<Int>()
    let ended = Record<Int>()
    let clock = ManualClock()
    let directories = LockedValue<[Directory]>([])
    let directory = Directory(clock: ManualClock()) { key in
      let store = RootStore<Int, Int>(initialState: key, options: StoreOptions(clock: clock)) { $0 += $1 }
      store.interceptActions { _, _ in
        begun.add(key)
        if key > 0 { await untilCancelled() }
        await directories.withLock { $0.first }?.shutdown()
        ended.add(key)
      }
      return store
    }
    directories.withLock { $0 = [directory] }
    for key in 1...3 { try await directory.withStore(key) { try await $0.send(1) } }
    await begun.untilCount(3)
    if !fromOutside { try await directory.withStore(0) { try await $0.send(1) } }
    let time = Task {
      while !Task.isCancelled {
        clock.advance(by: .milliseconds(100))
        await Task.yield()
      }
    }
    defer { time.cancel() }
    if fromOutside { await directory.shutdown() }
    await ended.untilCount(fromOutside ? 3 : 4)
    await directory.shutdown()
    #expect(await directory.keys.isEmpty)
    directories.withLock { $0 = [] }
  }

  @Test func `an effect of a store elsewhere waits for the end of all, as others do`() async throws {
    for _ in 1...50 {
      let directory = directory(Made())
      for key in 1...3 { try await directory.withStore(key) { try await $0.send(1) } }
      let keys = Record<[Int]>()
      let other = RootStore<Int, Int>(
        initialState: 0,
        interceptor: { _, _ in
          await directory.shutdown()
          keys.add(await directory.keys)
        }, reducer: { $0 += $1 })
      other.dispatch(1)
      await directory.shutdown()
      await keys.untilCount(1)
      #expect(keys.all == [[]])
    }
  }

  @Test func `who makes a store can shut the directory down`() async throws {
    let directories = LockedValue<[Directory]>([])
    let directory = Directory(clock: ManualClock()) { key in
      if key == 0 { await directories.withLock { $0.first }?.shutdown() }
      return RootStore(initialState: key) { $0 += $1 }
    }
    directories.withLock { $0 = [directory] }
    try await directory.withStore(1) { try await $0.send(1) }
    await #expect(throws: StoreError.terminated) { try await directory.open(0) }
    await directory.shutdown()
    #expect(await directory.keys.isEmpty)
    directories.withLock { $0 = [] }
  }

  /// Each shuts the directory down, one of them when the other's call cancels it.
  @Test(arguments: [false, true])
  func `an effect and who makes a store can shut the directory down at the same time`(makerIsFirst: Bool) async throws {
    let (begun, asked, ended) = (Gate(), Gate(), Gate())
    let directories = LockedValue<[Directory]>([])
    let directory = Directory(clock: ManualClock()) { key in
      if key == 0 {
        asked.open()
        if !makerIsFirst { await untilCancelled() }
        await directories.withLock { $0.first }?.shutdown()
      }
      let store = RootStore<Int, Int>(initialState: key) { $0 += $1 }
      store.interceptActions { _, _ in
        begun.open()
        if makerIsFirst { await untilCancelled() } else { await asked.wait() }
        await directories.withLock { $0.first }?.shutdown()
        ended.open()
      }
      return store
    }
    directories.withLock { $0 = [directory] }
    try await directory.withStore(1) { try await $0.send(1) }
    await begun.wait()
    await #expect(throws: StoreError.terminated) { try await directory.open(0) }
    await ended.wait()
    await directory.shutdown()
    #expect(await directory.keys.isEmpty)
    directories.withLock { $0 = [] }
  }

  @Test func `who makes a store for another directory's maker can shut that directory down`() async throws {
    let directories = LockedValue<[Directory]>([])
    let inner = Directory(clock: ManualClock()) { key in
      await directories.withLock { $0.first }?.shutdown()
      return RootStore(initialState: key) { $0 += $1 }
    }
    let outer = Directory(clock: ManualClock()) { key in
      try await inner.withStore(key) { _ in }
      return RootStore(initialState: key) { $0 += $1 }
    }
    directories.withLock { $0 = [outer] }
    await #expect(throws: StoreError.terminated) { try await outer.open(1) }
    await outer.shutdown()
    #expect(await outer.keys.isEmpty)
    await inner.shutdown()
    directories.withLock { $0 = [] }
  }

  @Test func `who makes a store that another directory's maker waits for can shut that directory down`() async throws {
    let (begun, asked) = (Gate(), Gate())
    let directories = LockedValue<[Directory]>([])
    let inner = Directory(clock: ManualClock()) { key in
      begun.open()
      await asked.wait()
      await directories.withLock { $0.first }?.shutdown()
      return RootStore(initialState: key) { $0 += $1 }
    }
    let outer = Directory(clock: ManualClock()) { key in
      // A task of its own does not give up when the maker is cancelled.
      let store = try await Task { try await inner.open(key) }.value
      return RootStore(initialState: await store.store.state) { $0 += $1 }
    }
    directories.withLock { $0 = [outer] }
    // Somebody else has asked for it first.
    let first = Task { try await inner.open(1) }
    await begun.wait()
    let second = Task { try await outer.open(1) }
    while await inner.table.waiterCount(of: 1) < 2 { await Task.yield() }
    asked.open()
    #expect(try await first.value.store.state == 1)
    await #expect(throws: StoreError.terminated) { try await second.value }
    await outer.shutdown()
    #expect(await outer.keys.isEmpty)
    directories.withLock { $0 = [] }
  }

  @Test func `what a maker has left behind waits for a shutdown as others do`() async throws {
    let (isMade, isEnding, mayEnd) = (Gate(), Gate(), Gate())
    let keys = Record<[Int]>()
    let directories = StoreDirectoryCycleTests.Directories()
    let directory = directories.add { key in
      Task {
        await isMade.wait()
        await directories[0].shutdown()
        keys.add(await directories[0].keys)
      }
      let store = RootStore<Int, Int>(initialState: key) { $0 += $1 }
      store.interceptActions { _, _ in
        await untilCancelled()
        isEnding.open()
        await mayEnd.wait()
      }
      return store
    }
    try await directory.withStore(1) { try await $0.send(1) }
    isMade.open()
    await isEnding.wait()
    mayEnd.open()
    await keys.untilCount(1)
    #expect(keys.all == [[]])
    directories.end()
  }

  // MARK: A directory that nobody holds

  @Test func `a directory that nobody holds lets its stores go, except those that are used`() async throws {
    let clock = ManualClock()
    var directory: Directory? = self.directory(Made(), idleLimit: .seconds(1_000_000), clock: clock)
    let (unused, states) = try await #require(directory).withStore(1) { ($0.store(), $0.states()) }
    var handle = try await directory?.open(2)
    await clock.untilAsleep(1)
    directory = nil
    for await state in states { #expect(state == 1) }
    await #expect(throws: StoreError.terminated) { try await unused.state }
    // The other goes when nobody uses it any more.
    #expect(try await handle?.store.send(1) { $0 } == 3)
    let otherStates = try #require(handle).store.states()
    handle = nil
    for await state in otherStates { #expect(state == 3) }
    await clock.untilAsleep(0)
  }

  @Test func `nothing is left of a directory that nobody holds`() async throws {
    func make() async throws -> Gate {
      let token = Token()
      let directory = Directory(idleLimit: .seconds(1_000_000), clock: ManualClock()) { key in
        withExtendedLifetime(token) { RootStore(initialState: key) { $0 += $1 } }
      }
      for key in 1...3 { try await directory.withStore(key) { try await $0.send(1) } }
      return token.gone
    }
    let gone = try await make()
    await gone.wait()
  }

  @Test func `its stores are shut down as it says, so that effects can finish`() async throws {
    let (begun, mayEnd, ended) = (Gate(), Gate(), Record<Bool>())
    var directory: Directory? = Directory(clock: ManualClock(), interceptors: .finish(within: .seconds(1_000_000))) {
      key in
      let store = RootStore<Int, Int>(initialState: key) { $0 += $1 }
      store.interceptActions { action, dispatch in
        guard action == 1 else { return }
        begun.open()
        await mayEnd.wait()
        dispatch(10)
        ended.add(Task.isCancelled)
      }
      return store
    }
    let states = try await #require(directory).withStore(1) { store in
      try await store.send(1)
      return store.states()
    }
    await begun.wait()
    directory = nil
    mayEnd.open()
    var last = 0
    for await state in states { last = state }
    #expect(last == 12)
    await ended.untilCount(1)
    #expect(ended.all == [false])
  }

  @Test func `who makes a store that nobody waits for is cancelled when nobody holds the directory`() async throws {
    let (begun, cancelled) = (Gate(), Gate())
    var directory: Directory? = Directory(clock: ManualClock()) { key in
      begun.open()
      await untilCancelled()
      cancelled.open()
      return RootStore(initialState: key) { $0 += $1 }
    }
    let asking = Task { [directory] in try await directory?.open(1) }
    await begun.wait()
    asking.cancel()
    await #expect(throws: CancellationError.self) { try await asking.value }
    directory = nil
    await cancelled.wait()
  }

  enum Request { @TaskLocal static var id = 0 }

  @Test func `a store is made under the task-local values of nobody`() async throws {
    let directory = Directory(clock: ManualClock()) { _ in RootStore(initialState: Request.id) { $0 += $1 } }
    let state = try await Request.$id.withValue(7) { try await directory.withStore(1) { await $0.state } }
    #expect(state == 0)
  }

  @Test func `a store that is used over and over is noted as idle a few times`() async throws {
    let directory = directory(Made())
    let kept = try await directory.open(2)
    for _ in 0..<10_000 { try await directory.withStore(1) { _ in } }
    #expect(await directory.table.idleCount <= 70)
    withExtendedLifetime(kept) {}
  }

  @Test func `what a body throws passes through, and the store is not held any more`() async throws {
    let (made, clock) = (Made(), ManualClock())
    let directory = directory(made, idleLimit: .seconds(1), clock: clock)
    await #expect(throws: Refused.self) { try await directory.withStore(1) { _ in throw Refused() } }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(1))
    while await directory.keys.count > 0 { await Task.yield() }
  }

  @Test(arguments: (0..<4).map { _ in UInt64.random(in: 0 ... .max) })
  func `whoever asks, leaves, shuts down and is cancelled, a store is not made twice at a time, and all end`(
    seed: UInt64
  ) async throws {
    let clock = ManualClock()
    // Making is never under way twice at a time for one key.
    let making = LockedValue(Set<Int>())
    let directory = Directory(idleLimit: .milliseconds(1), countLimit: 3, clock: clock) { key in
      #expect(making.withLock { $0.insert(key).inserted }, "seed \(seed)")
      await Task.yield()
      making.withLock { _ = $0.remove(key) }
      return RootStore(initialState: key) { $0 += $1 }
    }
    await withTaskGroup { tasks in
      for task in 0..<8 {
        tasks.addTask {
          var random = SeededGenerator(seed: seed &+ UInt64(task))
          for _ in 0..<100 {
            let key = Int.random(in: 0..<5, using: &random)
            let endsStore = Int.random(in: 0..<10, using: &random) == 0
            let using = Task {
              try await directory.withStore(key) { store in
                try await store.send(1)
                if endsStore { await store.shutdown() }
              }
            }
            if Int.random(in: 0..<4, using: &random) == 0 { using.cancel() }
            _ = await using.result
            clock.advance(by: .milliseconds(1))
          }
        }
      }
    }
    await directory.shutdown()
    #expect(await directory.keys.count == 0, "seed \(seed)")
  }
}
