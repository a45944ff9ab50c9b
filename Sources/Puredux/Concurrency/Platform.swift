#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(WASILibc)
  import WASILibc
#elseif canImport(ucrt)
  import ucrt
  import WinSDK
#else
  import Darwin
#endif

/// What is asked of the operating system. The branches for Windows and WASI are written from their headers, and have
/// not been compiled.
enum Platform {
  /// The time since 1970, by the system's clock.
  static var wallClock: Duration {
    #if canImport(WASILibc)
      var time = timeval()
      // SAFETY: the function writes one value of that type, and keeps nothing; so do those below.
      _ = unsafe gettimeofday(&time, nil)
      return .seconds(Int64(time.tv_sec)) + .microseconds(Int64(time.tv_usec))
    #elseif canImport(ucrt)
      var time = timespec()
      _ = unsafe timespec_get(&time, TIME_UTC)
      return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    #else
      var time = timespec()
      _ = unsafe clock_gettime(CLOCK_REALTIME, &time)
      return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    #endif
  }

  /// Writes bytes to standard error; what does not fit is lost.
  static func writeError(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard let start = bytes.baseAddress else { return }
    #if canImport(ucrt)
      // SAFETY: the caller's bytes, which are read during the call.
      _ = unsafe _write(2, start, UInt32(clamping: bytes.count))
    #else
      // SAFETY: the caller's bytes, which are read during the call.
      _ = unsafe write(2, start, bytes.count)
    #endif
  }

  /// Lets other threads run.
  static func yieldThread() {
    #if canImport(ucrt)
      SwitchToThread()
    #else
      _ = sched_yield()
    #endif
  }

  /// Lets the thread sleep for a moment: 50 µs, or as little as the system can.
  static func pauseThread() {
    #if canImport(ucrt)
      Sleep(1)
    #else
      usleep(50)
    #endif
  }
}
