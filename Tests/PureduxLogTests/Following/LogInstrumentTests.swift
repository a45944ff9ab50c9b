import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// Records an instrument's log events as text.
private struct Notes: StoreInstrument {
  let notes = Record<String>()

  func opened(_ store: InstrumentedStore) { notes.add("opened \(store.name)") }
  func closed(_ store: InstrumentedStore) { notes.add("closed \(store.name)") }

  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    notes.add("committed \(action)\(commit.isReplay ? ", again" : "")")
  }

  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    notes.add("rejected \(action): \(reason.map { "\($0)" } ?? "no reason")")
  }

  func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
    switch event {
    case .entered(let phase): notes.add("\(phase)")
    case .replayed(let positions, _): notes.add("replayed \(positions)")
    case .appended(let actions, _, _, let error): notes.add("appended \(actions)\(error == nil ? "" : ", failed")")
    case .savedSnapshot(let position, _, _, let error):
      notes.add("snapshot of \(position)\(error == nil ? "" : ", failed")")
    }
  }
}

@Suite(.timeLimit(.minutes(15))) struct LogInstrumentTests {
  private func store(_ log: MemoryLog, _ instrument: Notes) async throws -> RootStore<Int, Int> {
    try await RootStore(
      following: log, initialState: 0,
      options: FollowingOptions(store: StoreOptions(name: "sum", instrument: instrument), fingerprint: .unchecked),
      middleware: [
        .admission { action, context, next in
          if action == 0 { context.reject("Nothing to add.") } else { next(action) }
        },
        .guarding { action, state in action == 7 ? "Not seven." : nil },
      ]
    ) { $0 += $1 }
  }

  @Test func `it is told of replay, entries, and rejections before the log and at the commit`() async throws {
    let log = MemoryLog()
    let first = Notes()
    do {
      let store = try await store(log, first)
      try await store.send(1)
      await #expect(throws: StoreError.rejected(reason: "Nothing to add.")) { try await store.send(0) }
      await #expect(throws: StoreError.rejected(reason: "Not seven.")) { try await store.send(7) }
      await store.shutdown()
    }
    // An entry may be committed before the log acknowledges it.
    let told = first.notes.all.filter { !$0.hasPrefix("appended") && !$0.hasPrefix("recovering") }
    #expect(
      told == [
        "opened sum", "following", "replayed 0", "committed 1", "rejected 0: Nothing to add.", "rejected 7: Not seven.",
        "ended", "closed sum",
      ])
    #expect(first.notes.all.filter { $0 == "appended 1" }.count == 2)

    let second = Notes()
    let store = try await store(log, second)
    #expect(
      second.notes.all.filter { !$0.hasPrefix("recovering") }.prefix(4).sorted() == [
        "committed 1, again", "following", "opened sum", "rejected 7: Not seven.",
      ])
    #expect(second.notes.all.contains("replayed 2"))
    await store.shutdown()
  }

  @Test func `it is told of all snapshots, automatic or requested`() async throws {
    let log = MemoryLog()
    let instrument = Notes()
    func open(_ change: (inout LogOptions) -> Void) async throws -> RootStore<Int, Int> {
      var options = FollowingOptions<Int, Int>(
        store: StoreOptions(name: "sum", instrument: instrument), fingerprint: .unchecked)
      change(&options.log)
      return try await RootStore(following: log, initialState: 0, options: options) { $0 += $1 }
    }
    func snapshots() -> [String] { instrument.notes.all.filter { $0.hasPrefix("snapshot") } }
    var store = try await open { _ in }
    try await store.send(1)
    try await store.saveSnapshot()
    #expect(snapshots() == ["snapshot of 1"])
    await store.shutdown()
    store = try await open { $0.ignoresSnapshots = true }
    #expect(snapshots().dropFirst() == ["snapshot of 1"])
    try await store.send(1)
    try await store.eraseLog()
    #expect(snapshots().dropFirst(2) == ["snapshot of 2"])
    await store.shutdown()
  }

  @Test func `another replica's action has no waiting time here`() async throws {
    struct Waits: StoreInstrument {
      let notes = Record<String>()
      var timesCommits: Bool { true }
      func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
        notes.add("\(action): \(commit.waited == nil ? "elsewhere" : "here")")
      }
    }
    let log = MemoryLog()
    let waits = Waits()
    let options = FollowingOptions<Int, Int>(store: StoreOptions(instrument: waits), fingerprint: .unchecked)
    let store = try await RootStore<Int, Int>(following: log, initialState: 0, options: options) { $0 += $1 }
    let other = try await RootStore<Int, Int>(
      following: log, initialState: 0, options: FollowingOptions(fingerprint: .unchecked)
    ) { $0 += $1 }
    try await other.send(1)
    try await store.send(2)
    #expect(waits.notes.all == ["1: elsewhere", "2: here"])
    await store.shutdown()
    await other.shutdown()
  }
}
