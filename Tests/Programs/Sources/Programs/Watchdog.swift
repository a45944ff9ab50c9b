import Foundation

/// Ends the process where something takes too long: from a queue of its own, as tasks could not tell that no task runs
/// any more.
public final class Watchdog: Sendable {
  private let limit: Duration
  private let queue = DispatchQueue(label: "watchdog")
  private let report: @Sendable (String) -> Void

  /// - Parameter report: Called with what stands still; it is to end the process.
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

  /// Five times as long where a sanitizer slows everything down.
  public static var usualLimit: Duration { Self.isSanitized ? .seconds(60) : .seconds(20) }

  /// Whether the process was built with a sanitizer.
  public static let isSanitized: Bool = ["__tsan_init", "__asan_init"].contains { (name: String) -> Bool in
    // SAFETY: Looks a name up among what is loaded.
    unsafe dlsym(nil, name) != nil
  }
}

/// Prints a line at once, so that it is there when the process crashes. If standard output takes nothing, as it is full
/// or closed, the process ends with exit code 4.
public func say(_ line: String) {
  do {
    try FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
  } catch {
    try? FileHandle.standardError.write(contentsOf: Data("Standard output takes nothing.\n".utf8))
    _exit(4)
  }
}
