import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// A store's treatment of an entry that kills its processes (G11).
@Suite(.timeLimit(.minutes(15))) struct PoisonTests {
  private static func open(_ log: any OrderedLog, _ options: LogOptions = .once, traps: Bool) async throws
    -> LedgerStore
  {
    try await RootStore(
      following: log, initialState: Ledger(), options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      // Ends the process at once, like a trap, but without a message.
      if traps, $1 == "poison" { _exit(1) }
      $0.entries.append($1)
    }
  }

  private static func fill(_ log: any OrderedLog, _ actions: [String] = ["a", "poison", "b"]) async throws {
    let store = try await open(log, traps: false)
    for action in actions { try await store.send(action) }
    await store.shutdown()
  }

  private static func mark(in directory: String) -> String { directory + "/=tree/" + FileNames.recovery }

  /// A process of this program that dies during replay.
  private static func die(in directory: String) async {
    await #expect(processExitsWith: .failure) { [directory] in
      let log = try FileLog(directory: directory)
      _ = try await Self.open(log["tree"], traps: true)
    }
  }

  @Test(
    "the third process to reach an entry that two have died of stops there, and a decision lets it continue"
  )
  func poisoned() async throws {
    let directory = try TemporaryDirectory()
    do {
      let log = try FileLog(directory: directory.path)
      try await Self.fill(log["tree"])
      await log.close()
    }
    for _ in 0..<2 { await Self.die(in: directory.path) }
    let log = try FileLog(directory: directory.path)
    let told = LockedValue<[LogReport]>([])
    var options = LogOptions.once
    options.reporting = { report in told.withLock { $0.append(report) } }
    // The store stops repeatedly, without dying.
    for _ in 0..<2 {
      await #expect(throws: StoreError.stopped(.poisoned(position: 2))) {
        try await Self.open(log["tree"], options, traps: true)
      }
    }
    #expect(told.withLock { $0 } == Array(repeating: .poisoned(key: "tree", position: 2), count: 2))
    options.opensWhereStopped = true
    for _ in 0..<2 {
      let readable = try await Self.open(log["tree"], options, traps: true)
      #expect(await readable.state.entries == ["a"])
      #expect(readable.dispatch("c") == .stopped)
      await readable.shutdown()
    }
    try await log["tree"].skip(position: 2, reason: "it traps")
    let store = try await Self.open(log["tree"], traps: true)
    #expect(await store.state.entries == ["a", "b"])
    #expect(!FileManager.default.fileExists(atPath: Self.mark(in: directory.path)))
    await store.shutdown()
    // The decision holds even after the marks of the deaths are gone.
    #expect(try await Self.open(log["tree"], traps: true).state.entries == ["a", "b"])
    await log.close()
  }

  @Test("a store that stops in replay does not count as dead, however often", arguments: [false, true])
  func stopped(isRead: Bool) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let hash: @Sendable (Ledger) -> UInt64 = { UInt64($0.entries.joined().utf8.reduce(7) { $0 &* 31 &+ Int($1) }) }
    func open(suffix: String = "") async throws -> LedgerStore {
      var options = LogOptions.once
      options.opensWhereStopped = isRead
      return try await RootStore(
        following: log["tree"], initialState: Ledger(),
        options: FollowingOptions(log: options, fingerprint: .hashed(hash))
      ) { $0.entries.append($1 + suffix) }
    }
    let store = try await open()
    for action in ["a", "b", "c"] { try await store.send(action) }
    await store.shutdown()
    for _ in 0..<3 {
      if isRead {
        let stopped = try await open(suffix: "!")
        #expect(await stopped.statistics.log?.phase == .stopped(.diverged(position: 1)))
        await stopped.shutdown()
      } else {
        await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await open(suffix: "!") }
      }
    }
    let again = try await open()
    #expect(await again.state.entries == ["a", "b", "c"])
    await again.shutdown()
    await log.close()
  }

  @Test(
    "during recovery a mark is kept of each entry at which a process has died, and removed after it",
    arguments: [false, true])
  func kept(hasDied: Bool) async throws {
    let directory = try TemporaryDirectory()
    do {
      let log = try FileLog(directory: directory.path)
      try await Self.fill(log["tree"])
      await log.close()
    }
    if hasDied { await Self.die(in: directory.path) }
    let log = try FileLog(directory: directory.path)
    let seen = LockedValue<[[UInt8]]>([])
    let path = Self.mark(in: directory.path)
    let store = try await RootStore<Ledger, String>(
      following: log["tree"], initialState: Ledger(), options: FollowingOptions(log: .once)
    ) {
      let bytes = FileManager.default.contents(atPath: path)
      seen.withLock { $0.append(Array(bytes ?? Data())) }
      $0.entries.append($1)
    }
    let noted = seen.withLock { $0.map { ($0.first ?? 0, $0.count > 8 ? $0[8] : .max) } }
    #expect(noted.count == 3)
    for ((position, deaths), entry) in zip(noted, 1...3 as ClosedRange<UInt8>) {
      #expect(hasDied ? position == entry && deaths > 0 : 1...entry ~= position && deaths == 0)
    }
    #expect(!FileManager.default.fileExists(atPath: path))
    try await store.send("live")
    #expect(seen.withLock { $0.last } == [])
    await store.shutdown()
    await log.close()
  }

  /// - Returns: Whether one more death of a store would be the last.
  private static func isFatal(_ directory: Directory, program: UInt64) throws -> Bool {
    try RecoveryMark("mark", in: directory, program: program).isFatal(7)
  }

  @Test("deaths count at one entry, one after the other, and of one program")
  func counted() throws {
    let place = try TemporaryDirectory()
    let directory = try Directory(place.path)
    func mark(_ program: UInt64 = 1) throws -> RecoveryMark {
      try RecoveryMark("mark", in: directory, program: program)
    }
    // The processes died at 7, at 6, at 7 and at 7.
    for position in [7, 6, 7, 7] as [UInt64] {
      #expect(try !mark().isFatal(7))
      let died = try mark()
      died.begin(5)
      died.pause(behind: 5)
      died.begin(position)
    }
    #expect(try mark().isFatal(7))
    #expect(try !mark().isFatal(6))
    // Another program begins its own count. If it does not reach the entry, the first program's count remains.
    #expect(try !mark(2).isFatal(7))
    // A process that ends before the entry, or fails, changes nothing.
    try mark().begin(5)
    #expect(try !mark().isFatal(7))
  }

  @Test(
    "a first recovery notes stretches, and slow entries exactly; a death in a stretch counts at the entry of the next death"
  )
  func stretches() throws {
    let place = try TemporaryDirectory()
    let directory = try Directory(place.path)
    let now = LockedValue(SuspendingClock.Instant.now)
    func mark() throws -> RecoveryMark {
      try RecoveryMark("mark", in: directory, program: 1) { now.withLock { $0 } }
    }
    /// The entries counted as fatal after two deaths: one in a first recovery, and one at an entry.
    func fatal(_ second: UInt64, after first: (RecoveryMark) -> Void) throws -> [UInt64] {
      do { first(try mark()) }
      try mark().begin(second)
      let fatal = try (1...200 as ClosedRange<UInt64>).filter { try mark().isFatal($0) }
      try directory.remove("mark")
      return fatal
    }
    func begin(_ positions: ClosedRange<UInt64>) -> (RecoveryMark) -> Void {
      { mark in for position in positions { mark.begin(position) } }
    }
    #expect(try fatal(7, after: begin(3...7)) == [7])
    #expect(try fatal(66, after: begin(3...66)) == [66])
    // This entry is in another stretch.
    #expect(try fatal(2, after: begin(3...7)) == [])
    #expect(try fatal(66, after: begin(3...67)) == [])
    // After a while, another stretch begins.
    let slow: (RecoveryMark) -> Void = { mark in
      mark.begin(3)
      now.withLock { $0 += .microseconds(100) }
      mark.begin(4)
    }
    #expect(try fatal(4, after: slow) == [4])
    #expect(try fatal(3, after: slow) == [])
    // An entry that is decoded before it is applied begins twice.
    #expect(
      try fatal(
        4,
        after: {
          begin(3...7)($0); begin(3...7)($0)
        }) == [4])
    // A process that ends between entries has not died of one.
    #expect(
      try fatal(
        4,
        after: {
          begin(3...7)($0); $0.pause(behind: 7)
        }) == [])
  }

  @Test("any number of deaths in a file is read, and ends no process")
  func manyDeaths() throws {
    let place = try TemporaryDirectory()
    var bytes = ByteWriter()
    bytes.put(UInt64(7))
    bytes.put(UInt32.max)
    bytes.put(UInt64(1))
    bytes.put(RecordFormat.checksum(of: bytes.bytes))
    try Data(bytes.bytes).write(to: URL(fileURLWithPath: place.path + "/mark"))
    let mark = try RecoveryMark("mark", in: Directory(place.path), program: 1)
    #expect(mark.isFatal(7))
    mark.begin(7)
    #expect(mark.isFatal(7))
  }

  @Test("a recovery that is interrupted between entries, or fails, leaves the known deaths")
  func cutShort() throws {
    let place = try TemporaryDirectory()
    let directory = try Directory(place.path)
    func mark() throws -> RecoveryMark { try RecoveryMark("mark", in: directory, program: 1) }
    for _ in 0..<2 { try mark().begin(7) }
    func recover(_ body: (RecoveryMark) -> Void) throws { body(try mark()) }
    try recover {
      $0.begin(5)
      $0.pause(behind: 5)
    }
    #expect(try mark().isFatal(7))
    try recover {
      $0.begin(5)
      $0.pause(behind: 5)
      $0.giveUp()
    }
    #expect(try mark().isFatal(7))
    // A recovery abandoned in the middle of an entry leaves the entry noted, because the entry may never end.
    try recover {
      $0.begin(7)
      $0.giveUp()
    }
    #expect(try mark().isFatal(7))
    // If the entry ends after all, the note is withdrawn, whichever calls the mark receives then.
    try recover {
      $0.begin(7)
      $0.giveUp()
      $0.pause(behind: 7)
      $0.begin(7)
      $0.giveUp()
    }
    #expect(try mark().isFatal(7))
    try recover {
      $0.begin(5)
      $0.giveUp()
      $0.pause(behind: 5)
    }
    #expect(try mark().isFatal(7))
    // The next recovery begins when the abandoned entry has ended, even if the earlier mark is still held.
    try recover { given in
      given.begin(5)
      given.giveUp()
      #expect(throws: Disk.Failure.self) { try mark() }
      given.pause(behind: 5)
      #expect(throws: Never.self) { try #expect(mark().isFatal(7)) }
    }
    // A running recovery has not died. Others cannot read its mark.
    try recover { alive in
      alive.begin(7)
      #expect(throws: Disk.Failure.self) { try mark() }
      alive.pause(behind: 7)
    }
    #expect(try !mark().isFatal(7))
    try recover { $0.end() }
    #expect(try directory.names() == [])
    // A first recovery that fails has not died. One that is abandoned in the middle of an entry may have.
    try recover {
      $0.begin(7)
      $0.pause(behind: 7)
      $0.giveUp()
    }
    #expect(try directory.names() == [])
    try recover {
      $0.begin(7)
      $0.giveUp()
    }
    #expect(try directory.names() == ["mark"])
    // An unreadable mark counts as none.
    for _ in 0..<2 { try mark().begin(7) }
    try Disk("mark", in: directory, .writing).write([9], at: 8)
    #expect(try !mark().isFatal(7))
  }

  @Test("programs are distinguished by the contents of their files only")
  func programs() throws {
    let directory = try TemporaryDirectory()
    let time = Date(timeIntervalSince1970: 1)
    func program(_ name: String, _ bytes: [UInt8], at time: Date) throws -> UInt64 {
      let path = directory.path + "/" + name
      try Data(bytes).write(to: URL(fileURLWithPath: path))
      try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
      return try ProgramIdentity.hash(ofFile: name, in: directory.path)
    }
    var random = SeededGenerator(seed: 1)
    let bytes = (0..<2_100_003).map { _ in UInt8.random(in: 0...255, using: &random) }
    let built = try program("built", bytes, at: time)
    // A copy of the program, in another image.
    #expect(try program("copied", bytes, at: Date(timeIntervalSince1970: 2)) == built)
    var others: Set<UInt64> = [built]
    for place in [0, 7, 8, 1 << 20, (1 << 20) - 1, bytes.count - 1] {
      var other = bytes
      other[place] ^= 0x80
      // These programs have the same size and time, as reproducible builds do.
      others.insert(try program("\(place)", other, at: time))
    }
    var (twice, longer) = (bytes, bytes)
    for place in [7, 15] { twice[place] ^= 0x80 }
    longer.append(0)
    others.insert(try program("twice", twice, at: time))
    others.insert(try program("longer", longer, at: time))
    #expect(others.count == 9)
  }

  @Test("an opening that is cancelled in the middle of an entry, again and again, has not died there")
  func cancelled() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    try await Self.fill(log["tree"])
    for _ in 0..<4 {
      let (isIn, mayGoOn) = (Gate(), Latch())
      let opening = Task {
        try await RootStore<Ledger, String>(
          following: log["tree"], initialState: Ledger(),
          options: FollowingOptions(log: .once, store: StoreOptions(executor: .serial(HeldExecutor())))
        ) {
          isIn.open()
          mayGoOn.wait()
          $0.entries.append($1)
        }
      }
      await isIn.wait()
      opening.cancel()
      await #expect(throws: CancellationError.self) { try await opening.value }
      mayGoOn.open()
      // The tree's last work withdraws the mark.
      while FileManager.default.fileExists(atPath: Self.mark(in: directory.path)) { await Task.yield() }
    }
    let store = try await Self.open(log["tree"], traps: false)
    #expect(await store.state.entries == ["a", "poison", "b"])
    await store.shutdown()
    await log.close()
  }

  /// A process of this program that dies while it replays a log that is not on this machine.
  private static func die(of key: String, markedIn path: String) async {
    await #expect(processExitsWith: .failure) { [key, path] in
      let log = MemoryLogs()[key]
      try await Self.fill(log)
      var options = LogOptions.once
      options.recoveryDirectory = path
      _ = try await Self.open(log, options, traps: true)
    }
  }

  /// Keys too long for a file's name, because a capital takes three bytes there and a Japanese letter nine.
  private static let keys = ["a/b", String(repeating: "K", count: 100), String(repeating: "あ", count: 29)]

  @Test(
    "a log that is not on this machine has its marks in the directory of the options, however long its key",
    arguments: keys)
  func elsewhere(key: String) async throws {
    let place = try TemporaryDirectory()
    let log = MemoryLogs()[key]
    try await Self.fill(log)
    let path = place.path + "/a/b"
    var options = LogOptions.once
    options.recoveryDirectory = path
    for _ in 0..<2 { await Self.die(of: key, markedIn: path) }
    await #expect(throws: StoreError.stopped(.poisoned(position: 2))) {
      try await Self.open(log, options, traps: true)
    }
    #expect(try await Self.open(log, traps: false).state.entries == ["a", "poison", "b"])
    try await log.skip(position: 2, reason: "it traps")
    #expect(try await Self.open(log, options, traps: true).state.entries == ["a", "b"])
    // Without such a directory, nothing is counted, and nothing fails.
    options.recoveryDirectory = "/dev/null/there"
    #expect(try await Self.open(log, options, traps: true).state.entries == ["a", "b"])
  }
}

extension PoisonTests {
  @Test("a store that is being opened while others of its tree run does not count as dead")
  func beside() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    try await Self.fill(log["tree"], ["a", "b", "c"])
    for _ in 0..<20 {
      let stores = try await withThrowingTaskGroup(of: LedgerStore.self) { group in
        for _ in 0..<6 { group.addTask { try await Self.open(log["tree"], traps: true) } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      for store in stores { #expect(await store.state.entries == ["a", "b", "c"]) }
    }
    await log.close()
  }
}
