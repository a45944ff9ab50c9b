/// Why a store could not do what it was asked to do.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released, or the effect that sends has been cancelled by its id or the state. What the
  /// store was given changed nothing (G8, G9).
  case terminated
  /// An optional scope has no state at present.
  case stateUnavailable
  /// A projection maps the action to nothing: no store was given it.
  case unmapped
  /// The store, scope or projection lies more than 100 levels deep: it is given nothing, and shows nothing.
  case tooDeep
  /// Middleware stopped the action: it changed nothing. The reason is the one that the middleware gave.
  case rejected(reason: RejectionReason?)
  /// The store follows a log, and it is not known whether the action is in it, and will be committed, or not: a time
  /// limit is over, the task was cancelled, or the store ended before the log answered. Also thrown if the entry lies
  /// behind a seal for newer rules, or is skipped by decision, because a later decision can bring it back.
  case outcomeUnknown
  /// The task was cancelled, or a time limit was over, before the action's turn, or before the log that the store
  /// follows has been given it: it changes nothing.
  case withdrawn
  /// The store follows a log, and cannot go on. What it was given changed nothing; it can still be read.
  case stopped(LogStop)
}

/// Why a store that follows a log takes no more actions and commits none.
public enum LogStop: Sendable, Hashable, Codable {
  /// The state is not the one that another replica had at that position: a reducer is not deterministic, or the engine
  /// has changed an order that it had confirmed.
  case diverged(position: UInt64)
  /// The entry at that position has a newer schema than this program knows.
  case newerSchema(position: UInt64)
  /// The entry at that position, or the snapshot, cannot be decoded by this program. It is neither skipped nor
  /// overwritten: a program that can decode it goes on, and so does this one where it is decided that the entry is
  /// skipped (`OrderedLog.skip`).
  case undecodable(position: UInt64)
  /// The entry at that position has newer rules than this program knows (`LogOptions.rules`), or the log is sealed
  /// there for newer rules.
  case newerRules(position: UInt64)
  /// The entry at that position has older rules than this program knows (`LogOptions.oldestRules`), and there is no
  /// snapshot of a later position.
  case olderRules(position: UInt64)
  /// Two processes of this program have died while they replayed the entry at that position: it traps the reducer, or
  /// never ends. Nothing behind it is applied until it is decided that the entry is skipped, or another version of the
  /// program comes.
  case poisoned(position: UInt64)
  /// The entry at that position carries this store's number as a writer, but this store has not given it to the log:
  /// the process is a clone of another one, or has one (a virtual machine that was copied while it ran). Actions that
  /// were on their way are `StoreError.outcomeUnknown`. Opened anew, the store has another number.
  case cloned(position: UInt64)
  /// The log is damaged, or no longer has what this replica needs next.
  case unreadable(position: UInt64)
  /// The tree was removed (`LogDirectory.remove`): its log is gone.
  case removed
}
