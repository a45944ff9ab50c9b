/// What runs and waits under one id in one store: a pure state machine, run under its slot's lock. Each effect is
/// treated by its own policy, beside the effects before it; later effects never hold it up.
///
/// Each mutating method returns what is to be done, in order. What it hands out is released outside the lock.
struct EffectScheduler<Work: AnyObject> {
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

  /// One that has come and not ended.
  fileprivate struct Entry {
    let work: Work
    /// Counted in commit order: what has a lower one came before.
    let number: Int
  }

  /// Begins when its time has come.
  fileprivate struct Held {
    let entry: Entry
    let time: Duration
    var timer: Timer
  }

  fileprivate struct Timer {
    let task: Work
    /// It wakes at this time, or before.
    var wakes: Duration
  }

  /// The time after a throttled effect has begun, in which no other throttled effect may begin.
  fileprivate struct Window {
    /// It may have ended.
    let opener: Work
    let end: Duration
  }

  private var running: [ObjectIdentifier: Entry] = [:]
  /// The highest number of an effect that has begun.
  private var highestBegun = 0
  private var lastNumber = 0
  /// Effects that begin when fewer than `limit` of the effects before them are unfinished.
  private var waiting = Queue<(entry: Entry, limit: Int)>()
  private var debounced: Held?
  private var throttled: (held: Held, interval: Duration)?
  private var window: Window?

  /// The debounced and the throttled effect that wait for their time.
  private var held: [Held] { [debounced, throttled?.held].compactMap { $0 } }

  /// How many are unfinished: they run, wait, or are held until their time.
  var count: Int { taskCount + waiting.count }
  /// How many tasks that makes, timers included.
  var taskCount: Int { running.count + (debounced == nil ? 0 : 1) + (throttled == nil ? 0 : 1) }

  /// Whether it can be forgotten.
  func isOver(at now: Duration) -> Bool { count == 0 && (window.map { $0.end <= now } ?? true) }

  /// - Parameter makeTimer: Called if a timer is needed and there is none.
  mutating func add(
    _ work: Work, _ policy: EffectPolicy, at now: Duration, makeTimer: () -> Work
  ) -> [Step] {
    lastNumber += 1
    let entry = Entry(work: work, number: lastNumber)
    switch policy {
    case .latest: return cancelAll() + [start(entry)]
    case .newest(let limit):
      return cancelOldest(leaving: max(1, limit) - 1) + startWaiting() + [start(entry)]
    case .first: return [count == 0 ? start(entry) : .leaveOut(work)]
    case .inTurn(let limit):
      if count == 0 { return [start(entry)] }
      guard waiting.count < limit else { return [.turnAway(work)] }
      waiting.append((entry, 1))
      return []
    case .concurrent(let limit):
      if waiting.isEmpty, count < max(1, limit) { return [start(entry)] }
      waiting.append((entry, max(1, limit)))
      return []
    case .debounced(let delay):
      guard delay > .zero else { return cancelAll() + [start(entry)] }
      // The timer of the one that it replaces is its own from now on, if that is possible.
      let time = now + min(delay, .longest)
      let replaced = debounced.take()
      var steps = cancelAll()
      if let replaced { steps.append(.leaveOut(replaced.entry.work)) }
      let timer = timerWaking(at: time, inPlaceOf: replaced?.timer, makeTimer, &steps)
      debounced = Held(entry: entry, time: time, timer: timer)
      return steps
    case .throttled(let interval, let latest):
      guard interval > .zero else { return [start(entry)] }
      guard let window, window.end > now || throttled != nil else {
        return [start(entry, throttling: interval, at: now)]
      }
      guard latest else { return [.leaveOut(work)] }
      let replaced = throttled.take()?.held
      var steps: [Step] = []
      if let replaced { steps.append(.leaveOut(replaced.entry.work)) }
      let timer = timerWaking(at: window.end, inPlaceOf: replaced?.timer, makeTimer, &steps)
      throttled = (Held(entry: entry, time: window.end, timer: timer), interval)
      // One that waited for the replaced one may begin.
      return replaced == nil ? steps : steps + startWaiting()
    }
  }

  /// Cancels everything that is unfinished, and forgets it.
  mutating func cancelAll() -> [Step] {
    var steps = running.values.sorted { $0.number < $1.number }.map { Step.cancel($0.work) }
    steps += waiting.popAll().map { .leaveOut($0.entry.work) }
    for held in held { steps += [.leaveOut(held.entry.work), .cancel(held.timer.task)] }
    running = [:]
    debounced = nil
    throttled = nil
    window = nil
    return steps
  }

