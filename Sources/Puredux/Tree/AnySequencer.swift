/// Has the actions of a tree committed in an order that comes from elsewhere, as the tree sees it: whatever the actions
/// are.
///
/// SAFETY: `Sequencer`, the only class that inherits from this one, answers for its variables; this one has none. The
/// compiler does not check a class that can be inherited from.
@usableFromInline package class AnySequencer: @unchecked Sendable {
  @usableFromInline init() {}

  /// A visit that submits its action in its turn, and is carried out when that is committed; one that reads waits for
  /// what has been submitted before.
  func ordered(_ visit: PostponedCommand) -> Command { visit }

  /// A command that waits for what has been submitted before it.
  func deferred(_ command: Command) -> Command { command }

  /// What `dispatch` answers while nothing is taken. From anywhere.
  var refusal: DispatchResult? { nil }

  /// Whether an action that was submitted here is being committed. On the tree's executor.
  var isCommitting: Bool { false }

  /// Whether what is committed now was in the log when the store was opened. On the tree's executor.
  var isReplaying: Bool { false }

  /// How many requests may wait for their turn before `dispatch` is refused.
  var inboxBound: Int { .max }

  /// The root store has been closed, but what it accepted may still have to be committed. From anywhere.
  func rootClosed() {}

  /// The root store has ended. On the tree's executor.
  func rootEnded() {}

  /// For `StoreStatistics`.
  var statistics: LogStatistics? { nil }
}
