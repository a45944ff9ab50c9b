/// The part of the last delivered state that the next comparison needs.
@usableFromInline struct StateMemory<State> {
  @usableFromInline let equals: (State) -> Bool
  /// Replaces the last state. If this state has been compared, that was the call right before.
  @usableFromInline let remember: (State) -> Void
  @usableFromInline let forget: () -> Void

  @inlinable
  init(equals: @escaping (State) -> Bool, remember: @escaping (State) -> Void, forget: @escaping () -> Void) {
    self.equals = equals
    self.remember = remember
    self.forget = forget
  }

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

  /// Stores a value computed from the state, once per state.
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

@usableFromInline final class RememberedValue<Value> {
  // There are no run-time checks for overlapping accesses, as these cost more than most comparisons.
  //
  // SAFETY: the object belongs to one memory, which is used in one isolation. An access copies the value out or sets
  // it. A release caused by setting it may run a user's code, which has no way to reach this memory.
  @usableFromInline @exclusivity(unchecked) var last: Value?
  @usableFromInline @exclusivity(unchecked) var compared: Value?

  @usableFromInline init() {}
}
