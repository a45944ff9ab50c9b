enum EffectInstruction<Effect> {
  case start(ContiguousArray<Effect>)
  case cancel
  case leave
}

extension EffectInstruction: Sendable where Effect: Sendable {}

enum EffectIdleness: Sendable {
  /// Observers do not work, nor do effects that wait for a state of their own tree or an interval. Other sleeps are
  /// work.
  case nothingWorks
  /// Each effect, observers included, waits for a state of its own tree or an interval.
  case allFollow
  /// Each effect waits for an element of a sequence of this library, or sleeps.
  case nothingRuns
  case allEnded
}

/// The tasks of one store's effects: a pure state machine, under its runner's lock. One task, the runner, starts them
/// as its children, in the order of their addition, numbered from zero, and ends after all of them.
struct EffectGroup<Effect, RunnerWaiter, EndWaiter> {
  typealias Instruction = EffectInstruction<Effect>
  typealias Wake = (runner: RunnerWaiter, instruction: Instruction)

  fileprivate struct IdleWaiter {
    let waiter: EndWaiter
    let idleness: EffectIdleness
    let number: Int
    /// While this is busy, no other is examined.
    var busy: Busy?
  }

  fileprivate enum Busy: Sendable {
    case effect(Int)
    case timeout(ObjectIdentifier)
  }

  private struct Status: Sendable {
    let isObserver: Bool
    private(set) var pause: RunningEffect.Pause?

    init(isObserver: Bool = false) { self.isObserver = isObserver }

    mutating func pause(by pause: RunningEffect.Pause) -> RunningEffect.Pause? {
      // A clock that reports its sleeps itself (`EffectRest`) does so within the interval.
      if let interval = self.pause, interval.cause == .interval, !interval.hasEnded, pause.cause == .time {
        return pause
      }
      defer { self.pause = pause }
      return self.pause
    }

    var sleep: RunningEffect.Pause? { pause?.cause.isTimed == true ? pause : nil }

    /// Whether the effect's wait does not delay a finishing store.
    private var follows: Bool {
      guard let pause, pause.cause == .states || pause.cause == .interval else { return false }
      return pause.holds
    }

    func isIdle(_ idleness: EffectIdleness) -> Bool {
      switch idleness {
      case .nothingRuns: pause?.holds == true
      case .allFollow: follows
      case .nothingWorks: isObserver || follows
      case .allEnded: false
      }
    }
  }

  private enum Phase: Sendable {
    case unused
    case open
    case finishing
    case cancelling
    case ended
  }

  private var phase = Phase.unused
  private var isCancelled = false
  /// Until the runner has cancelled the effects, resting effects are about to go on.
  private var haveBeenCancelled = false
  private var hasRunner = false
  private var pending: ContiguousArray<Effect> = []
  private var held: ContiguousArray<Effect> = []
  private var runner: RunnerWaiter?
  private var endWaiters: ContiguousArray<EndWaiter> = []
  private var idleWaiters: ContiguousArray<IdleWaiter> = []
  private var idleWaiterCount = 0
  /// Observers, and effects that wait: an effect without a status works.
  private var statuses: [Int: Status] = [:]
  /// Other tasks wait for these. When one is due, an effect goes on.
  private var timeouts: [ObjectIdentifier: RunningEffect.Pause] = [:]
  private var addedCount = 0
  private(set) var changeCount = 0
  private(set) var running = 0
  var unfinishedCount: Int { held.count + pending.count + running }
  var observerCount: Int { statuses.values.count(where: \.isObserver) }

  enum Addition {
    case refused
    case added
    case spawn
    case wake(Wake)
  }

  /// - Parameter isHeld: Whether the effect, and all later ones, wait for `release`.
  mutating func add(_ effect: Effect, isObserver: Bool = false, isHeld: Bool = false) -> Addition {
    switch phase {
    case .finishing, .cancelling, .ended: return .refused
    case .unused, .open:
      if isObserver { statuses[addedCount] = Status(isObserver: true) }
      addedCount += 1
      changeCount += 1
      phase = .open
    }
    held.append(effect)
    return isHeld || held.count > 1 ? .added : release()
  }

  mutating func release() -> Addition {
    if held.isEmpty { return .added }
    if pending.isEmpty { swap(&pending, &held) } else { pending += held }
    held.removeAll(keepingCapacity: true)
    if !hasRunner {
      hasRunner = true
      return .spawn
    }
    return wakeRunner().map { .wake($0) } ?? .added
  }

  mutating func next(orPark waiter: RunnerWaiter) -> Instruction? {
    hasRunner = true
    if phase == .unused { phase = .open }
    let instruction = nextInstruction()
    if instruction == nil { runner = waiter }
    return instruction
  }

  private mutating func nextInstruction() -> Instruction? {
    if !pending.isEmpty {
      defer { pending = [] }
      running += pending.count
      return .start(pending)
    }
    switch phase {
    case .unused, .open: return nil
    case .finishing: return running == 0 && held.isEmpty ? .leave : nil
    case .cancelling, .ended:
      guard held.isEmpty else { return nil }
      if isCancelled { return .leave }
      isCancelled = true
      return .cancel
    }
  }

  mutating func cancelled() -> ContiguousArray<EndWaiter> {
    haveBeenCancelled = true
    return popIdleWaiters()
  }

