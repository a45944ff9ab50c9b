import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct FollowingTests {
  enum CounterAction: Codable, Equatable { case add(Int), note(String) }

  struct Counter: Codable, Equatable, Sendable {
    var total = 0
    var notes: [String] = []

    mutating func apply(_ action: CounterAction) {
      switch action {
      case .add(let number): total += number
      case .note(let text): notes.append(text)
      }
    }
  }

  func follow(_ log: any OrderedLog, options: LogOptions = LogOptions()) async throws -> RootStore<
    Counter, CounterAction
  > {
    try await RootStore(
      following: log, initialState: Counter(), options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      $0.apply($1)
    }
  }

  @Test("`send` returns after the commit, and the action is read back after a restart")
  func restart() async throws {
    let log = MemoryLog()
    let store = try await follow(log)
    let total = try await store.send(.add(2)) { $0.total }
    #expect(total == 2)
    store.dispatch(.add(3))
    #expect(await store.state.total == 5)
    await store.shutdown()
    let again = try await follow(log)
    #expect(await again.state.total == 5)
  }

  @Test("several reducers run in order on each action, and are steps of a history")
  func reducers() async throws {
    let add = Reducer<Counter, CounterAction>("add") { counter, action in
      if case .add(let number) = action { counter.total += number }
    }
    let note = Reducer<Counter, CounterAction>("note") { counter, action in counter.notes.append("\(counter.total)") }
    let log = MemoryLog()
    let history = History<Counter, CounterAction>(limit: 10)
    let store = try await RootStore(
      following: log, initialState: Counter(), reducers: [add, note],
      options: FollowingOptions(fingerprint: .unchecked, history: history))
    try await store.send(.add(2))
    #expect(await store.state == Counter(total: 2, notes: ["2"]))
    #expect(history.entries.map { $0.steps.map(\.reducer) } == [["add", "note"]])
    await store.shutdown()
    let again = try await RootStore(
      following: log, initialState: Counter(), reducers: [add, note],
      codings: LogCodings(actions: .json(), states: nil), options: FollowingOptions(fingerprint: .unchecked))
    #expect(await again.state == Counter(total: 2, notes: ["2"]))
  }

  @Test("two replicas have one order")
  func replicas() async throws {
    let log = MemoryLog()
    let (first, second) = (try await follow(log), try await follow(log))
    await withTaskGroup { tasks in
      for (name, store) in [("a", first), ("b", second)] {
        for writer in 0..<4 {
          tasks.addTask {
            for number in 0..<50 { try? await store.send(.note("\(name)\(writer)-\(number)")) }
          }
        }
      }
    }
    let one = await first.state { $0.notes.count == 400 }.notes
    let other = await second.state { $0.notes.count == 400 }.notes
    #expect(one == other)
    #expect(one.count == 400)
    #expect(Set(one).count == 400)
  }

  @Test("a child's action is reduced by its path on its own replica, and by the root on others")
  func child() async throws {
    let log = MemoryLog()
    let (here, there) = (try await follow(log), try await follow(log))
    let child = here.childStore(initialState: 0) { local, _ in local += 1 }
    try await child.send(.add(4))
    #expect(await child.state.1 == 1)
    #expect(await child.state.0.total == 4)
    for await state in there.states() where state.total == 4 { break }
  }
}
