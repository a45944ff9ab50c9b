import Puredux

/// The state of a board's store: the board, and what led to it.
public struct Room: Codable, Sendable {
  public static let changeLimit = 100

  public private(set) var board: Board
  /// The last changes, the oldest first: what can be undone, and how far one can look back.
  public private(set) var changes: [Board.Change] = []
  /// What the last edit has done, or why nothing. Read it with `send(_:reading:)`, right after the edit's own commit;
  /// it is not kept.
  public private(set) var outcome = Result<Outcome, Board.Refusal>.success(Outcome(card: 0, version: nil))

  public struct Outcome: Sendable, Equatable {
    /// What it was about.
    public let card: Int
    /// What it has made, if anything has changed.
    public let version: Int?
  }

  private enum CodingKeys: CodingKey { case board, changes }

  init(id: Int, title: String) { board = Board(id: id, title: title) }

  mutating func reduce(_ edit: Edit) {
    do throws(Board.Refusal) {
      let (card, change) = try board.apply(edit, changes: changes)
      outcome = .success(Outcome(card: card, version: change?.version))
      guard let change else { return }
      changes.append(change)
      if changes.count > Self.changeLimit { changes.removeFirst() }
    } catch {
      outcome = .failure(error)
    }
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
  static let admission = Middleware<Room, Edit>.admission { edit, context, next in
    if let refusal = context.state.refusal(of: edit) {
      return context.reject(RejectionReason(refusal.description))
    }
    next(edit)
  }
}
