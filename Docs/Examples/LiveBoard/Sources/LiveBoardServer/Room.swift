import Puredux

/// The state of a board's store: the board, and what led to it.
public struct Room: Codable, Sendable {
  public static let changeLimit = 100

  public private(set) var board: Board
  /// The last changes, the oldest first: what can be undone, and how far one can look back.
  public private(set) var changes: [Board.Change] = []
  /// The sum of their hashes.
  private var changesHash: UInt64 = 0
  /// Who may be named in the log: authors of cards, also of those that are gone, and who asked for a change.
  private(set) var names: Set<String> = []
  /// How often a name was taken out of this, and how many of these names are out of the log as well.
  private(set) var erasures = 0
  private var completeErasures = 0
  var hasToErase: Bool { completeErasures < erasures }
  /// What the last edit has done, or why nothing. Read it with `send(_:reading:)`, right after the edit's own commit;
  /// it is not kept.
  public private(set) var outcome = Result<Outcome, Board.Refusal>.success(Outcome(card: 0, version: nil))

  public struct Outcome: Sendable, Equatable {
    /// What it was about.
    public let card: Int
    /// What it has made, if anything has changed.
    public let version: Int?
  }

  private enum CodingKeys: CodingKey { case board, changes, names, erasures, completeErasures }

  init(id: Int, title: String) { board = Board(id: id, title: title) }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    board = try container.decode(Board.self, forKey: .board)
    changes = try container.decode([Board.Change].self, forKey: .changes)
    changesHash = changes.reduce(0) { $0 &+ $1.hash }
    // Not in those of the first version.
    names = try container.decodeIfPresent(Set<String>.self, forKey: .names) ?? []
    erasures = try container.decodeIfPresent(Int.self, forKey: .erasures) ?? 0
    completeErasures = try container.decodeIfPresent(Int.self, forKey: .completeErasures) ?? 0
  }

  /// What a replica, or another version of this program, compares its state by: another one for each other state. It
  /// is kept by each change, as a hash of a thousand cards for each edit would cost more than the edit. And it is a
  /// function of the state alone, which does not have it in its snapshots: so those of the first version, which had
  /// none, have the same.
  var fingerprint: UInt64 {
    var hash = StableHash()
    // A set has another order in each process.
    let namesHash = names.reduce(UInt64(0)) { sum, name in
      var hash = StableHash()
      hash.combine(name)
      return sum &+ hash.value
    }
    for number in [erasures, completeErasures] { hash.combine(number) }
    for part in [board.fingerprint, changesHash, namesHash] { hash.combine(Int(truncatingIfNeeded: part)) }
    return hash.value
  }

  mutating func reduce(_ edit: Edit) {
    // They are in the log, whatever becomes of the card.
    names.formUnion(edit.names)
    switch edit {
    case .erase(let author): erase(author)
    case .erased(let count): completeErasures = max(completeErasures, count)
    default: break
    }
    do throws(Board.Refusal) {
      let (card, change) = try board.apply(edit, changes: changes)
      outcome = .success(Outcome(card: card, version: change?.version))
      guard let change else { return }
      remember(change)
    } catch {
      outcome = .failure(error)
    }
  }

  private mutating func erase(_ author: String) {
    changes = changes.map { $0.without(author) }
    changesHash = changes.reduce(0) { $0 &+ $1.hash }
    for change in board.erase(author) { remember(change) }
    names.remove(author)
    erasures += 1
  }

  private mutating func remember(_ change: Board.Change) {
    changes.append(change)
    changesHash &+= change.hash
    if changes.count > Self.changeLimit { changesHash &-= changes.removeFirst().hash }
  }

  /// Why an edit is refused, if it is given now.
  func refusal(of edit: Edit) -> Board.Refusal? {
    if let refusal = edit.refusal { return refusal }
    var board = board
    do throws(Board.Refusal) { _ = try board.apply(edit, changes: changes) } catch { return error }
    return nil
  }

  /// The board as it was at a version; none where that is too long ago, or has not been.
  func board(at version: Int) -> Board? {
    guard version <= board.version, version >= board.version - changes.count else { return nil }
    return board.before(changes.suffix(board.version - version))
  }

  /// What is refused as it is given is not stored. Others may be on their way: what they exclude is refused by the
  /// reducer, everywhere alike.
  static func admission(writing schema: UInt32) -> Middleware<Room, Edit> {
    .admission { edit, context, next in
      if let refusal = edit.schema > schema ? .notYet : context.state.refusal(of: edit) {
        return context.reject(RejectionReason(refusal.description))
      }
      next(edit)
    }
  }
}

extension Edit: Versioned {
  var schema: UInt32 {
    switch self {
    case .addCard(_, _, _, let kind, let author): kind == nil && author == nil ? 1 : 2
    case .setKind, .erase, .erased: 2
    case .signed: 3
    case .editCard, .moveCard, .deleteCard, .undo: 1
    }
  }
}

extension Room: Versioned {
  var schema: UInt32 {
    if changes.contains(where: { $0.at != nil }) { return 3 }
    let isSecond =
      board.columns.contains { $0.cards.contains { $0.kind != nil } }
      || changes.contains { $0.before?.kind != nil || $0.after?.kind != nil } || !names.isEmpty || erasures > 0
    return isSecond ? 2 : 1
  }
}
