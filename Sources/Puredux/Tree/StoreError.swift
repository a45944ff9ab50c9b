/// Why a store refused or failed a request.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released, or the sending effect has been cancelled by its id or the state. The request
  /// changed nothing (G8, G9).
  case terminated
  /// An optional scope has no state at present.
  case stateUnavailable
  /// A projection maps the action to nil: no store gets it.
  case unmapped
  /// The store, scope or projection lies more than 100 levels deep: it takes no actions, and has no states.
  case tooDeep
  /// Middleware stopped the action, with this reason: it changed nothing.
  case rejected(reason: RejectionReason?)
  /// The store follows a log, and the action may be in the log, and be committed, or not. Thrown if a time limit is
  /// over, the task was cancelled, or the store ended or stopped before the log answered. Also thrown if the entry lies
  /// behind a seal for newer rules, or is skipped by decision, because a later decision can restore it.
  case outcomeUnknown
  /// The task was cancelled, or a time limit was over, before the action's turn, or before the store's log received it:
  /// the action changes nothing.
  case withdrawn
  /// The store follows a log, and cannot go on. The request changed nothing; the store can still be read.
  case stopped(LogStop)
}

/// Why a store that follows a log takes no more actions and commits none.
public enum LogStop: Sendable, Hashable, Codable {
  /// The state or the order at that position differs from another replica's, or an earlier process's. A reducer is not
  /// deterministic, or the engine has changed an order that it had confirmed, or an entry applied here is skipped by
  /// decision.
  case diverged(position: UInt64)
  /// The entry at that position has a newer schema than this program knows.
  case newerSchema(position: UInt64)
  /// The entry at that position, or the snapshot, cannot be decoded by this program. It is neither skipped nor
  /// overwritten. The log goes on with a program that can decode it, or with a decision to skip the entry
  /// (`OrderedLog.skip`).
  case undecodable(position: UInt64)
  /// The entry at that position has newer rules than this program knows (`LogOptions.rules`), or the log is sealed
  /// there for newer rules.
  case newerRules(position: UInt64)
  /// The entry at that position has older rules than this program knows (`LogOptions.oldestRules`), and there is no
  /// snapshot of a later position.
  case olderRules(position: UInt64)
  /// Two processes of this program, one after the other, have died while they replayed the entry at that position: it
  /// traps the reducer, or never ends. No later entry is applied until a decision skips this one, or another version of
  /// the program is started.
  case poisoned(position: UInt64)
  /// The entry at that position carries this store's number as a writer, but this store has not written it. The process
  /// is a clone of another one, or has one (a virtual machine that was copied while it ran). Actions on their way to
  /// the log are `StoreError.outcomeUnknown`. When opened again, the store has another number. A store without actions
  /// on their way does not stop: it takes another number.
  case cloned(position: UInt64)
  /// The log is damaged, or no longer has the entry that this replica needs next.
  case unreadable(position: UInt64)
  /// The tree was removed (`LogDirectory.remove`): its log is gone.
  case removed
}
