import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

// A chat of many rooms. It tracks the present and the typing users, and closes rooms that have been empty for long
// enough.

private struct Room: Sendable, Equatable {
  var members: Set<String> = []
  var typing: Set<String> = []
  var isClosed = false

  mutating func reduce(_ action: RoomAction) {
    switch action {
    case .entered(let name): members.insert(name)
    case .left(let name):
      members.remove(name)
      typing.remove(name)
    case .typed(let name): typing.insert(name)
    case .paused(let name): typing.remove(name)
    case .closed: isClosed = true
    }
  }
}

private enum RoomAction: Sendable {
  case entered(String), left(String), typed(String), paused(String), closed
}

extension Interceptor<Room, RoomAction> {
  /// A user who has not typed for three seconds pauses.
  fileprivate static var typing: Interceptor {
    .effects { action, _ in
      switch action {
      case .typed(let name): .run { $0(.paused(name)) }.id(name, .debounced(for: .seconds(3)))
      case .left(let name): .cancel(name)
      default: nil
      }
    }
  }

  /// A room that is empty for a minute is closed.
  fileprivate static var closing: Interceptor {
    .effects(ofState: .while(\.members.isEmpty) { .run { $0(.closed) }.after(.seconds(60)) })
  }
}

/// Each room is a tree of its own, so that a thousand rooms do not affect each other.
private typealias RoomStore = RootStore<Room, RoomAction>

extension RootStore<Room, RoomAction> {
  /// The user is present for as long as the connection's store is held.
  fileprivate nonisolated func enter(_ name: String) -> StateStore<Room, RoomAction> {
    dispatch(.entered(name))
    return childStore(initialState: (), stateMapping: { room, _ in room }, atEnd: .left(name), reducer: { _, _ in })
  }
}

@Suite(.timeLimit(.minutes(15))) struct ChatProgram {
  @Test func `a chat of a thousand rooms`() async throws {
    let clock = ManualClock()
    let rooms = (0..<(isSanitized ? 100 : 1000)).map { _ in
      RoomStore(
        initialState: Room(), options: StoreOptions(clock: clock), interceptors: .typing, .closing,
        reducer: { $0.reduce($1) })
    }
    func pass(_ time: Duration) async { await clock.advance(by: time, settling: rooms) }

    var present = rooms.map { room in ["Ann", "Bob", "Cleo"].map { (name: $0, store: room.enter($0)) } }
    for (name, store) in present.joined() { store.dispatch(.typed(name)) }
    await pass(.zero)
    for room in rooms { #expect(await room.state.typing.count == 3) }

    // Ann continues to type. The others pause three seconds after their last keystroke.
    await pass(.seconds(2))
    for members in present { members[0].store.dispatch(.typed("Ann")) }
    await pass(.seconds(1))
    for room in rooms { #expect(await room.state.typing == ["Ann"]) }

    // Ann loses the connection in every room; in every second room all users do.
    for index in present.indices { present[index].removeFirst(index.isMultiple(of: 2) ? 3 : 1) }
    await pass(.zero)
    #expect(await rooms[0].state == Room())
    #expect(await rooms[1].state == Room(members: ["Bob", "Cleo"]))

    // A user returns to every fourth room just in time.
    await pass(.seconds(59))
    for index in stride(from: 0, to: rooms.count, by: 4) { present[index].append(("Dan", rooms[index].enter("Dan"))) }
    await pass(.seconds(1))
    for (index, room) in rooms.enumerated() {
      #expect(await room.state.isClosed == (index % 4 == 2))
      #expect(await room.statistics.runningTasks == 0)
      await room.shutdown()
    }
  }
}
