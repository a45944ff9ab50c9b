import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Synchronization
import Testing

@testable import PureduxLog

/// Stores that detect a changed past by the fingerprint of their states, or report that they have none (G11).
@Suite(.timeLimit(.minutes(15))) struct FingerprintTests {
  /// A sum, and additional contents to enlarge the state.
  struct Total: Codable, Sendable {
    var sum = 0
    var names: Set<String> = []
    var rest: [Int] = []
  }

  private static func open(
    _ log: any OrderedLog, _ fingerprint: StateFingerprint<Total>?, factor: Int = 1, rest: Int = 0,
    options: LogOptions = .once
  ) async throws -> RootStore<Total, Int> {
    try await RootStore(
      following: log, initialState: Total(rest: Array(0..<rest)),
      options: FollowingOptions(log: options, fingerprint: fingerprint)
    ) {
      $0.sum += $1 * factor
      $0.names.insert("name \($1 % 100)")
    }
  }

  /// How the process that wrote the log ends.
  enum End: CaseIterable, Sendable {
    case shutdown
    case crash
  }

  @Test(
    "a changed reducer does not change acknowledged results: the next start stops",
    arguments: End.allCases, [0, 10_000])
  func changed(end: End, rest: Int) async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let store = try await Self.open(log, .encoded, rest: rest)
    try await store.send(5)
    switch end {
    case .shutdown: await store.shutdown()
    case .crash:
      // The next entry attests the state after the previous one.
      try await store.send(0)
      await log.kill(store)
    }
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) {
      try await Self.open(memory, .encoded, factor: 10, rest: rest)
    }
    // The unchanged program continues.
    let again = try await Self.open(memory, .encoded, rest: rest)
    #expect(await again.state.sum == 5)
    await again.shutdown()
  }

  /// A state type of this test only, because a report comes once per type.
  private struct Unchosen: Codable, Sendable { var sum = 0 }

  @Test("a missing choice is reported once for each type of state, with the line to write")
  func unchosen() async throws {
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let log = MemoryLog()
    func open(factor: Int, _ fingerprint: StateFingerprint<Unchosen>? = nil) async throws -> RootStore<Unchosen, Int> {
      try await RootStore(
        following: log, initialState: Unchosen(), options: FollowingOptions(log: options, fingerprint: fingerprint)
      ) { $0.sum += $1 * factor }
    }
    await (try open(factor: 1, .unchecked)).shutdown()
    #expect(told.all == [])
    let store = try await open(factor: 1)
    try await store.send(5)
    await store.shutdown()
    #expect(told.all == [.fingerprintMissing(key: nil, state: "Unchosen", isEncodable: true)])
    #expect(told.all[0].description.contains("`options: FollowingOptions(fingerprint: .encoded)`"))
    // The change that the report warns of goes undetected.
    let changed = try await open(factor: 10)
    #expect(await changed.state.sum == 50)
    await changed.shutdown()
    #expect(told.all.count == 1)
    // A fingerprint can be chosen later.
    await (try open(factor: 10, .encoded)).shutdown()
    await #expect(throws: StoreError.self) { try await open(factor: 1, .encoded) }
  }

  @Test("a state that is not encodable is reported with the other line")
  func notEncodable() {
    let report = LogReport.fingerprintMissing(key: "boards/17", state: "Board", isEncodable: false)
    #expect(report.description.contains("FollowingOptions(fingerprint: .hashed { … })"))
    #expect(report.description.contains("\"boards/17\""))
  }

  @Test("sets differ in nothing between replicas, also of several processes, and are compared all the same")
  func replicas() async throws {
    let log = MemoryLog()
    let first = try await Self.open(log, .encoded)
    let second = try await Self.open(UnreliableLog(log, seed: 7), .encoded, options: .quick)
    for number in 0..<300 {
      try await first.send(number)
      if number % 3 == 0 { second.dispatch(number) }
    }
    for store in [first, second] {
      #expect(await store.state(where: { $0.sum == 44_850 + 14_850 }).names.count == 100)
    }
    for store in [first, second] { await store.shutdown() }
    let third = try await Self.open(log, .encoded)
    #expect(await third.state.sum == 44_850 + 14_850)
    await third.shutdown()
    await #expect(throws: StoreError.self) { try await Self.open(log, .encoded, factor: 2) }
  }

  @Test(
    "a replica with another reducer stops while the others run, also if the state is large", arguments: [0, 10_000])
  func besideEachOther(rest: Int) async throws {
    let log = MemoryLog()
    let first = try await Self.open(log, .encoded, rest: rest)
    let second = try await Self.open(log, .encoded, factor: 2, rest: rest)
    for _ in 0..<3 { try await first.send(1) }
    for await phase in second.logPhases() { if case .stopped = phase { break } }
    #expect(await second.statistics.log?.phase == .stopped(.diverged(position: 1)))
    #expect(await first.statistics.log?.phase == .following)
    await second.shutdown()
    await first.shutdown()
  }

  @Test("an entry carries the last hashed state, even if its store has applied more entries since")
  func carried() async throws {
    let log = MemoryLog()
    var options = LogOptions.once
    options.actionsPerEntry = 1
    let dying = MortalLog(log)
    let store = try await Self.open(dying, .encoded, rest: 1000, options: options)
    for number in 1...200 { store.dispatch(number) }
    #expect(await store.state.sum == 20_100)
    await dying.kill(store)
    await #expect(throws: StoreError.self) { try await Self.open(log, .encoded, factor: 2, rest: 1000) }
    await (try Self.open(log, .encoded, rest: 1000)).shutdown()
  }

  @Test("both sorts of hashes, and a raised number, are not compared with each other")
  func otherFunction() async throws {
    let log = MemoryLog()
    let store = try await Self.open(log, .hashed { UInt64($0.sum) })
    for number in 1...3 { try await store.send(number) }
    await store.shutdown()
    let second = try await Self.open(log, .encoded)
    try await second.send(4)
    await second.shutdown()
    await #expect(throws: StoreError.self) { try await Self.open(log, .encoded, factor: 2) }
    await #expect(throws: StoreError.self) { try await Self.open(log, .hashed { UInt64($0.sum) }, factor: 2) }
    var options = LogOptions.once
    options.fingerprintVersion = 2
    let changed = try await Self.open(log, .encoded, factor: 2, options: options)
    #expect(await changed.state.sum == 20)
    await changed.shutdown()
  }

  /// Counts its encodings.
  private struct Counting: Codable, Sendable {
    static let count = Atomic<Int>(0)
    var sum = 0
    var rest = Array(0..<3200)

    private enum CodingKeys: CodingKey { case sum, rest }

    init() {}
    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      sum = try container.decode(Int.self, forKey: .sum)
      rest = try container.decode([Int].self, forKey: .rest)
    }
    func encode(to encoder: any Encoder) throws {
      Counting.count.add(1, ordering: .relaxed)
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(sum, forKey: .sum)
      try container.encode(rest, forKey: .rest)
    }
  }

  @Test("a large state is hashed once for as many actions as make up for it")
  func sampled() async throws {
    let log = MemoryLog()
    var options = LogOptions.once
    options.snapshotBytes = nil
    func open() async throws -> RootStore<Counting, Int> {
      try await RootStore(
        following: log, initialState: Counting(), options: FollowingOptions(log: options, fingerprint: .encoded)
      ) { $0.sum += $1 }
    }
    let store = try await open()
    for number in 0..<1024 { try await store.send(number) }
    // The first state, every 128th and each power of two, and the last.
    #expect(Counting.count.load(ordering: .relaxed) <= 1 + 8 + 11)
    await store.shutdown()
    #expect(Counting.count.load(ordering: .relaxed) <= 1 + 8 + 11 + 1)
    await (try open()).shutdown()
    #expect(Counting.count.load(ordering: .relaxed) <= 2 * (1 + 8 + 11 + 1))
  }

  @Test("a replica that samples less often samples at positions where all others do")
  func sampling() {
    for (small, large) in [(1, 33), (33, 64), (100, 1000), (31, 1 << 20)] {
      var due: [Set<UInt64>] = []
      for size in [small, large] {
        var (sampling, found) = (FingerprintSampling(commits: 0), Set<UInt64>())
        sampling.hashed(size: size)
        for commits in UInt64(1)...5000 where sampling.advance(to: commits) == .due { found.insert(commits) }
        #expect(sampling.advance(to: 5000) == .unchanged)
        #expect(found.count <= 5000 * 32 / size + 13 + 1 || size <= 32)
        due.append(found)
      }
      #expect(due[1].isSubset(of: due[0]) && due[1].isSuperset(of: [1, 2, 4, 8, 4096]))
    }
    var sampling = FingerprintSampling(commits: 0)
    sampling.hashed(size: 32)
    #expect((1...100).allSatisfy { sampling.advance(to: $0) == .due })
  }

  /// Throws while it is encoded, from a certain sum on.
  private struct Throwing: Codable, Sendable {
    struct Failure: Error {}
    var sum = 0

    init() {}
    init(from decoder: any Decoder) throws { sum = try decoder.singleValueContainer().decode(Int.self) }
    func encode(to encoder: any Encoder) throws {
      if sum > 1 { throw Failure() }
      var container = encoder.singleValueContainer()
      try container.encode(sum)
    }
  }

  @Test("a state that throws while it is encoded is reported once, and the store continues")
  func throwing() async throws {
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let log = MemoryLog()
    func open() async throws -> RootStore<Throwing, Int> {
      try await RootStore(
        following: log, initialState: Throwing(), options: FollowingOptions(log: options, fingerprint: .encoded)
      ) { $0.sum += $1 }
    }
    let store = try await open()
    for _ in 0..<5 { try await store.send(1) }
    await store.shutdown()
    let report = LogReport.fingerprintFails(key: nil, "Failure()")
    #expect(told.all == [report])
    #expect(report.description.contains("cannot be encoded for its fingerprint"))
    let again = try await open()
    #expect(await again.state.sum == 5)
    await again.shutdown()
    #expect(told.all == [report, report])
  }
}
