import NIOCore
import Puredux

/// Who has a board open. Kept in memory: who is here goes with the server.
struct Attendance: Sendable {
  static let shownLimit = 50

  enum Action: Sendable {
    case join(Int, name: String)
    case leave(Int)
  }

  private var names: [Int: String] = [:]

  mutating func reduce(_ action: Action) {
    switch action {
    case .join(let connection, let name): names[connection] = name
    case .leave(let connection): names[connection] = nil
    }
  }

  struct Message: Codable, Equatable {
    let here: [String]
    let count: Int
  }

  /// Encoded once, however many are here.
  static let event = StateSelector<Attendance, ByteBuffer>("attendance") { attendance in
    let here = attendance.names.values.sorted().prefix(Self.shownLimit)
    return .event("attendance", Message(here: Array(here), count: attendance.names.count))
  }
}
