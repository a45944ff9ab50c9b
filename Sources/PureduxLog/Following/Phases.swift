import Puredux

/// The life of one replica, and everything that waits for a change of it: followers of the phase, callers that wait
/// for a position, and the caller that opens the store.
///
/// Invariant: after `.stopped` there is only `.ended`, and after `.ended` no phase. The recovery has one outcome: the
/// first. Each waiting caller is handed out once, to be resumed. A pure state machine.
struct Life {
  typealias Phase = LogStatistics.Phase
  typealias Observer = AsyncStream<Phase>.Continuation
  typealias Arrival = CheckedContinuation<Void, Never>
  typealias Opening = CheckedContinuation<Void, any Error>

  private(set) var phase: Phase
  private(set) var stop: LogStop?
  private(set) var hasEnded = false
  private var waitingSince: Duration?
  /// Rises when the log begins to deliver, and when it fails to.
  private(set) var delivery = 0
  /// Why the log delivers nothing, if it does not.
  private(set) var deliveryTrouble: LogTrouble?
  private var opening: Opening?
  private var recovered: Result<Void, any Error>?
  private var arrivals: [(position: UInt64, continuation: Arrival)] = []
  private var observers: [Int: Observer] = [:]
  private var lastObserver = 0
  /// The task that follows the log.
  var follower: Task<Void, Never>?
  /// The task that limits how long an ending store waits for its log.
  var endingLimit: Task<Void, Never>?

  init(phase: Phase) { self.phase = phase }

  var isOver: Bool { stop != nil || hasEnded }
  var isOpening: Bool { recovered == nil }

  /// How long the log has taken or delivered nothing.
  func waiting(at time: Duration) -> Duration? { waitingSince.map { time - $0 } }

  // MARK: Phases

  /// Returns the observers to be told, if the phase is another one.
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

  /// Returns whether this is the first reason, of a store that has not ended.
  mutating func noteStop(_ reason: LogStop) -> Bool {
    defer { stop = reason }
    return !isOver
  }

  /// Returns the tasks to be cancelled, and the observers to be told.
  mutating func end() -> (tasks: [Task<Void, Never>?], observers: [Int: Observer]) {
    phase = .ended
    hasEnded = true
    defer { observers = [:] }
    return ([follower.take(), endingLimit.take()], observers)
  }

  /// Tells an observer the present phase. Returns the number by which it is forgotten; nil after the end.
  mutating func observe(_ observer: Observer) -> Int? {
    observer.yield(phase)
    if hasEnded { return nil }
    lastObserver += 1
    observers[lastObserver] = observer
    return lastObserver
  }

  /// Returns the observer, to be released outside of locks.
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

  /// Returns the recovery's outcome; without one, the caller waits for it.
  mutating func open(_ opening: Opening) -> Result<Void, any Error>? {
    if recovered == nil { self.opening = opening }
    return recovered
  }

  /// Returns whether this is the outcome, whether the store is up to date with it, and the waiting caller.
  mutating func recover(
    _ outcome: Result<Void, any Error>
  ) -> (isFirst: Bool, isComplete: Bool, waiting: Opening?) {
    defer { recovered = recovered ?? outcome }
    var isComplete = stop == nil
    if case .failure = outcome { isComplete = false }
    return (recovered == nil, isComplete, opening.take())
  }

  /// Returns whether the caller waits: not for a position that has been applied, and not if none is applied any more.
  mutating func wait(for position: UInt64, from applied: UInt64, _ arrival: Arrival) -> Bool {
    if isOver || applied >= position { return false }
    arrivals.append((position, arrival))
    return true
  }

  /// Returns the callers that wait no more, when entries up to a position have been applied.
  mutating func arrive(at applied: UInt64) -> [Arrival] {
    if arrivals.isEmpty { return [] }
    let told = arrivals.filter { isOver || $0.position <= applied }
    arrivals.removeAll { isOver || $0.position <= applied }
    return told.map(\.continuation)
  }
}

/// Publishes the life of a replica to `logPhases()`, `onPhase`, the instrument and the waiting callers: carries out the
/// decisions of `Life`.
final class Phases<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let summaries: Summaries<State, Action>
  private let onPhase: (@Sendable (Life.Phase) -> Void)?
  /// The time at which the log's head had been read.
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
      // The observer is released outside the lock.
      _ = replica?.standing.withLock { $0.life.forget(id) }
    }
    return phases
  }

  func enter(_ phase: Life.Phase, on tree: isolated any TreeIsolation) {
    let now = replica.clock.now
    guard let observers = replica.standing.withLock({ $0.life.enter(phase, at: now) }) else { return }
    // Here, on the tree's executor, phases change one after the other.
    for observer in observers.values { observer.yield(phase) }
    tell(phase)
  }

  private func tell(_ phase: Life.Phase) {
    onPhase?(phase)
    replica.instrument?.tell(.entered(phase))
  }

  /// The store begins to follow its log.
  func tellFirst() { tell(replica.standing.withLock { $0.life.phase }) }

  /// The trouble with the log has changed.
  func tellTrouble(on tree: isolated any TreeIsolation) {
    if let trouble = replica.trouble { enter(.waiting(trouble), on: tree) } else { progress(on: tree) }
  }

  /// Entries have been applied, or the log has no more than those.
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
    // Reported by the callers, which know the details.
    case .diverged, .undecodable, .olderRules, .poisoned, .cloned, .unreadable, .removed: break
    }
    // No process has died of the entry that this stops at.
    replica.recovery.withLock { $0 }?.pause(behind: replica.reading.withLock { $0.position })
    replica.admission.store(2, ordering: .relaxed)
    enter(.stopped(reason), on: tree)
    // Actions that were on their way may be committed elsewhere.
    replica.sequencer.giveUpAll(on: tree)
    tellArrivals()
    endRecovery(replica.options.opensWhereStopped ? nil : StoreError.stopped(reason))
  }

  // MARK: Waiters

  /// Returns when the store is up to date.
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

  /// The store is up to date, or will not be. Only the first call counts.
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

  /// The root store has ended: ends the tasks, tells the followers and the waiting callers, and lets go of the tree.
  func end() {
    let (tasks, observers) = replica.standing.withLock { standing in
      let (tasks, observers) = standing.life.end()
      return (tasks + [standing.writing.watcher.take()], observers)
    }
    let summaryWriter = summaries.end()
    for observer in observers.values {
      observer.yield(.ended)
      observer.finish()
    }
    let instrument = replica.instrument
    // The tree holds its order, and the replica held the tree.
    replica.core.releasingOutside { $0.take() }
    for task in tasks + [summaryWriter] { task?.cancel() }
    tellArrivals()
    onPhase?(.ended)
    instrument?.tell(.entered(.ended))
    endRecovery(StoreError.terminated)
  }
}
