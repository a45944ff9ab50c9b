import Puredux

/// What a person can do to a board. It is kept in the board's log, as JSON.
public enum Edit: Codable, Sendable, Equatable {
  /// Without a column, to the first one. With the key of a card that was added not long ago it is a repetition, by who
  /// does not know whether that was saved, and adds nothing.
  case addCard(text: String, column: String?, key: String? = nil, kind: Board.Kind? = nil, author: String? = nil)
  case editCard(card: Int, text: String)
  case setKind(card: Int, kind: Board.Kind)
  /// Without a position, to the end.
  case moveCard(card: Int, column: String, position: Int?)
  case deleteCard(card: Int)
  /// What made this version, back; if that was an undo, it is done again.
  case undo(version: Int)
  /// Takes a name out of all cards, and out of what was before.
  case erase(author: String)
  /// The log has been erased behind so many erasures.
  case erased(count: Int)
  /// An edit, with who asked for it, and when.
  indirect case signed(Edit, by: String, at: WallTime)

  /// Who is named in it.
  var names: [String] {
    switch self {
    case .addCard(_, _, _, _, let author): author.map { [$0] } ?? []
    case .signed(let edit, let name, _): edit.names + [name]
    default: []
    }
  }
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
    public var kind: Kind?
    /// Who added it, if that was said.
    public var author: String?
  }

  /// What else there can be to a card. Those of the first version have nothing.
  public enum Kind: Codable, Sendable, Equatable {
    case task
    case note(colour: Colour)
  }

  public enum Colour: String, Codable, Sendable, CaseIterable {
    case yellow, green, blue
  }

  /// Where a card is, and what it says.
  public struct Place: Codable, Sendable, Equatable {
    public var column: Int
    public var position: Int
    public var text: String
    public var kind: Kind?
    public var author: String?

    func without(_ name: String) -> Place {
      var place = self
      if place.author == name { place.author = nil }
      return place
    }
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
    /// Who asked for it and when, where that was said.
    public var by: String?
    public var at: WallTime?

    func without(_ author: String) -> Change {
      Change(
        version: version, card: card, before: before?.without(author), after: after?.without(author), key: key,
        by: by == author ? nil : by, at: at)
    }

    var hash: UInt64 {
      var hash = StableHash()
      for number in [version, card] { hash.combine(number) }
      for place in [before, after] { hash.combine(place) }
      hash.combine(key ?? "")
      // Not where there is none: servers that know of none have to come to the same.
      if let by { hash.combine(by) }
      if let at { hash.combine(Int(at.since1970.components.seconds)) }
      return hash.value
    }
  }

  /// What a list of boards says of one. It is kept beside the board's log, by any version of the server: what is added
  /// to it has to be optional.
  public struct Summary: Codable, Sendable, Equatable {
    /// How many cards are there.
    public let cards: Int
    public let version: Int
  }

  public let id: Int
  public let title: String
  public private(set) var version = 1
  public private(set) var columns = ["To do", "Doing", "Done"].map { Column(name: $0) }
  private var cardCount = 0
  /// The sum of a hash of each card, in which its column and the card above it are: so an edit costs a few of them.
  private var cardsHash: UInt64 = 0

  private enum CodingKeys: CodingKey { case id, title, version, columns, cardCount }

  init(id: Int, title: String) {
    self.id = id
    self.title = title
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    title = try container.decode(String.self, forKey: .title)
    version = try container.decode(Int.self, forKey: .version)
    columns = try container.decode([Column].self, forKey: .columns)
    cardCount = try container.decode(Int.self, forKey: .cardCount)
    for column in columns.indices { cardsHash &+= hash(of: columns[column].cards.indices, in: column) }
  }

  /// Another one for each other board, whatever led to it.
  var fingerprint: UInt64 {
    var hash = StableHash()
    for number in [id, version, cardCount, Int(truncatingIfNeeded: cardsHash)] { hash.combine(number) }
    hash.combine(title)
    return hash.value
  }

  var summary: Summary { Summary(cards: columns.reduce(0) { $0 + $1.cards.count }, version: version) }

  /// Returns the card that the edit is about, and what has changed, if anything.
  ///
  /// - Parameter changes: What can be undone.
  mutating func apply(_ edit: Edit, changes: [Change]) throws(Refusal) -> (card: Int, change: Change?) {
    switch edit {
    case .addCard(let text, let name, let key, let kind, let author):
      let column = try index(of: name)
      if let key, let earlier = changes.last(where: { $0.key == key }) { return (earlier.card, nil) }
      let end = columns[column].cards.count
      let place = Place(column: column, position: end, text: text, kind: kind, author: author)
      var change = try put(cardCount + 1, at: place)
      change?.key = key
      cardCount += 1
      return (cardCount, change)
    case .editCard(let card, let text):
      var place = try existingPlace(of: card)
      place.text = text
      return (card, try put(card, at: place))
    case .setKind(let card, let kind):
      var place = try existingPlace(of: card)
      place.kind = kind
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
    case .signed(let edit, let name, let time):
      var (card, change) = try apply(edit, changes: changes)
      change?.by = name
      change?.at = time
      return (card, change)
    case .erase, .erased:
      return (0, nil)
    }
  }

  /// Takes a name out of the cards. Each of them makes a version, by which who follows the board gets it.
  mutating func erase(_ author: String) -> [Change] {
    columns.flatMap(\.cards).filter { $0.author == author }.compactMap { card in
      guard let place = place(of: card.id)?.without(author) else { return nil }
      set(card.id, to: place)
      version += 1
      return Change(version: version, card: card.id, before: place, after: place)
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
    if before == nil, place != nil, summary.cards >= Self.cardLimit { throw .full }
    set(card, to: place)
    let after = self.place(of: card)
    if before == after { return nil }
    version += 1
    return Change(version: version, card: card, before: before, after: after)
  }

  /// Takes a card away, and puts it where it belongs, or as near to that as there are cards.
  private mutating func set(_ card: Int, to place: Place?) {
    if let old = self.place(of: card) { replace(old.position..<old.position + 1, of: old.column, by: []) }
    guard let place else { return }
    let position = min(max(place.position, 0), columns[place.column].cards.count)
    let card = Card(id: card, text: place.text, kind: place.kind, author: place.author)
    replace(position..<position, of: place.column, by: [card])
  }

  private mutating func replace(_ old: Range<Int>, of column: Int, by cards: [Card]) {
    // The card below them gets another one above it.
    func range(_ count: Int) -> Range<Int> {
      old.lowerBound..<min(old.lowerBound + count + 1, columns[column].cards.count)
    }
    cardsHash &-= hash(of: range(old.count), in: column)
    columns[column].cards.replaceSubrange(old, with: cards)
    cardsHash &+= hash(of: range(cards.count), in: column)
  }

  private func hash(of cards: Range<Int>, in column: Int) -> UInt64 {
    cards.reduce(0) { sum, position in
      let card = columns[column].cards[position]
      var hash = StableHash()
      let above = position > 0 ? columns[column].cards[position - 1].id : 0
      for number in [column, above, card.id] { hash.combine(number) }
      hash.combine(card.text)
      hash.combine(card.kind)
      hash.combine(card.author ?? "")
      return sum &+ hash.value
    }
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
        let card = cards[position]
        return Place(column: column, position: position, text: card.text, kind: card.kind, author: card.author)
      }
    }
    return nil
  }
}
