import Foundation
import NIOCore
import Puredux
import Synchronization

/// What goes to the event streams of a board: a store in memory for all of them, which follows the board's store and
/// who is here while it has any. What each of them gets is encoded once.
struct Hall: Sendable {
  static let changeLimit = 32
  static let beat = ByteBuffer(string: "event: beat\ndata: 1\n\n")

  enum Action: Sendable {
    case join(Int, name: String)
    case leave(Int)
    /// What was sent is not sent again after a name was erased from it.
    case board(Board, [Board.Change], erasures: Int = 0)
    case attendance(Attendance.Part)
    /// The board is, for good.
    case deleted
    /// Other servers are told who is here at this one.
    case tell
    case beat
  }

  /// Names the run of the server. Event ids begin with it, as the next run may have other boards: those of a backup.
  let epoch: String
  private(set) var board: EncodedBoard?
  /// The last changes of the board, the oldest first, one for each version.
  private var changes: [ByteBuffer] = []
  private var erasures = 0
  /// Who is here, and how often that has changed.
  private(set) var here = (count: 0, message: ByteBuffer())
  private(set) var beats = 0
  private(set) var isDeleted = false
  private var names: [Int: String] = [:]
  /// What has been told of this one.
  private var told = Attendance.People()

  init(epoch: String) { self.epoch = epoch }

  var isOpen: Bool { !names.isEmpty && !isDeleted }
  var people: Attendance.People { Attendance.People(names: names.values, count: names.count) }
  var isTold: Bool { told == people }

  private func eventID(_ version: Int) -> String { "\(epoch)-\(version)" }

  /// The version in an event's id; nil for an event of another run.
  func version(ofEvent id: String) -> Int? {
    let parts = id.split(separator: "-")
    return parts.count == 2 && parts[0] == epoch ? Int(parts[1]) : nil
  }

  /// What a stream needs that has a version: the changes since, or the board.
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
      // Those in between are not there where this was behind by more than it is given, or ahead.
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

  /// What follows a board for its streams, and tells who has them.
  static func interceptors(
    of id: Int, in boards: Boards.Trees, beatInterval: Duration
  ) -> Interceptor<Hall, Action> {
    let (list, rooms, attendance, server) = (boards.list, boards.rooms, boards.attendance, boards.server)
    return Interceptor(combining: [
      .effects { action, context in
        switch action {
        // At most four times a second, as many may come at once.
        case .join, .leave: return .run { $0(.tell) }.id("due", .throttled(for: .milliseconds(250)))
        // Others may have taken this server for gone.
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
            // It was shut down, as its log had stopped: there will be another one.
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
          // So that proxies keep the connection, and each side notices when the other has gone.
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

/// A board as its event streams get it whole: encoded when the first one needs it, as most need a change only.
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
