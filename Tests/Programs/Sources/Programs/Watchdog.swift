import Foundation
import Synchronization

/// A thread that ends the process where something takes too long: tasks could not tell that no task runs any more.
public final class Watchdog: Sendable {
  private let limit: Duration
  private let began: Guarded<(name: String, at: ContinuousClock.Instant)?> = Guarded(nil)
  private let report: @Sendable (String) -> Void

  /// - Parameter report: Called with what hangs; it is to end the process.
  public init(limit: Duration, report: @escaping @Sendable (String) -> Void) {
    self.limit = limit
    self.report = report
    let thread = Thread { [self] in
      while true {
        Thread.sleep(forTimeInterval: 0.1)
        look()
      }
    }
    thread.name = "watchdog"
    thread.start()
  }

  private func look() {
    let hanging = began.withLock { began -> String? in
      guard let current = began, ContinuousClock.now - current.at > limit else { return nil }
      began = nil
      return current.name
    }
    if let hanging { report(hanging) }
  }

  public func watch<Result>(_ name: String, _ body: () async -> Result) async -> Result {
    began.withLock { $0 = (name, .now) }
    defer { began.withLock { $0 = nil } }
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

/// Prints a line at once, so that it is there when the process crashes.
public func say(_ line: String) {
  FileHandle.standardOutput.write(Data((line + "\n").utf8))
}
