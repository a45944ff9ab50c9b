import Foundation
import NIOCore
import Puredux
import PureduxDirectory
import Synchronization

/// The data for a board's event streams: an in-memory store that all streams share. While it has streams, it follows
/// the board's store and the presence. Each message is encoded once.
struct Hall: Sendable {
  static let changeLimit = 32
  static let beat = ByteBuffer(string: "event: beat\ndata: 1\n\n")

  enum Action: Sendable {
    case join(Int, name: String)
    case leave(Int)
    /// Events with an erased name are not sent again.
    case board(Board, [Board.Change], erasures: Int = 0)
    case attendance(Attendance.Part)
    /// The board is deleted for good.
    case deleted
    /// Reports the people at this server to the other servers.
    case tell
    case beat
  }

  /// Identifies the run of the server. Event ids begin with it, because the boards of the next run may differ: they may
  /// come from a backup.
  let epoch: String
  private(set) var board: EncodedBoard?
  /// The last changes of the board, oldest first, one for each version.
  private var changes: [ByteBuffer] = []
  private var erasures = 0
  /// The message with the people present, and the number of its changes.
  private(set) var here = (count: 0, message: ByteBuffer())
  private(set) var beats = 0
  private(set) var isDeleted = false
  private var names: [Int: String] = [:]
  /// The people at this server, as last reported.
  private var told = Attendance.People()

  init(epoch: String) { self.epoch = epoch }

  var isOpen: Bool { !names.isEmpty && !isDeleted }
  var people: Attendance.People { Attendance.People(names: names.values, count: names.count) }
  var isTold: Bool { told == people }

  private func eventID(_ version: Int) -> String { "\(epoch)-\(version)" }

  /// The version in an event id; nil for an event of another run.
  func version(ofEvent id: String) -> Int? {
    let parts = id.split(separator: "-")
    return parts.count == 2 && parts[0] == epoch ? Int(parts[1]) : nil
  }

  /// The message for a stream with a version: the later changes, or the board.
  func news(since version: Int) -> ByteBuffer {
    guard let board else { return ByteBuffer() }
    guard version > 0, version <= board.version, board.version - version <= changes.count else { return board.message }
    return changes.suffix(board.version - version).reduce(into: ByteBuffer()) { $0.writeImmutableBuffer($1) }
  }

  mutating func reduce(_ action: Action) {
    switch action {
    case .join(let connection, let name): names[connection] = name
    case .leave(let connection):
      names[connection] = nil
      if names.isEmpty { (board, changes, here.message) = (nil, [], ByteBuffer()) }
    case .board(let newest, let newestChanges, let newestErasures):
      guard isOpen else { return }
      if newestErasures != erasures { (changes, erasures) = ([], newestErasures) }
      let version = board?.version ?? newest.version
      // The earlier changes are unusable if this store lagged by more than the given changes, or was ahead.
      if newest.version < version || newest.version - version > newestChanges.count { changes = [] }
      changes += newestChanges.filter { $0.version > version }.map { .event("change", id: eventID($0.version), $0) }
      changes.removeFirst(max(0, changes.count - Self.changeLimit))
      board = EncodedBoard(newest, eventID: eventID(newest.version))
    case .attendance(let part):
      told = part.own
      here = (here.count + 1, .event("attendance", part.all))
    case .deleted: isDeleted = true
    case .tell: break
    case .beat: beats += 1
    }
  }

  /// Follows the board for its streams, and reports the people with streams.
  static func interceptors(
    of id: Int, in boards: Boards.Trees, beatInterval: Duration
  ) -> Interceptor<Hall, Action> {
    let (list, rooms, attendance, server) = (boards.list, boards.rooms, boards.attendance, boards.server)
    return Interceptor(combining: [
      .effects { action, context in
        switch action {
        // At most four times a second, because many people may join at once.
        case .join, .leave: return .run { $0(.tell) }.id("due", .throttled(for: .milliseconds(250)))
        // The other servers may have dropped this server.
        case .attendance:
          return context.state.isTold ? nil : .run { $0(.tell) }.id("due", .throttled(for: .milliseconds(250)))
        case .tell:
          let here = Attendance.Action.here(server: server, board: id, context.state.people)
          return .run { _ in
            _ = try await attendance.withStore(Boards.attendanceKey) { store in store.dispatch(here) }
          }.id("tell")
        case .board, .beat, .deleted: return nil
        }
      },
      .effects(
        ofState: .while(\.isOpen) {
          .run { dispatch in
            for await room in try await rooms.states(of: id, bufferingPolicy: .bufferingNewest(1)) {
              let changes = Array(room.changes.suffix(changeLimit))
              dispatch(.board(room.board, changes, erasures: room.erasures))
            }
            // The store was shut down after its log stopped. A new one will follow.
            throw StoreError.terminated
          }.id("board").retried(.constant(.seconds(1)))
        },
        .while(\.isOpen) {
          .run { dispatch in
            let title = list.scope { $0.title(of: id) }
            let titles: StateSequence<String?> =
              title.states(bufferingPolicy: .bufferingNewest(1), removeStateDuplicates: .equal)
            for await title in titles where title == nil { dispatch(.deleted) }
          }.id("list")
        },
        .while(\.isOpen) {
          .run { dispatch in
            try await attendance.withStore(Boards.attendanceKey) { attendance in
              let parts: StateSequence<Attendance.Part> =
                attendance.scope { $0.part(id, at: server) }
                .states(bufferingPolicy: .bufferingNewest(1), removeStateDuplicates: .equal)
              for await part in parts { dispatch(.attendance(part)) }
            }
            throw StoreError.terminated
          }.id("attendance").retried(.constant(.seconds(1)))
        },
        .while(\.isOpen) {
          // Keeps the connection open in proxies, and lets both sides detect a dead peer.
          .run { dispatch in
            while true {
              try await dispatch.sleep(for: beatInterval)
              dispatch(.beat)
            }
          }.id("beat")
        }),
    ])
  }
}

/// A whole board for event streams, encoded on first use, because most streams need only a change.
final class EncodedBoard: Sendable {
  private let board: Board
  private let eventID: String
  private let encoded = Mutex<ByteBuffer?>(nil)

  init(_ board: Board, eventID: String) {
    self.board = board
    self.eventID = eventID
  }

  var version: Int { board.version }

  var message: ByteBuffer {
    encoded.withLock { encoded in
      let message = encoded ?? .event("board", id: eventID, board)
      encoded = message
      return message
    }
  }
}
