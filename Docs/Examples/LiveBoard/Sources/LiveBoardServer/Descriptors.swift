import Foundation
import NIOCore

/// Whose the process's file descriptors are. A process must not run out of them: libdispatch ends it when it gets none.
struct Descriptors {
  /// One for each connection, that of an event stream included.
  let connections: Int
  /// The files that the log keeps open: two for each of the boards that were edited last. There may be any number of
  /// boards; the files of the others are opened again with their next edit.
  let files: Int

  /// Three for each event loop, and what the process, its listening socket and the log's directory have.
  private static let own = 16 + 3 * System.coreCount
  /// What the log has open for a moment, on 17 threads.
  private static let moment = 4 * 17

  /// Nobody's: the log opens nothing where only so many are left, and the system's libraries need some.
  private static func spare(of limit: Int) -> Int { min(64, limit / 4) }

  /// Of what the others leave, connections have three quarters, and files one.
  init(limit: Int, connections wanted: Int) {
    let rest = max(0, limit - Self.spare(of: limit) - Self.own - Self.moment)
    files = rest / 4
    connections = min(wanted, rest - files)
  }

  /// Raises the process's limit as far as it has to be and may be.
  static func raised(for wanted: Int) -> Descriptors {
    let wanted = min(max(wanted, 0), 1 << 20)
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { return Descriptors(limit: 0, connections: wanted) }
    let needed = rlim_t(64 + own + moment + wanted + wanted / 3 + 1)
    if limit.rlim_cur < needed {
      var raised = limit
      raised.rlim_cur = min(needed, limit.rlim_max)
      if setrlimit(resource, &raised) == 0 { limit = raised }
    }
    return Descriptors(limit: Int(clamping: limit.rlim_cur), connections: wanted)
  }

  #if canImport(Glibc)
    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #else
    private static let resource = RLIMIT_NOFILE
  #endif
}
