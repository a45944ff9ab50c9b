import Puredux
import PureduxDirectory
import Synchronization

/// One run of a program of a directory. `DirectoryChecker` checks its record.
final class DirectoryRun: Sendable {
  private typealias Directory = StoreDirectory<Int, Int, Action>
  private typealias Handle = StoreHandle<Int, Action>

  private struct Action: Sendable {
    var yields: Int?
    var shutsDown = false
  }

  private struct MakerFailed: Error {}

  /// A weakly held store, because the directory must release it.
  private final class Made: Sendable {
    let number: Int
    let works = LiveCount()
    private let store = Guarded<WeakRoot>(WeakRoot())

    init(number: Int) { self.number = number }

    func set(_ root: RootStore<Int, Action>) { store.withLock { $0.root = root } }
    var root: RootStore<Int, Action>? { store.withLock { $0.root } }
  }

  private struct WeakRoot: Sendable {
    weak var root: RootStore<Int, Action>?
  }

  private let program: DirectoryProgram
  private let clock = HandClock()
  private let directory = Guarded<Directory?>(nil)
  private let handles = Guarded<[Int: (handle: Handle, key: Int)]>([:])
  private let made = Guarded<[ObjectIdentifier: Made]>([:])
  private let latest = Guarded<[Int: Made]>([:])
  private let stamps = Atomic(1)
  private let numbers = Atomic(0)
  private let calls = Guarded<[Int: Int]>([:])
  private let record = Record<DirectoryEvent>()
  private let endings = LiveCount()
  private let live = LiveCount()

  init(_ program: DirectoryProgram) { self.program = program }

  func perform() async -> AnyProgram.Verdict {
    begin()
    await use()
    let failures = DirectoryChecker.failures(of: record.all, isDropped: program.ending == .drop)
    return AnyProgram.Verdict(failures: failures, commits: sends)
  }

  // Separate functions, so that no variable of an async function holds the directory.

  private func begin() {
    let made = Directory(
      idleLimit: .nanoseconds(program.idleLimit), countLimit: program.countLimit, clock: clock,
      // Short, because effects of two stores that both shut down the directory wait for each other (G10).
      interceptors: program.finishes ? .finish(within: .seconds(1)) : .cancel
    ) { [self] key in try await make(key) }
    directory.withLock { $0 = made }
  }

  private func letGo() {
    let released = handles.withLock { handles in
      defer { handles = [:] }
      return handles.sorted { $0.key < $1.key }.map(\.value.handle)
    }
    withExtendedLifetime((released, directory.withLock { $0.take() })) {}
  }

  private var sends: Int {
    record.all.count { if case .sent = $0.what { true } else { false } }
  }

  private func use() async {
    await withDiscardingTaskGroup { group in
      for (number, task) in program.tasks.enumerated() {
        group.addTask { [self] in for step in task { await perform(step, task: number) } }
      }
    }
    switch program.ending {
    case .shutDown: await shutDown()
    case .drop: break
    }
    letGo()
    _ = await endings.until { $0 == 0 }
    // Nothing of the directory stays alive, whether it was released or shut down.
    if await !live.until({ $0 == 0 }) { add(.kept(live.value)) }
  }

  private func stamp() -> Int { stamps.add(1, ordering: .acquiringAndReleasing).oldValue }

  private func add(_ what: DirectoryEvent.What, from begin: Int? = nil) {
    let end = stamp()
    record.add(DirectoryEvent(what: what, begin: begin ?? end, end: end))
  }

  private func current() -> Directory? { directory.withLock { $0 } }

  // MARK: Making stores

