import Foundation

/// Processor time and memory of a process, from Linux's `/proc`.
struct Usage {
  let time: Duration
  let megabytes: Int

  /// Nil without a process.
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
