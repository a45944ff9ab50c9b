import Puredux
import PureduxLogTesting
import Testing

@testable import PureduxLog

/// An operator's requests to a store that follows a log.
@Suite(.timeLimit(.minutes(15))) struct SnapshotNowTests {
  @Test(
    "a snapshot is saved on request, and the log truncated behind it, both with their position",
    arguments: LogPlace.allCases)
  func both(place: LogPlace) async throws {
    try await place.withLog { log in
      let store = try await ledger(log, options: .once)
      await #expect(throws: LogError.refused("There is nothing in the log.")) { try await store.saveSnapshot() }
      await #expect(throws: LogError.refused("There is no snapshot.")) { try await store.truncateLog() }
      for action in ["a", "b", "c"] { try await store.send(action) }
      #expect(try await store.saveSnapshot() == 3)
      #expect(try await store.saveSnapshot() == 3)
      #expect(try await log.snapshots?.newest()?.position == 3)
      try await store.send("d")
      #expect(try await store.truncateLog() == 3)
      await store.shutdown()
      await #expect(throws: StoreError.terminated) { try await store.saveSnapshot() }
      let again = try await ledger(log, options: .once)
      #expect(await again.state.entries == ["a", "b", "c", "d"])
      await again.shutdown()
      if place == .memory {
        var options = LogOptions.once
        options.ignoresSnapshots = true
        await #expect(throws: LogError.truncated(first: 4)) { try await ledger(log, options: options) }
      }
    }
  }

  @Test("a version deployed after a snapshot reduces nothing again", arguments: LogPlace.allCases)
  func deployed(place: LogPlace) async throws {
    try await place.withLog { log in
      let before = try await ledger(log, options: .once)
      for action in ["a", "b"] { try await before.send(action) }
      try await before.saveSnapshot()
      await before.shutdown()
      let after = try await LedgerStore(following: log, initialState: Ledger(), options: FollowingOptions(log: .once)) {
        $0.entries.append("new " + $1)
      }
      try await after.send("c")
      #expect(await after.state.entries == ["a", "b", "new c"])
      await after.shutdown()
    }
  }

  @Test("a store that is opened without snapshots puts none in place of a newer one", arguments: LogPlace.allCases)
  func newerStays(place: LogPlace) async throws {
    try await place.withLog { log in
      let store = try await ledger(log, options: .once)
      for action in ["a", "b", "c", "d"] { try await store.send(action) }
      let snapshots = try #require(log.snapshots)
      // A store would do this that has missed the others' snapshots and truncations.
      let before = LogSnapshot(position: 2, bytes: [9])
      try await store.saveSnapshot()
      try await store.truncateLog()
      try await snapshots.replace(with: before)
      #expect(try await snapshots.newest()?.position == 4)
      try await store.send("e")
      await store.shutdown()
      #expect(try await ledger(log, options: .once).state.entries == ["a", "b", "c", "d", "e"])
    }
  }

  @Test("a request without a log, coding or snapshots, or to a stopped store, fails with the reason")
  func refused() async throws {
    let plain = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    await #expect(throws: LogError.refused("The store follows no log.")) { try await plain.saveSnapshot() }
    await #expect(throws: LogError.refused("The store follows no log.")) { try await plain.truncateLog() }
    let log = MemoryLog()
    let stateless = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(), codings: LogCodings(actions: .json(), states: nil),
      options: FollowingOptions(log: .once)
    ) { $0.entries.append($1) }
    let text = "The store has no coding for its states."
    await #expect(throws: LogError.refused(text)) { try await stateless.saveSnapshot() }
    await #expect(throws: LogError.refused(text)) { try await stateless.truncateLog() }
    log.append([1, 2, 3]) { _ in }
    for await phase in stateless.logPhases() { if case .stopped = phase { break } }
    var options = LogOptions.once
    options.opensWhereStopped = true
    let stopped = try await ledger(log, options: options)
    let stop = StoreError.stopped(.undecodable(position: 1))
    await #expect(throws: stop) { try await stopped.saveSnapshot() }
    await #expect(throws: stop) { try await stopped.truncateLog() }
    #expect(try await log.newest() == nil)
  }

  @Test("a state that cannot be encoded has no snapshot, and nothing is truncated")
  func unencodable() async throws {
    let log = MemoryLog()
    let store = try await RootStore<Double, Double>(
      following: log, initialState: 0, options: FollowingOptions(log: .once)
    ) { $0 /= $1 }
    try await store.send(0)
    do {
      try await store.saveSnapshot()
      Issue.record("It was saved.")
    } catch LogError.refused(let text) {
      #expect(text.hasPrefix("The state cannot be encoded"))
    }
    await #expect(throws: LogError.refused("There is no snapshot.")) { try await store.truncateLog() }
    await store.shutdown()
  }
}
