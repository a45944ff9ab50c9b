protocol ScheduledWork: AnyObject {
  /// Lower for an earlier commit. Only the scheduler uses it.
  var place: Int { get set }
}

/// Schedules the effects of one id in one store, or of one element of the state: a pure state machine, under its
/// owner's lock. Methods return the steps to carry out, in order; the caller releases them outside the lock. The lowest
/// places only increase, so an effect's cost does not depend on the number of others.
struct EffectScheduler<Work: ScheduledWork> {
  enum Step {
    case start(Work)
    /// A task that calls `timerWoke` when its time has come.
    case startTimer(Work)
    case cancel(Work)
    /// Replaced, or left out by its policy.
    case leaveOut(Work)
    case turnAway(Work)

    var work: Work {
      switch self {
      case .start(let work), .startTimer(let work), .cancel(let work), .leaveOut(let work), .turnAway(let work): work
      }
    }
  }

  enum TimerStep {
    case sleep(until: Duration)
    case begin
    case end
  }

  fileprivate struct Held {
    let work: Work
    let time: Duration
    var timer: Timer
  }

  fileprivate struct Timer {
    let task: Work
    var wakes: Duration
  }

  /// No other throttled effect may begin in a window.
  fileprivate struct Window {
    let opener: Work
    let end: Duration
  }

  private var running: [Int: Work] = [:]
  /// By place. Each begins when fewer than `limit` effects before it are unfinished.
  private var waiting: [Int: (work: Work, limit: Int)] = [:]
  private var lastPlace = 0
  /// No unfinished effect has a lower place.
  private var oldest = 1
  /// No waiting effect has a lower place.
  private var nextWaiting = 1
  /// Running effects with a place below `nextWaiting`.
  private var runningBefore = 0
  private var debounced: Held?
  private var throttled: (held: Held, interval: Duration)?
  private var window: Window?

  private var held: [Held] { [debounced, throttled?.held].compactMap { $0 } }

  var count: Int { taskCount + waiting.count }
  var taskCount: Int { running.count + (debounced == nil ? 0 : 1) + (throttled == nil ? 0 : 1) }

  func isOver(at now: Duration) -> Bool { count == 0 && (window.map { $0.end <= now } ?? true) }

  mutating func add(
    _ work: Work, _ policy: EffectPolicy, at now: Duration, makeTimer: () -> Work
  ) -> [Step] {
    lastPlace += 1
    work.place = lastPlace
    if count == 0 { oldest = lastPlace }
    switch policy {
    case .latest: return cancelAll() + [start(work)]
    case .newest(let limit):
      return cancelOldest(leaving: max(1, limit) - 1) + startWaiting() + [start(work)]
    case .first: return [count == 0 ? start(work) : .leaveOut(work)]
    case .inTurn(let limit):
      if count == 0 { return [start(work)] }
      guard waiting.count < limit else { return [.turnAway(work)] }
      wait(work, 1)
      return []
    case .concurrent(let limit):
      if waiting.isEmpty, count < max(1, limit) { return [start(work)] }
      wait(work, max(1, limit))
      return []
    case .debounced(let delay):
      guard delay > .zero else { return cancelAll() + [start(work)] }
      let time = now + min(delay, .longest)
      let replaced = debounced.take()
      var steps = cancelAll()
      if let replaced { steps.append(.leaveOut(replaced.work)) }
      let timer = timerWaking(at: time, inPlaceOf: replaced?.timer, makeTimer, &steps)
      debounced = Held(work: work, time: time, timer: timer)
      return steps
    case .throttled(let interval, let latest):
      guard interval > .zero else { return [start(work)] }
      guard let window, window.end > now || throttled != nil else {
        return [start(work, throttling: interval, at: now)]
      }
      guard latest else { return [.leaveOut(work)] }
      let replaced = throttled.take()?.held
      var steps: [Step] = []
      if let replaced { steps.append(.leaveOut(replaced.work)) }
      let timer = timerWaking(at: window.end, inPlaceOf: replaced?.timer, makeTimer, &steps)
      throttled = (Held(work: work, time: window.end, timer: timer), interval)
      return replaced == nil ? steps : steps + startWaiting()
    }
  }

  mutating func cancelAll() -> [Step] {
    var steps = running.values.sorted { $0.place < $1.place }.map { Step.cancel($0) }
    steps += leaveOutWaiting()
    for held in held { steps += [.leaveOut(held.work), .cancel(held.timer.task)] }
    running = [:]
    debounced = nil
    throttled = nil
    window = nil
    (oldest, nextWaiting, runningBefore) = (lastPlace, lastPlace, 0)
    return steps
  }

  /// For effects of the state: cancels all work, and begins the new work, one effect, when the running work has
  /// returned.
  mutating func replace(with work: [Work]) -> [Step] {
    let steps = running.values.sorted { $0.place < $1.place }.map { Step.cancel($0) } + leaveOutWaiting()
    for (index, work) in work.enumerated() {
      lastPlace += 1
      work.place = lastPlace
      wait(work, index + 1)
    }
    return steps + startWaiting()
  }

  mutating func leaveOutWaiting() -> [Step] { popWaiting().map { .leaveOut($0) } }

  private mutating func cancelOldest(leaving limit: Int) -> [Step] {
    var steps: [Step] = []
    while count > limit {
      findOldest()
      if let work = removeRunning(oldest) {
        steps.append(.cancel(work))
      } else if let (work, _) = waiting.removeValue(forKey: oldest) {
        steps.append(.leaveOut(work))
      } else if let held = takeHeld(oldest) {
        steps += [.leaveOut(held.work), .cancel(held.timer.task)]
      } else {
        break
      }
    }
    return steps
  }

