import Logging
import Puredux
import PureduxLog
import PureduxLogging

/// A store for each board that is in use, whose order is that of the board's log, and the list of all of them.
final class Boards: Sendable {
  struct Unknown: Error {
    let id: String
  }

  /// The trees that have a log, if others share it.
  struct Trees: Sendable {
    /// This server's name among those that share them: another one in each run.
    let server: String
    let list: RootStore<BoardList, BoardList.Action>
    let rooms: StoreDirectory<Int, Room, Edit>
    /// One, which is open while anybody is here.
    let attendance: StoreDirectory<String, Attendance, Attendance.Action>
  }

  /// What the list says of a board.
  struct Listed: Codable, Sendable, Equatable {
    let id: Int
    let title: String
    /// None where nothing has been edited, and where it is not known.
    var cards: Int?
    var version: Int?
  }

  static let attendanceKey = "attendance"
  /// How many boards are kept in memory that nobody needs.
  static let keptLimit = 1000
  static let erasuresAtATime = 32

  let trees: Trees
  /// What goes to the event streams of each board that has any.
  let halls: StoreDirectory<Int, Hall, Hall.Action>
  let health: Health
  /// Three quarters of the connections: the rest is for other requests.
  let streamLimit: Int
  let writtenSchema: UInt32
  private let isShared: Bool
  private let logs: any LogDirectory

  var list: RootStore<BoardList, BoardList.Action> { trees.list }
  var rooms: StoreDirectory<Int, Room, Edit> { trees.rooms }

  init(
    health: Health, _ logs: any LogDirectory, _ server: LiveBoardServer.Options = LiveBoardServer.Options(),
    logger: Logger = Logger(label: "LiveBoard")
  ) async throws {
    var (options, storeOptions) = (LogOptions(), StoreOptions())
    options.log(to: logger)
    storeOptions.log(to: logger)
    // A person does not wait longer.
    (options.sendLimit, options.openingLimit) = (.seconds(5), .seconds(5))
    var patient = options
    patient.openingLimit = .seconds(60)
    let list = try await RootStore(
      following: logs["list"], initialState: BoardList(),
      codings: LogCodings(actions: .json(writing: server.writtenSchema), states: .json(writing: server.writtenSchema)),
      options: FollowingOptions(
        log: patient, store: storeOptions, fingerprint: .encoded, onPhase: { health.entered($0, by: "list") }),
      interceptors: .effects(ofState: BoardList.removing(from: logs, health)),
      middleware: [BoardList.admission(writing: server.writtenSchema), BoardList.guarding]
    ) { $0.reduce($1) }
    let rooms = StoreDirectory<Int, Room, Edit>(countLimit: Self.keptLimit) { [options, storeOptions] id in
      guard let title = await list.committed().title(of: id) else { throw Unknown(id: "\(id)") }
      let room = try await RootStore(
        following: logs[Self.key(of: id)], initialState: Room(id: id, title: title),
        codings: LogCodings(
          actions: .json(writing: server.writtenSchema), states: .json(writing: server.writtenSchema)),
        options: FollowingOptions(
          log: options, store: storeOptions, fingerprint: .hashed { $0.fingerprint }, summary: { $0.board.summary },
          onPhase: { health.entered($0, by: Self.key(of: id)) }),
        middleware: [Room.admission(writing: server.writtenSchema)]
      ) { $0.reduce($1) }
      // What was deleted meanwhile does not begin anew.
      guard await list.committed().title(of: id) != nil else { throw Unknown(id: "\(id)") }
      return room
    }
    let name = "\(UInt64.random(in: 0...UInt64.max))"
    let beating = Attendance.beating(of: name)
    // Nobody asks who was here.
    var brief = options
    (brief.snapshotBytes, brief.truncatesBehindSnapshots, brief.endingLimit) = (64 << 10, true, .seconds(1))
    let attendance = StoreDirectory<String, Attendance, Attendance.Action>(idleLimit: .seconds(60)) {
      [brief, storeOptions] key in
      if !server.logs.isShared {
        return RootStore(initialState: Attendance(), options: storeOptions, interceptors: beating) { $0.reduce($1) }
      }
      return try await RootStore(
        following: logs[key], initialState: Attendance(),
        options: FollowingOptions(
          log: brief, store: storeOptions, fingerprint: .encoded, onPhase: { health.entered($0, by: key) }),
        interceptors: beating
      ) { $0.reduce($1) }
    }
    let trees = Trees(server: name, list: list, rooms: rooms, attendance: attendance)
    halls = StoreDirectory(idleLimit: .seconds(1)) { [storeOptions] id in
      var options = storeOptions
      options.name = "halls/\(id)"
      return RootStore(
        initialState: Hall(epoch: trees.server), options: options,
        interceptors: Hall.interceptors(of: id, in: trees, beatInterval: server.beatInterval)
      ) { $0.reduce($1) }
    }
    self.trees = trees
    self.health = health
    self.logs = logs
    writtenSchema = server.writtenSchema
    isShared = server.logs.isShared
    streamLimit = server.connectionLimit - (server.connectionLimit + 3) / 4
  }

