import Benchmark
import Puredux

private struct Devices: Sendable {
  var byID: Keyed<Int, Int>
}

private func makeDevices() -> RootStore<Devices, Int> {
  RootStore(initialState: Devices(byID: Keyed((0..<10_000).map { ($0, 0) }))) { state, id in state.byID[id]? &+= 1 }
}

/// The time to change one of 10,000 values if `followed` of them have a follower each.
///
/// - Parameter byChildren: Whether each follower follows a child store of that value.
private func change(followed: Int, byChildren: Bool = false) async throws -> Double {
  let root = makeDevices()
  let readers = (0..<followed).map { id in
    if byChildren {
      let child = root.part(\.byID, at: id).childStore(initialState: 0) { (_: inout Int, _) in }
      let states: StateSequence<(Int?, Int)> = child.states()
      return Task {
        for await _ in states {}
        withExtendedLifetime(child) {}
      }
    }
    let states: StateSequence<Int?> = root.scope(to: \.byID, at: id).states()
    return Task { for await _ in states {} }
  }
  try await root.send(0)
  @Sendable func changeAll() async throws {
    // This key is followed in both cases.
    for _ in 0..<20_000 { try await root.send(0) }
  }
  try await changeAll()
  let taken = try await nanoseconds(20_000, changeAll)
  await root.shutdown()
  for reader in readers { await reader.value }
  return taken
}

/// The cost of followers of keys that do not change.
func keys() {
  measure(Line(name: "one of 10,000 keys changes, each followed", beside: "one followed", bound: 3), iterations: 5) {
    (try await change(followed: 10_000), try await change(followed: 1))
  }
  measure(Line(name: "the same, each with a child store", beside: "one followed", bound: 3), iterations: 5) {
    (try await change(followed: 10_000, byChildren: true), try await change(followed: 1, byChildren: true))
  }
  measure(Line(name: "a commit beside 1000 children of other parts, each", beside: "40 ns", bound: 1)) {
    let root = makeRoot(Board(items: Array(repeating: 0, count: 1_000)))
    let children = (0..<1_000).map { index in
      root.part { $0.items[index] }.childStore(initialState: 0) { (_: inout Int, _) in }
    }
    let readers = children.map { child in
      let states: StateSequence<(Int, Int)> = child.states()
      return Task { for await _ in states {} }
    }
    let store = root.store()
    try await store.send(.add(1))
    let taken = try await nanoseconds(200 * 1_000) {
      for number in 0..<200 { try await store.send(.set(number, number + 1)) }
    }
    await root.shutdown()
    for reader in readers { await reader.value }
    withExtendedLifetime(children) {}
    return (taken, 40)
  }
  let (watched, plain) = (makeDevices(), makeDevices())
  watched.subscribe(effect: .forEach(\.byID) { _, _ in nil })
  compare(Line(name: "one of 10,000 keys with effects changes", beside: "without effects"), operations: 20_000) {
    for _ in 0..<20_000 { try await watched.send(0) }
  } theirs: {
    for _ in 0..<20_000 { try await plain.send(0) }
  }
}
