import Foundation
import Puredux
import Synchronization

private final class Total: Sendable {
  private let total = Atomic(0)
  var value: Int { total.load(ordering: .relaxed) }
  func add(_ number: Int) { total.add(number, ordering: .relaxed) }
}

/// Runs random programs, and keeps trees busy meanwhile.
public final class Soak: Sendable {
  private typealias Root = RootStore<Snapshot, Action>

  private let minutes: Double
  private let seed: UInt64
  private let features: Features
  private let isOver = Atomic(false)
  private let programs = Total()
  private let failed = Total()
  private let commits = Total()
  private let deliveries = Total()
  private let losses = Total()
  private let given = Counter()
  private let live = LiveCount()

  public init(minutes: Double, seed: UInt64, features: Features = .all) {
    self.minutes = minutes
    self.seed = seed
    self.features = features
  }

  /// Returns false if anything was lost, leaked or wrong.
  public func run() async -> Bool {
    say("seed \(seed)")
    let watchdog = Watchdog(limit: Watchdog.usualLimit * 3) { name in
      say("no end: \(name)")
      exit(3)
    }
    var peaks: [Int] = []
    await withDiscardingTaskGroup { group in
      group.addTask { await self.runPrograms(watchdog) }
      for _ in 0..<2 { group.addTask { await self.keepBusy() } }
      let clock = ContinuousClock()
      let start = clock.now
      let end = start + .milliseconds(Int(minutes * 60_000))
      var last = (commits: 0, deliveries: 0, programs: 0)
      while clock.now < end {
        resetPeak()
        try? await clock.sleep(until: min(end, start + .seconds(60 * (peaks.count + 1))))
        let peak = memory("VmHWM")
        peaks.append(peak)
        let now = (
          commits: commits.value, deliveries: deliveries.value,
          programs: programs.value
        )
        let lost = losses.value
        let wrong = failed.value
        say(
          "minute \(peaks.count): \(now.commits - last.commits) commits, \(now.deliveries - last.deliveries) deliveries, "
            + "\(lost) losses, \(now.programs - last.programs) programs, \(wrong) failed, "
            + "peak \(peak / 1024) MB, resident \(memory("VmRSS") / 1024) MB")
        last = now
      }
      isOver.store(true, ordering: .releasing)
    }
    _ = await live.until { $0 == 0 }
    // The first minute is a warm-up; the second sets the reference.
    let isFlat = peaks.count < 3 || (peaks.last ?? 0) < peaks[1] * 5 / 4 + 16_384
    let counts = [programs, failed, commits, deliveries, losses].map(\.value)
    let objects = live.value
    say(
      "\(counts[0]) programs, \(counts[1]) failed, \(counts[2]) commits, \(counts[3]) deliveries, "
        + "\(counts[4]) losses, \(objects) live objects, "
        + "memory \(isFlat ? "flat" : "grows: \(peaks.map { $0 / 1024 }) MB")")
    return counts[1] == 0 && counts[4] == 0 && objects == 0 && isFlat
  }

  private var goesOn: Bool { !isOver.load(ordering: .acquiring) }

  private func runPrograms(_ watchdog: Watchdog) async {
    var index = 0
    while goesOn {
      let program = AnyProgram(seed: Program.seed(base: seed, index: index), features: features)
      let verdict = await watchdog.watch("program \(index)") { await program.run(features: features) }
      if let failure = verdict.failures.first {
        failed.add(1)
        say("program \(index) of seed \(seed) fails: \(failure)")
      }
      programs.add(1)
      commits.add(verdict.commits)
      deliveries.add(verdict.deliveries)
      index += 1
    }
  }

  // MARK: A busy tree

  private func action(_ store: Int) -> Action {
    let number = given.increment()
    var action = Action(given: number, store: store, spec: ActionSpec(.number(number % 10)))
    action.token = Token(live)
    return action
  }

  private func ledger(_ store: Int) -> Ledger {
    var ledger = Ledger(store: store)
    ledger.token = Token(live)
    return ledger
  }

