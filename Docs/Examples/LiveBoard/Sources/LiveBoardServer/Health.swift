import Puredux
import PureduxLog
import Synchronization

/// What a person on duty looks at: which stores do not follow their log, and how much there is to do.
final class Health: Sendable {
  private let troubled = Mutex<[String: LogStatistics.Phase]>([:])
  /// The event streams that are open, and how many there have been.
  let streams = Atomic(0)
  let streamCount = Atomic(0)
  let edits = Atomic(0)
  let unknown = Atomic(0)

  func entered(_ phase: LogStatistics.Phase, by store: String) {
    troubled.withLock { troubled in
      switch phase {
      case .waiting, .stopped: troubled[store] = phase
      case .recovering, .following, .ended: troubled[store] = nil
      }
    }
  }

  /// The stores whose log takes nothing for now, and those that have stopped.
  var troubles: [String: String] { troubled.withLock { $0.mapValues { "\($0)" } } }
}
