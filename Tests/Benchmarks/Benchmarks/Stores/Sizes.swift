import AllocationCount
import Benchmark
import Puredux

/// The time to change one element of a state of this size while subscribers keep up.
private func change(_ size: Int, subscribers: Int, inTable: Bool) async throws -> Double {
  let board =
    inTable
    ? Board(table: Dictionary(uniqueKeysWithValues: (0..<size).map { ($0, 0) }))
    : Board(items: Array(repeating: 0, count: size))
  let root = makeRoot(board)
  let store = root.store()
  let counts = (0..<subscribers).map { _ in root.scope { $0.count }.states() }
  let readers = counts.map { states in Task { for await _ in states {} } }
  try await store.send(.add(1))
  let count = subscribers > 10 ? 500 : 20_000
  @Sendable func changeAll() async throws {
    for number in 0..<count {
      // The same hundred elements in both sizes: this measures the store, not the memory, where the entries of a large
      // table are far apart.
      try await store.send(inTable ? .enter(number % 100, number) : .set(number % 100, number))
    }
  }
  // A first run allocates the memory.
  try await changeAll()
  let taken = try await nanoseconds(count, changeAll)
  await root.shutdown()
  for reader in readers { await reader.value }
  return taken
}

/// The bytes per object while `count` objects exist.
private func bytes<Thing>(_ count: Int, _ make: () -> Thing) -> Double {
  var things: [Thing] = []
  things.reserveCapacity(count)
  let before = heap_bytes_in_use()
  for _ in 0..<count { things.append(make()) }
  let during = heap_bytes_in_use()
  withExtendedLifetime(things) {}
  return (Double(during) - Double(before)) / Double(count)
}

/// The bytes per object that remain after `count` objects have ended.
private func left(of count: Int, _ makeAndEnd: () async throws -> Void) async throws -> Double {
  // Memory that is kept between runs has been there since the harness's warm-up.
  let before = heap_bytes_in_use()
  try await makeAndEnd()
  return max(Double(heap_bytes_in_use()) - Double(before), 0) / Double(count)
}

func sizes() {
  for inTable in [false, true] {
    let kind = inTable ? "a dictionary" : "an array"
    for subscribers in [0, 1, 100] {
      measure(
        Line(
          name: "one element of \(kind) of 1000000, \(subscribers) subscribers", beside: "of 1000", bound: 1.2),
        iterations: 5
      ) {
        (
          try await change(1_000_000, subscribers: subscribers, inTable: inTable),
          try await change(1_000, subscribers: subscribers, inTable: inTable)
        )
      }
    }
  }

  @Sendable func backlog(_ subscribers: Int) async throws -> Double {
    let root = makeRoot()
    let waiting = (0..<subscribers).map { _ in root.states() }
    try await root.send(.add(1))
    let before = heap_bytes_in_use()
    for number in 0..<10_000 { root.dispatch(.add(number)) }
    try await root.send(.add(0))
    let after = heap_bytes_in_use()
    withExtendedLifetime(waiting) {}
    return (Double(after) - Double(before)) / 10_000
  }
  for (count, bound) in [(100, nil), (1_000, 1.05)] as [(Int, Double?)] {
    measure(
      Line(name: "a backlog behind \(count), a state", beside: "behind one", bound: bound, unit: "bytes"), iterations: 3
    ) {
      (try await backlog(count), try await backlog(1))
    }
  }

  measure(Line(name: "an idle root store", beside: "720 bytes", bound: 1, unit: "bytes"), iterations: 3) {
    (bytes(100_000) { makeRoot() }, 720)
  }
  let parent = makeRoot()
  @Sendable func child() -> StateStore<(Board, Int), Action> { parent.childStore(initialState: 0) { _, _ in } }
  measure(Line(name: "an idle child store", beside: "640 bytes", bound: 1, unit: "bytes"), iterations: 3) {
    (bytes(10_000) { child() }, 640)
  }
  measure(Line(name: "a subscription", beside: "512 bytes", bound: 1, unit: "bytes"), iterations: 3) {
    _ = await parent.state
    let each = bytes(10_000) { parent.states() }
    try await parent.send(.add(1))
    return (each, 512)
  }
  measure(
    Line(name: "a subscription of a StateSequence", beside: "256 bytes", bound: 1, unit: "bytes"), iterations: 3
  ) {
    _ = await parent.state
    let each = bytes(10_000) { parent.states() as StateSequence }
    try await parent.send(.add(1))
    return (each, 256)
  }
  measure(Line(name: "left of 100000 root stores", beside: "one byte each", bound: 1, unit: "bytes"), iterations: 2) {
    let each = try await left(of: 100_000) {
      let roots = (0..<100_000).map { _ in makeRoot() }
      for root in roots { await root.shutdown() }
    }
    return (each, 1)
  }
  measure(
    Line(name: "left of 10000 children and subscriptions", beside: "one byte each", bound: 1, unit: "bytes"),
    iterations: 2
  ) {
    let each = try await left(of: 10_000) {
      let root = makeRoot()
      _ = (0..<10_000).map { _ in (root.childStore(initialState: 0) { _, _ in }, root.states()) }
      await root.shutdown()
    }
    return (each, 1)
  }
  compare(
    Line(name: "a subscription that comes and goes", beside: "a stream and its continuation", bound: 1),
    operations: 10_000
  ) {
    let sequences = (0..<10_000).map { _ in parent.states() as StateSequence }
    try await parent.send(.add(1))
    blackHole(sequences)
  } theirs: {
    let streams = (0..<10_000).map { _ in AsyncStream<Board>.makeStream() }
    for (_, continuation) in streams { continuation.yield(Board()) }
    blackHole(streams)
  }
  compare(
    Line(name: "making a root store and letting it go", beside: "an actor and a task", bound: 2), operations: 10_000
  ) {
    for _ in 0..<10_000 { _ = makeRoot() }
  } theirs: {
    for _ in 0..<10_000 {
      let plain = Plain()
      Task { await plain.send(.add(1)) }
    }
  }
  compare(
    Line(name: "making a child store and letting it go", beside: "an actor and a task", bound: 4), operations: 10_000
  ) {
    for _ in 0..<10_000 { _ = child() }
    try await parent.send(.add(1))
  } theirs: {
    for _ in 0..<10_000 {
      let plain = Plain()
      Task { await plain.send(.add(1)) }
    }
  }
}
