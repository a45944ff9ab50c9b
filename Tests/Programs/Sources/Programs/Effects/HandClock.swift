/// A clock that is advanced by hand.
final class HandClock: Clock, Sendable {
  struct Instant: InstantProtocol {
    var time: Duration
    func advanced(by duration: Duration) -> Instant { Instant(time: time + duration) }
    func duration(to other: Instant) -> Duration { other.time - time }
    static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.time < rhs.time }
  }

  private struct Sleepers: Sendable {
    var now = Instant(time: .zero)
    var count = 0
    var asleep: [Int: (until: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
    var cancelled: Set<Int> = []
  }

  private let sleepers = Guarded(Sleepers())

  var now: Instant { sleepers.withLock { $0.now } }
  var minimumResolution: Duration { .zero }

  func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let number = sleepers.withLock { sleepers in
      sleepers.count += 1
      return sleepers.count
    }
    defer { sleepers.withLock { _ = $0.cancelled.remove(number) } }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        let outcome = sleepers.withLock { sleepers -> Result<Void, any Error>? in
          if sleepers.cancelled.contains(number) { return .failure(CancellationError()) }
          if deadline <= sleepers.now { return .success(()) }
          sleepers.asleep[number] = (deadline, continuation)
          return nil
        }
        if let outcome { continuation.resume(with: outcome) }
      }
    } onCancel: {
      let sleeper = sleepers.withLock { sleepers in
        let sleeper = sleepers.asleep.removeValue(forKey: number)
        if sleeper == nil { sleepers.cancelled.insert(number) }
        return sleeper
      }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }

  func hasSleeper(until deadline: Instant) -> Bool {
    sleepers.withLock { sleepers in sleepers.asleep.values.contains { $0.until == deadline } }
  }

  func move(to time: Duration) {
    let awake = sleepers.withLock { sleepers in
      sleepers.now = max(sleepers.now, Instant(time: time))
      let awake = sleepers.asleep.filter { $0.value.until <= sleepers.now }
      for number in awake.keys { sleepers.asleep[number] = nil }
      return awake.sorted { ($0.value.until, $0.key) < ($1.value.until, $1.key) }.map(\.value.continuation)
    }
    for continuation in awake { continuation.resume() }
  }
}
