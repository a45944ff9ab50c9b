import Foundation
import Puredux
import Synchronization

/// What a connection shows beside its board: who is here, and how many versions of the board its person has not looked at.
struct Attendance: Codable, Sendable, Equatable {
  let connection: String
  let here: [String]
  let unread: Int
}

/// What a client can do to its connection: say that its person has looked at the board in this version.
struct Look: Decodable, Sendable {
  let version: Int
}

/// A child store for each open event stream, which composes what the person has looked at with the board.
final class Connections: Sendable {
  private struct Person: Sendable {
    let connection: String
    var looked: Int
  }

  private let root: RootStore<Boards, Action>
  private let open = Mutex<[String: Store<Attendance, Look>]>([:])

  init(_ root: RootStore<Boards, Action>) {
    self.root = root
  }

  var count: Int { open.withLock { $0.count } }

  /// An open connection, for its client: a projection that takes nothing but looks.
  subscript(connection: String) -> Store<Attendance, Look>? { open.withLock { $0[connection] } }

  /// Runs a body with a store that lives as long as the body does: the connection is here meanwhile.
  func withConnection<Result>(
    to board: Int, at version: Int, name: String,
    _ body: (StateStore<Attendance, Action>) async throws -> Result
  ) async throws -> Result {
    let connection = UUID().uuidString
    let store = root.childStore(
      initialState: Person(connection: connection, looked: version),
      stateMapping: { boards, person in
        Attendance(
          connection: person.connection, here: boards.here(on: board),
          unread: max(0, (boards.boards[board]?.version ?? 0) - person.looked))
      },
      emits: .whenDifferent,
      reducer: { person, action in
        if case .look(let version) = action { person.looked = max(person.looked, version) }
      })
    store.dispatch(.join(board: board, connection: connection, name: name))
    let client = store.projection(action: { (look: Look) in .look(version: look.version) }, state: { $0 })
    open.withLock { $0[connection] = client }
    defer {
      open.withLock { $0[connection] = nil }
      // Committed also though the store is released right after.
      store.dispatch(.leave(board: board, connection: connection))
    }
    return try await body(store)
  }
}
