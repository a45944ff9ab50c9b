import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOPosix
import Output

/// A load generator for LiveBoard servers.
@main struct Load: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "load",
    abstract: "Follows a board in many streams, stalls some, edits it with many writers, and prints figures.",
    discussion: "The exit code is 1 if an acknowledged edit is missing, or if standard output takes nothing.")

  static func main() async {
    Output.prepare()
    await main(nil)
  }

  @Option(help: "The server, or several servers that share their boards, separated by commas.")
  var url = "http://127.0.0.1:8080"

  @Option(help: "The number of event streams that are read.")
  var streams = 500

  @Option(help: "The number of stalled event streams.")
  var stalled = 0

  @Option(help: "The number of writers. Each sends an edit when the previous one is answered.")
  var writers = 16

  @Option(help: "The duration of the load, in seconds.")
  var seconds = 10.0

  @Option(help: "Edits per second of all writers together. Unlimited by default.")
  var rate: Double?

  @Option(help: "The id of the server's process on this machine, to measure its processor time and memory.")
  var pid: Int32?

  func run() async throws {
    // An `HTTPClient` that is released without shutdown traps.
    let missing = try await HTTPClient.withHTTPClient(configuration: configuration) { try await measure(with: $0) }
    if missing > 0 { throw ExitCode.failure }
  }

  /// Prints the figures. Returns the number of missing acknowledged edits.
  private func measure(with client: HTTPClient) async throws -> Int {
    let followers = Followers()
    let servers = url.split(separator: ",").map(String.init)
    let start = ContinuousClock.now
    return try await withThrowingTaskGroup { tasks in
      for _ in 0..<stalled { tasks.addTask { try await stall(at: servers[0]) } }
      for number in 0..<streams { tasks.addTask { await followers.follow(number, at: servers, with: client) } }
      try await followers.untilOpen(streams)
      print("\(streams) streams open after \(start.duration(to: .now))")
      let before = try Usage(of: pid)
      let report = try await write(followers, to: servers, with: client)
      let used = try Usage(of: pid)
      let (times, total) = (report.times, report.times.count)
      print("\(total) edits, \(Int(Double(total) / seconds)) a second; \(report.failures) not acknowledged")
      if total > 0 { print("p50 \(times[total / 2]), p99 \(times[total * 99 / 100])") }
      if let before, let used, total > 0 {
        print(
          "server: \((used.time - before.time) / total) of processor time an edit, \(before.megabytes) to "
            + "\(used.megabytes) MB")
      }
      print("acknowledged and missing: \(report.missing)")
      let reached = ContinuousClock.now
      try await followers.untilReached(report.version)
      print(
        "version \(report.version) on every stream after \(reached.duration(to: .now)); \(followers.disorder) out of "
          + "order; longest pause \(followers.longestPause)")
      print("events read: \(followers.events), of \(streams * total) versions")
      tasks.cancelAll()
      return report.missing
    }
  }

  /// Runs all writers and merges their reports, with sorted times.
  private func write(
    _ followers: Followers, to servers: [String], with client: HTTPClient
  ) async throws -> Writer.Report {
    let end = ContinuousClock.now + .seconds(seconds)
    let pause = rate.map { Duration.seconds(Double(writers) / $0) }
    followers.measurePauses(true)
    defer { followers.measurePauses(false) }
    return try await withThrowingTaskGroup { tasks in
      for number in 0..<writers {
        tasks.addTask {
          try await Writer(number: number, servers: servers, client: client).run(until: end, pause: pause)
        }
      }
      var report = try await tasks.reduce(into: Writer.Report()) { all, one in
        all.times += one.times
        all.failures += one.failures
        all.missing += one.missing
        all.version = max(all.version, one.version)
      }
      report.times.sort()
      return report
    }
  }

  private var configuration: HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = streams + writers + 10
    return configuration
  }

  /// Opens a stream and never reads from it.
  private func stall(at server: String) async throws {
    guard let url = URL(string: server), let host = url.host() else { throw ValidationError("No URL: \(server)") }
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelOption(.autoRead, value: false).connect(host: host, port: url.port ?? 80).get()
    try await channel.writeAndFlush(
      ByteBuffer(string: "GET /boards/1/events?name=stalled HTTP/1.1\r\nHost: \(host):\(url.port ?? 80)\r\n\r\n"))
    try? await Task.sleep(for: .seconds(86_400))
    try await channel.close()
  }
}
