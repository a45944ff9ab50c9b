/// What a line of a history says.
public enum Event: Equatable, Sendable {
  /// The first line of a file: who writes it, and by which clock. Only times of the same clock are compared.
  case process(name: String, clock: String)
  /// A writer is about to give an action to the log. Calls have numbers of their own in their file.
  case invocation(call: Int, writer: String, action: String, at: Int)
  /// A writer is about to read a state.
  case read(call: Int, writer: String, claim: Claim, at: Int)
  /// A call has returned: with the position, and the hash of the state there, where it told these.
  case response(call: Int, outcome: Outcome, position: Int?, hash: UInt64?, at: Int)
  /// A replica begins, with the initial state (behind position 0), or with a snapshot. What it applies in this file
  /// from here on is one incarnation of it.
  case incarnation(replica: String, after: Int, hash: UInt64, at: Int)
  /// A replica has applied what is at a position, and has a state of that hash then.
  case applied(replica: String, position: Int, actions: [String], hash: UInt64)
}

/// What has become of a call, as its caller was told.
public enum Outcome: String, Sendable, CaseIterable {
  /// The action is in the order, once.
  case acknowledged
  /// The action is certainly not in the order, and never will be. A read has shown nothing.
  case failed
  /// The action may be in the order, or come to be. So it is with a call that never returned.
  case unknown
}

/// What a read promises of the state that it returns.
public enum Claim: String, Sendable, CaseIterable {
  /// It is one of the states of the order.
  case committed
  /// It is no older than what its writer was told before it.
  case ownWrites
  /// It is no older than what anybody was told before it began.
  case linearizable
}
