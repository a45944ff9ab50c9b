/// What a person can do to a board. It is kept in the board's log, as JSON.
public enum Edit: Codable, Sendable, Equatable {
  /// Without a column, to the first one. With the key of a card that was added not long ago it is a repetition, by who
  /// does not know whether that was saved, and adds nothing.
  case addCard(text: String, column: String?, key: String? = nil)
  case editCard(card: Int, text: String)
  /// Without a position, to the end.
  case moveCard(card: Int, column: String, position: Int?)
  case deleteCard(card: Int)
  /// What made this version, back; if that was an undo, it is done again.
  case undo(version: Int)
}

/// One board. What changes it makes a new version of it; what it refuses changes nothing, and neither does moving a
/// card to where it is.
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

  /// Where a card is, and what it says.
  public struct Place: Codable, Sendable, Equatable {
    public var column: Int
    public var position: Int
    public var text: String
  }

  /// What made a version: every edit puts one card somewhere, or takes it away. So it can be undone, shown to who has
  /// the version before, and gone back beyond, all in the same way.
  public struct Change: Codable, Sendable, Equatable {
    public let version: Int
    public let card: Int
    /// None where the card was not there before.
    public let before: Place?
    /// None where it is not there any more.
    public let after: Place?
    /// Of what was added with one.
    public var key: String?
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

  /// Returns the card that the edit is about, and what has changed, if anything.
  ///
  /// - Parameter changes: What can be undone.
  mutating func apply(_ edit: Edit, changes: [Change]) throws(Refusal) -> (card: Int, change: Change?) {
    switch edit {
    case .addCard(let text, let name, let key):
      let column = try index(of: name)
      if let key, let earlier = changes.last(where: { $0.key == key }) { return (earlier.card, nil) }
      var change = try put(
        cardCount + 1, at: Place(column: column, position: columns[column].cards.count, text: text))
      change?.key = key
      cardCount += 1
      return (cardCount, change)
    case .editCard(let card, let text):
      var place = try existingPlace(of: card)
      place.text = text
      return (card, try put(card, at: place))
    case .moveCard(let card, let name, let position):
      var place = try existingPlace(of: card)
      let column = try index(of: name)
      (place.column, place.position) = (column, position ?? columns[column].cards.count)
      return (card, try put(card, at: place))
    case .deleteCard(let card):
      _ = try existingPlace(of: card)
      return (card, try put(card, at: nil))
    case .undo(let version):
      // Not where somebody has changed the same card since; the other cards may have moved it.
      guard let change = changes.last(where: { $0.version == version }),
        !changes.contains(where: { $0.version > version && $0.card == change.card })
      else { throw .changedSince }
      return (change.card, try put(change.card, at: change.before))
    }
  }

  /// The board as it was before some changes, which have to be the last ones, up to what it is now.
  func before(_ changes: some BidirectionalCollection<Change>) -> Board {
    var board = self
    for change in changes.reversed() {
      board.set(change.card, to: change.before)
      board.version = change.version - 1
    }
    return board
  }

  private mutating func put(_ card: Int, at place: Place?) throws(Refusal) -> Change? {
    let before = self.place(of: card)
    if before == nil, place != nil, columns.reduce(0, { $0 + $1.cards.count }) >= Self.cardLimit { throw .full }
    set(card, to: place)
    let after = self.place(of: card)
    if before == after { return nil }
    version += 1
    return Change(version: version, card: card, before: before, after: after)
  }

  /// Takes a card away, and puts it where it belongs, or as near to that as there are cards.
  private mutating func set(_ card: Int, to place: Place?) {
    if let old = self.place(of: card) { columns[old.column].cards.remove(at: old.position) }
    guard let place else { return }
    let end = columns[place.column].cards.count
    columns[place.column].cards.insert(Card(id: card, text: place.text), at: min(max(place.position, 0), end))
  }

  /// The first column where no name is given.
  private func index(of name: String?) throws(Refusal) -> Int {
    guard let name else { return 0 }
    guard let index = columns.firstIndex(where: { $0.name == name }) else { throw .unknownColumn(name) }
    return index
  }

  private func existingPlace(of card: Int) throws(Refusal) -> Place {
    guard let place = place(of: card) else { throw .unknownCard(card) }
    return place
  }

  private func place(of card: Int) -> Place? {
    for (column, cards) in columns.map(\.cards).enumerated() {
      if let position = cards.firstIndex(where: { $0.id == card }) {
        return Place(column: column, position: position, text: cards[position].text)
      }
    }
    return nil
  }
}
