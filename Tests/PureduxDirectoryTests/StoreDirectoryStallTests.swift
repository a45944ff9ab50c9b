import Puredux
import PureduxTestSupport
import Testing

@testable import PureduxDirectory

/// Stores whose trees stand still: they are their own trouble, and nobody else's.
@Suite(.timeLimit(.minutes(15))) struct StoreDirectoryStallTests {
  typealias Directory = StoreDirectory<Int, Int, Int>

  /// The store of key 0 is on the held executor.
  func directory(_ held: HeldExecutor, countLimit: Int = .max, clock: any Clock<Duration>) -> Directory {
    Directory(idleLimit: .seconds(10), countLimit: countLimit, clock: clock) { key in
      RootStore(initialState: key, options: StoreOptions(executor: key == 0 ? .serial(held) : .own)) { $0 += $1 }
    }
  }

  @Test(arguments: [false, true])
  func `a store that stands still keeps no other store open`(isByCount: Bool) async throws {
    let (held, clock) = (HeldExecutor(), ManualClock())
    let directory = directory(held, countLimit: isByCount ? 1 : .max, clock: clock)
    // It is idle first, and so is looked at first.
    try await directory.withStore(0) { try await $0.send(1) }
    held.hold()
    for key in 1...20 { try await directory.withStore(key) { try await $0.send(1) } }
    if isByCount {
      // The one that stands still is being looked at.
      while await directory.keys.count > 2 { await Task.yield() }
      #expect(await directory.keys.contains(0))
    } else {
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(10))
      while await directory.keys != [0] { await Task.yield() }
    }
    held.letGo()
    while await directory.keys.contains(0) { await Task.yield() }
  }

  @Test func `a store that stands still is visited once, however often it is used meanwhile`() async throws {
    let (held, clock) = (HeldExecutor(), ManualClock())
    let directory = directory(held, clock: clock)
    let store = try await directory.open(0).store
    try await store.send(1)
    held.hold()
    let before = held.enqueued
    for _ in 0..<20 {
      try await directory.withStore(0) { _ in }
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(10))
      // Another one is let go of behind it, so that it has been looked at.
      try await directory.withStore(1) { _ in }
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(10))
      while await directory.keys != [0] { await Task.yield() }
    }
    #expect(held.enqueued - before <= 2)
    held.letGo()
    while await !directory.keys.isEmpty {
      clock.advance(by: .seconds(10))
      await Task.yield()
    }
  }
}
