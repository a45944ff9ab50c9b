/// An event in a line of a history.
public enum Event: Equatable, Sendable {
  /// The first line of a file: its process and clock. Only times of the same clock are compared.
  case process(name: String, clock: String)
  /// A writer is about to give an action to the log. Calls are numbered within their file.
  case invocation(call: Int, writer: String, action: String, at: Int)
  /// A writer is about to read a state.
  case read(call: Int, writer: String, claim: Claim, at: Int)
  /// A call has returned, perhaps with a position and the hash of the state there.
  case response(call: Int, outcome: Outcome, position: Int?, hash: UInt64?, at: Int)
  /// A replica begins with the initial state (position 0) or a snapshot. Its later lines in this file are one
  /// incarnation.
  case incarnation(replica: String, after: Int, hash: UInt64, at: Int)
  /// A replica has applied the entry at a position. Its state has the hash then.
  case applied(replica: String, position: Int, actions: [String], hash: UInt64)
}

/// The outcome of a call, as its caller was told.
public enum Outcome: String, Sendable, CaseIterable {
  /// The action is in the order, once.
  case acknowledged
  /// The action is not in the order, and never will be. A read has shown nothing.
  case failed
  /// The action may be or come to be in the order. Calls that never returned count as unknown.
  case unknown
}

/// A read's promise about its state.
public enum Claim: String, Sendable, CaseIterable {
  /// The state is one of the order's.
  case committed
  /// The state is no older than earlier results of the same writer.
  case ownWrites
  /// The state is no older than any result before the read began.
  case linearizable
}
