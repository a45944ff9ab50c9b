import Foundation
import NIOCore

/// Divides the process's file descriptors. A process must not run out of them: libdispatch would end it.
struct Descriptors {
  /// One descriptor for each connection, including event streams.
  let connections: Int
  /// The log's open files: two for each of the most recently edited boards. Any number of boards can exist; the files
  /// of the other boards are reopened for their next edit.
  let files: Int

  /// Three for each event loop, plus those of the process, its listening socket and the log's directory.
  private static let own = 16 + 3 * System.coreCount
  /// Files that the log opens for a moment: up to four on each of the 17 threads for trees and snapshots. Its four
  /// threads that list summaries open one each, from the reserve.
  private static let moment = 4 * 17

  /// A reserve: the system's libraries need some, and the log opens no file when only this many are left.
  private static func spare(of limit: Int) -> Int { min(64, limit / 4) }

  /// Of the remaining descriptors, connections get three quarters and files one quarter.
  init(limit: Int, connections wanted: Int) {
    let rest = max(0, limit - Self.spare(of: limit) - Self.own - Self.moment)
    files = rest / 4
    connections = min(wanted, rest - files)
  }

  /// Raises the process's limit as far as necessary and allowed.
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