  /// Cancels the oldest unfinished effects.
  private mutating func cancelOldest(leaving limit: Int) -> [Step] {
    let surplus = count - limit
    guard surplus > 0 else { return [] }
    var numbers = running.values.map(\.number) + held.map(\.entry.number)
    for index in 0..<waiting.count { if let next = waiting[index] { numbers.append(next.entry.number) } }
    // Most of the time, one is to go.
    let last = surplus == 1 ? numbers.min() ?? 0 : numbers.sorted()[surplus - 1]
    let oldest = running.values.filter { $0.number <= last }.sorted { $0.number < $1.number }
    for entry in oldest { running[ObjectIdentifier(entry.work)] = nil }
    var steps = oldest.map { Step.cancel($0.work) }
    for waiter in waiting.popAll() {
      if waiter.entry.number <= last { steps.append(.leaveOut(waiter.entry.work)) } else { waiting.append(waiter) }
    }
    if let held = debounced, held.entry.number <= last {
      debounced = nil
      steps += [.leaveOut(held.entry.work), .cancel(held.timer.task)]
    }
    if let held = throttled?.held, held.entry.number <= last {
      throttled = nil
      steps += [.leaveOut(held.entry.work), .cancel(held.timer.task)]
    }
    return steps
  }

  /// Whether an effect opened the current throttle window: its owners keep it, although it is over.
  func isOpener(_ work: Work) -> Bool { window?.opener === work }

  /// Forgets work that is about to be cancelled, and the window that it opened. What waited for it begins by `goOn`:
  /// not before all is cancelled, as what is cancelled may return at once.
  mutating func withdraw(_ gone: [Work]) -> [Step] {
    let gone = Set(gone.map { ObjectIdentifier($0) })
    for id in gone { running.removeValue(forKey: id) }
    for waiter in waiting.popAll() where !gone.contains(ObjectIdentifier(waiter.entry.work)) { waiting.append(waiter) }
    if let window, gone.contains(ObjectIdentifier(window.opener)) { self.window = nil }
    var steps: [Step] = []
    if let held = debounced, gone.contains(ObjectIdentifier(held.entry.work)) {
      debounced = nil
      steps.append(.cancel(held.timer.task))
    }
    if let held = throttled?.held, gone.contains(ObjectIdentifier(held.entry.work)) {
      throttled = nil
      steps.append(.cancel(held.timer.task))
    }
    return steps
  }

  /// Starts what a withdrawn effect or window held up.
  mutating func goOn(at now: Duration) -> [Step] {
    var steps: [Step] = []
    if window == nil, let (held, interval) = throttled.take() {
      steps = [.cancel(held.timer.task), start(held.entry, throttling: interval, at: now)]
    }
    return steps + startWaiting()
  }

  mutating func ended(_ work: Work) -> [Step] {
    running.removeValue(forKey: ObjectIdentifier(work)) != nil ? startWaiting() : []
  }

  private mutating func startWaiting() -> [Step] {
    var steps: [Step] = []
    while !waiting.isEmpty, let next = waiting[0], unfinishedCount(before: next.entry.number) < next.limit {
      _ = waiting.popFirst()
      steps.append(start(next.entry))
    }
    return steps
  }

  /// How many of the effects with a lower number are unfinished.
  private func unfinishedCount(before number: Int) -> Int {
    // Only effects of other policies overtake one that waits.
    let begun = highestBegun < number ? running.count : running.values.count { $0.number < number }
    return begun + held.count { $0.entry.number < number }
  }

  /// Removes an effect that has ended, when nothing is to begin any more: waiting effects are left out.
  mutating func endedLast(_ work: Work) -> [Step] {
    running.removeValue(forKey: ObjectIdentifier(work))
    return waiting.popAll().map { .leaveOut($0.entry.work) }
  }

  /// What a timer is to do, when it starts and whenever it wakes.
  mutating func timerWoke(_ timer: Work, at now: Duration) -> TimerStep {
    if let held = debounced, held.timer.task === timer {
      guard held.time <= now else {
        debounced?.timer.wakes = held.time
        return .sleep(until: held.time)
      }
      debounced = nil
      begin(held.entry)
      return .run(held.entry.work)
    }
    guard let (held, interval) = throttled, held.timer.task === timer else { return .end }
    guard held.time <= now else {
      throttled?.held.timer.wakes = held.time
      return .sleep(until: held.time)
    }
    throttled = nil
    begin(held.entry, throttling: interval, at: now)
    return .run(held.entry.work)
  }

  private mutating func begin(_ entry: Entry) {
    running[ObjectIdentifier(entry.work)] = entry
    highestBegun = max(highestBegun, entry.number)
  }

  private mutating func begin(_ entry: Entry, throttling interval: Duration, at now: Duration) {
    window = Window(opener: entry.work, end: now + min(interval, .longest))
    begin(entry)
  }

  private mutating func start(_ entry: Entry) -> Step {
    begin(entry)
    return .start(entry.work)
  }

  private mutating func start(_ entry: Entry, throttling interval: Duration, at now: Duration) -> Step {
    begin(entry, throttling: interval, at: now)
    return .start(entry.work)
  }

  /// A timer that wakes at a time or before: the one of what is replaced, if it does.
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
extension EffectScheduler.Entry: Sendable where Work: Sendable {}
extension EffectScheduler.Held: Sendable where Work: Sendable {}
extension EffectScheduler.Timer: Sendable where Work: Sendable {}
extension EffectScheduler.Window: Sendable where Work: Sendable {}
