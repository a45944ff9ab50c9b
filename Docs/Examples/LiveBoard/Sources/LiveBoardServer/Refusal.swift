extension Board {
  public enum Refusal: Error, Sendable, Equatable {
    case unknownCard(Int)
    case unknownColumn(String)
    case full
    case changedSince
    // Invalid on every board:
    case emptyText
    case longText
    case longKey
    case longName
    /// Servers that cannot read this edit are still running.
    case notYet
  }
}

extension Board.Refusal: CustomStringConvertible {
  static let textLimit = 1000
  static let keyLimit = 100
  static let nameLimit = 160

  public var description: String {
    switch self {
    case .unknownCard(let id): "There is no card \(id) on this board."
    case .unknownColumn(let name): "There is no column \"\(name)\" on this board."
    case .full: "The board is full: at most \(Board.cardLimit) cards."
    case .changedSince: "This cannot be undone: the card has been changed since, or it is too long ago."
    case .emptyText: "The text is empty."
    case .longText: "The text is too long: at most \(Self.textLimit) characters."
    case .longKey: "The Idempotency-Key is too long: at most \(Self.keyLimit) bytes."
    case .longName: "The name is too long: at most \(Self.nameLimit) bytes."
    case .notYet: "This is not possible yet, as the server is being replaced by a newer one. Try again later."
    }
  }

  /// Nil if the text is valid. The bytes are limited too, because one character can have any number of combining marks.
  init?(ofText text: String) {
    let isLong = text.utf8.count > 4 * Self.textLimit || text.count > Self.textLimit
    guard text.isEmpty || isLong else { return nil }
    self = isLong ? .longText : .emptyText
  }
}

extension Edit {
  /// The reason why the edit is invalid on every board; nil if it may be valid.
  var refusal: Board.Refusal? {
    switch self {
    case .addCard(let text, _, let key, _, let author):
      // Refused and not truncated: another key may have the same prefix.
      if (key?.utf8.count ?? 0) > Board.Refusal.keyLimit {
        .longKey
      } else if (author?.utf8.count ?? 0) > Board.Refusal.nameLimit {
        .longName
      } else {
        Board.Refusal(ofText: text)
      }
    case .editCard(_, let text): Board.Refusal(ofText: text)
    case .signed(let edit, let name, _): name.utf8.count > Board.Refusal.nameLimit ? .longName : edit.refusal
    case .setKind, .moveCard, .deleteCard, .undo, .erase, .erased: nil
    }
  }
}
