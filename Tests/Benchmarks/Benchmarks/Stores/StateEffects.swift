import Benchmark
import Puredux

private enum Trace {
  @TaskLocal static var id = 0
}

private struct Job: Identifiable, Equatable, Sendable {
  let id: Int
  var step = 0
}

private struct Jobs: Sendable {
  var all: [Job]
  var commits = 0
}

private enum JobsAction: Sendable { case come, go, other }

private let jobs = 10_000

private func makeJobs(_ effects: StateEffect<Jobs, JobsAction>) -> RootStore<Jobs, JobsAction> {
  RootStore(
    initialState: Jobs(all: (0..<jobs).map { Job(id: $0) }), interceptors: .effects(ofState: effects)
  ) { state, action in
    state.commits &+= 1
    switch action {
    case .come: state.all.append(Job(id: -1))
    case .go: state.all.removeLast()
    case .other: break
    }
  }
}

private func dispatchAll<State: Sendable, Action: Sendable>(
  _ store: Store<State, Action>, _ count: Int, _ action: (Int) -> Action
) async throws {
  for number in 1..<count { store.dispatch(action(number)) }
  try await store.send(action(count))
}

/// The cost of effects of the state, and of carried values.
func stateEffects() {
  let actions = 200_000
  let plain = makeRoot()
  let watched = makeRoot()
  watched.subscribe(effect: .while({ $0.count < 0 }) { .run { _ in } })
  compare(
    Line(name: "an effect of the state that is none", beside: "a root store's commit"), operations: actions
  ) {
    try await dispatchAll(watched.store(), actions) { .add($0) }
  } theirs: {
    try await dispatchAll(plain.store(), actions) { .add($0) }
  }

  // Most jobs have no effect: this measures the comparison, and the one effect that comes and goes.
  let busy = makeJobs(.forEach(\.all) { job in job.id < 0 ? .run { _ in } : nil })
  func beside(_ name: String, _ action: @escaping @Sendable (Int) -> JobsAction) {
    let commits = 200
    compare(Line(name: name, beside: "comparing them by hand"), operations: commits) {
      try await dispatchAll(busy.store(), commits, action)
    } theirs: {
      let elements = (0..<jobs).map { Job(id: $0) }
      var others = elements
      others.append(Job(id: -1))
      for number in 0..<commits {
        others[jobs].step = number
        blackHole(zip(elements, others).allSatisfy { $0 == $1 })
      }
    }
  }
  beside("of 10,000 elements none changes, a commit") { _ in .other }
  beside("of 10,000 elements one comes or goes, a commit") { $0.isMultiple(of: 2) ? .go : .come }

  let carrying = RootStore<Board, Action>(
    initialState: Board(), options: StoreOptions(carrying: .values(of: Trace.$id)), reducer: reduce)
  compare(Line(name: "carrying a task-local value, dispatch", beside: "not carrying"), operations: actions) {
    try await Trace.$id.withValue(1) { try await dispatchAll(carrying.store(), actions) { .add($0) } }
  } theirs: {
    try await Trace.$id.withValue(1) { try await dispatchAll(plain.store(), actions) { .add($0) } }
  }
  compare(Line(name: "carrying a task-local value, send", beside: "not carrying"), operations: actions) {
    for number in 0..<actions { try await carrying.store().send(.add(number)) }
  } theirs: {
    for number in 0..<actions { try await plain.store().send(.add(number)) }
  }
}
