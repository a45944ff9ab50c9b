/// What a person can do to a board. It is kept in the board's log, as JSON.
public enum Edit: Codable, Sendable, Equatable {
  /// Without a column, to the first one.
  case addCard(text: String, column: String?)
  case editCard(card: Int, text: String)
  /// Without a position, to the end.
  case moveCard(card: Int, column: String, position: Int?)
  case deleteCard(card: Int)
}

/// One board. What changes it makes a new version of it; what it refuses changes nothing, and neither does moving a card
/// to where it is.
public struct Board: Codable, Sendable, Equatable {
  public static let cardLimit = 1000

  public struct Column: Codable, Sendable, Equatable {
    public let name: String
    public var cards: [Card] = []
  }

  public struct Card: Codable, Sendable, Equatable {
    public let id: Int
    public var text: String
  }

  public enum Refusal: Error, Sendable, Equatable {
    case unknownCard(Int)
    case unknownColumn(String)
    case full
  }

  public let id: Int
  public let title: String
  public private(set) var version = 1
  public private(set) var columns = ["To do", "Doing", "Done"].map { Column(name: $0) }
  private var cardCount = 0

  init(id: Int, title: String) {
    self.id = id
    self.title = title
  }

  /// Returns the card that was changed.
  mutating func apply(_ edit: Edit) throws(Refusal) -> Int {
    switch edit {
    case .addCard(let text, let name):
      let column = try index(of: name)
      if columns.reduce(0, { $0 + $1.cards.count }) >= Self.cardLimit { throw .full }
      cardCount += 1
      columns[column].cards.append(Card(id: cardCount, text: text))
      version += 1
      return cardCount
    case .editCard(let card, let text):
      let (column, row) = try place(of: card)
      if columns[column].cards[row].text == text { return card }
      columns[column].cards[row].text = text
      version += 1
      return card
    case .moveCard(let card, let name, let position):
      let (column, row) = try place(of: card)
      let target = try index(of: name)
      let end = columns[target].cards.count - (target == column ? 1 : 0)
      let place = min(max(position ?? end, 0), end)
      if (column, row) == (target, place) { return card }
      columns[target].cards.insert(columns[column].cards.remove(at: row), at: place)
      version += 1
      return card
    case .deleteCard(let card):
      let (column, row) = try place(of: card)
      columns[column].cards.remove(at: row)
      version += 1
      return card
    }
  }

  /// The first column where no name is given.
  private func index(of name: String?) throws(Refusal) -> Int {
    guard let name else { return 0 }
    guard let index = columns.firstIndex(where: { $0.name == name }) else { throw .unknownColumn(name) }
    return index
  }

  private func place(of id: Int) throws(Refusal) -> (column: Int, row: Int) {
    for (index, column) in columns.enumerated() {
      if let row = column.cards.firstIndex(where: { $0.id == id }) { return (index, row) }
    }
    throw .unknownCard(id)
  }
}
