import Puredux
import PureduxLog
import Synchronization

/// Figures for operators: stores with log problems, and the load.
final class Health: Sendable {
  private struct Troubles {
    /// End with the store at the latest.
    var waiting: [String: String] = [:]
    /// Outlast the store, which ends when it is idle or at the next request: reopening meets the same problem.
    var lasting: [String: String] = [:]
    var causes: [String: String] = [:]
  }

  private let troubled = Mutex(Troubles())
  /// The open event streams, and the total number of streams so far.
  let streams = Atomic(0)
  let streamCount = Atomic(0)
  let edits = Atomic(0)
  let unknown = Atomic(0)

  func entered(_ phase: LogStatistics.Phase, by store: String) {
    troubled.withLock { troubled in
      troubled.waiting[store] =
        switch phase {
        case .waiting(.full): "no room"
        case .waiting(.unavailable): "away"
        case .waiting(.refused): "refuses waiting entries"
        // If the log is damaged, the next opening notes it.
        case .stopped(let reason) where reason.isHealedByReopening: "stopped: \(reason)"
        case .recovering, .following, .stopped, .ended: nil
        }
      switch phase {
      case .stopped(.removed), .following: troubled.lasting[store] = nil
      case .stopped(let reason) where !reason.isHealedByReopening: troubled.lasting[store] = "stopped: \(reason)"
      case .recovering, .waiting, .stopped, .ended: break
      }
    }
  }

  /// Opens a store of a directory. An opening may fail before the store has a phase.
  func opening<Store: Sendable>(_ store: String, _ open: () async throws -> Store) async throws -> Store {
    do {
      return try await open()
    } catch {
      switch error {
      case StoreError.stopped(let reason): entered(.stopped(reason), by: store)
      // The error has paths, and `/ready` needs no token.
      case LogError.damaged: note("damaged", of: store)
      default: break
      }
      throw error
    }
  }

  /// - Parameters:
  ///   - trouble: The problem of a tree; nil if it is solved.
  ///   - cause: Its error, which is not among the troubles.
  /// - Returns: Whether the problem or its cause has changed.
  @discardableResult func note(_ trouble: String?, of store: String, because cause: String? = nil) -> Bool {
    troubled.withLock { troubled in
      let isNew = troubled.lasting[store] != trouble || troubled.causes[store] != cause
      troubled.lasting[store] = trouble
      troubled.causes[store] = cause
      return isNew
    }
  }

  /// The stores whose log is unavailable, and those that have stopped or cannot be opened, with the reason. The latter
  /// stay until a store follows the log again. Exception: a stop that reopening heals stays until the store ends.
  var troubles: [String: String] { troubled.withLock { $0.waiting.merging($0.lasting) { $1 } } }
}

extension LogStop {
  /// The new store begins with the snapshot of an erased or truncated log, and has another writer number.
  fileprivate var isHealedByReopening: Bool {
    switch self {
    case .unreadable, .cloned: true
    case .diverged, .newerSchema, .undecodable, .newerRules, .olderRules, .poisoned, .removed: false
    }
  }
}
