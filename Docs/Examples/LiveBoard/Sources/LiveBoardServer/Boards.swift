import Puredux

/// The state of the root store: all boards, and who looks at them.
public struct Boards: Sendable {
  public private(set) var boards: [Int: Board] = [:]
  /// How many edits it was given: the position of the last one in the journal.
  public private(set) var edits = 0
  /// How often anything of it that is shown has changed: what tells whether to publish a commit.
  public private(set) var revision = 0
  /// What became of the last edit. Read it with `send(_:reading:)`, right after the edit's own commit.
  public private(set) var outcome = Outcome.none
  /// The names of those who look at a board, by connection.
  private var attendees: [Int: [String: String]] = [:]

  public enum Outcome: Sendable, Equatable {
    case none
    case done(board: Int, card: Int?)
    case unknownBoard(Int)
    case unknownCard(Int)
    case unknownColumn(String)
  }

  public init() {}

  public var isEmpty: Bool { boards.isEmpty }

  public func here(on board: Int) -> [String] {
    attendees[board]?.values.sorted() ?? []
  }

  public mutating func reduce(_ action: Action) {
    switch action {
    case .edit(let edit):
      edits += 1
      outcome = apply(edit)
      if case .done = outcome { revision += 1 }
    case .join(let board, let connection, let name):
      attendees[board, default: [:]][connection] = name
      revision += 1
    case .leave(let board, let connection):
      attendees[board]?[connection] = nil
      if attendees[board]?.isEmpty == true { attendees[board] = nil }
      revision += 1
    case .look: break
    }
  }

  /// A board without its cards.
  public struct Summary: Codable, Sendable, Equatable {
    public let id: Int
    public let title: String
    public let version: Int
  }

  /// What there is: put together when something has changed, however many ask.
  public static let summaries = StateSelector<Boards, [Summary]>("summaries", whenDifferent: \.edits) { boards in
    boards.boards.values
      .map { Summary(id: $0.id, title: $0.title, version: $0.version) }
      .sorted { $0.id < $1.id }
  }

  private mutating func apply(_ edit: Edit) -> Outcome {
    switch edit {
    case .createBoard(let title):
      let id = boards.count + 1
      boards[id] = Board(id: id, title: title)
      return .done(board: id, card: nil)
    case .addCard(let board, let column, let text):
      return change(board) { (board) throws(Board.Refusal) in try board.addCard(text, to: column) }
    case .editCard(let board, let card, let text):
      return change(board) { (board) throws(Board.Refusal) in try board.editCard(card, text: text) }
    case .moveCard(let board, let card, let column, let position):
      return change(board) { (board) throws(Board.Refusal) in try board.moveCard(card, to: column, at: position) }
    case .deleteCard(let board, let card):
      return change(board) { (board) throws(Board.Refusal) in try board.deleteCard(card) }
    }
  }

  private mutating func change(_ id: Int, _ change: (inout Board) throws(Board.Refusal) -> Int) -> Outcome {
    guard boards[id] != nil else { return .unknownBoard(id) }
    do throws(Board.Refusal) {
      let card = try change(&boards[id]!)
      return .done(board: id, card: card)
    } catch {
      switch error {
      case .unknownCard(let card): return .unknownCard(card)
      case .unknownColumn(let name): return .unknownColumn(name)
      }
    }
  }
}

/// One board. Every change that it accepts makes a new version of it; what it refuses changes nothing.
public struct Board: Codable, Sendable, Equatable {
  public struct Column: Codable, Sendable, Equatable {
    public let name: String
    public var cards: [Card] = []
  }

  public struct Card: Codable, Sendable, Equatable {
    public let id: Int
    public var text: String
  }

  public enum Refusal: Error {
    case unknownCard(Int)
    case unknownColumn(String)
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

  mutating func addCard(_ text: String, to name: String?) throws(Refusal) -> Int {
    let column = try index(of: name)
    cardCount += 1
    columns[column].cards.append(Card(id: cardCount, text: text))
    version += 1
    return cardCount
  }

  mutating func editCard(_ id: Int, text: String) throws(Refusal) -> Int {
    let (column, row) = try place(of: id)
    columns[column].cards[row].text = text
    version += 1
    return id
  }

  mutating func moveCard(_ id: Int, to name: String, at position: Int?) throws(Refusal) -> Int {
    let (column, row) = try place(of: id)
    let target = try index(of: name)
    let card = columns[column].cards.remove(at: row)
    let end = columns[target].cards.count
    columns[target].cards.insert(card, at: min(max(position ?? end, 0), end))
    version += 1
    return id
  }

  mutating func deleteCard(_ id: Int) throws(Refusal) -> Int {
    let (column, row) = try place(of: id)
    columns[column].cards.remove(at: row)
    version += 1
    return id
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
