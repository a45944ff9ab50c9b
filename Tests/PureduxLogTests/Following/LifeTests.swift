import Puredux
import Testing

@testable import PureduxLog

/// The life of one replica, without a tree.
@Suite struct LifeTests {
  private static func life() -> Life { Life(phase: .recovering(0, of: 1)) }

  @Test("after a stop there is only the end")
  func stopped() {
    var life = Self.life()
    #expect(life.enter(.following, at: .zero) != nil)
    #expect(life.enter(.following, at: .zero) == nil)
    #expect(life.noteStop(.removed) == true)
    #expect(life.enter(.stopped(.removed), at: .zero) != nil)
    #expect(life.enter(.following, at: .zero) == nil)
    #expect(life.phase == .stopped(.removed) && life.isOver)
    #expect(life.noteStop(.cloned(position: 1)) == false)
    _ = life.end()
    #expect(life.enter(.following, at: .zero) == nil)
    #expect(life.phase == .ended && life.hasEnded)
  }

  @Test("the time that a log is away counts from the first trouble on")
  func waiting() {
    var life = Self.life()
    #expect(life.waiting(at: .seconds(1)) == nil)
    _ = life.enter(.waiting(.unavailable), at: .seconds(1))
    _ = life.enter(.waiting(.full), at: .seconds(3))
    #expect(life.waiting(at: .seconds(4)) == .seconds(3))
    _ = life.enter(.following, at: .seconds(5))
    #expect(life.waiting(at: .seconds(6)) == nil)
    _ = life.enter(.waiting(.unavailable), at: .seconds(7))
    _ = life.end()
    #expect(life.waiting(at: .seconds(8)) == nil, "a store that has ended waits for nothing")
  }

  @Test("a recovery has one outcome, the first")
  func recovered() async throws {
    var life = Self.life()
    #expect(life.isOpening)
    let first = life.recover(.success(()))
    #expect(first.isFirst && first.isComplete && first.waiting == nil && !life.isOpening)
    let second = life.recover(.failure(StoreError.terminated))
    #expect(!second.isFirst && !second.isComplete)
    // The caller that comes later is told at once.
    try await withCheckedThrowingContinuation { continuation in
      let outcome = life.open(continuation)
      continuation.resume(with: outcome ?? .failure(StoreError.terminated))
    }
    // A store that has stopped is not up to date, though it is opened.
    var stopped = Self.life()
    _ = stopped.noteStop(.removed)
    let outcome = stopped.recover(.success(()))
    #expect(outcome.isFirst && !outcome.isComplete)
  }

  @Test("a caller waits for a position until it has been applied, or never will be", arguments: [false, true])
  func arrived(stops: Bool) async {
    var life = Self.life()
    var isWaiting = false
    await withCheckedContinuation { continuation in
      isWaiting = life.wait(for: 5, from: 4, continuation)
      let early = life.arrive(at: 4)
      if stops { _ = life.noteStop(.removed) }
      let arrived = life.arrive(at: stops ? 4 : 5)
      let late = life.arrive(at: 5)
      #expect([early, arrived, late].map(\.count) == [0, 1, 0])
      for arrival in arrived { arrival.resume() }
    }
    #expect(isWaiting)
    await withCheckedContinuation { continuation in
      let isWaiting = life.wait(for: 5, from: 5, continuation)
      #expect(!isWaiting)
      continuation.resume()
    }
  }

  @Test("an observer gets the present phase first, and after the end no observer is kept")
  func observed() async {
    var life = Self.life()
    let (phases, observer) = AsyncStream.makeStream(of: Life.Phase.self)
    let id = life.observe(observer)
    #expect(life.enter(.following, at: .zero)?.keys.sorted() == id.map { [$0] })
    for told in life.end().observers.values { told.finish() }
    #expect(life.observe(observer) == nil)
    #expect(life.end().observers.count == 0)
    var all: [Life.Phase] = []
    for await phase in phases { all.append(phase) }
    #expect(all == [.recovering(0, of: 1)])
  }
}
