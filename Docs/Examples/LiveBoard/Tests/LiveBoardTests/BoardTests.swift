import Foundation
import InMemoryLogging
import Logging
import NIOCore
import Puredux
import PureduxDirectory
import PureduxLog
import PureduxLogTesting
import Synchronization
import Testing

@testable import LiveBoardServer

/// The first three attempts fail for another reason than all later ones.
private final class Attempts: Sendable {
  private let count = Mutex(0)

  func error() -> String {
    count.withLock { count in
      count += 1
      return count > 3 ? "hush: no right" : "hush: away"
    }
  }
}

/// Logs that are not removed.
private struct KeptLogs: LogDirectory {
  private let logs = MemoryLogs()
  private let attempts = Attempts()

  subscript(key: String) -> any OrderedLog { logs[key] }
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { logs.keys(prefix: prefix) }
  func remove(_ key: String) async throws(LogError) { throw .unavailable(attempts.error()) }
  func close() async { await logs.close() }
}

/// Boards, presence and the data for streams, without a server.
@Suite(.timeLimit(.minutes(15))) struct BoardTests {
  @Test func `a board takes so many cards, and remembers so many changes`() {
    var room = Room(id: 1, title: "full")
    for number in 0...Board.cardLimit { room.reduce(.addCard(text: "\(number)", column: nil)) }
    #expect(room.board.version == Board.cardLimit + 1)
    #expect(room.outcome == .failure(.full))
    #expect(room.changes.count == Room.changeLimit)
    #expect(room.changes.last?.version == room.board.version)
    // Another card takes the last place, so a deleted card cannot be restored.
    room.reduce(.deleteCard(card: 1))
    let deleted = room.board.version
    room.reduce(.addCard(text: "another", column: nil))
    room.reduce(.undo(version: deleted))
    #expect(room.outcome == .failure(.full))
  }

  @Test func `after any edits the board can be shown as it was, and followed by changes alone`() throws {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<20 {
      let seed = UInt64.random(in: 0...UInt64.max, using: &random)
      var numbers = SeededNumbers(state: seed)
      var room = Room(id: 1, title: "random")
      var boards = [room.board]
      var shown = ShownBoard(id: 1, version: 1, columns: room.board.columns)
      for number in 0..<300 {
        let card = Int.random(in: 1...30, using: &numbers)
        let column = ["To do", "Doing", "Done", "Nowhere"].randomElement(using: &numbers) ?? ""
        let edits: [Edit] = [
          .addCard(text: "\(number)", column: column), .editCard(card: card, text: "\(number % 3)"),
          .moveCard(card: card, column: column, position: Int.random(in: -2...9, using: &numbers)),
          .moveCard(card: card, column: column, position: nil), .deleteCard(card: card),
          .setKind(card: card, kind: .note(colour: .blue)),
          .undo(version: Int.random(in: max(0, room.board.version - 5)...room.board.version, using: &numbers)),
        ]
        let edit = edits.randomElement(using: &numbers) ?? .deleteCard(card: 1)
        let (before, refusal) = (room, room.refusal(of: edit))
        room.reduce(edit)
        switch room.outcome {
        case .failure(let reason):
          #expect(refusal == reason && room.board == before.board, "seed \(seed)")
        case .success(let outcome):
          #expect(refusal == nil && outcome.version == (room.board == before.board ? nil : room.board.version))
        }
        if room.board.version > before.board.version, let change = room.changes.last {
          boards.append(room.board)
          shown.follow(change)
        }
        #expect(shown.columns == room.board.columns && shown.version == room.board.version, "seed \(seed)")
      }
      let stored = try JSONDecoder().decode(Room.self, from: JSONEncoder().encode(room))
      #expect(stored.fingerprint == room.fingerprint && stored.board == room.board, "seed \(seed)")
      for version in 0...room.board.version + 1 {
        let isKept = version > 0 && version <= room.board.version && room.board.version - version <= Room.changeLimit
        let past = room.board(at: version)
        #expect((past != nil) == isKept, "seed \(seed)")
        if let past {
          #expect(past.version == version && past.columns == boards[version - 1].columns, "seed \(seed)")
        }
      }
    }
  }

  @Test func `who asked for a change, and when, is kept with it, until that name is erased`() throws {
    var (room, plain) = (Room(id: 1, title: "board"), Room(id: 1, title: "board"))
    let time = WallTime(since1970: .milliseconds(1_700_000_000_250))
    let edit = Edit.addCard(text: "a", column: nil, author: "ann")
    room.reduce(.signed(edit, by: "bob", at: time))
    plain.reduce(edit)
    #expect(room.board == plain.board && room.names == ["ann", "bob"])
    #expect(room.changes[0].by == "bob" && room.changes[0].at == time && plain.changes[0].by == nil)
    #expect(room.fingerprint != plain.fingerprint && room.schema == 3 && plain.schema == 2)
    let stored = try JSONDecoder().decode(Room.self, from: JSONEncoder().encode(room))
    #expect(stored.changes == room.changes && stored.fingerprint == room.fingerprint)
    room.reduce(.signed(.undo(version: 2), by: "cat", at: time))
    room.reduce(.erase(author: "bob"))
    #expect(room.changes.map(\.by) == [nil, "cat"] && room.names == ["ann", "cat"])
    #expect(room.changes.map(\.at) == [time, time])
    let long = String(repeating: "n", count: Board.Refusal.nameLimit + 1)
    #expect(room.refusal(of: .signed(.deleteCard(card: 1), by: long, at: time)) == .longName)
    #expect(room.refusal(of: .signed(.deleteCard(card: 7), by: "ann", at: time)) == .unknownCard(7))
  }

  @Test func `what the stores do is in the log of the server`() async throws {
    let handler = InMemoryLogHandler()
    var logger = Logger(label: "test") { _ in handler }
    logger.logLevel = .debug
    let boards = try await Boards(health: Health(), MemoryLogs(), logger: logger)
    _ = try await boards.rooms.withStore(1) { try await $0.send(.addCard(text: "secret", column: nil)) }
    await #expect(throws: StoreError.self) {
      try await boards.rooms.withStore(1) { try await $0.send(.deleteCard(card: 9)) }
    }
    await boards.shutdown()
    let lines = handler.entries.map { "\($0.metadata["store"] ?? ""): \($0.message)" }
    #expect(lines.contains("list: The store is open.") && lines.contains("boards/1: The store has ended."))
    #expect(lines.contains("boards/1: An action is rejected."))
    #expect(!handler.entries.contains { "\($0)".contains("secret") })
  }

  @Test func `a board records a limited number of names, and an erasure makes room for another`() async throws {
    let boards = try await Boards(health: Health(), MemoryLogs())
    let limit = Room.nameCountLimit
    try await boards.rooms.withStore(1) { room in
      func edit(_ text: String, by name: String) -> Edit { .signed(.editCard(card: 1, text: text), by: name, at: .now) }
      try await room.send(.addCard(text: "a", column: nil))
      for number in 0..<limit { try await room.send(edit("\(number)", by: "\(number)")) }
      let known = try await room.send(edit("known", by: "0")) { $0 }
      #expect(known.names.count == limit && known.changes.last?.by == "0")
      let unknown = try await room.send(edit("unknown", by: "ann")) { $0 }
      #expect(unknown.board.version == known.board.version + 1, "the edit is saved")
      #expect(unknown.names == known.names && unknown.changes.last?.by == nil)
      let added = try await room.send(.addCard(text: "b", column: nil, key: "key", author: "ann")) { $0 }
      #expect(added.names == known.names && added.changes.last?.key == "key")
      #expect(added.board.columns[0].cards.last == Board.Card(id: 2, text: "b"))
      try await room.send(.erase(author: "1"))
      let later = try await room.send(edit("later", by: "ann")) { $0 }
      #expect(later.names.count == limit && later.changes.last?.by == "ann")
      let stored = try JSONDecoder().decode(Room.self, from: JSONEncoder().encode(later))
      #expect(stored.fingerprint == later.fingerprint)
    }
    await boards.shutdown()
  }

  // MARK: Health

  @Test func `a board that cannot follow its log is reported until it does so again, or is deleted`() async throws {
    let logs = MemoryLogs()
    let boards = try await Boards(health: Health(), logs)
    func reported(_ board: Int) -> Bool { boards.health.troubles["boards/\(board)"]?.hasPrefix("stopped: ") == true }
    /// A program that writes entries and snapshots which the server cannot decode.
    func foreign(_ board: Int) async throws -> RootStore<Int, Int> {
      let coding = LogCoding<Int> { _ in
        Array("nonsense".utf8)
      } decode: { _, _ in
        0
      }
      return try await RootStore(
        following: logs["boards/\(board)"], initialState: 0, codings: LogCodings(actions: coding, states: coding),
        options: FollowingOptions(fingerprint: .unchecked)
      ) { $0 += $1 }
    }
    // An entry stops the store of the first board, which then ends, as idle stores do.
    let room = try await boards.rooms.withStore(1) { $0 }
    let first = try await foreign(1)
    try await first.send(1)
    await first.shutdown()
    while !reported(1) { await Task.yield() }
    await room.shutdown()
    #expect(reported(1))
    // The store of the second board cannot begin with its snapshot.
    try await boards.list.send(.add(title: "Another"))
    let second = try await foreign(2)
    try await second.send(1)
    try await second.saveSnapshot()
    await second.shutdown()
    for board in [1, 2] {
      await #expect(throws: StoreError.self) { try await boards.rooms.withStore(board) { _ in } }
      #expect(reported(board))
    }
    try await logs["boards/1"].skip(position: 1, reason: "nonsense")
    try await boards.rooms.withStore(1) { _ in }
    #expect(!reported(1) && reported(2))
    try await boards.delete(2)
    while boards.health.troubles != [:] { await Task.yield() }
    await boards.shutdown()
  }

  @Test func `a stop that reopening heals is reported until the store ends, and other problems outlast it`()
    async throws
  {
    let health = Health()
    for stop in [LogStop.unreadable(position: 2), .cloned(position: 2)] {
      health.entered(.stopped(stop), by: "boards/1")
      #expect(health.troubles == ["boards/1": "stopped: \(stop)"])
      health.entered(.ended, by: "boards/1")
      #expect(health.troubles == [:])
    }
    // The log is damaged: the next opening fails.
    await #expect(throws: LogError.self) {
      _ = try await health.opening("boards/1") { () -> Int in throw LogError.damaged(position: 2, "nonsense") }
    }
    #expect(health.troubles == ["boards/1": "damaged"])
    let divergence = LogStop.diverged(position: 2)
    health.entered(.stopped(divergence), by: "boards/1")
    health.entered(.ended, by: "boards/1")
    #expect(health.troubles == ["boards/1": "stopped: \(divergence)"])
    health.entered(.following, by: "boards/1")
    #expect(health.troubles == [:])
  }

  @Test func `the error of a removal is in the log of the server, and not among the troubles`() async throws {
    let handler = InMemoryLogHandler()
    let boards = try await Boards(health: Health(), KeptLogs(), logger: Logger(label: "test") { _ in handler })
    await #expect(throws: LogError.self) { try await boards.delete(1) }
    func logged(_ error: String) -> Int {
      handler.entries.count { "\($0.metadata["error"] ?? "")".contains(error) }
    }
    while logged("hush: no right") == 0 { await Task.yield() }
    // Attempts with the same error log nothing.
    #expect(logged("hush") == 2)
    #expect(boards.health.troubles == ["boards/1": "not removed"])
    await boards.shutdown()
  }

  #if !NATS
    @Test func `the error of a server without the trait has no credentials of the cluster`() async throws {
      let logs = BoardLogs(shared: "nats://hush@a:4222")
      let error = await #expect(throws: LiveBoardServer.Failure.self) {
        _ = try await logs.open(openFiles: 1, logger: Logger(label: "test"))
      }
      #expect(!"\(try #require(error))".contains("hush"))
    }
  #endif

  // MARK: Presence

  @Test func `a server that is silent while another beats is gone, and comes back when it says something`() {
    var attendance = Attendance()
    attendance.reduce(.here(server: "a", board: 1, Attendance.People(names: ["ann"], count: 1)))
    attendance.reduce(.here(server: "b", board: 1, Attendance.People(names: ["bob"], count: 1)))
    for _ in 1..<Attendance.patience { attendance.reduce(.beat(server: "b")) }
    attendance.reduce(.beat(server: "a"))
    for _ in 1..<Attendance.patience { attendance.reduce(.beat(server: "b")) }
    #expect(attendance.part(1, at: "b").all.here == ["ann", "bob"])
    attendance.reduce(.beat(server: "b"))
    #expect(attendance.part(1, at: "b").all == Attendance.People(names: ["bob"], count: 1))
    #expect(attendance.part(1, at: "a").own == Attendance.People(), "so it tells again")
    attendance.reduce(.here(server: "a", board: 2, Attendance.People(names: ["ann"], count: 1)))
    #expect(attendance.hasPeople(at: "a") && attendance.part(2, at: "b").all.here == ["ann"])
    attendance.reduce(.here(server: "a", board: 2, Attendance.People()))
    attendance.reduce(.left(server: "b"))
    #expect(!attendance.hasPeople(at: "a") && !attendance.hasPeople(at: "b"))
  }

  /// Two servers that share logs.
  @Test func `who is here is told at every server, and told again where it was forgotten`() async throws {
    let logs = MemoryLogs()
    var options = LiveBoardServer.Options()
    options.logs = .cluster([])
    let one = try await Boards(health: Health(), logs, options)
    let other = try await Boards(health: Health(), logs, options)
    let (ann, bob) = (try await one.halls.open(1), try await other.halls.open(1))
    let states: StateSequence<Hall> = bob.store.states(bufferingPolicy: .bufferingNewest(1))
    func until(_ names: String) async {
      for await state in states where String(buffer: state.here.message).contains(names) { return }
    }
    ann.store.dispatch(.join(1, name: "ann"))
    bob.store.dispatch(.join(1, name: "bob"))
    await until(#""here":["ann","bob"]"#)
    // The second server dropped the first one.
    try await other.trees.attendance.withStore(Boards.attendanceKey) {
      try await $0.send(.left(server: one.trees.server))
    }
    await until(#""here":["bob"]"#)
    await until(#""here":["ann","bob"]"#)
    await one.shutdown()
    await until(#""here":["bob"]"#)
    await other.shutdown()
  }

  @Test func `a person who is erased at one server is so at the others`() async throws {
    let logs = MemoryLogs()
    var options = LiveBoardServer.Options()
    options.logs = .cluster([])
    let one = try await Boards(health: Health(), logs, options)
    let other = try await Boards(health: Health(), logs, options)
    func authors(at boards: Boards) async throws -> [String?] {
      let room = try await boards.rooms.withStore(1) { await $0.committed() }
      return room.board.columns[0].cards.map(\.author)
    }
    for author in ["ann", "bob"] {
      let add = Edit.addCard(text: "a", column: nil, author: author)
      _ = try await one.rooms.withStore(1) { try await $0.send(add) }
    }
    while try await authors(at: other) != ["ann", "bob"] { await Task.yield() }
    try await other.erase("ann")
    while try await authors(at: one) != [nil, "bob"] { await Task.yield() }
    #expect(try await authors(at: other) == [nil, "bob"])
    // A second erasure changes nothing.
    let version = try await other.rooms.withStore(1) { await $0.committed().board.version }
    try await other.erase("ann")
    #expect(try await other.rooms.withStore(1) { await $0.committed().board.version } == version)
    await one.shutdown()
    await other.shutdown()
  }

  @Test func `what servers share is a database or a cluster, by its address`() {
    for text in ["postgresql://ann:secret@a,b/boards?sslmode=require", "postgres:///boards"] {
      #expect(BoardLogs(shared: text) == .database(text) && BoardLogs(shared: text).isShared)
    }
    #expect(BoardLogs(shared: "nats://a:4222,nats://b:4222") == .cluster(["nats://a:4222", "nats://b:4222"]))
  }

  // MARK: Streams

  @Test func `who has a version gets the changes since, and the board where that is too much`() {
    var (room, hall) = (Room(id: 1, title: "board"), Hall(epoch: "run"))
    func text(since version: Int) -> String { String(buffer: hall.news(since: version)) }
    hall.reduce(.join(1, name: "ann"))
    hall.reduce(.board(room.board, room.changes))
    #expect(text(since: 0).hasPrefix("id: run-1\nevent: board\n"))
    #expect(text(since: 1) == "")
    for version in [Int.min, -1, 2, Int.max] { #expect(text(since: version).hasPrefix("id: run-1\nevent: board\n")) }
    for _ in 0..<3 { room.reduce(.addCard(text: "a", column: nil)) }
    hall.reduce(.board(room.board, room.changes))
    #expect(text(since: 1).components(of: "event: change") == 3)
    #expect(text(since: 3).hasPrefix("id: run-4\nevent: change\n"))
    #expect(text(since: 9).hasPrefix("id: run-4\nevent: board\n"), "it has a version of another board")
    for _ in 0..<Hall.changeLimit { room.reduce(.addCard(text: "a", column: nil)) }
    hall.reduce(.board(room.board, room.changes))
    #expect(text(since: 4).components(of: "event: change") == Hall.changeLimit)
    #expect(text(since: 3).components(of: "event: board") == 1)
    // It missed more changes than it received.
    for _ in 0..<3 { room.reduce(.addCard(text: "a", column: nil)) }
    let version = room.board.version
    hall.reduce(.board(room.board, room.changes.suffix(1)))
    #expect(text(since: version - 1).components(of: "event: change") == 1)
    #expect(text(since: version - 2).components(of: "event: board") == 1)
    // Events with an erased name are not sent again.
    let changed = room.board.version
    hall.reduce(.board(room.board, [], erasures: 1))
    #expect(text(since: changed - 1).components(of: "event: board") == 1)
  }
}

extension String {
  fileprivate func components(of part: String) -> Int { ranges(of: part).count }
}

/// SplitMix64.
struct SeededNumbers: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
