import Puredux
import PureduxTestSupport
import Testing

@testable import PureduxDirectory

/// Streams of one tree out of many.
@Suite(.timeLimit(.minutes(15))) struct StoreDirectoryStatesTests {
  typealias Directory = StoreDirectory<Int, Int, Int>
  struct Refused: Error {}

  func directory(countLimit: Int = .max, clock: any Clock<Duration> = ManualClock()) -> Directory {
    Directory(idleLimit: .seconds(10), countLimit: countLimit, clock: clock) { key in
      if key < 0 { throw Refused() }
      return RootStore(initialState: key) { $0 += $1 }
    }
  }

  /// How a stream ends.
  enum Ending: CaseIterable {
    case leftUnread, loopLeft, cancelled, cancelledAndHeld, storeEnded
  }

  @Test(arguments: Ending.allCases)
  func `a stream holds its store, and lets go of it however it ends`(ending: Ending) async throws {
    let clock = ManualClock()
    let directory = directory(clock: clock)
    var states: HeldStates<Int>? = try await directory.states(of: 1)
    let store = try await directory.withStore(1) { $0.store() }
    #expect(await directory.statistics()[1]?.subscriptions == 1)
    // Nothing idles, so nothing sleeps.
    await clock.untilAsleep(0)
    switch ending {
    case .leftUnread: states = nil
    case .loopLeft:
      try await store.send(1)
      for await state in try #require(states) where state == 2 { break }
      states = nil
    case .cancelled, .cancelledAndHeld:
      let began = Gate()
      let reading = Task { [states] in
        for await _ in try #require(states) { began.open() }
      }
      if ending == .cancelled { states = nil }
      await began.wait()
      reading.cancel()
      try await reading.value
    case .storeEnded:
      try await directory.withStore(1) { await $0.shutdown() }
      var read: [Int] = []
      for await state in try #require(states) { read.append(state) }
      #expect(read == [1])
    }
    if ending != .storeEnded {
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(9))
      #expect(await directory.keys == [1])
      clock.advance(by: .seconds(1))
      while await !directory.keys.isEmpty { await Task.yield() }
      await #expect(throws: StoreError.terminated) { try await store.state }
    }
    withExtendedLifetime(states) {}
    #expect(try await directory.withStore(1) { await $0.state } == 1)
    await directory.shutdown()
  }

  @Test func `it delivers the same states as the store's own sequences`() async throws {
    let directory = directory()
    let all = try await directory.states(of: 1)
    let newest = try await directory.states(of: 1, bufferingPolicy: .bufferingNewest(1))
    let halves = try await directory.states(of: 1, removeStateDuplicates: .equal { $0 / 2 })
    for _ in 0..<4 { try await directory.withStore(1) { try await $0.send(1) } }
    await directory.shutdown()
    #expect(await all.reduce(into: []) { $0.append($1) } == [1, 2, 3, 4, 5])
    #expect(await newest.reduce(into: []) { $0.append($1) } == [5])
    #expect(await halves.reduce(into: []) { $0.append($1) } == [1, 2, 4])
  }

  @Test func `an error of the store's maker is thrown before there is a stream`() async throws {
    let directory = directory()
    await #expect(throws: Refused.self) { try await directory.states(of: -1) }
    await directory.shutdown()
    await #expect(throws: StoreError.terminated) { try await directory.states(of: 1) }
  }

  @Test func `a stream holds its store beyond the count limit, and when nobody holds the directory`() async throws {
    var directory: Directory? = directory(countLimit: 1)
    let states = try await #require(directory).states(of: 1)
    for key in 2...9 { try await directory?.withStore(key) { _ in } }
    let store = try await #require(directory).withStore(1) { $0.store() }
    directory = nil
    try await store.send(1)
    var read: [Int] = []
    for await state in states {
      read.append(state)
      if state == 2 { break }
    }
    #expect(read == [1, 2])
  }

  @Test func `nothing of a store is left after its end, though the stream is held`() async throws {
    struct Holding: Sendable { let token: Token }
    var gone: Gate?
    let tokens = LockedValue<Token?>(Token())
    gone = tokens.withLock { $0?.gone }
    let directory = StoreDirectory<Int, Holding, Int>(clock: ManualClock()) { _ in
      let token = try #require(tokens.withLock { $0.take() })
      return RootStore(initialState: Holding(token: token)) { _, _ in }
    }
    let states = try await directory.states(of: 1)
    await directory.shutdown()
    for await _ in states {}
    await gone?.wait()
    withExtendedLifetime(states) {}
  }

  // MARK: A writer of a response

  /// As servers have it: not `Sendable`, passed in place, and written to from wherever it is.
  protocol Writer {
    mutating func write(_ text: String) async throws
    consuming func finish() async throws
  }

  final class Written {
    var all: [String] = []
  }

  struct TextWriter: Writer {
    let written = Written()
    let record: Record<String>

    mutating func write(_ text: String) async throws {
      written.all.append(text)
      record.add(text)
    }

    consuming func finish() async throws { record.add("end") }
  }

  /// As Hummingbird's.
  struct ResponseBody: Sendable {
    let write: @Sendable (consuming any Writer) async throws -> Void

    init(_ write: @escaping @Sendable (inout any Writer) async throws -> Void) {
      self.write = {
        var writer = $0
        try await write(&writer)
      }
    }

    func text() async throws -> [String] {
      let record = Record<String>()
      try await write(TextWriter(record: record))
      return record.all
    }
  }

  @Test func `the body of a response writes the states of its store`() async throws {
    let directory = directory()
    let states = try await directory.states(of: 1)
    try await directory.withStore(1) { try await $0.send(1) }
    let bodies = [
      ResponseBody { writer in
        for await state in states {
          try await writer.write("\(state)")
          if state == 2 { break }
        }
        try await writer.finish()
      },
      ResponseBody { writer in
        try await directory.withStore(1) { store in
          try await writer.write("1")
          for await state in store.states().prefix(1) { try await writer.write("\(state)") }
        }
        try await writer.finish()
      },
      ResponseBody { writer in
        try await directory.withStoreIfOpen(1) { store in
          try await writer.write("1")
          try await writer.write("\(await store.state)")
        }
        try await writer.finish()
      },
    ]
    for body in bodies { #expect(try await body.text() == ["1", "2", "end"]) }
    await directory.shutdown()
  }

  /// Uses its own state in the body, which returns something that is not `Sendable`.
  actor Counting {
    var count = 0
    let written = Written()

    func count(in directory: Directory) async throws -> Int {
      let result = try await directory.withStore(1) { store in
        count += 1
        try await store.send(1)
        self.assertIsolated()
        written.all.append("\(await store.state)")
        return written
      }
      assertIsolated()
      await directory.withStoreIfOpen(1) { _ in
        self.assertIsolated()
        count += result.all.count
      }
      assertIsolated()
      return count
    }
  }

  @MainActor @Test func `a body is where its caller is`() async throws {
    let directory = directory()
    let written = Written()
    try await directory.withStore(1) { store in
      MainActor.assertIsolated()
      try await store.send(1)
      MainActor.assertIsolated()
      written.all.append("a")
    }
    MainActor.assertIsolated()
    #expect(written.all == ["a"])
    #expect(try await Counting().count(in: directory) == 2)
    MainActor.assertIsolated()
    await directory.shutdown()
  }
}
