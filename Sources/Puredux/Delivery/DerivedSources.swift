/// A part or a view of another source's state, worked out once a commit for all who watch it.
final class ScopeSource<Input: Sendable, State: Sendable>: DerivedSource {
  var outlet = Outlet<State>()
  var place: Int?
  let upstream: any StateSource<Input>
  private let transform: @Sendable (Input) -> State?

  init(upstream: any StateSource<Input>, transform: @escaping @Sendable (Input) -> State?) {
    self.upstream = upstream
    self.transform = transform
  }

  func receive(_ state: Input) {
    if let state = transform(state) { outlet.publish(state) }
  }

  func withState(_ body: (State) -> Void) {
    upstream.withState { state in
      if let state = transform(state) { body(state) }
    }
  }

  func end() { outlet.end() }
}

/// Another source's states without those that equal the one before, for one subscriber.
final class DuplicateFilter<State: Sendable>: DerivedSource {
  var outlet = Outlet<State>()
  var place: Int?
  let upstream: any StateSource<State>
  private let memory: any StateMemory<State>
  private var hasLast = false

  init(upstream: any StateSource<State>, equating: Equating<State>) {
    self.upstream = upstream
    memory = equating.makeMemory()
  }

  func receive(_ state: State) {
    if hasLast, memory.equals(state) { return }
    remember(state)
    outlet.publish(state)
  }

  /// Asked for the first element only, which is passed on in any case.
  func withState(_ body: (State) -> Void) {
    upstream.withState { state in
      remember(state)
      body(state)
    }
  }

  private func remember(_ state: State) {
    memory.remember(state)
    hasLast = true
  }

  func end() { outlet.end() }
}
