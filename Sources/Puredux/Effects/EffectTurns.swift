/// What runs and waits under one id in one store: a pure state machine, run under its slot's lock.
///
/// Each mutating method returns what is to be done, in order. What it hands out is released outside the lock.
struct EffectTurns<Work: AnyObject> {
  enum Step {
    case start(Work)
    /// Have a timer call `timerWoke` when the time has come; it is a task like the others.
    case startTimer(Work)
    case cancel(Work)
    /// The work is not begun: another has taken its place, or its policy says so.
    case leaveOut(Work)
    /// The work is not begun, as too many wait.
    case turnAway(Work)
  }

  /// What a timer does next.
  enum TimerStep {
    case sleep(until: Duration)
    case run(Work)
    case end
  }

  private var running: [ObjectIdentifier: Work] = [:]
  private var waiting = Queue<(work: Work, policy: EffectPolicy)>()
  /// The work that begins when its time has come, and the timer that waits for that.
  private var held: (work: Work, policy: EffectPolicy, timer: Timer)?
  /// When the held work begins, or when the next that is throttled may.
  private var time: Duration?
  /// The work that was throttled last, and so began the time in which no other may begin. It may be over.
  private var opener: Work?

  fileprivate struct Timer {
    let task: Work
    /// It wakes at this time, or before.
    var wakes: Duration
  }

  var count: Int { taskCount + waiting.count }
  /// How many tasks that makes, timers included.
  var taskCount: Int { running.count + (held == nil ? 0 : 1) }

  /// Whether it can be forgotten.
  func isOver(at now: Duration) -> Bool { count == 0 && (time.map { $0 <= now } ?? true) }

  /// - Parameter makeTimer: Called if a timer is needed and there is none.
  mutating func add(
    _ work: Work, _ policy: EffectPolicy, at now: Duration, makeTimer: () -> Work
  ) -> [Step] {
    switch policy {
    case .latest: return cancelAll() + [start(work)]
    case .first: return [count == 0 ? start(work) : .leaveOut(work)]
    case .inTurn(let limit):
      if count == 0 { return [start(work)] }
      guard waiting.count < limit else { return [.turnAway(work)] }
      waiting.append((work, policy))
      return []
    case .concurrent(let limit):
      if waiting.isEmpty, running.count < max(1, limit) { return [start(work)] }
      waiting.append((work, policy))
      return []
    case .debounced(let delay):
      guard delay > .zero else { return cancelAll() + [start(work)] }
      opener = nil
      return cancelStarted() + hold(work, policy, until: now + min(delay, .longest), makeTimer)
    case .throttled(let interval):
      guard interval > .zero else { return [start(work)] }
      guard let time, time > now || held != nil else {
        self.time = now + min(interval, .longest)
        opener = work
        return [start(work)]
      }
      return hold(work, policy, until: time, makeTimer)
    }
  }

  /// Forgets everything that runs and waits.
  mutating func cancelAll() -> [Step] {
    var steps = cancelStarted()
    if let held { steps += [.leaveOut(held.work), .cancel(held.timer.task)] }
    held = nil
    time = nil
    opener = nil
    return steps
  }

  /// Whether a time goes by it: it is not to be forgotten, although it is over.
  func isOpener(_ work: Work) -> Bool { opener === work }

  /// Forgets work that is about to be cancelled, and the time for which it throttled others. What waited for it begins
  /// by `goOn`: not before all is cancelled, as what is cancelled may return at once.
  mutating func withdraw(_ gone: [Work]) -> [Step] {
    let gone = Set(gone.map { ObjectIdentifier($0) })
    for id in gone { running.removeValue(forKey: id) }
    for waiter in waiting.popAll() where !gone.contains(ObjectIdentifier(waiter.work)) { waiting.append(waiter) }
    if let work = opener, gone.contains(ObjectIdentifier(work)) { (opener, time) = (nil, nil) }
    guard let held, gone.contains(ObjectIdentifier(held.work)) else { return [] }
    self.held = nil
    if opener == nil { time = nil }
    return [.cancel(held.timer.task)]
  }

  /// Begins what nothing is in the way of any more.
  mutating func goOn(at now: Duration) -> [Step] {
    var steps: [Step] = []
    if time == nil, let held, case .throttled(let interval) = held.policy {
      // It throttles others in turn.
      self.held = nil
      time = now + min(interval, .longest)
      opener = held.work
      steps = [.cancel(held.timer.task), start(held.work)]
    }
    return steps + startWaiting()
  }

  mutating func ended(_ work: Work) -> [Step] {
    running.removeValue(forKey: ObjectIdentifier(work)) != nil ? startWaiting() : []
  }

  private mutating func startWaiting() -> [Step] {
    var steps: [Step] = []
    while !waiting.isEmpty, let next = waiting[0], mayStart(by: next.policy) {
      _ = waiting.popFirst()
      steps.append(start(next.work))
    }
    return steps
  }

  /// Likewise, when nothing is to begin any more.
  mutating func endedLast(_ work: Work) -> [Step] {
    running.removeValue(forKey: ObjectIdentifier(work))
    return waiting.popAll().map { .leaveOut($0.work) }
  }

  /// What a timer is to do, when it starts and whenever it wakes.
  mutating func timerWoke(_ timer: Work, at now: Duration) -> TimerStep {
    guard let (work, policy, current) = held, current.task === timer, let time else { return .end }
    guard time <= now else {
      held?.timer.wakes = time
      return .sleep(until: time)
    }
    held = nil
    if case .throttled(let interval) = policy {
      self.time = now + min(interval, .longest)
      opener = work
    } else {
      self.time = nil
      opener = nil
    }
    running[ObjectIdentifier(work)] = work
    return .run(work)
  }

  private func mayStart(by policy: EffectPolicy) -> Bool {
    if case .concurrent(let limit) = policy { running.count < max(1, limit) } else { running.isEmpty && held == nil }
  }

  private mutating func start(_ work: Work) -> Step {
    running[ObjectIdentifier(work)] = work
    return .start(work)
  }

  private mutating func cancelStarted() -> [Step] {
    let steps = running.values.map { Step.cancel($0) } + waiting.popAll().map { .leaveOut($0.work) }
    running = [:]
    return steps
  }

  private mutating func hold(
    _ work: Work, _ policy: EffectPolicy, until time: Duration, _ makeTimer: () -> Work
  ) -> [Step] {
    self.time = time
    var steps: [Step] = []
    if let (replaced, _, timer) = held {
      held = (work, policy, timer)
      steps.append(.leaveOut(replaced))
      if timer.wakes <= time { return steps }
      steps.append(.cancel(timer.task))
    }
    let timer = Timer(task: makeTimer(), wakes: time)
    held = (work, policy, timer)
    return steps + [.startTimer(timer.task)]
  }
}

extension EffectTurns: Sendable where Work: Sendable {}
extension EffectTurns.Timer: Sendable where Work: Sendable {}
