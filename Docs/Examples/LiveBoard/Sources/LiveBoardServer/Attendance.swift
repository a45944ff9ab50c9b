import Puredux

/// Who is here, on every board and at every server: one tree, which servers that share the boards share, too.
///
/// Each server says who is here at it, and beats. Reducers know no time, as they run wherever the log is read; so a
/// server is gone when another has beaten `patience` times since it was heard of, and everybody agrees on that.
struct Attendance: Codable, Sendable {
  static let shownLimit = 50
  static let patience = 4
  static let interval = Duration.seconds(1)

  /// As the page gets it.
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

  /// On one board: at all servers, and at one of them.
  struct Part: Sendable, Equatable {
    var all = People()
    var own = People()
  }

  private struct Server: Codable {
    var boards: [Int: People] = [:]
    /// How often each of the others has beaten since this one was heard of.
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

  /// Beats as long as anybody is here at this server.
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
