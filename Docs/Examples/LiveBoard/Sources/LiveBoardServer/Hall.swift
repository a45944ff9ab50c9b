import NIOCore
import Puredux

/// What goes to the event streams of a board: a store in memory for all of them, which follows the board's store while
/// anybody is here. What each of them gets is encoded once.
struct Hall: Sendable {
  static let shownLimit = 50

  enum Action: Sendable {
    case join(Int, name: String)
    case leave(Int)
    case board(Room.Event)
    /// Those who have come and gone are told of.
    case tell
    case beat
  }

  struct Message: Codable, Equatable {
    let here: [String]
    let count: Int
  }

  private(set) var board: Room.Event?
  /// Who is here, in the message that was told last, and how many have been.
  private(set) var here = (count: 0, message: ByteBuffer())
  private(set) var beats = 0
  private var names: [Int: String] = [:]

  var isOpen: Bool { !names.isEmpty }

  mutating func reduce(_ action: Action) {
    switch action {
    case .join(let connection, let name): names[connection] = name
    case .leave(let connection):
      names[connection] = nil
      if names.isEmpty { board = nil }
    case .board(let event): if isOpen { board = event }
    case .tell:
      let shown = Array(names.values.sorted().prefix(Self.shownLimit))
      here = (here.count + 1, .event("attendance", Message(here: shown, count: names.count)))
    case .beat: beats += 1
    }
  }

  /// What follows a board for its streams.
  static func interceptors(of id: Int, in rooms: StoreDirectory<Int, Room, Edit>) -> Interceptor<Hall, Action> {
    Interceptor(combining: [
      .effects { action, _ in
        switch action {
        // At most four times a second, as many may come at once.
        case .join, .leave: .run { $0(.tell) }.id("tell", .throttled(for: .milliseconds(250)))
        case .board, .tell, .beat: nil
        }
      },
      .effects(
        ofState: .while(\.isOpen) {
          .run { dispatch in
            try await rooms.withStore(id) { room in
              let versions: StateSequence<Room.Event> = room.states(Room.event, bufferingPolicy: .bufferingNewest(1))
              for await version in versions { dispatch(.board(version)) }
            }
            // It was shut down, as its log had stopped: there will be another one.
            throw StoreError.terminated
          }.id("follow").retried(.constant(.seconds(1)))
        },
        .while(\.isOpen) {
          // A line that says nothing, so that proxies keep the connection, and a client that has gone is noticed.
          .run { dispatch in
            while true {
              try await dispatch.sleep(for: .seconds(15))
              dispatch(.beat)
            }
          }.id("beat")
        }),
    ])
  }
}
