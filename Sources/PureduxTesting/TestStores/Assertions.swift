import Puredux
public import Testing

extension TestStore where State: Equatable {
  /// Sends an action, and checks how its commits change the state: all of them together, if middleware passes several
  /// actions on.
  ///
  /// - Parameters:
  ///   - action: The action to send.
  ///   - sourceLocation: The place of issues.
  ///   - isolation: The caller's actor.
  ///   - change: Turns the state before the commit into the state after it. Without it, the commit must not change the
  ///     state; in a relaxed store, it may. In a relaxed store the closure gets the state *after* the commit, and must
  ///     leave it unchanged: assign (`$0.count = 1`), do not compute (`$0.count += 1`).
  public func send(
    _ action: Action, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ change: ((inout State) -> Void)? = nil
  ) async {
    guard let commit = await commit(action, at: sourceLocation) else { return }
    check(commit, change, at: sourceLocation)
  }

  fileprivate func check(
    _ commit: Commit, _ change: ((inout State) -> Void)?, at location: SourceLocation
  ) {
    var expected = commit.before
    switch strictness {
    case .strict: change?(&expected)
    case .relaxed:
      guard let change else { return }
      expected = commit.after
      change(&expected)
    }
    if expected == commit.after { return }
    Issue.record(
      "The state after \(show(commit.action)) is not as expected.",
      difference(expected: expected, actual: commit.after), at: location)
  }
}

extension TestStore where State: Equatable, Action: Equatable {
  /// Takes the next action that was not given by `send`, in commit order, and checks it and its commit's change of the
  /// state. It comes from an effect, from a child store or through `root`.
  public func receive(
    _ action: Action, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ change: ((inout State) -> Void)? = nil
  ) async {
    guard let (commit, matches) = await next(show(action), at: sourceLocation, matches: { $0 == action }) else {
      return
    }
    if !matches {
      Issue.record(
        "Received \(show(commit.action)), expected \(show(action)).",
        difference(expected: action, actual: commit.action), at: sourceLocation)
      return
    }
    check(commit, change, at: sourceLocation)
  }
}

extension TestStore where State: Equatable {
  /// Takes the next action that was not given by `send`, for actions that are not `Equatable`.
  ///
  /// - Returns: The action; nil if none comes.
  @discardableResult
  public func receive(
    where matches: (Action) -> Bool, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ change: ((inout State) -> Void)? = nil
  ) async -> Action? {
    await receive(where: matches, at: sourceLocation) { check($0, change, at: sourceLocation) }
  }
}

extension TestStore {
  /// Sends an action, and checks a condition of the state after its commit, for states that are not `Equatable`.
  /// Without a condition the state counts as not looked at.
  @_disfavoredOverload public func send(
    _ action: Action, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, satisfying condition: ((State) -> Bool)? = nil
  ) async {
    guard let commit = await commit(action, at: sourceLocation) else { return }
    check(commit, condition, at: sourceLocation)
  }

  /// Takes the next action that was not given by `send`, and checks a condition of the state after its commit, for
  /// states that are not `Equatable`.
  ///
  /// - Returns: The action; nil if none comes.
  @_disfavoredOverload @discardableResult
  public func receive(
    where matches: (Action) -> Bool, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, satisfying condition: ((State) -> Bool)? = nil
  ) async -> Action? {
    await receive(where: matches, at: sourceLocation) { check($0, condition, at: sourceLocation) }
  }

  private func receive(
    where matches: (Action) -> Bool, at location: SourceLocation, isolation: isolated (any Actor)? = #isolation,
    _ check: (Commit) -> Void
  ) async -> Action? {
    guard let (commit, isMatch) = await next("an action", at: location, matches: matches) else { return nil }
    if isMatch {
      check(commit)
    } else {
      Issue.record("Received \(show(commit.action)), which does not match.", [], at: location)
    }
    return commit.action
  }

  private func check(
    _ commit: Commit, _ condition: ((State) -> Bool)?, at location: SourceLocation
  ) {
    guard let condition else { return ledger.leaveUnseen(commit) }
    if condition(commit.after) { return }
    Issue.record(
      "The state after \(show(commit.action)) does not satisfy the condition.", [show(commit.after)], at: location)
  }
}

extension TestStore where State: Equatable {
  @available(
    *, unavailable, message: "This closure makes the expected state. A condition takes its label, `satisfying:`."
  )
  public func send(
    _ action: Action, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ condition: (State) -> Bool
  ) async {}

  @available(
    *, unavailable, message: "This closure makes the expected state. A condition takes its label, `satisfying:`."
  )
  public func receive(
    where matches: (Action) -> Bool, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ condition: (State) -> Bool
  ) async {}
}
