#if PostgreSQL
  import Puredux
  import PureduxLog

  /// What is known of one tree, for as long as somebody has its log.
  final class Knowledge: Sendable {
    private struct State: Sendable {
      var id: Int64?
      /// The last position that there is an entry at, as far as is known here.
      var position: UInt64 = 0
      /// The sessions whose servers were found to have less than that.
      var suspicious: Set<ObjectIdentifier> = []
      /// What shows that the log is not what it was.
      var damage: LogError?
    }

    private let state = LockedValue(State())

    /// The number of the tree; nil until it is there.
    var id: Int64? { state.withLock { $0.id } }
    var damage: LogError? { state.withLock { $0.damage } }
    var position: UInt64 { state.withLock { $0.position } }

    /// The first number that is learned holds: who has a log has that tree's, and not that of one behind it.
    func learn(_ id: Int64) -> Int64 {
      state.withLock { state in
        state.id = state.id ?? id
        return state.id ?? id
      }
    }

    /// There is an entry at that position, which a session may have been shown.
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

    /// A server says to a session where the log ends.
    ///
    /// - Parameter known: What there was known to be before it was asked.
    /// - Returns: What that shows: at first that the server may be another one, as each session finds for itself, and
    ///   then that entries are lost.
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

    /// Entries were appended behind a position.
    ///
    /// - Returns: What that shows.
    func appended(_ count: Int, behind base: UInt64, knowing before: UInt64) -> LogError? {
      state.withLock { state in
        if base < before {
          state.damage =
            state.damage
            ?? .damaged(
              position: base + 1, "The log has lost entries: what was appended behind \(before) is at \(base + 1).")
        }
        state.position = max(state.position, base + UInt64(count))
        return state.damage
      }
    }
  }
#endif
