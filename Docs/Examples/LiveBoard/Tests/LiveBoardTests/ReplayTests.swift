import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import Testing

@testable import LiveBoardServer

/// Tests that `verifyReplay` finds every difference of another version of the program in replaying a board.
///
/// With `LIVEBOARD_EDITS=100000` it takes some minutes.
@Suite(.timeLimit(.minutes(60))) struct ReplayTests {
  /// A reducer that behaves differently from a version of the board on.
  struct Mutation: CustomTestStringConvertible {
    let name: String
    let version: Int
    /// Replaces an edit by any number of edits.
    var edits: @Sendable (Edit, Room) -> [Edit] = { edit, _ in [edit] }
    /// Changes the board and its changes, as JSON.
    var state: (@Sendable (inout [String: Any], inout [[String: Any]]) -> Void)?

    var testDescription: String { "\(name) from version \(version) on" }

    func reduce(_ room: inout Room, _ edit: Edit) {
      guard room.board.version >= version else { return room.reduce(edit) }
      for edit in edits(edit, room) { room.reduce(edit) }
      guard let state, let bytes = try? JSONEncoder().encode(room),
        var json = try? JSONSerialization.jsonObject(with: bytes) as? [String: Any],
        var board = json["board"] as? [String: Any], var changes = json["changes"] as? [[String: Any]]
      else { return }
      state(&board, &changes)
      (json["board"], json["changes"]) = (board, changes)
      guard let bytes = try? JSONSerialization.data(withJSONObject: json),
        let changed = try? JSONDecoder().decode(Room.self, from: bytes)
      else { return }
      room = changed
    }
  }

  struct NewCard {
    var text: String
    var column: String?
    var key: String?
    var kind: Board.Kind?
    var author: String?
  }

  /// Each mutation, at four versions of a board.
  static func mutations(upTo version: Int, _ numbers: inout SeededNumbers) -> [Mutation] {
    typealias Edits = @Sendable (Edit, Room) -> [Edit]
    func added(_ change: @escaping @Sendable (inout NewCard) -> Void) -> Edits {
      { edit, _ in
        guard case .addCard(let text, let column, let key, let kind, let author) = edit else { return [edit] }
        var card = NewCard(text: text, column: column, key: key, kind: kind, author: author)
        change(&card)
        return [.addCard(text: card.text, column: card.column, key: card.key, kind: card.kind, author: card.author)]
      }
    }
    func moved(_ change: @escaping @Sendable (inout String, inout Int?) -> Void) -> Edits {
      { edit, _ in
        guard case .moveCard(let card, var column, var position) = edit else { return [edit] }
        change(&column, &position)
        return [.moveCard(card: card, column: column, position: position)]
      }
    }
    /// Replaces the edits of a kind; the others stay.
    func of(_ isMeant: @escaping @Sendable (Edit) -> Bool, _ change: @escaping Edits) -> Edits {
      { edit, room in isMeant(edit) ? change(edit, room) : [edit] }
    }
    let isNew: @Sendable (Edit) -> Bool = { if case .addCard = $0 { true } else { false } }
    let isText: @Sendable (Edit) -> Bool = { if case .editCard = $0 { true } else { false } }
    let isKind: @Sendable (Edit) -> Bool = { if case .setKind = $0 { true } else { false } }
    let isMove: @Sendable (Edit) -> Bool = { if case .moveCard = $0 { true } else { false } }
    let isDeletion: @Sendable (Edit) -> Bool = { if case .deleteCard = $0 { true } else { false } }
    let isUndo: @Sendable (Edit) -> Bool = { if case .undo = $0 { true } else { false } }
    let isErasure: @Sendable (Edit) -> Bool = { if case .erase = $0 { true } else { false } }
    let nothing: Edits = { _, _ in [] }
    let undone: Edits = { edit, room in [edit, .undo(version: room.board.version + 1)] }
    let edits: [(String, Edits)] = [
      ("another text of a new card", added { $0.text += "!" }),
      ("another column of a new card", added { $0.column = $0.column == "Done" ? "Doing" : "Done" }),
      ("another kind of a new card", added { $0.kind = $0.kind == .task ? nil : .task }),
      ("another author of a new card", added { $0.author = $0.author == "ann" ? nil : "ann" }),
      ("no key of a new card", added { $0.key = nil }),
      ("a key of a new card", added { $0.key = $0.key ?? "key of " + $0.text }),
      ("no new card", of(isNew, nothing)),
      (
        "another text",
        { edit, _ in
          guard case .editCard(let card, let text) = edit else { return [edit] }
          return [.editCard(card: card, text: text + "!")]
        }
      ),
      (
        "the text of another card",
        { edit, _ in
          guard case .editCard(let card, let text) = edit else { return [edit] }
          return [.editCard(card: card - 1, text: text)]
        }
      ),
      ("no other text", of(isText, nothing)),
      (
        "another kind",
        { edit, _ in
          guard case .setKind(let card, let kind) = edit else { return [edit] }
          return [.setKind(card: card, kind: kind == .task ? .note(colour: .blue) : .task)]
        }
      ),
      ("no other kind", of(isKind, nothing)),
      ("another position", moved { _, position in position = position.map { $0 + 1 } ?? 0 }),
      ("another column", moved { column, _ in column = column == "Done" ? "Doing" : "Done" }),
      ("no other place", of(isMove, nothing)),
      ("no deletion", of(isDeletion, nothing)),
      ("a deletion that is undone", of(isDeletion, undone)),
      ("nothing undone", of(isUndo, nothing)),
      ("nobody erased", of(isErasure, nothing)),
      (
        "another version undone",
        { edit, _ in
          guard case .undo(let version) = edit else { return [edit] }
          return [.undo(version: version - 1)]
        }
      ),
    ]
    let states: [(String, @Sendable (inout [String: Any], inout [[String: Any]]) -> Void)] = [
      ("another version", { board, _ in board["version"] = (board["version"] as? Int ?? 0) + 1 }),
      ("another title", { board, _ in board["title"] = "another" }),
      ("another id of the next card", { board, _ in board["cardCount"] = (board["cardCount"] as? Int ?? 0) + 1 }),
      ("a change forgotten", { _, changes in changes.removeFirst() }),
      ("another card of a change", { _, changes in changes[0]["card"] = -1 }),
    ]
    func versions() -> [Int] { (0..<4).map { _ in Int.random(in: 2...version * 4 / 5, using: &numbers) } }
    return edits.flatMap { name, edits in versions().map { Mutation(name: name, version: $0, edits: edits) } }
      + states.flatMap { name, state in versions().map { Mutation(name: name, version: $0, state: state) } }
  }

  static func edit(of room: Room, _ number: Int, _ numbers: inout SeededNumbers) -> Edit {
    let cards = room.board.columns.flatMap(\.cards).map(\.id)
    let column = ["To do", "Doing", "Done"].randomElement(using: &numbers)!
    let kinds: [Board.Kind] = [.task] + Board.Colour.allCases.map { .note(colour: $0) }
    let way = Int.random(in: 0..<100, using: &numbers)
    guard let card = cards.randomElement(using: &numbers), way >= 25 || cards.count > 40 else {
      return .addCard(
        text: "\(number)", column: column, key: way % 3 == 0 ? "\(number)" : nil,
        kind: way % 2 == 0 ? kinds.randomElement(using: &numbers) : nil,
        author: [nil, "ann", "bob"].randomElement(using: &numbers)!)
    }
    return switch way {
    case ..<50: .editCard(card: card, text: "\(number)")
    case ..<60: .setKind(card: card, kind: kinds.randomElement(using: &numbers)!)
    case ..<70: .moveCard(card: card, column: column, position: nil)
    case ..<80: .moveCard(card: card, column: column, position: Int.random(in: 0..<20, using: &numbers))
    case ..<86: .deleteCard(card: card)
    case ..<90: .erase(author: way % 2 == 0 ? "ann" : "bob")
    default: .undo(version: room.board.version - Int.random(in: 0..<4, using: &numbers))
    }
  }

  static func program(_ reducer: @escaping @Sendable (inout Room, Edit) -> Void) -> ReplayedProgram<Room, Edit> {
    ReplayedProgram(
      initialState: Room(id: 1, title: "board"), reducers: [Reducer(reducer)],
      codings: LogCodings(actions: .json(writing: 2), states: .json(writing: 2)),
      options: FollowingOptions(fingerprint: .hashed { $0.fingerprint }))
  }

  @Test func `a replay finds each of a hundred mutations, where the states first differ`() async throws {
    let count = ProcessInfo.processInfo.environment["LIVEBOARD_EDITS"].flatMap(Int.init) ?? 1000
    var numbers = SeededNumbers(state: 20)
    let log = MemoryLog()
    var options = LogOptions()
    // A slow append is not repeated, so the n-th edit is the n-th entry.
    (options.patience, options.snapshotBytes) = (.seconds(1_000_000), nil)
    let store = try await RootStore(
      following: log, initialState: Room(id: 1, title: "board"),
      codings: LogCodings(actions: .json(writing: 2), states: nil),
      options: FollowingOptions(log: options, fingerprint: .hashed { $0.fingerprint })
    ) { $0.reduce($1) }
    var room = Room(id: 1, title: "board")
    var edits: [Edit] = []
    for number in 0..<count {
      let edit = Self.edit(of: room, number, &numbers)
      room = try await store.send(edit) { $0 }
      edits.append(edit)
    }
    await store.shutdown()
    let clock = ContinuousClock()
    var report = ReplayReport()
    let verified = try await clock.measure {
      report = try await verifyReplay(of: log, by: Self.program { $0.reduce($1) })
    }
    #expect(report == ReplayReport(position: UInt64(count) + 1))
    let plain = try await clock.measure {
      let store = try await RootStore(
        following: log, initialState: Room(id: 1, title: "board"),
        codings: LogCodings(actions: .json(writing: 2), states: nil), options: FollowingOptions(fingerprint: .unchecked)
      ) { $0.reduce($1) }
      await store.shutdown()
    }
    print("\(count) edits: verifyReplay takes \(verified), a plain replay without a fingerprint \(plain)")

    let mutations = Self.mutations(upTo: room.board.version, &numbers)
    #expect(mutations.count == 100)
    let positions = Self.differences(of: mutations, from: edits)
    for (mutation, position) in zip(mutations, positions) {
      let position = try #require(position, "\(mutation.testDescription) changes nothing")
      let report = try await verifyReplay(of: log, by: Self.program(mutation.reduce))
      #expect(report.stop == .diverged(position: UInt64(position)), "\(mutation.testDescription)")
    }
    let found = positions.compactMap { $0 }
    print("\(found.count) of \(mutations.count) mutations, from \(found.min() ?? 0) to \(found.max() ?? 0)")
  }

  /// The first entry at which each mutation leads to another state, found by comparing the states after each edit.
  static func differences(of mutations: [Mutation], from edits: [Edit]) -> [Int?] {
    var positions = [Int?](repeating: nil, count: mutations.count)
    var others: [Int: Room] = [:]
    var room = Room(id: 1, title: "board")
    for (index, edit) in edits.enumerated() {
      for (number, mutation) in mutations.enumerated()
      where positions[number] == nil && room.board.version >= mutation.version {
        var other = others[number] ?? room
        mutation.reduce(&other, edit)
        others[number] = other
      }
      room.reduce(edit)
      for (number, other) in others where isOther(other, room) {
        positions[number] = index + 1
        others[number] = nil
      }
    }
    return positions
  }

  private static func isOther(_ one: Room, _ other: Room) -> Bool {
    one.board != other.board || one.changes != other.changes || one.names != other.names
      || one.erasures != other.erasures
  }
}
