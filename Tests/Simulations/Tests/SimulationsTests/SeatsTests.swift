import Foundation
import Puredux
import PureduxLog
import PureduxSimulation
import Synchronization
import Testing

/// Seats that clients book at three servers, which follow one log.
struct Seats: Codable, Sendable {
  var sold: [Int: [Int]] = [:]
}

struct Booking: Codable, Sendable {
  var seat: Int
  var client: Int
}

/// - Parameter isGuarded: Whether the reducer checks that the seat is free. Without this, the check of a server that
///   does not know the newest commit counts.
func seats(
  on log: any OrderedLog, isGuarded: Bool, instrument: (any StoreInstrument)? = nil
) async throws -> RootStore<Seats, Booking> {
  try await RootStore(
    following: log, initialState: Seats(),
    options: FollowingOptions(store: StoreOptions(instrument: instrument), fingerprint: .encoded)
  ) { seats, booking in
    let buyers = seats.sold[booking.seat, default: []]
    if isGuarded ? buyers.isEmpty : !buyers.contains(booking.client) {
      seats.sold[booking.seat] = buyers + [booking.client]
    }
  }
}

/// Three servers that crash, pause and lose their connection to the log, and clients that book five seats within two
/// minutes.
func simulate(_ seeds: ClosedRange<UInt64>, isGuarded: Bool, clients: Int = 20) -> Simulation {
  Simulation(seeds: seeds) { world in
    let log = world.log(.unreliable)
    for name in ["a server crashes during a request", "never"] { world.sometimes(name, false) }
    let faults: [SimulatedProcess.Fault] = [
      .crashing(every: .seconds(60)), .pausing(every: .seconds(30), for: .seconds(2)),
      .disconnecting(every: .seconds(40), for: .seconds(5)),
    ]
    let servers = (1...3).map { number in
      world.process("server \(number)", faults) { process in
        let store = try await seats(on: log, isGuarded: isGuarded, instrument: world.instrument)
        process.offer(store)
        for await _ in store.states() {}
      }
    }
    for client in 1...clients {
      world.client {
        try await Task.sleep(for: .seconds(Int.random(in: 0..<120)))
        while true {
          do {
            return try await servers.randomElement()!.call { (store: RootStore<Seats, Booking>) in
              if await store.state.sold[client % 5] == nil {
                try await store.send(Booking(seat: client % 5, client: client))
              }
            }
          } catch is SimulatedProcess.Crashed {
            world.sometimes("a server crashes during a request", true)
          } catch is StoreError {}
          try await Task.sleep(for: .seconds(1))
        }
      }
    }
    let observed: @Sendable () async throws -> RootStore<Seats, Booking> = {
      try await seats(on: log.reliable, isGuarded: isGuarded)
    }
    world.always("no seat is sold twice", in: observed) { $0.sold.allSatisfy { $0.value.count <= 1 } }
    world.eventually("every seat is sold", in: observed) { $0.sold.count == 5 }
  }
}