  private func make(_ key: Int) async throws -> RootStore<Int, Action> {
    let begin = stamp()
    let spec = program.makers[key % program.makers.count]
    // The previous store of the key must have ended.
    let before = latest.withLock { $0[key] }
    if let before {
      if let root = before.root, root.dispatch(Action()) != .terminated { add(.twoStores(key: key, before.number)) }
      if before.works.value != 0 { add(.stillAtWork(before.number)) }
    }
    let call = calls.withLock { calls in
      calls[key, default: 0] += 1
      return calls[key, default: 0]
    }
    for _ in 0..<spec.yields { await Task.yield() }
    for other in spec.asks {
      try await current()?.withStore(other % program.makers.count) { _ in await Task.yield() }
    }
    if spec.shutsDown { await shutDown(isOutside: false) }
    if let number = spec.failsEvery, call % number == 0 {
      add(.making(key: key, nil), from: begin)
      throw MakerFailed()
    }
    let made = Made(number: numbers.add(1, ordering: .relaxed).oldValue)
    let root = RootStore<Int, Action>(
      initialState: 0,
      interceptors: Interceptor(where: { $0.yields != nil }) { [self] action, _ in
        made.works.add()
        for _ in 0..<(action.yields ?? 0) { await Task.yield() }
        if Task.isCancelled { add(.cutOff(made.number)) }
        if action.shutsDown { await shutDown(isOutside: false) }
        made.works.subtract()
      },
      reducer: { [token = Token(live)] state, _ in
        token.use()
        state += 1
      })
    made.set(root)
    self.made.withLock { $0[ObjectIdentifier(root)] = made }
    latest.withLock { $0[key] = made }
    add(.making(key: key, made.number), from: begin)
    return root
  }

  // MARK: Steps

  private func perform(_ step: DirectoryProgram.Step, task: Int) async {
    switch step {
    case .use(let key, let sends, let yields): await use(key, sends: sends, yields: yields)
    case .open(let key, let number):
      let begin = stamp()
      guard let directory = current() else { return }
      do {
        let handle = try await directory.open(key % program.makers.count)
        add(.used(key: key), from: begin)
        let before = handles.withLock { handles in
          defer { handles[task * 10 + number] = (handle, key) }
          return handles[task * 10 + number]
        }
        withExtendedLifetime(before) {}
      } catch {
        refused(key, error, from: begin)
      }
    case .send(let number):
      if let (handle, _) = handles.withLock({ $0[task * 10 + number] }) { await send(Action(), to: handle.store) }
    case .work(let number, let yields, let shutsDown):
      if let (handle, _) = handles.withLock({ $0[task * 10 + number] }) {
        await send(Action(yields: yields, shutsDown: shutsDown), to: handle.store)
      }
    case .drop(let number): _ = handles.withLock { $0.removeValue(forKey: task * 10 + number) }
    case .shutDownStore(let number):
      guard let (handle, _) = handles.withLock({ $0[task * 10 + number] }) else { return }
      let begin = stamp()
      add(.endBegan(self.number(of: handle.store)))
      await handle.store.shutdown()
      add(.ended(self.number(of: handle.store)), from: begin)
    case .cancelled(let key):
      let task = Task { await use(key, sends: 1, yields: 1, isCancelled: true) }
      task.cancel()
      await task.value
    case .shutDown: await shutDown()
    case .keys:
      if let directory = current() { _ = await directory.keys }
    case .move(let time): clock.move(to: clock.now.time + .nanoseconds(time))
    case .yield(let count): for _ in 0..<count { await Task.yield() }
    }
  }

  private func number(of store: RootStore<Int, Action>) -> Int {
    made.withLock { $0[ObjectIdentifier(store)]?.number ?? -1 }
  }

  private func use(_ key: Int, sends: Int, yields: Int, isCancelled: Bool = false) async {
    let begin = stamp()
    guard let directory = current() else { return }
    do {
      try await directory.withStore(key % program.makers.count) { store in
        add(.used(key: key), from: begin)
        for _ in 0..<sends { await send(Action(), to: store) }
        for _ in 0..<yields { await Task.yield() }
        if sends > 1 { await send(Action(), to: store) }
      }
    } catch {
      refused(key, error, from: begin, isCancelled: isCancelled)
    }
  }

  private func refused(_ key: Int, _ error: any Error, from begin: Int, isCancelled: Bool = false) {
    switch error {
    case is MakerFailed: add(.makerFailed(key: key), from: begin)
    case let error as StoreError where error == .terminated: add(.terminated(key: key), from: begin)
    case is CancellationError where isCancelled: break
    default:
      add(.refused(key: key, "\(error)", mayBeCycle: !program.makers.allSatisfy { $0.asks.isEmpty }), from: begin)
    }
  }