  private mutating func findOldest() {
    while oldest < lastPlace, running[oldest] == nil, waiting[oldest] == nil, !isHeld(oldest) { oldest += 1 }
  }

  private func isHeld(_ place: Int) -> Bool { debounced?.work.place == place || throttled?.held.work.place == place }

  private mutating func takeHeld(_ place: Int) -> Held? {
    if debounced?.work.place == place { return debounced.take() }
    return throttled?.held.work.place == place ? throttled.take()?.held : nil
  }

  /// The owners retain a window's opener, although it is over.
  func isOpener(_ work: Work) -> Bool { window?.opener === work }

  /// Forgets work before its cancellation, and its window. Waiting work begins with `goOn`, when all is cancelled.
  mutating func withdraw(_ gone: [Work]) -> [Step] {
    var steps: [Step] = []
    for work in gone {
      if window?.opener === work { window = nil }
      if removeRunning(work.place) != nil || waiting.removeValue(forKey: work.place) != nil { continue }
      if let held = takeHeld(work.place) { steps.append(.cancel(held.timer.task)) }
    }
    return steps
  }

  mutating func goOn(at now: Duration) -> [Step] {
    var steps: [Step] = []
    if window == nil, let (held, interval) = throttled.take() {
      steps = [.cancel(held.timer.task), start(held.work, throttling: interval, at: now)]
    }
    return steps + startWaiting()
  }

  /// Call it in commit order: a commit in progress may cancel effects that it has added.
  mutating func ended(_ work: Work) -> [Step] { removeRunning(work.place) != nil ? startWaiting() : [] }

  /// False, with nothing done, if other work waits: then call `ended`.
  mutating func endedAlone(_ work: Work) -> Bool {
    guard waiting.isEmpty else { return false }
    _ = removeRunning(work.place)
    return true
  }

  private mutating func removeRunning(_ place: Int) -> Work? {
    guard let work = running.removeValue(forKey: place) else { return nil }
    if place < nextWaiting { runningBefore -= 1 }
    return work
  }

  private mutating func wait(_ work: Work, _ limit: Int) {
    if waiting.isEmpty { (nextWaiting, runningBefore) = (work.place, running.count) }
    waiting[work.place] = (work, limit)
  }

  private mutating func popWaiting() -> [Work] {
    defer { waiting = [:] }
    return waiting.isEmpty ? [] : waiting.values.map(\.work).sorted { $0.place < $1.place }
  }

  private mutating func startWaiting() -> [Step] {
    var steps: [Step] = []
    while !waiting.isEmpty {
      while waiting[nextWaiting] == nil {
        if running[nextWaiting] != nil { runningBefore += 1 }
        nextWaiting += 1
      }
      guard let next = waiting[nextWaiting], unfinishedBefore < next.limit else { break }
      waiting[nextWaiting] = nil
      steps.append(start(next.work))
    }
    return steps
  }

  private var unfinishedBefore: Int { runningBefore + held.count { $0.work.place < nextWaiting } }

  /// After the store has closed: leaves out waiting effects.
  mutating func endedLast(_ work: Work) -> [Step] {
    _ = removeRunning(work.place)
    return leaveOutWaiting()
  }

  mutating func timerWoke(_ timer: Work, at now: Duration) -> TimerStep {
    if let held = debounced, held.timer.task === timer {
      if held.time <= now { return .begin }
      debounced?.timer.wakes = held.time
      return .sleep(until: held.time)
    }
    guard let held = throttled?.held, held.timer.task === timer else { return .end }
    if held.time <= now { return .begin }
    throttled?.held.timer.wakes = held.time
    return .sleep(until: held.time)
  }

  /// Call it in commit order, like `ended`. Nil if the effect is gone, or its time has not come.
  mutating func begin(_ timer: Work, at now: Duration) -> Work? {
    if let held = debounced, held.timer.task === timer, held.time <= now {
      debounced = nil
      begin(held.work)
      return held.work
    }
    guard let (held, interval) = throttled, held.timer.task === timer, held.time <= now else { return nil }
    throttled = nil
    begin(held.work, throttling: interval, at: now)
    return held.work
  }

  private mutating func begin(_ work: Work) {
    running[work.place] = work
    if work.place < nextWaiting { runningBefore += 1 }
  }

  private mutating func begin(_ work: Work, throttling interval: Duration, at now: Duration) {
    window = Window(opener: work, end: now + min(interval, .longest))
    begin(work)
  }

  private mutating func start(_ work: Work) -> Step {
    begin(work)
    return .start(work)
  }

  private mutating func start(_ work: Work, throttling interval: Duration, at now: Duration) -> Step {
    begin(work, throttling: interval, at: now)
    return .start(work)
  }

  private func timerWaking(
    at time: Duration, inPlaceOf replaced: Timer?, _ makeTimer: () -> Work, _ steps: inout [Step]
  ) -> Timer {
    if let replaced {
      if replaced.wakes <= time { return replaced }
      steps.append(.cancel(replaced.task))
    }
    let timer = Timer(task: makeTimer(), wakes: time)
    steps.append(.startTimer(timer.task))
    return timer
  }
}

extension EffectScheduler: Sendable where Work: Sendable {}
extension EffectScheduler.Held: Sendable where Work: Sendable {}
extension EffectScheduler.Timer: Sendable where Work: Sendable {}
extension EffectScheduler.Window: Sendable where Work: Sendable {}
