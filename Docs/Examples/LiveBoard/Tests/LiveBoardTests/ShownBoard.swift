@testable import LiveBoardServer

/// A board as a page maintains it: from a whole board and the later changes.
struct ShownBoard: Decodable, Equatable {
  var id = 0
  var version = 0
  var columns: [Board.Column] = []

  mutating func follow(_ change: Board.Change) {
    for column in columns.indices { columns[column].cards.removeAll { $0.id == change.card } }
    if let place = change.after {
      columns[place.column].cards.insert(
        Board.Card(id: change.card, text: place.text, kind: place.kind, author: place.author), at: place.position)
    }
    version = change.version
  }
}