@Suite(.serialized, .timeLimit(.minutes(15))) struct SeatsTests {
  @Test func `with a guard, no seat is sold twice, whatever the servers do`() async throws {
    let report = try await simulate(1...400, isGuarded: true).run()
    #expect(report.worlds == 400)
    #expect(report.neverReached == ["never"])
  }

  @Test func `without a guard, a seat is sold twice, and the failure is explained`() async throws {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await simulate(1...400, isGuarded: false).run()
    }
    let text = try #require(failure).description
    #expect(text.contains("not always: no seat is sold twice"))
    #expect(text.contains("of 20 clients"))
    #expect(text.contains("Seats commits Booking(seat: "))
    #expect(text.contains("and the smaller world with PUREDUX_SIMULATION_SEED="))
  }

  @Test func `each seed has one order of steps`() async throws {
    try await simulate(1...100, isGuarded: true).run(checking: .steps)
  }

  @Test func `the order of steps does not depend on the order of sets and dictionaries`() async throws {
    try await simulate(1...100, isGuarded: true).run(checking: .stepsWithRandomHashing)
  }

  @Test func `a difference between two runs is detected, and its first step is named`() async throws {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client {
          // Another process has another number.
          try await Task.sleep(for: .milliseconds(Int(getpid())))
        }
      }.run(checking: .steps)
    }
    #expect(failure?.description.contains("Two runs of seed 1 differ") == true, "\(failure?.description ?? "")")
    #expect(failure?.description.contains("in the other run") == true)
  }

  @Test func `a difference of random numbers alone is named`() async {
    let runs = Runs(of: "numbers")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let count = runs.next()
        world.client { for _ in 0..<count { _ = UUID() } }
      }.run(checking: .steps)
    }
    runs.end()
    let text = failure?.description ?? "no failure"
    #expect(text.contains("then, in one run: step ") && text.contains("in the other run: step "), "\(text)")
    #expect(text.contains("random state "), "\(text)")
  }

  @Test func `a test can run several simulations`() async throws {
    for count in 1...2 as ClosedRange<UInt64> {
      let failure = await #expect(throws: Simulation.Failure.self) {
        try await Simulation(seeds: count...count) { world in world.fail("world \(count)") }.run()
      }
      #expect(failure?.description.contains("world \(count)") == true)
    }
  }

  @Test func `a world that traps is a failure, and the next worlds run`() async throws {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...20) { world in
        let seed = world.seed
        world.client {
          try await Task.sleep(for: .seconds(1))
          if seed == 7 { fatalError("seven") }
        }
      }.run()
    }
    let text = failure?.description ?? ""
    #expect(text.contains("seed 7 fails: the program traps (signal "))
    #expect(text.contains("Fatal error: seven"), "\(text)")
  }

  @Test func `the message of a trap is reported behind any number of lines`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client {
          for number in 1...1_000 { FileHandle.standardError.write(Data("line \(number)\n".utf8)) }
          fatalError("a thousand")
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("Fatal error: a thousand") && !text.contains("line 1000"), "\(text)")
  }

  @Test func `a program that a world starts, and that outlives it, does not delay the next world`() async throws {
    // The programs wait for the end of the test.
    let isChild = ProcessInfo.processInfo.environment["PUREDUX_SIMULATION"] != nil
    let name = "puredux-pipe-\(isChild ? getppid() : getpid())"
    let path = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
    // SAFETY: the path is a string, whose bytes live as long as each call.
    if !isChild { #expect(unsafe mkfifo(path, 0o600) == 0) }
    defer {
      let pipe = unsafe open(path, O_RDWR | O_NONBLOCK)
      unsafe unlink(path)
      close(pipe)
    }
    try await Simulation(seeds: 1...2) { world in
      world.client { if unsafe system("cat \(path) >/dev/null 2>&1 &") != 0 { world.fail("no program") } }
    }.run()
  }

  @Test func `a world that floods its standard error fails`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client {
          let lines = Data(String(repeating: String(repeating: "x", count: 1_023) + "\n", count: 1_024).utf8)
          for _ in 1...300 { try FileHandle.standardError.write(contentsOf: lines) }
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("it writes more than 256 MB to one file"), "\(text.prefix(1_000))")
  }

  @Test func `a failed world whose events exceed the limit of a file is reported with its failure`() async {
    for isTrap in [false, true] {
      let failure = await #expect(throws: Simulation.Failure.self) {
        try await Simulation(seeds: 1...1) { world in
          world.client {
            let event = String(repeating: "x", count: 1 << 20)
            for _ in 1...300 { world.note(event) }
            if isTrap { fatalError("three hundred") }
            world.fail("three hundred")
            await Self.forever()
          }
        }.run()
      }
      let text = failure?.description ?? "no failure"
      #expect(text.hasPrefix("seed 1 fails") && text.contains(": three hundred\n"), "\(text.prefix(1_000))")
      #expect(text.contains("it fails: it writes more than 256 MB to one file"), "\(text.prefix(1_000))")
      #expect(text.hasSuffix("Repeat it with PUREDUX_SIMULATION_SEED=1 in the environment."), "\(text.suffix(1_000))")
    }
  }

  @Test func `a world that is killed is a failure`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...2) { world in
        let seed = world.seed
        world.client { if seed == 2 { kill(getpid(), SIGKILL) } }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 2 fails: it was killed (signal 9)"), "\(text)")
  }

  @Test func `worlds that end in two ways differ`() async {
    let runs = Runs(of: "ends")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...2) { world in
        let isOdd = world.seed == 2 && !runs.next().isMultiple(of: 2)
        let isSecond = world.seed == 2
        world.client {
          if isOdd { fatalError("odd") }
          if isSecond { exit(3) }
        }
      }.run()
    }
    runs.end()
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 2 fails: the program traps") && text.contains("Two runs of seed 2 differ"), "\(text)")
    #expect(text.hasSuffix("in the other run: the end: the program exits with code 3"), "\(text)")
  }

  /// The first seed takes more steps than a smaller world may take.
  @Test func `a smaller world begins with the same globals`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...2) { world in
        let seed = world.seed
        let count = Self.begunWorlds.add(1, ordering: .relaxed).newValue
        world.client {
          if seed != 1 { world.fail("too many", details: "\(count) worlds in this process") }
          for _ in 1...20_000 { await Task.yield() }
        }
        world.client {}
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("With 1 of 2 clients"), "\(text)")
    #expect(text.split(separator: "\n").count { $0.hasSuffix("too many. 2 worlds in this process") } == 2, "\(text)")
  }

  private static let begunWorlds = Atomic(0)

  @Test func `a failure whose reason is long is reported`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client {
          try await Task.sleep(for: .seconds(1))
          world.fail(String(repeating: "x", count: 200_000))
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 1 fails after ") && text.contains("xxx"), "\(text.prefix(1_000))")
  }

  @Test func `a simulation in a world is refused`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client { try await Simulation(seeds: 1...1) { $0.client {} }.run() }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("run() was called in a world"), "\(text)")
  }

  @Test func `a part that is added after the last client is refused`() async {
    for part in ["a client", "a log", "the condition \"always\"", "the condition \"eventually\""] {
      let failure = await #expect(throws: Simulation.Failure.self) {
        try await Simulation(seeds: 1...1) { world in
          let log = world.log()
          let observed: @Sendable () async throws -> RootStore<Int, Int> = { try await Self.counter(on: log.reliable) }
          world.process("server") { _ in
            try await Task.sleep(for: .seconds(5))
            switch part {
            case "a client": world.client {}
            case "a log": _ = world.log()
            case "the condition \"always\"": world.always("always", in: observed) { _ in false }
            default: world.eventually("eventually", in: observed) { _ in false }
            }
            await Self.forever()
          }
          world.client {}
        }.run()
      }
      let text = failure?.description ?? "no failure"
      #expect(text.contains("\(part) was added after the last client had returned"), "\(text)")
    }
  }

  @Test func `the store of a condition stores no snapshot and truncates nothing`() async throws {
    let report = try await Simulation(seeds: 1...5) { world in
      let log = world.log()
      let open: @Sendable (any OrderedLog, Int?) async throws -> RootStore<Int, Int> = { log, bytes in
        var options = FollowingOptions<Int, Int>(fingerprint: .encoded)
        options.log.snapshotBytes = bytes
        options.log.truncatesBehindSnapshots = true
        return try await RootStore(following: log, initialState: 0, options: options) { $0 += $1 }
      }
      world.always("it is small", in: { try await open(log.reliable, 1) }) { $0 <= 50 }
      world.client {
        let store = try await open(log, nil)
        for _ in 1...50 { try await store.send(1) }
        try await Task.sleep(for: .seconds(60))
        if try await log.snapshots?.newest() != nil { world.fail("there is a snapshot") }
        // Throws if the log is truncated.
        for try await _ in log.records(after: 0) { break }
        let first = try await open(log, 1)
        try await first.send(0)
        try await Task.sleep(for: .seconds(60))
        world.sometimes("a server stores a snapshot", try await log.snapshots?.newest() != nil)
      }
    }.run()
    #expect(report.neverReached == [])
  }

  @Test func `an issue that a world records fails it`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...20) { world in
        let seed = world.seed
        world.client { #expect(seed != 7, "seven") }
      }.run()
    }
    let text = failure?.description ?? ""
    #expect(failure?.seed == 7 && text.contains("an issue was recorded"), "\(text)")
  }

  @Test func `an issue is detected even if the world writes bytes that are not UTF-8`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...20) { world in
        let seed = world.seed
        world.client {
          FileHandle.standardError.write(Data([0xFF, 0x0A]))
          #expect(seed != 7, "seven")
        }
      }.run()
    }
    #expect(failure?.seed == 7)
  }

  /// Counts the runs of a world, in a file.
  private struct Runs {
    private let path: String
    private let isChild = ProcessInfo.processInfo.environment["PUREDUX_SIMULATION"] != nil

    init(of test: String) {
      let name = "puredux-runs-\(isChild ? getppid() : getpid())-\(test)"
      path = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
      if !isChild { _ = FileManager.default.createFile(atPath: path, contents: nil) }
    }

    func next() -> Int {
      let number = (FileManager.default.contents(atPath: path)?.count ?? 0) + 1
      _ = FileManager.default.createFile(atPath: path, contents: Data(count: number))
      return number
    }

    func end() { if !isChild { try? FileManager.default.removeItem(atPath: path) } }
  }

  @Test func `an issue that only the second run of a world records is a failure`() async {
    let runs = Runs(of: "second")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...3) { world in
        let isWrong = world.seed == 2 && runs.next() > 1
        world.client { #expect(!isWrong) }
      }.run(checking: .steps)
    }
    runs.end()
    #expect(failure?.description.hasPrefix("seed 2 fails") == true, "\(failure?.description ?? "no failure")")
  }

  @Test func `a trap in one of two runs is reported with the first step that differs`() async {
    let runs = Runs(of: "even")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...3) { world in
        let isWrong = world.seed == 2 && runs.next().isMultiple(of: 2)
        world.client { if isWrong { fatalError("two") } }
      }.run(checking: .steps)
    }
    runs.end()
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 2 fails: the program traps (signal "), "\(text)")
    #expect(text.contains("Fatal error: two") && text.contains("\nTwo runs of seed 2 differ: "), "\(text)")
    #expect(text.contains("then, in one run: step "), "\(text)")
    #expect(text.contains("in the other run: the end: the program traps (signal "), "\(text)")
  }

  @Test func `a trap that happens once is reported`() async {
    let runs = Runs(of: "once")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...3) { world in
        let isWrong = world.seed == 2 && runs.next() == 2
        world.client { if isWrong { fatalError("two") } }
      }.run(checking: .steps)
    }
    runs.end()
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 2 fails: the program traps (signal "), "\(text)")
    #expect(text.contains("Fatal error: two"), "\(text)")
    #expect(text.hasSuffix("\nTwo runs of seed 2 differ. This did not happen again in 21 runs."), "\(text)")
  }

  @Test func `a failure that another run with the same steps does not have is reported as such`() async {
    let runs = Runs(of: "first")
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...3) { world in
        let isWrong = world.seed == 2 && runs.next() == 1
        world.client { #expect(!isWrong) }
      }.run()
    }
    runs.end()
    let text = failure?.description ?? "no failure"
    #expect(text.hasPrefix("seed 2 fails") && text.contains("Another run has the same steps and passes"), "\(text)")
  }

  /// Takes two minutes: a failed world is repeated.
  @Test func `a world whose step blocks is a failure after a minute`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...2) { world in
        let seed = world.seed
        world.client { while seed == 2 { pause() } }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("seed 2 fails: a step has not ended within a minute of real time"), "\(text)")
  }

  @Test func `a test whose name has a colon: it has no parameters`() async throws {
    try await Simulation(seeds: 1...1) { world in world.client {} }.run()
  }

  @Test func `a world waits for a debugger`() throws {
    let program = Process()
    program.executableURL = URL(
      fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
    program.arguments = ["--testing-library", "swift-testing", "--filter", "a test whose name has a colon"]
    let variables = ["PUREDUX_SIMULATION_SEED": "1", "PUREDUX_SIMULATION_DEBUGGER": "1"]
    program.environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
    let errors = Pipe()
    program.standardError = errors
    program.standardOutput = FileHandle.nullDevice
    try program.run()
    defer {
      kill(program.processIdentifier, SIGKILL)
      program.waitUntilExit()
    }
    var text = ""
    func read(until end: String) throws {
      while !text.contains(end) || !text.hasSuffix("\n") {
        let data = errors.fileHandleForReading.availableData
        try #require(!data.isEmpty, "\(text)")
        text += String(decoding: data, as: UTF8.self)
      }
    }
    try read(until: "seed 1 waits for a debugger: lldb -p ")
    let number = try #require(Int32(text.split(separator: " ").last?.dropLast() ?? ""))
    // A world that does not wait passes.
    kill(number, SIGKILL)
    try read(until: "seed 1 fails: it was killed (signal 9)")
  }

  @Test func `an event has the names of its process and its task`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let server = world.process("server") { server in
          server.offer(1)
          await Task(name: "cleaning") { world.note("cleans") }.value
          await Self.forever()
        }
        world.client("buyer") {
          try await server.call { (_: Int) in world.note("buys") }
          world.note("has bought")
          await Task { world.note("rests") }.value
          try? await server.call { (_: Int) in
            server.crash()
            world.note("falls")
          }
          world.fail("the end")
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    for event in [
      "server, cleaning: cleans", "server, buyer: buys", "buyer: has bought", "outside: rests", "server, buyer: falls",
    ] {
      #expect(text.contains(" s, \(event)\n"), "\(text)")
    }
  }

  @Test func `the report of a failure counts all earlier events`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.client {
          for number in 1...5_000 { world.note("\(number)") }
          world.fail("five thousand")
          await Self.forever()
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("Earlier events: 4970\n") && text.contains(" s, client 1: 5000\n"), "\(text)")
  }

  @Test func `time, dates and random numbers come from the world`() async throws {
    try await Simulation(seeds: 1...20) { world in
      world.client {
        let (start, date) = (ContinuousClock.now, Date())
        try await Task.sleep(for: .seconds(86_400))
        let passed = start.duration(to: .now)
        if passed < .seconds(86_400) || passed > .seconds(86_401) { world.fail("the clock shows \(passed)") }
        let days = Date().timeIntervalSince(date) / 86_400
        if days < 1 || days > 1.001 { world.fail("the date is \(days) days later") }
        // Every source of chance decides about the schedule, so a difference between two processes is detected.
        var generator = SystemRandomNumberGenerator()
        for number in [UInt64(UUID().uuid.0), UInt64.random(in: 0..<256), generator.next() % 256] {
          try await Task.sleep(for: .seconds(number))
        }
      }
    }.run(checking: .steps)
  }

  @Test func `a world that cannot go on fails`() async {
    let reasons = ["server returned", "a client threw an error", "nothing can run any more", "a livelock"]
    for (number, reason) in reasons.enumerated() {
      let failure = await #expect(throws: Simulation.Failure.self) {
        try await Simulation(seeds: 1...1, stepLimit: 1_000) { world in
          world.process("server") { _ in if number != 0 { await Self.forever() } }
          world.client {
            struct Refused: Error {}
            if number == 1 { throw Refused() }
            while number == 3 { await Task.yield() }
            await Self.forever()
          }
        }.run()
      }
      #expect(failure?.description.contains(reason) == true, "\(failure?.description ?? "no failure")")
    }
  }

  @Test func `a world without a client fails`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        world.process("server", [.crashing(every: .seconds(1))]) { _ in await Self.forever() }
      }.run()
    }
    #expect(failure?.description.contains("the world has no client") == true, "\(failure?.description ?? "no failure")")
  }

  private static func forever() async {
    await withCheckedContinuation { (_: CheckedContinuation<Void, Never>) in }
  }

  /// A store that counts, on a log.
  private static func counter(on log: any OrderedLog) async throws -> RootStore<Int, Int> {
    try await RootStore(following: log, initialState: 0, options: FollowingOptions(fingerprint: .encoded)) { $0 += $1 }
  }

  @Test func `eventually is about the state after the clients`() async throws {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let log = world.log()
        world.client { try await Self.counter(on: log.reliable).send(1) }
        world.eventually("it is zero", in: { try await Self.counter(on: log.reliable) }) { $0 == 0 }
      }.run()
    }
    #expect(failure?.description.contains("not eventually: it is zero. The state is 1") == true)
  }

  @Test func `a condition whose store stops is a failure`() async throws {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let log = world.log()
        world.always("it is small", in: { try await Self.counter(on: log.reliable) }) { $0 < 10 }
        world.client {
          // No counter decodes a text.
          let texts = try await RootStore<[String], String>(
            following: log.reliable, initialState: [], options: FollowingOptions(fingerprint: .unchecked)
          ) { $0.append($1) }
          try await texts.send("text")
          try await Task.sleep(for: .seconds(60))
        }
      }.run()
    }
    #expect(failure?.description.contains("the store of the condition \"it is small\" has ended") == true)
  }

  /// SAFETY: used only by jobs of one simulation, which run on one thread.
  private final class Crash: @unchecked Sendable { var isOver = false }

  @Test func `a crashed process learns nothing from the log`() async throws {
    try await Simulation(seeds: 1...50) { world in
      let log = world.log(.unreliable)
      let crash = Crash()
      let server = world.process("server") { process in
        process.offer(1)
        await Self.forever()
      }
      world.client {
        try? await server.call { (_: Int) in
          for _ in 0..<20 { log.append([1]) { _ in if crash.isOver { world.fail("it goes on") } } }
          server.crash()
          crash.isOver = true
          await Self.forever()
        }
        // Releases the appends that the log holds back.
        for _ in 0..<20 { log.append([2]) { _ in } }
        try await Task.sleep(for: .seconds(1))
      }
    }.run()
  }

  private actor Visitor {
    private(set) var crashes = 0

    func visit(_ server: SimulatedProcess) async throws {
      do {
        try await server.call { (_: Int) in server.crash() }
      } catch is SimulatedProcess.Crashed { crashes += 1 }
    }
  }

  @Test func `an actor outside continues when the process that it calls crashes`() async throws {
    try await Simulation(seeds: 1...50) { world in
      let server = world.process("server") { process in
        process.offer(1)
        await Self.forever()
      }
      world.client {
        let visitor = Visitor()
        for _ in 0..<3 { try await visitor.visit(server) }
        if await visitor.crashes != 3 { world.fail("a call has not thrown") }
      }
    }.run()
  }

  @Test func `a process that pauses does not run, and its clock is wrong by at most the limit`() async throws {
    let report = try await Simulation(seeds: 1...20) { world in
      let clock = Date()
      world.process(
        "server", [.pausing(every: .seconds(10), for: .seconds(5)), .clockJumping(every: .seconds(5), by: .seconds(3))]
      ) {
        _ in
        var (last, origin) = (ContinuousClock.now, ContinuousClock.now)
        while true {
          try await Task.sleep(for: .milliseconds(100))
          let now = ContinuousClock.now
          world.sometimes("it pauses", now - last >= .seconds(4.8))
          if now - last > .seconds(30) { world.fail("it does not continue") }
          let error = Date().timeIntervalSince(clock) - (now - origin) / .seconds(1)
          world.sometimes("its clock is wrong", abs(error) > 0.5)
          if abs(error) > 3.1 { world.fail("its clock is wrong by \(error) seconds") }
          last = now
        }
      }
      world.client { try await Task.sleep(for: .seconds(200)) }
    }.run()
    #expect(report.neverReached == [])
  }

  @Test func `a disconnected process reaches nothing of the log`() async throws {
    let report = try await Simulation(seeds: 1...20) { world in
      let log = world.log()
      world.process("server", [.disconnecting(every: .seconds(10), for: .seconds(10))]) { _ in
        while true {
          try await Task.sleep(for: .seconds(1))
          let snapshot = LogSnapshot(position: 1, bytes: [])
          let attempts: [@Sendable () async throws -> Void] = [
            { _ = try await log.head() }, { _ = try await log.snapshots?.newest() },
            { try await log.snapshots?.save(snapshot) }, { _ = try await log.summaries?.kept() },
            { try await log.truncate(through: 0) },
          ]
          var failures = 0
          for attempt in attempts { do { try await attempt() } catch LogError.unavailable { failures += 1 } }
          world.sometimes("it is connected", failures == 0)
          world.sometimes("it is disconnected", failures == attempts.count)
          if failures != 0, failures != attempts.count { world.fail("\(failures) attempts fail") }
        }
      }
      world.client { try await Task.sleep(for: .seconds(100)) }
    }.run()
    #expect(report.neverReached == [])
  }

  @Test func `what a cancelled request begins belongs to its process`() async throws {
    try await Simulation(seeds: 1...20) { world in
      let server = world.process("server") { process in
        process.offer(1)
        await Self.forever()
      }
      world.client {
        let request = Task {
          try await server.call { (_: Int) in
            await withTaskCancellationHandler {
              await Self.forever()
            } onCancel: {
              _ = Task {
                try await Task.sleep(for: .seconds(2))
                world.fail("it goes on after the crash")
              }
            }
          }
        }
        try await Task.sleep(for: .seconds(1))
        request.cancel()
        try await Task.sleep(for: .seconds(1))
        server.crash()
        try await Task.sleep(for: .seconds(5))
      }
    }.run()
  }

  @Test func `a service that a crashed process offers is not called`() async throws {
    try await Simulation(seeds: 1...20) { world in
      let start = Crash()
      let server = world.process("server") { process in
        if !start.isOver {
          start.isOver = true
          process.crash()
        }
        process.offer(1)
        await Self.forever()
      }
      world.client {
        while true {
          do { return try await server.call { (_: Int) in } } catch is SimulatedProcess.Crashed {}
        }
      }
    }.run()
  }

  @Test(arguments: [1, 2]) func `a test with parameters is refused`(number: Int) async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { _ in }.run()
    }
    #expect(failure?.description.contains("has parameters") == true)
  }

  @Test func `a condition that has seen no state fails the world`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let log = world.log()
        // Another condition may have the same name.
        for delay in [0, 1_000] {
          world.always(
            "it is zero",
            in: {
              try await Task.sleep(for: .seconds(delay))
              return try await Self.counter(on: log.reliable)
            }
          ) { $0 == 0 }
        }
        world.client {}
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("no state seen: it is zero"), "\(text)")
    // No smaller world is shown: without the client, the state may be impossible.
    #expect(!text.contains("of 1 clients"), "\(text)")
  }

  @Test func `each state is evaluated, however long the evaluations take`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let log = world.log()
        world.always("it is below fifty", in: { try await Self.counter(on: log.reliable) }) { count in
          try? await Task.sleep(for: .seconds(5))
          return count < 50
        }
        world.client {
          let store = try await Self.counter(on: log.reliable)
          for _ in 1...50 { try await store.send(1) }
        }
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("not always: it is below fifty. The state is 50"), "\(text)")
  }

  @Test func `a condition whose evaluation does not end fails the world`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1) { world in
        let log = world.log()
        world.always("it is zero", in: { try await Self.counter(on: log.reliable) }) { _ in
          await Self.forever()
          return true
        }
        world.client {}
      }.run()
    }
    let text = failure?.description ?? "no failure"
    #expect(text.contains("not evaluated to its end: it is zero"), "\(text)")
    #expect(!text.contains("of 1 clients"), "\(text)")
  }

  @Test func `a condition of eventually whose opening or evaluation does not end fails the world`() async {
    for call in ["The opening of its store", "An evaluation"] {
      let failure = await #expect(throws: Simulation.Failure.self) {
        try await Simulation(seeds: 1...1) { world in
          let log = world.log()
          // With this process, the world never comes to a standstill.
          world.process("server") { _ in while true { try await Task.sleep(for: .seconds(1)) } }
          world.eventually(
            "it is zero",
            in: {
              if call != "An evaluation" { await Self.forever() }
              return try await Self.counter(on: log.reliable)
            }
          ) { _ in
            await Self.forever()
            return true
          }
          world.client {}
        }.run()
      }
      let text = failure?.description ?? "no failure"
      #expect(
        text.contains("not evaluated to its end: it is zero. \(call) takes more than ten virtual minutes"), "\(text)")
      #expect(!text.contains("of 1 clients"), "\(text)")
    }
  }

  @Test func `a condition of eventually may take long in all`() async throws {
    try await Simulation(seeds: 1...1) { world in
      let log = world.log()
      let observed: @Sendable () async throws -> RootStore<Int, Int> = {
        try await Task.sleep(for: .seconds(500))
        return try await Self.counter(on: log.reliable)
      }
      for number in 1...2 {
        world.eventually("it is zero in evaluation \(number)", in: observed) { count in
          try? await Task.sleep(for: .seconds(500))
          return count == 0
        }
      }
      world.client {}
    }.run()
  }

  @Test func `seeds that failed before are run first`() async {
    let failure = await #expect(throws: Simulation.Failure.self) {
      try await Simulation(seeds: 1...1_000, regressions: [7_000]) { world in
        world.client {}
        if world.seed == 7_000 { world.fail("seven thousand") }
      }.run()
    }
    #expect(failure?.seed == 7_000)
  }

  @Test func `a cancelled request ends`() async throws {
    try await Simulation(seeds: 1...50) { world in
      let server = world.process("server") { process in
        try await Task.sleep(for: .seconds(10))
        process.offer(1)
        await Self.forever()
      }
      for delay in [1, 20] {
        world.client {
          let request = Task { try await server.call { (_: Int) in try await Task.sleep(for: .seconds(1_000)) } }
          try await Task.sleep(for: .seconds(delay))
          request.cancel()
          if case .success = await request.result { world.fail("a cancelled request has succeeded") }
        }
      }
    }.run()
  }
}