  static let keyPrefix = "boards/"
  static func key(of board: Int) -> String { "\(keyPrefix)\(board)" }

  /// All boards, none of which is opened for that. What was edited in the last second (`LogOptions.summaryInterval`)
  /// may not be in their figures; nor, until somebody opens the board, what was edited right before a server
  /// crashed, or by the first version, which kept none.
  func listed() async -> [Listed] {
    var summaries: [String: Board.Summary] = [:]
    do {
      for try await summary in logs.summaries(of: Board.Summary.self, prefix: Self.keyPrefix) {
        summaries[summary.key] = summary.value
      }
    } catch {
      // Where the logs are away, boards are listed all the same.
    }
    return await list.committed().items.map { item in
      let summary = summaries[Self.key(of: item.id)]
      return Listed(id: item.id, title: item.title, cards: summary?.cards, version: summary?.version)
    }
  }

  /// Deletes a board. Returns when nothing is left of it.
  func delete(_ id: Int) async throws {
    do {
      try await list.send(.delete(board: id))
    } catch StoreError.rejected(let reason) {
      guard await list.committed().title(of: id) != nil else { throw Unknown(id: "\(id)") }
      throw StoreError.rejected(reason: reason)
    }
    // Each server does that, but nobody waits for it there.
    try await logs.remove(Self.key(of: id))
    // The title. Not where a server that lags would have to start anew for it.
    if !isShared { try await list.eraseLog() }
  }

  /// Takes a person's name out of all boards, and out of what is stored of them. Where it throws, or the process dies
  /// meanwhile, some of that may be left: it is to be called once more.
  ///
  /// Each board is opened. Their summaries could say which of them need not be, but are a cache, which may be of the
  /// past: what is missed by them would stay stored, and nobody would be told.
  func erase(_ name: String) async throws {
    let boards = await list.committed().items
    try await withThrowingTaskGroup { group in
      if isShared { group.addTask { try await self.eraseAttendance() } }
      for (index, board) in boards.enumerated() {
        // On a cluster each one takes seconds.
        if index >= Self.erasuresAtATime { try await group.next() }
        group.addTask { try await self.erase(name, from: board.id) }
      }
      try await group.waitForAll()
    }
  }

  private func erase(_ name: String, from board: Int) async throws {
    do {
      try await rooms.withStore(board) { room in
        let state = await room.state
        guard state.names.contains(name) || state.hasToErase else { return }
        let count = try await room.send(.erase(author: name)) { $0.erasures }
        try await room.eraseLog()
        try await room.send(.erased(count: count))
      }
    } catch is Unknown {
      // It has been deleted meanwhile.
    }
  }

  /// Servers that share the boards have told each other who was here.
  private func eraseAttendance() async throws {
    try await trees.attendance.withStore(Self.attendanceKey) { store in
      // An empty log cannot be erased.
      try await store.send(.here(server: trees.server, board: 0, Attendance.People()))
      try await store.eraseLog()
    }
  }

  /// Returns when what was accepted is saved, or after the log's `endingLimit`.
  func shutdown() async {
    await halls.shutdown()
    async let left: Void = leave()
    async let rooms: Void = rooms.shutdown()
    async let list: Void = list.shutdown()
    _ = await (left, rooms, list)
  }

  private func leave() async {
    if await trees.attendance.keys.contains(Self.attendanceKey) {
      // Where that is not possible, the others find out.
      try? await trees.attendance.withStore(Self.attendanceKey) { try await $0.send(.left(server: trees.server)) }
    }
    await trees.attendance.shutdown()
  }
}

extension RootStore {
  /// What is committed here. Unlike `state`, it does not wait for what has been accepted and is not in the log yet.
  func committed() async -> State {
    let states: StateSequence<State> = states(bufferingPolicy: .bufferingNewest(1))
    for await state in states { return state }
    return await state
  }
}