  private func send(_ action: Action, to store: RootStore<Int, Action>) async {
    let begin = stamp()
    let number = number(of: store)
    do {
      let count = try await store.send(action) { $0 }
      add(.sent(number, count: count), from: begin)
    } catch {
      add(.notSent(number), from: begin)
    }
  }

  private func shutDown(isOutside: Bool = true) async {
    guard let directory = current() else { return }
    let begin = stamp()
    add(.shutdownBegan)
    endings.add()
    await directory.shutdown()
    endings.subtract()
    if isOutside { add(.shutDown, from: begin) }
  }
}

struct DirectoryEvent: Sendable, Equatable {
  enum What: Sendable, Equatable {
    /// The store of a key was made; nil if that failed.
    case making(key: Int, Int?)
    case twoStores(key: Int, Int)
    case stillAtWork(Int)
    /// An effect of a store was cancelled.
    case cutOff(Int)
    case used(key: Int)
    case makerFailed(key: Int)
    case terminated(key: Int)
    case refused(key: Int, String, mayBeCycle: Bool)
    /// An action was sent to a store, as its commit of that number.
    case sent(Int, count: Int)
    case notSent(Int)
    case endBegan(Int)
    case ended(Int)
    case shutdownBegan
    case shutDown
    case kept(Int)
  }

  var what: What
  var begin: Int
  var end: Int
}

/// Checks the rules that hold for every run.
enum DirectoryChecker {
  static func failures(of events: [DirectoryEvent], isDropped: Bool = false) -> [String] {
    var failures: [String] = []
    var ends: [Int: (begun: Int, ended: Int)] = [:]
    var begun = Int.max
    var ended = Int.max
    var makings: [Int: [(begin: Int, end: Int)]] = [:]
    var counts: [Int: [Int]] = [:]
    var failed: [Int: [DirectoryEvent]] = [:]
    for event in events {
      switch event.what {
      case .endBegan(let number):
        ends[number] = (min(event.begin, ends[number]?.begun ?? .max), ends[number]?.ended ?? .max)
      case .ended(let number):
        ends[number] = (ends[number]?.begun ?? event.begin, min(event.end, ends[number]?.ended ?? .max))
      case .shutdownBegan: begun = min(begun, event.begin)
      case .shutDown: ended = min(ended, event.end)
      case .making(let key, let number):
        makings[key, default: []].append((event.begin, event.end))
        if number == nil { failed[key, default: []].append(event) }
      case .sent(let number, let count): counts[number, default: []].append(count)
      default: break
      }
    }
    for (key, spans) in makings {
      let spans = spans.sorted { $0.begin < $1.begin }
      for (first, second) in zip(spans, spans.dropFirst()) where first.end > second.begin {
        failures.append("two stores of key \(key) are made at a time")
      }
    }
    for (number, counts) in counts where Set(counts).count != counts.count {
      failures.append("store \(number) has committed something twice: \(counts)")
    }
    for event in events {
      switch event.what {
      case .twoStores(let key, let number): failures.append("store \(number) of key \(key) goes on beside the next")
      case .stillAtWork(let number): failures.append("effects of store \(number) are at work beside the next store")
      case .used(let key):
        if event.begin > ended { failures.append("the store of \(key) is used after the shutdown") }
      case .makerFailed(let key):
        // This maker, or one that it requested, has failed.
        if !failed.values.joined().contains(where: { $0.begin < event.end }) {
          failures.append("a caller for key \(key) is told of a failure that did not occur")
        }
      case .terminated(let key):
        if begun > event.end { failures.append("a caller for key \(key) is refused before the shutdown") }
      case .refused(let key, let error, let mayBeCycle):
        if !mayBeCycle { failures.append("a caller for key \(key) is told \(error)") }
      case .sent(let number, _):
        if event.begin > min(ended, ends[number]?.ended ?? .max) {
          failures.append("store \(number) accepts an action after its end")
        }
      case .cutOff(let number):
        if !isDropped, begun > event.end, ends[number]?.begun ?? .max > event.end {
          failures.append("an effect of store \(number) is cut off")
        }
      case .notSent(let number):
        if begun > event.end, ends[number]?.begun ?? .max > event.end {
          failures.append("store \(number) ends while it is used")
        }
      case .kept(let number): failures.append("\(number) released stores are alive")
      default: break
      }
    }
    return failures
  }
}
