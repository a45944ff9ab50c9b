import Puredux
import PureduxLog
import Synchronization

/// Figures for operators: stores with log problems, and the load.
final class Health: Sendable {
  private let troubled = Mutex<[String: String]>([:])
  /// The open event streams, and the total number of streams so far.
  let streams = Atomic(0)
  let streamCount = Atomic(0)
  let edits = Atomic(0)
  let unknown = Atomic(0)

  func entered(_ phase: LogStatistics.Phase, by store: String) {
    troubled.withLock { troubled in
      troubled[store] =
        switch phase {
        case .waiting(.full): "no room"
        case .waiting(.unavailable): "away"
        case .waiting(.refused): "refuses waiting entries"
        case .stopped(.removed): nil
        case .stopped(let reason): "stopped: \(reason)"
        case .recovering, .following, .ended: nil
        }
    }
  }

  /// - Parameter trouble: The problem of a tree; nil if it is solved.
  func note(_ trouble: String?, of store: String) { troubled.withLock { $0[store] = trouble } }

  /// The stores whose log is unavailable, and those that have stopped, with the reason.
  var troubles: [String: String] { troubled.withLock { $0 } }
}
