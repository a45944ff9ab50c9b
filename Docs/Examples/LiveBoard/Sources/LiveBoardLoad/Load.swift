import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Puts a LiveBoard server under load, and prints what it does.
@main struct Load: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "load",
    abstract: "Follows a board in many streams, stalls some, edits it from many writers, and prints the figures.")

  @Option(help: "The server.")
  var url = "http://127.0.0.1:8080"

  @Option(help: "Event streams that are read.")
  var streams = 500

  @Option(help: "Event streams that nobody reads.")
  var stalled = 0

  @Option(help: "Writers, each of which sends an edit when the one before is answered.")
  var writers = 16

  @Option(help: "For how long edits are sent, in seconds.")
  var seconds = 10.0

  @Option(help: "Edits a second of all writers together; as many as they can without it.")
  var rate: Double?

  @Option(help: "The server's process, on this machine: for its processor time and memory.")
  var pid: Int32?

  func run() async throws {
    let followers = Followers()
    let start = ContinuousClock.now
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    try await withThrowingTaskGroup { tasks in
      for _ in 0..<stalled { tasks.addTask { try await stall() } }
      for number in 0..<streams { tasks.addTask { try await follow(number, client, followers) } }
      try await followers.untilOpen(streams)
      print("\(streams) streams open after \(start.duration(to: .now))")
      let before = try Usage(of: pid)
      let (times, last) = try await write(client)
      let used = try Usage(of: pid)
      let total = times.count
      print(
        "\(total) edits, \(Int(Double(total) / seconds)) a second; p50 \(times[total / 2]), p99 \(times[total * 99 / 100])"
      )
      if let before, let used {
        print("server: \((used.time - before.time) / total) of processor time an edit, \(used.megabytes) MB")
      }
      let reached = ContinuousClock.now
      try await followers.untilReached(last)
      print("version \(last) on every stream after \(reached.duration(to: .now)); \(followers.disorder) out of order")
      print("events read: \(followers.events), of \(streams * total) versions")
      tasks.cancelAll()
    }
    try await client.shutdown()
  }

  private var configuration: HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = streams + writers + 10
    return configuration
  }

  /// Opens a stream and reads nothing of it.
  private func stall() async throws {
    guard let url = URL(string: url), let host = url.host() else { throw ValidationError("No URL: \(url)") }
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelOption(.autoRead, value: false).connect(host: host, port: url.port ?? 80).get()
    try await channel.writeAndFlush(
      ByteBuffer(string: "GET /boards/1/events?name=stalled HTTP/1.1\r\nHost: \(host):\(url.port ?? 80)\r\n\r\n"))
    try? await Task.sleep(for: .seconds(86_400))
    try await channel.close()
  }

  private func follow(_ number: Int, _ client: HTTPClient, _ followers: Followers) async throws {
    let request = HTTPClientRequest(url: "\(url)/boards/1/events?name=\(number)")
    let response = try await client.execute(request, timeout: .hours(1))
    var (isOpen, last) = (false, 0)
    do {
      for try await chunk in response.body {
        if !isOpen { followers.opened() }
        isOpen = true
        // The events of a board begin with its version.
        for line in String(buffer: chunk).split(separator: "\n") where line.hasPrefix("id: ") {
          let version = Int(line.dropFirst(4)) ?? 0
          followers.read(version, after: last)
          last = version
        }
      }
    } catch is CancellationError {}
  }

  /// Returns how long the edits took, the shortest first, and the version after the last.
  private func write(_ client: HTTPClient) async throws -> ([Duration], Int) {
    struct Answer: Decodable {
      struct Board: Decodable { let version: Int }
      let board: Board
      let card: Int?
    }
    @Sendable func send(_ method: String, _ path: String, _ body: String) async throws -> Answer {
      var request = HTTPClientRequest(url: url + path)
      request.method = HTTPMethod(rawValue: method)
      request.headers.add(name: "content-type", value: "application/json")
      request.body = .bytes(ByteBuffer(string: body))
      let response = try await client.execute(request, timeout: .seconds(60))
      let bytes = try await response.body.collect(upTo: 1 << 24)
      guard response.status == .ok || response.status == .created else {
        throw ValidationError("\(response.status): \(String(buffer: bytes))")
      }
      return try JSONDecoder().decode(Answer.self, from: Data(bytes.readableBytesView))
    }
    let end = ContinuousClock.now + .seconds(seconds)
    let pause = rate.map { Duration.seconds(Double(writers) / $0) }
    return try await withThrowingTaskGroup { tasks in
      for writer in 0..<writers {
        tasks.addTask {
          var (times, last) = ([Duration](), 0)
          let card = try await send("POST", "/boards/1/cards", "{\"text\": \"writer \(writer)\"}").card ?? 0
          while ContinuousClock.now < end {
            let start = ContinuousClock.now
            let answer = try await send("PATCH", "/boards/1/cards/\(card)", "{\"text\": \"\(writer) \(times.count)\"}")
            times.append(start.duration(to: .now))
            last = max(last, answer.board.version)
            if let pause { try await Task.sleep(until: start + pause, clock: .continuous) }
          }
          last = max(last, try await send("DELETE", "/boards/1/cards/\(card)", "").board.version)
          return (times, last)
        }
      }
      let (times, last) = try await tasks.reduce(into: ([Duration](), 0)) { all, some in
        all.0 += some.0
        all.1 = max(all.1, some.1)
      }
      return (times.sorted(), last)
    }
  }
}

/// How far the streams have come.
final class Followers: Sendable {
  private let lasts = Mutex<[Int: Int]>([:])
  private let openCount = Atomic(0)
  private let eventCount = Atomic(0)
  private let disorderCount = Atomic(0)

  var events: Int { eventCount.load(ordering: .relaxed) }
  /// How many versions came after a newer one.
  var disorder: Int { disorderCount.load(ordering: .relaxed) }

  func opened() { openCount.add(1, ordering: .relaxed) }

  func read(_ version: Int, after last: Int) {
    eventCount.add(1, ordering: .relaxed)
    if version <= last { disorderCount.add(1, ordering: .relaxed) }
    lasts.withLock { lasts in
      lasts[last]? -= 1
      if lasts[last] == 0 { lasts[last] = nil }
      lasts[version, default: 0] += 1
    }
  }

  func untilOpen(_ count: Int) async throws {
    while openCount.load(ordering: .relaxed) < count { try await Task.sleep(for: .milliseconds(2)) }
  }

  /// Returns when no stream is at an older version.
  func untilReached(_ version: Int) async throws {
    while lasts.withLock({ $0.keys.contains { $0 < version } }) { try await Task.sleep(for: .milliseconds(2)) }
  }
}

/// What a process has used, as Linux tells it.
struct Usage {
  let time: Duration
  let megabytes: Int

  /// None without a process.
  init?(of pid: Int32?) throws {
    guard let pid else { return nil }
    let figures =
      try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
      .split(separator: ")").last?.split(separator: " ").map { Int($0) ?? 0 } ?? []
    guard figures.count > 21 else { return nil }
    // Ticks of 10 ms, and pages of 4 KB.
    time = .milliseconds((figures[11] + figures[12]) * 10)
    megabytes = figures[21] * 4 / 1024
  }
}
