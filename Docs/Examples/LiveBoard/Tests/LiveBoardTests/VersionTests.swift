import Foundation
import Puredux
import PureduxDirectory
import PureduxLog
import PureduxLogTesting
import Testing

@testable import LiveBoardServer

/// The second version of the server, beside the first one and as its replacement. `Golden/First` was written by the
/// first version.
@Suite(.timeLimit(.minutes(15))) struct VersionTests {
  private static let first = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Golden/First").path()

  private func withBoards(
    _ logs: any LogDirectory, writing schema: UInt32, _ body: (Boards) async throws -> Void
  ) async throws {
    var options = LiveBoardServer.Options()
    options.writtenSchema = schema
    let boards = try await Boards(health: Health(), logs, options)
    try await body(boards)
    await boards.shutdown()
  }

  /// A store as the first version made it: it had these states, and no other schema.
  private func firstRoom(_ logs: any LogDirectory) async throws -> Room {
    let room = try await RootStore<Room, Edit>(
      following: logs["boards/1"], initialState: Room(id: 1, title: ""),
      options: FollowingOptions(fingerprint: .unchecked)
    ) {
      $0.reduce($1)
    }
    let state = await room.state
    await room.shutdown()
    return state
  }

  private func firstList(_ logs: any LogDirectory) async throws -> [String] {
    let list = try await RootStore<[String], String>(
      following: logs["list"], initialState: [], options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.append($1) }
    let state = await list.state
    await list.shutdown()
    return state
  }

  @Test(arguments: [1, 2] as [UInt32])
  func `what the first version has written is read, whatever is written now`(schema: UInt32) async throws {
    let folder = try Folder()
    let path = folder.path + "/boards"
    try FileManager.default.copyItem(atPath: Self.first, toPath: path)
    for round in 0..<2 {
      let log = try FileLog(directory: path)
      try await withBoards(log, writing: schema) { boards in
        let list = await boards.list.committed()
        #expect(list.items.map(\.title) == ["First board", "Groceries", "A board that stays empty"])
        // The first version wrote no summaries: a board has one after it has been opened.
        #expect(await boards.listed().map(\.version) == (round == 0 ? [nil, nil, nil] : [10, 3, nil]))
        try await boards.rooms.withStore(1) { room in
          let state = await room.state
          #expect(state.board.columns.map { $0.cards.map(\.text) } == [["gone"], [], ["oat milk"]])
          #expect(state.board.version == 10 && state.changes.count == 9 && state.changes[0].key == "key-1")
          #expect(state.board(at: 6)?.columns[2].cards.map(\.text) == ["oat milk", "brëad"])
        }
        try await boards.rooms.withStore(2) { room in
          let edit = Edit.addCard(text: "three", column: nil)
          let board = try await room.send(edit) { $0.board }
          #expect(board.columns[0].cards.map(\.text) == ["two"] + Array(repeating: "three", count: round + 1))
        }
      }
      await log.close()
    }
  }

  @Test func `a snapshot of the first version is the state that its log leads to`() throws {
    let json = """
      {"board":{"id":1,"title":"First board","version":3,"cardCount":1,"columns":[{"name":"To do","cards":[]},
      {"name":"Doing","cards":[{"id":1,"text":"oat milk"}]},{"name":"Done","cards":[]}]},"changes":[
      {"version":2,"card":1,"after":{"column":1,"position":0,"text":"milk"},"key":"key-1"},{"version":3,"card":1,
      "before":{"column":1,"position":0,"text":"milk"},"after":{"column":1,"position":0,"text":"oat milk"}}]}
      """
    var room = Room(id: 1, title: "First board")
    room.reduce(.addCard(text: "milk", column: "Doing", key: "key-1"))
    room.reduce(.editCard(card: 1, text: "oat milk"))
    let stored = try JSONDecoder().decode(Room.self, from: Data(json.utf8))
    #expect(stored.board == room.board && stored.changes == room.changes && stored.fingerprint == room.fingerprint)
  }

  @Test func `as long as the first version may run, nothing is written that it does not read`() async throws {
    let logs = MemoryLogs()
    try await withBoards(logs, writing: 1) { boards in
      _ = try await boards.list.send(.add(title: "Another"))
      await #expect(throws: Board.Refusal.notYet) { try await boards.delete(2) }
      await #expect(throws: Boards.Unknown.self) { try await boards.delete(3) }
      try await boards.rooms.withStore(1) { room in
        _ = try await room.send(.addCard(text: "a", column: nil))
        for edit in [Edit.addCard(text: "b", column: nil, kind: .task), .setKind(card: 1, kind: .task)] {
          await #expect(throws: StoreError.rejected(reason: RejectionReason(Board.Refusal.notYet.description))) {
            try await room.send(edit)
          }
        }
        try await room.saveSnapshot()
      }
    }
    #expect(try await firstRoom(logs).board.columns[0].cards.map(\.text) == ["a"])
    #expect(try await firstList(logs) == ["Another"])
  }

  @Test func `as long as the second version may run, no edit says who asked for it`() async throws {
    let logs = MemoryLogs()
    let signed = Edit.signed(.addCard(text: "a", column: nil), by: "ann", at: .now)
    try await withBoards(logs, writing: 2) { boards in
      try await boards.rooms.withStore(1) { room in
        _ = await #expect(throws: StoreError.rejected(reason: RejectionReason(Board.Refusal.notYet.description))) {
          try await room.send(signed)
        }
      }
    }
    try await withBoards(logs, writing: 3) { boards in
      let change = try await boards.rooms.withStore(1) { try await $0.send(signed) { $0.changes.last } }
      #expect(change?.by == "ann")
    }
    // A server that reads the schema but does not write it continues. It saves no snapshot that would lose data.
    try await withBoards(logs, writing: 2) { boards in
      try await boards.rooms.withStore(1) { room in
        let names = try await room.send(.editCard(card: 1, text: "b")) { $0.changes.map(\.by) }
        #expect(names == ["ann", nil])
        await #expect(throws: LogError.self) { try await room.saveSnapshot() }
      }
    }
  }

  @Test func `where the second version has written the first one stops, and says why`() async throws {
    let logs = MemoryLogs()
    try await withBoards(logs, writing: 2) { boards in
      _ = try await boards.list.send(.add(title: "Another"))
      try await boards.rooms.withStore(1) { room in
        _ = try await room.send(.addCard(text: "a", column: nil, kind: .note(colour: .green), author: "ann"))
      }
    }
    await #expect(throws: StoreError.stopped(.newerSchema(position: 1))) { try await firstRoom(logs) }
    await #expect(throws: StoreError.stopped(.newerSchema(position: 1))) { try await firstList(logs) }
    // A server that reads both continues. It saves no snapshot that would lose data.
    try await withBoards(logs, writing: 1) { boards in
      try await boards.rooms.withStore(1) { room in
        let board = try await room.send(.addCard(text: "b", column: nil)) { $0.board }
        #expect(board.columns[0].cards.map(\.kind) == [.note(colour: .green), nil])
        await #expect(throws: LogError.self) { try await room.saveSnapshot() }
      }
      await #expect(throws: Board.Refusal.notYet) { try await boards.erase("ann") }
    }
  }
}