  private mutating func wakeRunner() -> Wake? {
    guard let waiter = runner, let instruction = nextInstruction() else { return nil }
    runner = nil
    return (waiter, instruction)
  }

  mutating func effectEnded(_ number: Int) -> (
    wake: Wake?, ended: ContiguousArray<EndWaiter>, pause: RunningEffect.Pause?
  ) {
    running -= 1
    changeCount += 1
    let pause = statuses.isEmpty ? nil : statuses.removeValue(forKey: number)?.pause
    return (wakeRunner(), popIdleWaiters(), pause)
  }

  mutating func effect(
    _ number: Int, pausesBy pause: RunningEffect.Pause
  ) -> (told: ContiguousArray<EndWaiter>, replaced: RunningEffect.Pause?) {
    changeCount += 1
    let replaced = statuses[number, default: Status()].pause(by: pause)
    return (popIdleWaiters(), replaced)
  }

  /// The timeout's effect may rest only until it is due.
  mutating func expects(_ timeout: RunningEffect.Pause) {
    changeCount += 1
    timeouts[ObjectIdentifier(timeout)] = timeout
  }

  mutating func ended(_ timeout: RunningEffect.Pause) -> ContiguousArray<EndWaiter> {
    changeCount += 1
    timeouts[ObjectIdentifier(timeout)] = nil
    return popIdleWaiters()
  }

  mutating func isIdle(_ idleness: EffectIdleness, orTells waiter: EndWaiter) -> (isIdle: Bool, number: Int) {
    if isIdle(idleness) { return (true, 0) }
    idleWaiterCount += 1
    idleWaiters.append(IdleWaiter(waiter: waiter, idleness: idleness, number: idleWaiterCount))
    return (false, idleWaiterCount)
  }

  func isIdle(_ idleness: EffectIdleness) -> Bool { mayBeIdle(idleness) && firstBusy(idleness) == nil }

  private func mayBeIdle(_ idleness: EffectIdleness) -> Bool {
    if idleness == .allEnded { return phase == .ended }
    if phase == .cancelling, !haveBeenCancelled, unfinishedCount > 0 { return false }
    return statuses.count == unfinishedCount
  }

  /// Timeouts come first: a timeout ends only when its effect has been resumed.
  private func firstBusy(_ idleness: EffectIdleness) -> Busy? {
    if idleness == .nothingRuns, let (timeout, _) = timeouts.first(where: { isDue($0.value) }) {
      return .timeout(timeout)
    }
    return statuses.first { !$0.value.isIdle(idleness) }.map { .effect($0.key) }
  }

  private func isStillBusy(_ busy: Busy, _ idleness: EffectIdleness) -> Bool {
    switch busy {
    case .effect(let number): statuses[number].map { !$0.isIdle(idleness) } ?? false
    case .timeout(let timeout): timeouts[timeout].map(isDue) ?? false
    }
  }

  private func isTold(_ waiting: inout IdleWaiter) -> Bool {
    guard mayBeIdle(waiting.idleness) else { return false }
    if let busy = waiting.busy, isStillBusy(busy, waiting.idleness) { return false }
    waiting.busy = firstBusy(waiting.idleness)
    return waiting.busy == nil
  }

  private func isDue(_ timeout: RunningEffect.Pause) -> Bool { !timeout.hasEnded && !timeout.holds }

  var isRestAwaited: Bool { idleWaiters.contains { $0.idleness == .nothingRuns } }

  var sleeps: [RunningEffect.Pause] { statuses.values.compactMap(\.sleep) + timeouts.values }

  mutating func forgetIdleWaiter(_ number: Int) -> EndWaiter? {
    guard let index = idleWaiters.firstIndex(where: { $0.number == number }) else { return nil }
    return idleWaiters.remove(at: index).waiter
  }

  private mutating func popIdleWaiters() -> ContiguousArray<EndWaiter> {
    if idleWaiters.isEmpty { return [] }
    var left: ContiguousArray<IdleWaiter> = []
    swap(&left, &idleWaiters)
    defer { swap(&left, &idleWaiters) }
    var told: ContiguousArray<EndWaiter> = []
    var leftCount = 0
    for index in left.indices {
      if isTold(&left[index]) {
        told.append(left[index].waiter)
      } else {
        left.swapAt(index, leftCount)
        leftCount += 1
      }
    }
    left.removeSubrange(leftCount...)
    return told
  }

  /// If no effect was ever added, returns all waiters.
  mutating func end(cancelling: Bool) -> (wake: Wake?, ended: ContiguousArray<EndWaiter>) {
    switch phase {
    case .unused: return (nil, runnerEnded())
    case .open: phase = cancelling ? .cancelling : .finishing
    case .finishing where cancelling: phase = .cancelling
    case .finishing, .cancelling, .ended: return (nil, [])
    }
    return (wakeRunner(), [])
  }

  mutating func runnerEnded() -> ContiguousArray<EndWaiter> {
    phase = .ended
    defer {
      endWaiters = []
      idleWaiters = []
    }
    return endWaiters + idleWaiters.map(\.waiter)
  }

  mutating func hasEnded(orTells waiter: EndWaiter) -> Bool {
    if phase != .ended { endWaiters.append(waiter) }
    return phase == .ended
  }
}

extension EffectGroup.IdleWaiter: Sendable where EndWaiter: Sendable {}
extension EffectGroup: Sendable where Effect: Sendable, RunnerWaiter: Sendable, EndWaiter: Sendable {}
