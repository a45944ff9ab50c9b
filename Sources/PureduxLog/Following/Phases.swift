import Puredux
import Synchronization

/// The life of one replica, with its observers, the callers that wait for a position, and the caller that opens the
/// store. A pure state machine.
///
/// Invariant: only `.ended` follows `.stopped`, and nothing follows `.ended`. The first outcome of the recovery counts.
/// Each waiting caller is returned once, to be resumed.
struct Life {
  typealias Phase = LogStatistics.Phase
  typealias Observer = AsyncStream<Phase>.Continuation
  typealias Arrival = CheckedContinuation<Void, Never>
  typealias Opening = CheckedContinuation<Void, any Error>

  private(set) var phase: Phase
  private(set) var stop: LogStop?
  private(set) var hasEnded = false
  private var waitingSince: Duration?
  private(set) var delivery = 0
  private(set) var deliveryTrouble: LogTrouble?
  private var opening: Opening?
  private var recovered: Result<Void, any Error>?
  private var arrivals: [(position: UInt64, continuation: Arrival)] = []
  private var observers: [Int: Observer] = [:]
  private var lastObserver = 0
  var follower: Task<Void, Never>?
  var endingLimit: Task<Void, Never>?

  init(phase: Phase) { self.phase = phase }

  var isOver: Bool { stop != nil || hasEnded }
  var isOpening: Bool { recovered == nil }

  func waiting(at time: Duration) -> Duration? { waitingSince.map { time - $0 } }

  // MARK: Phases

  mutating func enter(_ phase: Phase, at time: Duration) -> [Int: Observer]? {
    if self.phase == phase { return nil }
    switch self.phase {
    case .stopped, .ended:
      guard case .ended = phase else { return nil }
    default: break
    }
    self.phase = phase
    if case .waiting = phase { waitingSince = waitingSince ?? time } else { waitingSince = nil }
    return observers
  }

  mutating func noteStop(_ reason: LogStop) -> Bool {
    defer { stop = reason }
    return !isOver
  }

  mutating func end() -> (tasks: [Task<Void, Never>?], observers: [Int: Observer]) {
    phase = .ended
    waitingSince = nil
    hasEnded = true
    defer { observers = [:] }
    return ([follower.take(), endingLimit.take()], observers)
  }

  mutating func observe(_ observer: Observer) -> Int? {
    observer.yield(phase)
    if hasEnded { return nil }
    lastObserver += 1
    observers[lastObserver] = observer
    return lastObserver
  }

  mutating func forget(_ observer: Int) -> Observer? { observers.removeValue(forKey: observer) }

  // MARK: Delivery

  mutating func beginDelivery() -> Int {
    delivery += 1
    return delivery
  }

  mutating func failDelivery() { delivery += 1 }

  mutating func waitForDelivery(_ trouble: LogTrouble) { deliveryTrouble = trouble }

  mutating func resumeDelivery() { deliveryTrouble = nil }

  // MARK: Waiters

  mutating func open(_ opening: Opening) -> Result<Void, any Error>? {
    if recovered == nil { self.opening = opening }
    return recovered
  }

  mutating func recover(
    _ outcome: Result<Void, any Error>
  ) -> (isFirst: Bool, isComplete: Bool, waiting: Opening?) {
    defer { recovered = recovered ?? outcome }
    var isComplete = stop == nil
    if case .failure = outcome { isComplete = false }
    return (recovered == nil, isComplete, opening.take())
  }

  mutating func wait(for position: UInt64, from applied: UInt64, _ arrival: Arrival) -> Bool {
    if isOver || applied >= position { return false }
    arrivals.append((position, arrival))
    return true
  }

  mutating func arrive(at applied: UInt64) -> [Arrival] {
    if arrivals.isEmpty { return [] }
    let position = isOver ? .max : applied
    let told = arrivals.filter { $0.position <= position }
    arrivals.removeAll { $0.position <= position }
    return told.map(\.continuation)
  }
}

