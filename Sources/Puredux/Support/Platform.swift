#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

enum Platform {
  static var wallClock: Duration {
    var time = timespec()
    // SAFETY: the function writes one value of that type, and keeps nothing.
    _ = unsafe clock_gettime(CLOCK_REALTIME, &time)
    return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
  }

  /// Bytes that do not fit are lost.
  static func writeError(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard let start = bytes.baseAddress else { return }
    // SAFETY: the caller's bytes, which are read during the call.
    _ = unsafe write(2, start, bytes.count)
  }

  static func yieldThread() { _ = sched_yield() }

  static func pauseThread() { usleep(50) }
}

/// The default destination of reports.
package struct StandardError: TextOutputStream {
  package init() {}

  /// SAFETY: these are the string's own bytes, which stay in place while the closure runs.
  package mutating func write(_ string: String) {
    var string = string
    string.withUTF8 { bytes in unsafe Platform.writeError(bytes) }
  }
}
