import Puredux
import PureduxLog
import Synchronization

/// What a person on duty looks at: which stores do not follow their log, and how much there is to do.
final class Health: Sendable {
  private let troubled = Mutex<[String: String]>([:])
  /// The event streams that are open, and how many there have been.
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
        case .waiting(.refused): "refuses what waits"
        case .stopped(.removed): nil
        case .stopped(let reason): "stopped: \(reason)"
        case .recovering, .following, .ended: nil
        }
    }
  }

  /// - Parameter trouble: What is wrong with a tree; nil, if nothing is any more.
  func note(_ trouble: String?, of store: String) { troubled.withLock { $0[store] = trouble } }

  /// The stores whose log takes nothing for now, and those that have stopped, and why.
  var troubles: [String: String] { troubled.withLock { $0 } }
}