final class Phases<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let summaries: Summaries<State, Action>
  private let onPhase: (@Sendable (Life.Phase) -> Void)?
  private let opened: Duration

  init(
    _ replica: Replica<State, Action>, _ summaries: Summaries<State, Action>,
    onPhase: (@Sendable (Life.Phase) -> Void)?
  ) {
    self.replica = replica
    self.summaries = summaries
    self.onPhase = onPhase
    opened = replica.clock.now
  }

  func stream() -> AsyncStream<Life.Phase> {
    let (phases, observer) = AsyncStream.makeStream(of: Life.Phase.self, bufferingPolicy: .bufferingNewest(1))
    guard let id = replica.standing.withLock({ $0.life.observe(observer) }) else {
      observer.finish()
      return phases
    }
    observer.onTermination = { [weak replica] _ in
      // Released outside the lock.
      _ = replica?.standing.withLock { $0.life.forget(id) }
    }
    return phases
  }

  func enter(_ phase: Life.Phase, on tree: isolated any TreeIsolation) {
    let now = replica.clock.now
    guard let observers = replica.standing.withLock({ $0.life.enter(phase, at: now) }) else { return }
    // On the tree's executor, phases change one after the other.
    for (_, observer) in observers.sorted(by: { $0.key < $1.key }) { observer.yield(phase) }
    tell(phase)
  }

  private func tell(_ phase: Life.Phase) {
    onPhase?(phase)
    replica.instrument?.tell(.entered(phase))
  }

  func tellFirst() { tell(replica.standing.withLock { $0.life.phase }) }

  func tellTrouble(on tree: isolated any TreeIsolation) {
    if let trouble = replica.trouble { enter(.waiting(trouble), on: tree) } else { progress(on: tree) }
  }

  func progress(on tree: isolated any TreeIsolation) {
    if let recovering = replica.reading.withLock({ $0.recovering }) { return enter(recovering, on: tree) }
    enter(replica.trouble.map { .waiting($0) } ?? .following, on: tree)
    endRecovery(nil)
  }

  func stop(_ reason: LogStop, on tree: isolated any TreeIsolation) {
    let isNew = replica.standing.withLock { $0.life.noteStop(reason) }
    switch reason {
    case .newerSchema, .newerRules:
      if isNew { replica.report(.stoppedAs(key: replica.log.name, reason)) }
    case .diverged, .undecodable, .olderRules, .poisoned, .cloned, .unreadable, .removed: break
    }
    replica.recovery.withLock { $0 }?.pause(behind: replica.reading.withLock { $0.position })
    replica.admission.store(2, ordering: .relaxed)
    enter(.stopped(reason), on: tree)
    replica.core.withLock { $0 }?.endAtStop(on: tree)
    // Sent actions may be committed elsewhere.
    replica.sequencer.giveUpAll(on: tree)
    tellArrivals()
    endRecovery(replica.options.opensWhereStopped ? nil : StoreError.stopped(reason))
  }

  // MARK: Waiters

  func untilRecovered() async throws {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = replica.standing.withLock { $0.life.open(continuation) }
        if let outcome { continuation.resume(with: outcome) }
      }
    } onCancel: {
      endRecovery(CancellationError())
    }
  }

  /// The store is up to date, or failed. Only the first call counts.
  func endRecovery(_ failure: (any Error)?) {
    let outcome = failure.map { Result<Void, any Error>.failure($0) } ?? .success(())
    let (isFirst, isComplete, waiting) = replica.standing.withLock { $0.life.recover(outcome) }
    if isFirst, isComplete {
      let positions = replica.reading.withLock { $0.replayed }
      replica.instrument?.tell(.replayed(positions: positions, after: max(.zero, replica.clock.now - opened)))
      replica.recovery.withLock { $0.take() }?.end()
      summaries.keepLater(isOpening: true)
    } else if isFirst {
      replica.recovery.withLock { $0 }?.giveUp()
    }
    waiting?.resume(with: outcome)
  }

  /// Returns when a position has been applied, or never will be.
  func untilApplied(_ position: UInt64) async {
    await withCheckedContinuation { continuation in
      let isWaiting = replica.standing.withLock { standing in
        standing.life.wait(for: position, from: standing.writing.applied.mark.position, continuation)
      }
      if !isWaiting { continuation.resume() }
    }
  }

  func tellArrivals() {
    let told = replica.standing.withLock { $0.life.arrive(at: $0.writing.applied.mark.position) }
    for continuation in told { continuation.resume() }
  }

  // MARK: The end

  func end() {
    let (tasks, observers) = replica.standing.withLock { standing in
      let (tasks, observers) = standing.life.end()
      return (tasks + [standing.writing.watcher.take()], observers)
    }
    let summaryWriter = summaries.end()
    for (_, observer) in observers.sorted(by: { $0.key < $1.key }) {
      observer.yield(.ended)
      observer.finish()
    }
    let instrument = replica.instrument
    // The tree and its replica retained each other.
    replica.core.releasingOutside { $0.take() }
    for task in tasks + [summaryWriter] { task?.cancel() }
    tellArrivals()
    onPhase?(.ended)
    instrument?.tell(.entered(.ended))
    endRecovery(StoreError.terminated)
  }
}
