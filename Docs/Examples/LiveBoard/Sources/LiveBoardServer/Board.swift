import Puredux

/// An edit of a board. It is stored in the board's log, as JSON.
public enum Edit: Codable, Sendable, Equatable {
  /// The default is the first column. If a recently added card has the same key, the edit is a retry and adds nothing.
  case addCard(text: String, column: String?, key: String? = nil, kind: Board.Kind? = nil, author: String? = nil)
  case editCard(card: Int, text: String)
  case setKind(card: Int, kind: Board.Kind)
  /// The default position is the end.
  case moveCard(card: Int, column: String, position: Int?)
  case deleteCard(card: Int)
  /// Reverts the change that made this version. Reverting an undo redoes the edit.
  case undo(version: Int)
  /// Erases a name from all cards and from the history.
  case erase(author: String)
  /// The log has been erased up to this number of erasures.
  case erased(count: Int)
  /// An edit with its author and time.
  indirect case signed(Edit, by: String, at: WallTime)

  /// The names that the edit contains.
  var names: [String] {
    switch self {
    case .addCard(_, _, _, _, let author): author.map { [$0] } ?? []
    case .signed(let edit, let name, _): edit.names + [name]
    default: []
    }
  }

  var withoutNames: Edit {
    switch self {
    case .addCard(let text, let column, let key, let kind, _):
      .addCard(text: text, column: column, key: key, kind: kind)
    case .signed(let edit, _, _): edit.withoutNames
    default: self
    }
  }
}

/// One board. An effective edit makes a new version. A refused edit, and a move to the same place, change nothing.
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
    /// The person who added the card, if known.
    public var author: String?
  }

  /// The kind of a card. Cards of the first version have none.
  public enum Kind: Codable, Sendable, Equatable {
    case task
    case note(colour: Colour)
  }

  public enum Colour: String, Codable, Sendable, CaseIterable {
    case yellow, green, blue
  }

  /// The position and contents of a card.
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

  /// The change that made a version: every edit places or removes a single card. So undo, incremental updates and past
  /// versions all work the same way.
  public struct Change: Codable, Sendable, Equatable {
    public let version: Int
    public let card: Int
    /// Nil if the change added the card.
    public let before: Place?
    /// Nil if the change removed the card.
    public let after: Place?
    /// The key of an added card, if it had one.
    public var key: String?
    /// The author and time of the edit, if known.
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
      // Only if present: older servers without these fields must compute the same hash.
      if let by { hash.combine(by) }
      if let at { hash.combine(Int(at.since1970.components.seconds)) }
      return hash.value
    }
  }

  /// The entry of a board in the list of boards. It is stored beside the board's log, by any version of the server, so
  /// every added member must be optional.
  public struct Summary: Codable, Sendable, Equatable {
    /// The number of cards.
    public let cards: Int
    public let version: Int
  }

  public let id: Int
  public let title: String
  public private(set) var version = 1
  public private(set) var columns = ["To do", "Doing", "Done"].map { Column(name: $0) }
  private var cardCount = 0
  /// The sum of the cards' hashes. The hash of a card includes its column and the card above it, so an edit changes
  /// only a few hashes.
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

  /// Differs between different boards; equal boards have equal fingerprints, whatever their edits.
  var fingerprint: UInt64 {
    var hash = StableHash()
    for number in [id, version, cardCount, Int(truncatingIfNeeded: cardsHash)] { hash.combine(number) }
    hash.combine(title)
    return hash.value
  }

  var summary: Summary { Summary(cards: columns.reduce(0) { $0 + $1.cards.count }, version: version) }

  /// Returns the affected card, and the change, if any.
  ///
  /// - Parameter changes: The changes that can be undone.
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
      // Refused if the same card has changed since. Moves of other cards do not matter.
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

  /// Erases a name from the cards. Each changed card makes a version, so that subscribers receive it.
  mutating func erase(_ author: String) -> [Change] {
    columns.flatMap(\.cards).filter { $0.author == author }.compactMap { card in
      guard let place = place(of: card.id)?.without(author) else { return nil }
      set(card.id, to: place)
      version += 1
      return Change(version: version, card: card.id, before: place, after: place)
    }
  }

  /// The board before some changes. These must be the last changes.
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

  /// Removes a card and inserts it at its place, or as near to it as possible.
  private mutating func set(_ card: Int, to place: Place?) {
    if let old = self.place(of: card) { replace(old.position..<old.position + 1, of: old.column, by: []) }
    guard let place else { return }
    let position = min(max(place.position, 0), columns[place.column].cards.count)
    let card = Card(id: card, text: place.text, kind: place.kind, author: place.author)
    replace(position..<position, of: place.column, by: [card])
  }

  private mutating func replace(_ old: Range<Int>, of column: Int, by cards: [Card]) {
    // Includes the card below, whose upper neighbour changes.
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

  /// Returns the first column if there is no name.
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
