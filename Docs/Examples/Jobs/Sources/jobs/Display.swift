import ArgumentParser
import Foundation
import JobQueue
import ServiceLifecycle

extension Job {
  var status: String {
    switch phase {
    case .waiting(nil): "waiting"
    case .waiting(let time?): "at \(Date(timeIntervalSince1970: time.since1970 / .seconds(1)).formatted(.iso8601))"
    case .running: attempt > 1 ? "running, attempt \(attempt)" : "running"
    case .resting(let error): "tried again: \(error)"
    case .done: "done"
    case .failed(let error): "failed: \(error)"
    case .cancelled: "cancelled"
    }
  }

  /// Always a single line: control characters become spaces.
  var line: String {
    let text = "\(id)  \(request.command)  \(status)\(progress > 0 ? "  \(progress)%" : "")"
    let scalars = text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }
    return String(String.UnicodeScalarView(scalars))
  }

  var bar: String {
    let full = progress / 5
    return "[\(String(repeating: "█", count: full))\(String(repeating: "·", count: 20 - full))] \(line)"
  }
}

/// Shows the progress of jobs: bars on a terminal, otherwise a line for each change.
struct Display: Service {
  let states: AsyncStream<JobQueue>

  func run() async throws {
    let isTerminal = isatty(1) == 1
    var shown = 0
    var lines = ChangedLines()
    for await queue in states.cancelOnGracefulShutdown() {
      if isTerminal {
        let bars = queue.jobs.suffix(20).map(\.bar)
        // The terminal truncates long lines, so each bar takes one line.
        let up = shown > 0 ? "\u{1B}[\(shown)A" : ""
        print("\(up)\u{1B}[?7l\(bars.map { "\u{1B}[2K\($0)\n" }.joined())\u{1B}[?7h", terminator: "")
        shown = bars.count
      } else {
        for line in lines.next(in: queue) { print(line) }
      }
      guard fflush(nil) == 0 else { throw ExitCode.failure }
    }
    // The queue may end before the shutdown. This service must not fail then.
    try? await gracefulShutdown()
  }
}

/// The lines of the jobs that have changed since the previous state. Jobs that were over before have none.
struct ChangedLines {
  private(set) var last: [Int: String] = [:]

  mutating func next(in queue: JobQueue) -> [String] {
    var lines: [String] = []
    for job in queue.jobs where last[job.id] != job.line {
      if last[job.id] != nil || !job.isOver { lines.append(job.line) }
      last[job.id] = job.line
    }
    // The queue drops old jobs.
    if last.count > queue.jobs.count {
      let ids = Set(queue.jobs.map(\.id))
      last = last.filter { ids.contains($0.key) }
    }
    return lines
  }
}
