import Puredux

/// The state of a board's store: the board and its recent changes.
public struct Room: Codable, Sendable {
  public static let changeLimit = 100
  /// Above this number of names, edits are stored without further names, or a client could make the state grow without
  /// limit.
  static let nameCountLimit = 2000

  public private(set) var board: Board
  /// The last changes, oldest first: for undo and for past versions.
  public private(set) var changes: [Board.Change] = []
  private var changesHash: UInt64 = 0
  /// The names in the log: authors of current and past cards, and authors of edits.
  private(set) var names: Set<String> = []
  private var namesHash: UInt64 = 0
  /// The number of names erased from this state, and the number of those that are erased from the log as well.
  private(set) var erasures = 0
  private var completeErasures = 0
  var hasToErase: Bool { completeErasures < erasures }
  /// The outcome of the last edit. Read it with `send(_:reading:)`, right after the edit's own commit. It is not
  /// stored.
  public private(set) var outcome = Result<Outcome, Board.Refusal>.success(Outcome(card: 0, version: nil))

  public struct Outcome: Sendable, Equatable {
    /// The affected card.
    public let card: Int
    /// The new version, if the edit changed the board.
    public let version: Int?
  }

  private enum CodingKeys: CodingKey { case board, changes, names, erasures, completeErasures }

  init(id: Int, title: String) { board = Board(id: id, title: title) }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    board = try container.decode(Board.self, forKey: .board)
    changes = try container.decode([Board.Change].self, forKey: .changes)
    changesHash = changes.reduce(0) { $0 &+ $1.hash }
    // Snapshots of the first version lack these members.
    names = try container.decodeIfPresent(Set<String>.self, forKey: .names) ?? []
    namesHash = names.reduce(0) { $0 &+ Self.hash(of: $1) }
    erasures = try container.decodeIfPresent(Int.self, forKey: .erasures) ?? 0
    completeErasures = try container.decodeIfPresent(Int.self, forKey: .completeErasures) ?? 0
  }

  /// Replicas, and other versions of this program, compare states by this value. It is updated with each change,
  /// because hashing a thousand cards would cost more than an edit. It depends on the state alone and is not stored, so
  /// snapshots of the first version yield the same value.
  var fingerprint: UInt64 {
    var hash = StableHash()
    for number in [erasures, completeErasures] { hash.combine(number) }
    for part in [board.fingerprint, changesHash, namesHash] { hash.combine(Int(truncatingIfNeeded: part)) }
    return hash.value
  }

  /// These hashes are added up, because the order of a set differs between processes.
  private static func hash(of name: String) -> UInt64 {
    var hash = StableHash()
    hash.combine(name)
    return hash.value
  }

  mutating func reduce(_ edit: Edit) {
    // The names are in the log, even if the card is removed.
    for name in edit.names {
      if names.insert(name).inserted { namesHash &+= Self.hash(of: name) }
    }
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
    // The spelling of the stored name may be another one.
    if let name = names.remove(author) { namesHash &-= Self.hash(of: name) }
    erasures += 1
  }

  private mutating func remember(_ change: Board.Change) {
    changes.append(change)
    changesHash &+= change.hash
    if changes.count > Self.changeLimit { changesHash &-= changes.removeFirst().hash }
  }

  /// The reason why the edit would be refused now; nil if it would succeed.
  func refusal(of edit: Edit) -> Board.Refusal? {
    if let refusal = edit.refusal { return refusal }
    var board = board
    do throws(Board.Refusal) { _ = try board.apply(edit, changes: changes) } catch { return error }
    return nil
  }

  /// The board at an earlier version; nil if the version is too old or does not exist.
  func board(at version: Int) -> Board? {
    guard version <= board.version, version >= board.version - changes.count else { return nil }
    return board.before(changes.suffix(board.version - version))
  }

  /// Rejects invalid edits before they are stored. The reducer refuses edits that conflict with concurrent ones, on
  /// every replica alike.
  static func admission(writing schema: UInt32) -> Middleware<Room, Edit> {
    .admission { edit, context, next in
      if let refusal = edit.schema > schema ? .notYet : context.state.refusal(of: edit) {
        return context.reject(RejectionReason(refusal.description))
      }
      next(context.state.takesNames(of: edit) ? edit : edit.withoutNames)
    }
  }

  private func takesNames(of edit: Edit) -> Bool {
    names.count < Self.nameCountLimit || edit.names.allSatisfy { names.contains($0) }
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
