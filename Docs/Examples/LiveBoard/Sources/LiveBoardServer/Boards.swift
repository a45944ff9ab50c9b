import Logging
import Puredux
import PureduxDirectory
import PureduxLog
import PureduxLogging

/// The stores of the boards in use, each following the board's log, and the list of all boards.
final class Boards: Sendable {
  struct Unknown: Error {
    let id: String
  }

  /// The trees with a log, which other servers may share.
  struct Trees: Sendable {
    /// The name of this server, different in each run.
    let server: String
    let list: RootStore<BoardList, BoardList.Action>
    let rooms: StoreDirectory<Int, Room, Edit>
    /// A directory with a single store, open while anybody is present.
    let attendance: StoreDirectory<String, Attendance, Attendance.Action>
  }

  /// The entry of a board in the list.
  struct Listed: Codable, Sendable, Equatable {
    let id: Int
    let title: String
    /// Nil for a board without edits, and if unknown.
    var cards: Int?
    var version: Int?
  }

  static let attendanceKey = "attendance"
  /// The number of unused boards that stay in memory.
  static let keptLimit = 1000
  static let erasuresAtATime = 32

  let trees: Trees
  /// The data for the event streams of each board.
  let halls: StoreDirectory<Int, Hall, Hall.Action>
  let health: Health
  /// Three quarters of the connections. The rest is for other requests.
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
    // People do not wait longer.
    (options.sendLimit, options.openingLimit) = (.seconds(5), .seconds(5))
    var patient = options
    patient.openingLimit = .seconds(60)
    let list = try await RootStore(
      following: logs["list"], initialState: BoardList(),
      codings: LogCodings(actions: .json(writing: server.writtenSchema), states: .json(writing: server.writtenSchema)),
      options: FollowingOptions(
        log: patient, store: storeOptions, fingerprint: .encoded, onPhase: { health.entered($0, by: "list") }),
      interceptors: .effects(ofState: BoardList.removing(from: logs, health, logger)),
      middleware: [BoardList.admission(writing: server.writtenSchema), BoardList.guarding]
    ) { $0.reduce($1) }
    let rooms = StoreDirectory<Int, Room, Edit>(countLimit: Self.keptLimit) { [options, storeOptions] id in
      guard let title = await list.committed().title(of: id) else { throw Unknown(id: "\(id)") }
      let room = try await health.opening(Self.key(of: id)) {
        try await RootStore<Room, Edit>(
          following: logs[Self.key(of: id)], initialState: Room(id: id, title: title),
          codings: LogCodings(
            actions: .json(writing: server.writtenSchema), states: .json(writing: server.writtenSchema)),
          options: FollowingOptions(
            log: options, store: storeOptions, fingerprint: .hashed { $0.fingerprint }, summary: { $0.board.summary },
            onPhase: { health.entered($0, by: Self.key(of: id)) }),
          middleware: [Room.admission(writing: server.writtenSchema)]
        ) { $0.reduce($1) }
      }
      // A board that was deleted meanwhile must not be recreated.
      guard await list.committed().title(of: id) != nil else { throw Unknown(id: "\(id)") }
      return room
    }
    let name = "\(UInt64.random(in: 0...UInt64.max))"
    let beating = Attendance.beating(of: name)
    // The history of presence is worthless.
    var brief = options
    (brief.snapshotBytes, brief.truncatesBehindSnapshots, brief.endingLimit) = (64 << 10, true, .seconds(1))
    let attendance = StoreDirectory<String, Attendance, Attendance.Action>(idleLimit: .seconds(60)) {
      [brief, storeOptions] key in
      if !server.logs.isShared {
        return RootStore(initialState: Attendance(), options: storeOptions, interceptors: beating) { $0.reduce($1) }
      }
      return try await health.opening(key) {
        try await RootStore<Attendance, Attendance.Action>(
          following: logs[key], initialState: Attendance(),
          options: FollowingOptions(
            log: brief, store: storeOptions, fingerprint: .encoded, onPhase: { health.entered($0, by: key) }),
          interceptors: beating
        ) { $0.reduce($1) }
      }
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

  /// Lists all boards without opening one. The figures may lack edits of the last second
  /// (`LogOptions.summaryInterval`). Until the board is opened again, they also lack edits right before a crash, and
  /// all edits by the first version, which wrote no summaries.
  func listed() async -> [Listed] {
    var summaries: [String: Board.Summary] = [:]
    do {
      for try await summary in logs.summaries(of: Board.Summary.self, prefix: Self.keyPrefix) {
        summaries[summary.key] = summary.value
      }
    } catch {
      // If the logs are unavailable, boards are listed without figures.
    }
    return await list.committed().items.map { item in
      let summary = summaries[Self.key(of: item.id)]
      return Listed(id: item.id, title: item.title, cards: summary?.cards, version: summary?.version)
    }
  }

  /// Deletes a board. Returns when all its data is removed.
  func delete(_ id: Int) async throws {
    do {
      try await list.send(.delete(board: id))
    } catch StoreError.rejected(let reason) {
      guard await list.committed().title(of: id) != nil else { throw Unknown(id: "\(id)") }
      if BoardList.Action.delete(board: id).schema > writtenSchema { throw Board.Refusal.notYet }
      throw StoreError.rejected(reason: reason)
    }
    // Each server removes it in the background; this call waits.
    try await logs.remove(Self.key(of: id))
    // Erases the title too, but not if a lagging server would have to reopen the list because of it.
    if !isShared { try await list.eraseLog() }
  }

  /// Erases a person's name from all boards and all stored data. If it throws, or the process dies meanwhile, some data
  /// may remain: call it again.
  ///
  /// Opens every board. Summaries could name the affected boards, but they are a cache and may be stale. A missed name
  /// would stay stored without notice.
  func erase(_ name: String) async throws {
    let boards = await list.committed().items
    try await withThrowingTaskGroup { group in
      if isShared { group.addTask { try await self.eraseAttendance() } }
      for (index, board) in boards.enumerated() {
        // On a cluster, each erasure takes seconds.
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
        let erasure = Edit.erase(author: name)
        if erasure.schema > writtenSchema { throw Board.Refusal.notYet }
        let count = try await room.send(erasure) { $0.erasures }
        try await room.eraseLog()
        try await room.send(.erased(count: count))
      }
    } catch is Unknown {
      // The board was deleted meanwhile.
    }
  }

  /// Erases the presence messages that servers have exchanged.
  private func eraseAttendance() async throws {
    try await trees.attendance.withStore(Self.attendanceKey) { store in
      // An empty log cannot be erased.
      try await store.send(.here(server: trees.server, board: 0, Attendance.People()))
      try await store.eraseLog()
    }
  }

  /// Returns when all accepted edits are saved, or after the log's `endingLimit`.
  func shutdown() async {
    await halls.shutdown()
    async let left: Void = leave()
    async let rooms: Void = rooms.shutdown()
    async let list: Void = list.shutdown()
    _ = await (left, rooms, list)
  }

  private func leave() async {
    if await trees.attendance.keys.contains(Self.attendanceKey) {
      // If this fails, the other servers notice the missing heartbeats.
      try? await trees.attendance.withStore(Self.attendanceKey) { try await $0.send(.left(server: trees.server)) }
    }
    await trees.attendance.shutdown()
  }
}

extension RootStore {
  /// The committed state of this replica. Unlike `state`, this does not wait for accepted actions that are not in the
  /// log yet.
  func committed() async -> State {
    let states: StateSequence<State> = states(bufferingPolicy: .bufferingNewest(1))
    for await state in states { return state }
    return await state
  }
}
