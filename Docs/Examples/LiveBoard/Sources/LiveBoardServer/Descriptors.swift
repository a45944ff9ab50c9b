import Foundation
import NIOCore

/// How many connections the process has file descriptors for. A process must not run out of them: libdispatch ends it
/// when it gets none.
enum Descriptors {
  /// A connection has a descriptor of its own, and the board that it asks for has two while it is open.
  private static let eachConnection = 3
  /// Event loops have three each; the rest is for files that are open for a moment, and for the system's libraries.
  private static let reserve = 96 + 4 * System.coreCount

  /// Raises the process's limit as far as it has to be and may be, and returns how many connections there can be.
  static func connections(atMost wanted: Int) -> Int {
    let wanted = min(max(wanted, 0), 1 << 20)
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { return 0 }
    let needed = rlim_t(reserve + eachConnection * wanted)
    if limit.rlim_cur < needed {
      var raised = limit
      raised.rlim_cur = min(needed, limit.rlim_max)
      if setrlimit(resource, &raised) == 0 { limit = raised }
    }
    return min(wanted, max(0, (Int(clamping: limit.rlim_cur) - reserve) / eachConnection))
  }

  #if canImport(Glibc)
    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #else
    private static let resource = RLIMIT_NOFILE
  #endif
}
