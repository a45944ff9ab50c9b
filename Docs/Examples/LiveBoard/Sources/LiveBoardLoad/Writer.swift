import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

/// Edits a card of its own, one edit after the other, and counts missing acknowledged edits.
struct Writer: Sendable {
  struct Board: Decodable {
    struct Column: Decodable {
      let cards: [Card]
    }
    struct Card: Decodable {
      let id: Int
      let text: String
    }
    let version: Int
    let columns: [Column]

    func text(of card: Int) -> String? { columns.flatMap(\.cards).first { $0.id == card }?.text }
  }

  struct Answer: Decodable {
    let board: Board
    let card: Int?
  }

  struct Failure: Error {
    let answer: String
  }

  struct Report: Sendable {
    var times: [Duration] = []
    var failures = 0
    /// Acknowledged edits that are missing.
    var missing = 0
    var version = 0
  }

  let number: Int
  let servers: [String]
  let client: HTTPClient

  /// - Parameter pause: The minimum time from the beginning of one edit to the next.
  func run(until end: ContinuousClock.Instant, pause: Duration?) async throws -> Report {
    var (report, server, last) = (Report(), number, 0)
    let card = try await send("POST", "/boards/1/cards", "{\"text\": \"0\"}", to: server).card ?? 0
    var edit = 0
    while ContinuousClock.now < end {
      let start = ContinuousClock.now
      edit += 1
      do {
        let answer = try await send("PATCH", "/boards/1/cards/\(card)", "{\"text\": \"\(edit)\"}", to: server)
        report.times.append(start.duration(to: .now))
        (last, report.version) = (edit, max(report.version, answer.board.version))
      } catch {
        // The outcome is unknown. The next edit goes to another server.
        report.failures += 1
        server += 1
        try await Task.sleep(for: .milliseconds(50))
      }
      if let pause { try await Task.sleep(until: start + pause, clock: .continuous) }
    }
    // Later edits without acknowledgement may be present too, so compare with the last acknowledged one.
    let answer = try await persistently(from: &server) {
      try await send("GET", "/boards/1", nil, to: $0, as: Board.self)
    }
    if Int(answer.text(of: card) ?? "") ?? 0 < last { report.missing += 1 }
    let deleted = try await persistently(from: &server) {
      try await send("DELETE", "/boards/1/cards/\(card)", "", to: $0)
    }
    report.version = max(report.version, deleted.board.version)
    return report
  }

  /// Tries one server after the other.
  private func persistently<Value>(from server: inout Int, _ body: (Int) async throws -> Value) async throws -> Value {
    for _ in 0..<100 {
      do { return try await body(server) } catch {
        server += 1
        try await Task.sleep(for: .milliseconds(200))
      }
    }
    return try await body(server)
  }

  private func send(_ method: String, _ path: String, _ body: String, to server: Int) async throws -> Answer {
    try await send(method, path, body, to: server, as: Answer.self)
  }

  private func send<Value: Decodable>(
    _ method: String, _ path: String, _ body: String?, to server: Int, as type: Value.Type
  ) async throws -> Value {
    var request = HTTPClientRequest(url: servers[server % servers.count] + path)
    request.method = HTTPMethod(rawValue: method)
    if let body {
      request.headers.add(name: "content-type", value: "application/json")
      request.body = .bytes(ByteBuffer(string: body))
    }
    let response = try await client.execute(request, timeout: .seconds(10))
    let bytes = try await response.body.collect(upTo: 1 << 24)
    guard response.status == .ok || response.status == .created else {
      throw Failure(answer: "\(response.status): \(String(buffer: bytes))")
    }
    return try JSONDecoder().decode(Value.self, from: Data(bytes.readableBytesView))
  }
}
