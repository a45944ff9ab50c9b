import Puredux

/// Presence: the people on every board and at every server. Servers that share the boards share this tree as well.
///
/// Each server reports its people and sends heartbeats. Reducers have no clock, because they run on every replica. So a
/// server counts as gone when another server has sent `patience` heartbeats since its last message; all replicas agree
/// on that.
struct Attendance: Codable, Sendable {
  static let shownLimit = 50
  static let patience = 4
  static let interval = Duration.seconds(1)

  /// The people, as the page receives them.
  struct People: Codable, Sendable, Equatable {
    var here: [String] = []
    var count = 0

    init() {}

    init(names: some Sequence<String>, count: Int) {
      here = Array(names.sorted().prefix(Attendance.shownLimit))
      self.count = count
    }
  }

  enum Action: Codable, Sendable {
    case here(server: String, board: Int, People)
    case beat(server: String)
    case left(server: String)
  }

  /// The people on one board: at all servers, and at one server.
  struct Part: Sendable, Equatable {
    var all = People()
    var own = People()
  }

  private struct Server: Codable {
    var boards: [Int: People] = [:]
    /// The heartbeats of each other server since this server's last message.
    var silence: [String: Int] = [:]
  }

  private var servers: [String: Server] = [:]

  func hasPeople(at server: String) -> Bool { servers[server] != nil }

  func part(_ board: Int, at server: String) -> Part {
    let people = servers.values.compactMap { $0.boards[board] }
    return Part(
      all: People(names: people.flatMap(\.here), count: people.reduce(0) { $0 + $1.count }),
      own: servers[server]?.boards[board] ?? People())
  }

  mutating func reduce(_ action: Action) {
    switch action {
    case .here(let server, let board, let people):
      servers[server, default: Server()].boards[board] = people.count > 0 ? people : nil
      servers[server]?.silence = [:]
      if servers[server]?.boards.isEmpty == true { servers[server] = nil }
    case .beat(let server):
      servers[server]?.silence = [:]
      for other in servers.keys where other != server {
        let silence = servers[other]?.silence[server, default: 0] ?? 0
        servers[other]?.silence[server] = silence + 1
        if silence + 1 >= Self.patience { servers[other] = nil }
      }
    case .left(let server): servers[server] = nil
    }
  }

  /// Sends heartbeats while anybody is present at this server.
  static func beating(of server: String) -> Interceptor<Attendance, Action> {
    .effects(
      ofState: .while({ $0.hasPeople(at: server) }) {
        .run { dispatch in
          while true {
            try await dispatch.sleep(for: interval)
            dispatch(.beat(server: server))
          }
        }.id("beat")
      })
  }
}
