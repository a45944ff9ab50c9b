/// As much of the last delivered state as is needed to compare the next one with it.
@usableFromInline struct StateMemory<State> {
  /// Whether a state equals the last one; false if there is none.
  @usableFromInline let equals: (State) -> Bool
  /// Makes a state the last one. If it has been compared, that comparison was the one right before this call.
  @usableFromInline let remember: (State) -> Void
  /// Forgets the last state.
  @usableFromInline let forget: () -> Void

  @inlinable
  init(equals: @escaping (State) -> Bool, remember: @escaping (State) -> Void, forget: @escaping () -> Void) {
    self.equals = equals
    self.remember = remember
    self.forget = forget
  }

  /// Remembers only whether there was a state.
  @inlinable static func constant(_ answer: Bool) -> StateMemory {
    var hasLast = false
    return StateMemory { _ in
      hasLast && answer
    } remember: { _ in
      hasLast = true
    } forget: {
      hasLast = false
    }
  }

  /// Remembers a value computed from the state, which is computed once per state.
  @inlinable static func value<Value>(
    _ value: @escaping (State) -> Value, areEqual: @escaping (Value, Value) -> Bool
  ) -> StateMemory {
    let memory = RememberedValue<Value>()
    return StateMemory { state in
      guard let previous = unsafe memory.last else { return false }
      let new = value(state)
      let isEqual = areEqual(previous, new)
      unsafe memory.compared = isEqual ? nil : new
      return isEqual
    } remember: { state in
      unsafe memory.last = memory.compared ?? value(state)
      unsafe memory.compared = nil
    } forget: {
      unsafe memory.last = nil
      unsafe memory.compared = nil
    }
  }
}

/// The values computed from the last state, and from the one that was compared with it.
@usableFromInline final class RememberedValue<Value> {
  // Without the run-time checks for overlapping accesses, which cost more than most comparisons.
  //
  // SAFETY: belongs to one memory, which is used in one isolation. An access copies the value out or sets it; a release
  // caused by setting it may run the user's code, which has no way to reach this memory.
  @usableFromInline @exclusivity(unchecked) var last: Value?
  @usableFromInline @exclusivity(unchecked) var compared: Value?

  @usableFromInline init() {}
}
