#if PostgreSQL
  import Puredux
  import PureduxLog

  /// The known facts about one tree, shared by all users of its log object.
  final class Knowledge: Sendable {
    private struct State: Sendable {
      var id: Int64?
      var position: UInt64 = 0
      /// The sessions whose servers lack an entry at `position`.
      var suspicious: Set<ObjectIdentifier> = []
      /// The error that ends this log for good.
      var damage: LogError?
    }

    private let state = LockedValue(State())

    var id: Int64? { state.withLock { $0.id } }
    var damage: LogError? { state.withLock { $0.damage } }
    var position: UInt64 { state.withLock { $0.position } }

    /// A log object stays with its tree, even if another tree takes the key.
    func learn(_ id: Int64) -> Int64 {
      state.withLock { state in
        state.id = state.id ?? id
        return state.id ?? id
      }
    }

    func saw(_ position: UInt64, by session: ObjectIdentifier? = nil) {
      state.withLock { state in
        state.position = max(state.position, position)
        if let session { state.suspicious.remove(session) }
      }
    }

    func noteDamage(_ damage: LogError) -> LogError {
      state.withLock { state in
        state.damage = state.damage ?? damage
        return state.damage ?? damage
      }
    }

    /// - Parameter known: The last known position before the query.
    /// - Returns: If entries are missing, first `.unavailable`, as this may be another server; the second time in a
    ///   session `.damaged`.
    func found(head: UInt64, knowing known: UInt64, by session: ObjectIdentifier) -> LogError? {
      if head >= known {
        saw(head, by: session)
        return nil
      }
      return state.withLock { state in
        let text = "The log ends at \(head), and has had an entry at \(known)."
        if state.suspicious.insert(session).inserted { return .unavailable(text) }
        state.damage = state.damage ?? .damaged(position: head + 1, text)
        return state.damage
      }
    }

    /// Returns damage if the appends' position is before the last one known.
    func appended(_ count: Int, behind base: UInt64, knowing before: UInt64) -> LogError? {
      state.withLock { state in
        if base < before {
          state.damage =
            state.damage
            ?? .damaged(
              position: base + 1, "The log has lost entries: an entry appended after \(before) is at \(base + 1).")
        }
        state.position = max(state.position, base + UInt64(count))
        return state.damage
      }
    }
  }
#endif
