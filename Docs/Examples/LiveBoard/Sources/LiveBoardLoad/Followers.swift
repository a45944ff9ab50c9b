import AsyncHTTPClient
import NIOCore
import Synchronization

/// Reads event streams as a browser does: resumes after the last event, and changes to another server if its server is
/// gone.
final class Followers: Sendable {
  private let lasts = Mutex<[Int: Int]>([:])
  private let openCount = Atomic(0)
  private let eventCount = Atomic(0)
  private let disorderCount = Atomic(0)
  private let pauses = Mutex((isMeasured: false, longest: Duration.zero))

  var events: Int { eventCount.load(ordering: .relaxed) }
  /// The number of boards older than their predecessor, and of changes that do not follow the last version.
  var disorder: Int { disorderCount.load(ordering: .relaxed) }
  /// The longest time between two events of one stream during the load.
  var longestPause: Duration { pauses.withLock { $0.longest } }

  func measurePauses(_ isMeasured: Bool) { pauses.withLock { $0.isMeasured = isMeasured } }

  /// Follows a board until the task is cancelled.
  func follow(_ number: Int, at servers: [String], with client: HTTPClient) async {
    var (server, isOpen, last, id) = (number, false, 0, "")
    var event = ContinuousClock.now
    while !Task.isCancelled {
      var request = HTTPClientRequest(url: "\(servers[server % servers.count])/boards/1/events?name=\(number)")
      if last > 0 { request.headers.add(name: "last-event-id", value: id) }
      do {
        let response = try await client.execute(request, timeout: .hours(1))
        var (text, version) = ("", 0)
        for try await chunk in response.body {
          text += String(buffer: chunk)
          // An event of a board begins with its id, which ends with the version.
          while let end = text.firstIndex(of: "\n") {
            let line = text[..<end]
            if line.hasPrefix("id: ") {
              id = String(line.dropFirst(4))
              version = id.split(separator: "-").last.flatMap { Int($0) } ?? 0
            }
            if line == "event: board" || line == "event: change" {
              if !isOpen { openCount.add(1, ordering: .relaxed) }
              isOpen = true
              read(version, after: last, isChange: line == "event: change", pause: event.duration(to: .now))
              (last, event) = (version, .now)
            }
            text.removeSubrange(...end)
          }
        }
      } catch {}
      server += 1
      try? await Task.sleep(for: .milliseconds(200))
    }
  }

  private func read(_ version: Int, after last: Int, isChange: Bool, pause: Duration) {
    eventCount.add(1, ordering: .relaxed)
    if isChange ? version != last + 1 : version < last { disorderCount.add(1, ordering: .relaxed) }
    pauses.withLock { if $0.isMeasured { $0.longest = max($0.longest, pause) } }
    lasts.withLock { lasts in
      lasts[last]? -= 1
      if lasts[last] == 0 { lasts[last] = nil }
      lasts[version, default: 0] += 1
    }
  }

  func untilOpen(_ count: Int) async throws {
    while openCount.load(ordering: .relaxed) < count { try await Task.sleep(for: .milliseconds(2)) }
  }

  /// Returns when every stream has reached the version.
  func untilReached(_ version: Int) async throws {
    while lasts.withLock({ $0.keys.contains { $0 < version } }) { try await Task.sleep(for: .milliseconds(2)) }
  }
}