  private func keepBusy() async {
    let root = Root(
      initialState: Snapshot(ledgers: [ledger(0)]),
      interceptors: Interceptor(where: { $0.given % 100 == 0 }) { _, _ in await Task.yield() }
    ) { [self] state, action in
      state.at += 1
      state.ledgers[0].reduce(action)
      state.ledgers[0].token = Token(live)
      commits.add(1)
    }
    await withDiscardingTaskGroup { group in
      for _ in 0..<2 { group.addTask { await self.flood(root) } }
      for _ in 0..<4 { group.addTask { await self.follow(root) } }
      for number in 1...2 { group.addTask { await self.makeChildren(of: root, number) } }
    }
    await root.shutdown()
  }

  /// Floods the tree. A send after each burst waits for it, so that the inbox stays bounded.
  private func flood(_ root: Root) async {
    var random = SeededGenerator(seed: seed)
    while goesOn {
      for _ in 0..<Int.random(in: 1...3000, using: &random) where root.dispatch(action(0)) != .enqueued { lose() }
      do { try await root.send(action(0)) } catch { lose() }
    }
  }

  private func lose() { losses.add(1) }

  private func follow(_ root: Root) async {
    var random = SeededGenerator(seed: seed &+ 1)
    while goesOn {
      await withDiscardingTaskGroup { group in
        for number in 0..<8 {
          let count = Int.random(in: 1...4000, using: &random)
          group.addTask {
            switch number % 4 {
            case 0: await self.check(root.states() as StateSequence, count, isComplete: true)
            case 1: await self.check(root.states(), count, isComplete: true)
            case 2: await self.check(root.scope { $0.lastOnly }.states() as StateSequence, count, isComplete: true)
            default:
              await self.check(
                root.states(bufferingPolicy: .bufferingNewest(1)) as StateSequence, count / 10 + 1, isComplete: false)
            }
          }
        }
      }
    }
  }

  private func check(_ states: some AsyncSequence<Snapshot, Never>, _ count: Int, isComplete: Bool) async {
    var last: Int?
    var seen = 0
    for await state in states {
      if let last, isComplete ? state.at != last + 1 : state.at <= last { lose() }
      if state.ledgers[0].count != state.at { lose() }
      for local in state.ledgers.dropFirst() where local.count > state.at { lose() }
      last = state.at
      seen += 1
      deliveries.add(1)
      if seen == count { return }
      if !goesOn { return }
    }
    lose()
  }

  /// Child stores that come and go, each with a store below it.
  private func makeChildren(of root: Root, _ number: Int) async {
    while goesOn {
      let child = make(number, of: root)
      let grandchild = make(number + 10, of: child)
      var iterator = grandchild.states().makeAsyncIterator()
      let first = await iterator.next(isolation: nil)
      do {
        for _ in 0..<20 {
          child.dispatch(action(number))
          let count = try await grandchild.send(action(number + 10)) { $0.ledgers[2].count }
          let state = await grandchild.state
          if state.ledgers[2].count < count || state.ledgers[1].count < 2 * count { lose() }
        }
      } catch {
        lose()
      }
      if first?.ledgers[2].count != 0 { lose() }
      await Task.yield()
    }
  }

  private func make(_ number: Int, of parent: some StoreParent<Snapshot, Action>) -> StateStore<Snapshot, Action> {
    parent.childStore(initialState: ledger(number), stateMapping: { $0.with($1) }) { [self] ledger, action in
      ledger.reduce(action)
      ledger.token = Token(live)
    }
  }

  // MARK: Memory

  /// In kilobytes; zero if the system does not report it.
  private func memory(_ name: String) -> Int {
    guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
  }

  private func resetPeak() {
    guard let file = FileHandle(forWritingAtPath: "/proc/self/clear_refs") else { return }
    try? file.write(contentsOf: Data("5".utf8))
    try? file.close()
  }
}
