@testable import Puredux

/// A clock that is advanced by hand.
final class ManualClock: Clock, Sendable {
  typealias Duration = Swift.Duration

  struct Instant: InstantProtocol {
    var time = Duration.zero
    func advanced(by duration: Duration) -> Instant { Instant(time: time + duration) }
    func duration(to other: Instant) -> Duration { other.time - time }
    static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.time < rhs.time }
  }

  private struct Sleepers: Sendable {
    var now = Instant()
    var count = 0
    var asleep: [Int: (until: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
    var cancelled: Set<Int> = []
    var expectations: [(count: Int, gate: Gate)] = []

    mutating func openGates() -> [Gate] {
      let met = expectations.filter { $0.count == asleep.count }
      expectations.removeAll { $0.count == asleep.count }
      return met.map(\.gate)
    }
  }

  private let sleepers = LockedValue(Sleepers())

  var now: Instant { sleepers.withLock { $0.now } }
  let minimumResolution = Duration.zero

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    let number = sleepers.withLock { sleepers in
      sleepers.count += 1
      return sleepers.count
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        let (outcome, gates) = sleepers.withLock { sleepers -> (Result<Void, any Error>?, [Gate]) in
          if sleepers.cancelled.remove(number) != nil { return (.failure(CancellationError()), []) }
          if deadline <= sleepers.now { return (.success(()), []) }
          sleepers.asleep[number] = (deadline, continuation)
          return (nil, sleepers.openGates())
        }
        for gate in gates { gate.open() }
        if let outcome { continuation.resume(with: outcome) }
      }
    } onCancel: {
      let (sleeper, gates) = sleepers.withLock { sleepers in
        let sleeper = sleepers.asleep.removeValue(forKey: number)
        if sleeper == nil { sleepers.cancelled.insert(number) }
        return (sleeper, sleepers.openGates())
      }
      sleeper?.continuation.resume(throwing: CancellationError())
      for gate in gates { gate.open() }
    }
  }

  /// How many sleeps have begun.
  var sleepCount: Int { sleepers.withLock { $0.count } }

  /// Wakes the sleepers whose time has come.
  func advance(by duration: Duration) {
    let (awake, gates) = sleepers.withLock { sleepers in
      let now = sleepers.now.advanced(by: duration)
      sleepers.now = now
      let awake = sleepers.asleep.filter { $0.value.until <= now }
      for number in awake.keys { sleepers.asleep[number] = nil }
      return (
        awake.sorted { ($0.value.until, $0.key) < ($1.value.until, $1.key) }.map(\.value.continuation),
        sleepers.openGates()
      )
    }
    for continuation in awake { continuation.resume() }
    for gate in gates { gate.open() }
  }

  /// Returns when that many tasks sleep.
  func untilAsleep(_ count: Int) async {
    let gate = Gate()
    let isMet = sleepers.withLock { sleepers in
      if sleepers.asleep.count == count { return true }
      sleepers.expectations.append((count, gate))
      return false
    }
    if !isMet { await gate.wait() }
  }
}
