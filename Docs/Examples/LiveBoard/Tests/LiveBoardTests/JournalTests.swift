import Foundation
import Testing

@testable import LiveBoardServer

/// A folder that goes with the test.
final class Folder: Sendable {
  let url: URL
  var journal: String { url.appending(path: "journal.jsonl").path() }

  init() throws {
    url = URL(filePath: NSTemporaryDirectory()).appending(path: "LiveBoard-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}

@Suite struct JournalTests {
  private let edits: [Edit] = [
    .createBoard(title: "A \"board\"\nin two lines"), .addCard(board: 1, column: nil, text: "é"),
    .moveCard(board: 1, card: 1, column: "Done", position: 0), .deleteCard(board: 1, card: 1),
  ]

  private func write(_ edits: [Edit], to path: String) async throws {
    let (journal, _) = try Journal.open(at: path)
    var last = 0
    for edit in edits { last = journal.append(edit) }
    try await journal.flush(through: last)
    try await journal.close()
  }

  @Test func `what was flushed is read back, and goes on`() async throws {
    let folder = try Folder()
    try await write(Array(edits.prefix(2)), to: folder.journal)
    try await write(Array(edits.dropFirst(2)), to: folder.journal)
    #expect(try Journal.open(at: folder.journal).1.edits == edits)
    #expect(try Journal.open(at: folder.journal).1.tornLine == nil)
  }

  @Test func `many writers' edits are all there, in the order of their positions`() async throws {
    let folder = try Folder()
    do {
      let (journal, _) = try Journal.open(at: folder.journal)
      try await withThrowingTaskGroup { group in
        for writer in 0..<8 {
          group.addTask {
            for number in 0..<100 {
              let position = journal.append(.addCard(board: writer, column: nil, text: "\(number)"))
              try await journal.flush(through: position)
            }
          }
        }
        try await group.waitForAll()
      }
      try await journal.close()
    }
    let found = try Journal.open(at: folder.journal).1.edits
    #expect(found.count == 800)
    for writer in 0..<8 {
      let own = found.compactMap { if case .addCard(writer, _, let text) = $0 { text } else { nil } }
      #expect(own == (0..<100).map(String.init))
    }
  }

  @Test(arguments: [1, 10, 30])
  func `a torn last line is set aside, and nothing before it is lost`(cut: Int) async throws {
    let folder = try Folder()
    try await write(edits, to: folder.journal)
    let url = URL(filePath: folder.journal)
    let whole = try Data(contentsOf: url)
    try whole.dropLast(cut).write(to: url)
    do {
      let contents = try Journal.open(at: folder.journal).1
      #expect(contents.edits == Array(edits.dropLast()))
      let torn = try #require(contents.tornLine)
      #expect(whole.dropLast(cut).suffix(try Data(contentsOf: torn).count) == (try Data(contentsOf: torn)))
    }
    try await write([edits[3]], to: folder.journal)
    #expect(try Data(contentsOf: url) == whole)
  }

  @Test func `a damaged line before the last is an error, and the file stays as it is`() async throws {
    let folder = try Folder()
    try await write(edits, to: folder.journal)
    let url = URL(filePath: folder.journal)
    var lines = try String(contentsOf: url, encoding: .utf8).split(separator: "\n").map(String.init)
    lines[1] = "{"
    let damaged = Data(lines.joined(separator: "\n").utf8)
    try damaged.write(to: url)
    #expect(throws: Journal.Failure.damaged(folder.journal, line: 2)) { try Journal.open(at: folder.journal) }
    #expect(try Data(contentsOf: url) == damaged)
  }

  @Test func `a missing line is an error`() async throws {
    let folder = try Folder()
    try await write(edits, to: folder.journal)
    let url = URL(filePath: folder.journal)
    let lines = try String(contentsOf: url, encoding: .utf8).split(separator: "\n").dropFirst()
    try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: url)
    #expect(throws: Journal.Failure.damaged(folder.journal, line: 1)) { try Journal.open(at: folder.journal) }
  }

  @Test func `two servers cannot use one journal, and a journal needs a place`() throws {
    let folder = try Folder()
    let first = try Journal.open(at: folder.journal)
    #expect(throws: Journal.Failure.inUse(folder.journal)) { try Journal.open(at: folder.journal) }
    withExtendedLifetime(first) {}
    #expect(throws: Journal.Failure.self) { try Journal.open(at: folder.url.appending(path: "no/such/folder").path()) }
  }
}
