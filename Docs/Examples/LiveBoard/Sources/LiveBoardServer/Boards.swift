import Puredux
import PureduxLog

/// The boards that there are: a tree of its own, beside those of the boards.
struct BoardList: Codable, Sendable {
  static let limit = 10_000

  struct Summary: Codable, Sendable, Equatable {
    let id: Int
    let title: String
  }

  /// The first one is there on every server before anything has happened.
  private(set) var titles = ["First board"]

  mutating func add(_ title: String) { titles.append(title) }

  func title(of id: Int) -> String? { id > 0 && id <= titles.count ? titles[id - 1] : nil }

  var summaries: [Summary] { titles.enumerated().map { Summary(id: $0.offset + 1, title: $0.element) } }
}

/// A store for each board that is in use, whose order is that of the board's log, and the list of all of them.
final class Boards: Sendable {
  struct Unknown: Error {
    let id: String
  }

  /// The trees that have a log, if others share it.
  struct Trees: Sendable {
    /// This server's name among those that share them: another one in each run.
    let server: String
    let list: RootStore<BoardList, String>
    let rooms: StoreDirectory<Int, Room, Edit>
    /// One, which is open while anybody is here.
    let attendance: StoreDirectory<String, Attendance, Attendance.Action>
  }

  static let attendanceKey = "attendance"
  static let full: RejectionReason = "There are too many boards."

  let trees: Trees
  /// What goes to the event streams of each board that has any.
  let halls: StoreDirectory<Int, Hall, Hall.Action>
  let health: Health
  /// Three quarters of the connections: the rest is for other requests.
  let streamLimit: Int

  var list: RootStore<BoardList, String> { trees.list }
  var rooms: StoreDirectory<Int, Room, Edit> { trees.rooms }

  init(
    health: Health, _ logs: BoardLogs.Opened, _ server: LiveBoardServer.Options = LiveBoardServer.Options()
  ) async throws {
    var options = LogOptions()
    // A person does not wait longer.
    (options.sendLimit, options.openingLimit) = (.seconds(5), .seconds(5))
    let limit = Middleware<BoardList, String> { title, context, next in
      if context.state.titles.count >= BoardList.limit { return context.reject(Self.full) }
      next(title)
    }
    var patient = options
    patient.openingLimit = .seconds(60)
    let list = try await RootStore(
      following: logs.log("list"), initialState: BoardList(), options: patient,
      onPhase: { health.entered($0, by: "list") }, middleware: [limit]
    ) { $0.add($1) }
    let countLimit = min(1000, server.connectionLimit)
    let rooms = StoreDirectory<Int, Room, Edit>(countLimit: countLimit) { [options] id in
      guard let title = await list.committed().title(of: id) else { throw Unknown(id: "\(id)") }
      return try await RootStore(
        following: logs.log("boards/\(id)"), initialState: Room(id: id, title: title), options: options,
        onPhase: { health.entered($0, by: "boards/\(id)") }
      ) { $0.reduce($1) }
    }
    let name = "\(UInt64.random(in: 0...UInt64.max))"
    let beating = Attendance.beating(of: name)
    // Nobody asks who was here.
    var brief = options
    (brief.snapshotBytes, brief.truncatesBehindSnapshots, brief.endingLimit) = (64 << 10, true, .seconds(1))
    let attendance = StoreDirectory<String, Attendance, Attendance.Action>(idleLimit: .seconds(60)) { [brief] key in
      if !logs.isShared { return RootStore(initialState: Attendance(), interceptors: beating) { $0.reduce($1) } }
      return try await RootStore(
        following: logs.log(key), initialState: Attendance(), options: brief,
        onPhase: { health.entered($0, by: key) }, interceptors: beating
      ) { $0.reduce($1) }
    }
    let trees = Trees(server: name, list: list, rooms: rooms, attendance: attendance)
    halls = StoreDirectory(idleLimit: .seconds(1)) { id in
      RootStore(
        initialState: Hall(epoch: trees.server),
        interceptors: Hall.interceptors(of: id, in: trees, beatInterval: server.beatInterval)
      ) { $0.reduce($1) }
    }
    self.trees = trees
    self.health = health
    streamLimit = server.connectionLimit - (server.connectionLimit + 3) / 4
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
