import Foundation

/// Ends the process if an operation takes too long. It runs on a queue, because a task could not report that no task
/// runs.
public final class Watchdog: Sendable {
  private let limit: Duration
  private let queue = DispatchQueue(label: "watchdog")
  private let report: @Sendable (String) -> Void

  /// - Parameter report: Called with the name of the operation; it must end the process.
  public init(limit: Duration, report: @escaping @Sendable (String) -> Void) {
    self.limit = limit
    self.report = report
  }

  public func watch<Result>(_ name: String, _ body: () async -> Result) async -> Result {
    let alarm = DispatchWorkItem { [report] in report(name) }
    queue.asyncAfter(deadline: .now() + .seconds(Int(limit.components.seconds)), execute: alarm)
    defer { alarm.cancel() }
    return await body()
  }

  /// Three times as long under a sanitizer.
  public static var usualLimit: Duration { Self.isSanitized ? .seconds(60) : .seconds(20) }

  public static let isSanitized: Bool = ["__tsan_init", "__asan_init"].contains { (name: String) -> Bool in
    // SAFETY: the name's pointer is valid during the call, which only searches the loaded images. The result is only
    // compared with nil.
    unsafe dlsym(nil, name) != nil
  }
}

/// Prints a line at once, so that a crash does not lose it. If standard output is full or closed, the process ends with
/// exit code 4.
public func say(_ line: String) {
  do {
    try FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
  } catch {
    try? FileHandle.standardError.write(contentsOf: Data("Standard output takes nothing.\n".utf8))
    _exit(4)
  }
}
