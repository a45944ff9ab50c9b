import Logging
import Puredux
import PureduxLog

/// The list of boards, in a tree of its own.
struct BoardList: Codable, Sendable {
  static let limit = 10_000
  static let full: RejectionReason = "There are too many boards."

  enum Action: Sendable, Equatable {
    case add(title: String)
    /// The id is never reused.
    case delete(board: Int)
  }

  struct Item: Sendable, Equatable {
    let id: Int
    let title: String
  }

  struct Deleted: Sendable, Equatable, Identifiable {
    let id: Int
  }

  /// The titles by board id, from 1 on; nil for deleted boards. The first board exists on every server from the start.
  private var titles: [String?] = ["First board"]

  mutating func reduce(_ action: Action) {
    switch action {
    case .add(let title): titles.append(title)
    case .delete(let id): if title(of: id) != nil { titles[id - 1] = nil }
    }
  }

  func title(of id: Int) -> String? { id > 0 && id <= titles.count ? titles[id - 1] : nil }

  /// The id of the newest board.
  var newest: Int { titles.count }
  var count: Int { titles.count { $0 != nil } }
  var isFull: Bool { count >= Self.limit }

  var items: [Item] {
    titles.enumerated().compactMap { index, title in title.map { Item(id: index + 1, title: $0) } }
  }

  var deleted: [Deleted] { titles.indices.filter { titles[$0] == nil }.map { Deleted(id: $0 + 1) } }

  /// Rejects invalid actions before they are stored.
  static func admission(writing schema: UInt32) -> Middleware<BoardList, Action> {
    .admission { action, context, next in
      if action.schema > schema { return context.reject(RejectionReason(Board.Refusal.notYet.description)) }
      switch action {
      case .add(let title):
        if let refusal = Board.Refusal(ofText: title) { return context.reject(RejectionReason(refusal.description)) }
      case .delete(let id):
        if context.state.title(of: id) == nil { return context.reject("There is no board \(id).") }
      }
      next(action)
    }
  }

  /// Rejects boards when the list is full, before they are stored. If two boards compete for the last place, the commit
  /// admits one of them, the same one on every replica.
  static let guarding = Middleware<BoardList, Action>.guarding(atAdmission: true) { action, list in
    if case .add = action, list.isFull { full } else { nil }
  }

  /// Removes the stored data of deleted boards, on each server, after a deletion and at the start. A process may have
  /// died before its removal, or a lagging server may have recreated the board's tree.
  static func removing(
    from logs: any LogDirectory, _ health: Health, _ logger: Logger
  ) -> StateEffect<BoardList, Action> {
    .forEach({ $0.deleted }) { board in
      let key = Boards.key(of: board.id)
      return .run { _ in
        do {
          try await logs.remove(key)
          health.note(nil, of: key)
        } catch {
          // The error may have paths, and `/ready` needs no token.
          if health.note("not removed", of: key, because: "\(error)") {
            logger.error("A deleted board is not removed.", metadata: ["store": "\(key)", "error": "\(error)"])
          }
          throw error
        }
      }.retried(.constant(.seconds(1)))
    }
  }
}

extension BoardList.Action: Codable {
  private enum CodingKeys: CodingKey { case delete }

  init(from decoder: any Decoder) throws {
    // In the first version an action is a bare title.
    if let title = try? decoder.singleValueContainer().decode(String.self) {
      self = .add(title: title)
    } else {
      self = .delete(board: try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .delete))
    }
  }

  func encode(to encoder: any Encoder) throws {
    switch self {
    case .add(let title):
      var container = encoder.singleValueContainer()
      try container.encode(title)
    case .delete(let id):
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(id, forKey: .delete)
    }
  }
}

extension BoardList: Versioned {
  var schema: UInt32 { titles.contains(nil) ? 2 : 1 }
}

extension BoardList.Action: Versioned {
  var schema: UInt32 {
    switch self {
    case .add: 1
    case .delete: 2
    }
  }
}
