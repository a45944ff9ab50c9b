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

  func title(of id: Int) -> String? { titles.indices.contains(id - 1) ? titles[id - 1] : nil }

  var summaries: [Summary] { titles.enumerated().map { Summary(id: $0.offset + 1, title: $0.element) } }
}

/// A store for each board that is in use, whose order is that of the board's log, and the list of all of them.
final class Boards: Sendable {
  struct Unknown: Error {
    let id: String
  }

  static let full: RejectionReason = "There are too many boards."

  let list: RootStore<BoardList, String>
  let rooms: StoreDirectory<Int, Room, Edit>
  /// What goes to the event streams of each board that has any.
  let halls: StoreDirectory<Int, Hall, Hall.Action>
  let health: Health

  /// - Parameter log: The log of a tree, by its key.
  init(health: Health, _ log: @escaping @Sendable (String) -> any OrderedLog) async throws {
    var options = LogOptions()
    // A person does not wait longer.
    options.sendLimit = .seconds(5)
    let limit = Middleware<BoardList, String> { title, context, next in
      if context.state.titles.count >= BoardList.limit { return context.reject(Self.full) }
      next(title)
    }
    var patient = options
    patient.openingLimit = .seconds(60)
    list = try await RootStore(
      following: log("list"), initialState: BoardList(), options: patient,
      onPhase: { health.entered($0, by: "list") }, middleware: [limit]
    ) { $0.add($1) }
    rooms = StoreDirectory(countLimit: 1000) { [list, options] id in
      guard let title = await list.committed().title(of: id) else { throw Unknown(id: "\(id)") }
      return try await RootStore(
        following: log("boards/\(id)"), initialState: Room(id: id, title: title), options: options,
        onPhase: { health.entered($0, by: "boards/\(id)") }
      ) { $0.reduce($1) }
    }
    halls = StoreDirectory(idleLimit: .seconds(1)) { [rooms] id in
      RootStore(initialState: Hall(), interceptors: Hall.interceptors(of: id, in: rooms)) { $0.reduce($1) }
    }
    self.health = health
  }

  /// Returns when what was accepted is saved, or after the log's `endingLimit`.
  func shutdown() async {
    await halls.shutdown()
    await rooms.shutdown()
    await list.shutdown()
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
