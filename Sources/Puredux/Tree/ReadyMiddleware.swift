extension Middleware {
  /// Rejects the actions for which the closure returns a reason.
  ///
  ///     .guarding { action, room in
  ///       if case .say = action, room.isClosed { "The room is closed." } else { nil }
  ///     }
  ///
  /// In a root store that follows a log, `atAdmission: true` calls the closure twice (G13). At admission, it keeps
  /// refused actions out of the log. At the commit, on every replica, it makes the rule hold between simultaneous
  /// actions. Both calls see the same `LogRules.current`. The closure must be a function of state and action.
  ///
  /// - Parameters:
  ///   - atAdmission: Whether the closure is also called before the log.
  ///   - reasonAgainst: Returns the reason to stop the action; nil lets it pass.
  @inlinable public static func guarding(
    atAdmission: Bool = false,
    _ reasonAgainst: @escaping @Sendable (_ action: Action, _ state: State) -> RejectionReason?
  ) -> Middleware {
    let guarding = Middleware { action, context, next in
      if let reason = reasonAgainst(action, context.state) { return context.reject(reason) }
      next(action)
    }
    return atAdmission ? guarding.alsoAsAdmission : guarding
  }

  /// Reports how long each action took, with the inner middleware, the reducers and publishing, except in replay.
  @inlinable public static func timing(
    clock: some Clock<Duration> = ContinuousClock(),
    _ report: @escaping @Sendable (_ action: Action, _ taken: Duration) -> Void
  ) -> Middleware {
    Middleware { action, context, next in
      if context.isReplay { return next(action) }
      let taken = clock.measure { next(action) }
      report(action, taken)
    }
  }

  /// Reports each action, its changes and how long it took, except in replay.
  ///
  ///     .logging { print($0.action, $0.changes, $0.taken) }
  ///
  /// Holds the state before the action until the report, so the reducers copy the collections that they change.
  /// Computes the changes only on demand.
  @inlinable public static func logging(
    clock: some Clock<Duration> = ContinuousClock(), _ log: @escaping @Sendable (ActionLog<State, Action>) -> Void
  ) -> Middleware {
    Middleware { action, context, next in
      if context.isReplay { return next(action) }
      let before = context.state
      let taken = clock.measure { next(action) }
      log(
        ActionLog(
          action: action, store: context.store, isCommitted: context.isCommitted, before: before, after: context.state,
          taken: taken))
    }
  }
}

/// A report of `Middleware.logging`.
public struct ActionLog<State: Sendable, Action: Sendable>: Sendable {
  /// The action, as the logging middleware received it.
  public let action: Action
  /// The store that the action was given to.
  public let store: StoreID
  /// False if other middleware stopped the action.
  public let isCommitted: Bool
  /// The state before the action.
  public let before: State
  /// The state after the action: unchanged if it was stopped.
  public let after: State
  /// The time of the inner middleware, reducers and publication.
  public let taken: Duration

  @inlinable init(action: Action, store: StoreID, isCommitted: Bool, before: State, after: State, taken: Duration) {
    self.action = action
    self.store = store
    self.isCommitted = isCommitted
    self.before = before
    self.after = after
    self.taken = taken
  }

  /// The changed parts of the state, found by reflection, with their paths, such as `cards[2].text`.
  public var changes: [StateChange] { StateChange.all(from: before, to: after) }
}

/// A part of a state that has changed.
public struct StateChange: Sendable, Equatable, CustomStringConvertible {
  /// Its location in the state; empty for the state as a whole.
  public let path: String
  /// The result of `String(reflecting:)`; nil if the part was added.
  public let before: String?
  /// Nil if the part was removed.
  public let after: String?

  public var description: String {
    "\(path.isEmpty ? "state" : path): \(before ?? "nothing") -> \(after ?? "nothing")"
  }

  /// Descends into structures, tuples and arrays; other values differ if their descriptions do.
  static func all(from before: Any, to after: Any) -> [StateChange] {
    var changes: [StateChange] = []
    collect(from: before, to: after, path: "", into: &changes)
    return changes
  }

  private static func collect(from before: Any, to after: Any, path: String, into changes: inout [StateChange]) {
    let (old, new) = (Mirror(reflecting: before), Mirror(reflecting: after))
    let style = old.displayStyle
    guard style == new.displayStyle, style == .struct || style == .tuple || style == .collection, !old.children.isEmpty,
      !new.children.isEmpty
    else {
      let (shownBefore, shownAfter) = (String(reflecting: before), String(reflecting: after))
      if shownBefore != shownAfter {
        changes.append(StateChange(path: path, before: shownBefore, after: shownAfter))
      }
      return
    }
    let (oldChildren, newChildren) = (old.children.makeIterator(), new.children.makeIterator())
    var index = 0
    while true {
      let (oldChild, newChild) = (oldChildren.next(), newChildren.next())
      guard let label = oldChild ?? newChild else { return }
      let place = style == .collection ? "[\(index)]" : ((path.isEmpty ? "" : ".") + (label.label ?? "\(index)"))
      index += 1
      switch (oldChild, newChild) {
      case (let oldChild?, let newChild?):
        collect(from: oldChild.value, to: newChild.value, path: path + place, into: &changes)
      case (let oldChild, let newChild):
        changes.append(
          StateChange(
            path: path + place, before: oldChild.map { String(reflecting: $0.value) },
            after: newChild.map { String(reflecting: $0.value) }))
      }
    }
  }
}
