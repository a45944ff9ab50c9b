/// What happens on the server.
public enum Action: Sendable {
  /// Somebody changes a board. Journaled.
  case edit(Edit)
  /// Somebody opens a board's event stream. Given to the connection's own store.
  case join(board: Int, connection: String, name: String)
  /// Somebody's event stream has ended. Given to the connection's own store.
  case leave(board: Int, connection: String)
  /// Somebody has looked at the board in this version. Given to the connection's own store.
  case look(version: Int)
}

/// A change of a board, as it stands in the journal.
public enum Edit: Codable, Sendable, Equatable {
  case createBoard(title: String)
  /// Without a column, to the first one.
  case addCard(board: Int, column: String?, text: String)
  case editCard(board: Int, card: Int, text: String)
  /// Without a position, to the end.
  case moveCard(board: Int, card: Int, column: String, position: Int?)
  case deleteCard(board: Int, card: Int)
}
