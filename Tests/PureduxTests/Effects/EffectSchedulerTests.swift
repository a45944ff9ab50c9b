import Foundation
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

private final class Job: ScheduledWork, CustomStringConvertible {
  let number: Int
  var place = 0
  init(_ number: Int) { self.number = number }
  var description: String { "\(number)" }
}

/// The state machine, a minimal shell, and a manual time.
private struct Jobs {
  var machine = EffectScheduler<Job>()
  var now = Duration.zero
  var running: [Int: Job] = [:]
  var leftOut: [Int] = []
  var turnedAway: [Int] = []
  var cancelled: [Int] = []
  var begun: [Int] = []
  var timers: [(timer: Job, until: Duration)] = []
  private var timerCount = 0

  mutating func add(_ number: Int, _ policy: EffectPolicy) {
    timerCount += 1
    let timer = Job(-timerCount)
    let job = Job(number)
    jobs[number] = job
    carryOut(machine.add(job, policy, at: now) { timer })
  }

  mutating func cancel() { carryOut(machine.cancelAll()) }

  /// The jobs by their numbers, for their owners.
  private var jobs: [Int: Job] = [:]
  var withdrawn: Set<Int> = []
  /// The jobs that began after they had been withdrawn.
  var tooLate: [Int] = []

  /// - Parameter meanwhile: Runs between the two steps, like another thread.
  mutating func withdraw(_ numbers: [Int], meanwhile: (inout Jobs) -> Void = { _ in }) {
    withdrawn.formUnion(numbers)
    for number in numbers { running[number] = nil }
    carryOut(machine.withdraw(numbers.compactMap { jobs[$0] }))
    meanwhile(&self)
    carryOut(machine.goOn(at: now))
  }

  mutating func end(_ number: Int, isLast: Bool = false) {
    guard let job = running.removeValue(forKey: number) else { return }
    carryOut(isLast ? machine.endedLast(job) : machine.ended(job))
  }

  mutating func advance(by duration: Duration) {
    now += duration
    while let index = timers.firstIndex(where: { $0.until <= now }) { wake(timers.remove(at: index).timer) }
  }

  private mutating func wake(_ timer: Job) {
    switch machine.timerWoke(timer, at: now) {
    case .sleep(let until): timers.append((timer, until))
    case .begin: if let job = machine.begin(timer, at: now) { begin(job) }
    case .end: break
    }
  }

  private mutating func begin(_ job: Job) {
    if withdrawn.contains(job.number) { tooLate.append(job.number) }
    begun.append(job.number)
    running[job.number] = job
  }

  private mutating func carryOut(_ steps: [EffectScheduler<Job>.Step]) {
    for step in steps {
      switch step {
      case .start(let job): begin(job)
      case .startTimer(let timer): wake(timer)
      case .cancel(let job) where job.number < 0: timers.removeAll { $0.timer === job }
      case .cancel(let job):
        cancelled.append(job.number)
        running[job.number] = nil
      case .leaveOut(let job): leftOut.append(job.number)
      case .turnAway(let job): turnedAway.append(job.number)
      }
    }
  }
}

@Suite struct EffectSchedulerTests {
  @Test(arguments: [EffectPolicy.inTurn(), .concurrent(limit: 1)])
  func `no effect begins or is kept beyond the last permitted one`(policy: EffectPolicy) {
    var jobs = Jobs()
    for number in 1...3 { jobs.add(number, policy) }
    jobs.end(1, isLast: true)
    #expect(jobs.begun == [1])
    #expect(jobs.leftOut == [2, 3])
    #expect(jobs.machine.count == 0)
  }

  @Test(arguments: [EffectPolicy.inTurn(), .concurrent(limit: 1)])
  func `an end that another effect waits for has a place in the order, at which the other may have been cancelled`(
    policy: EffectPolicy
  ) throws {
    var jobs = Jobs()
    jobs.add(1, policy)
    jobs.add(2, policy)
    let firstEndedAlone = try jobs.machine.endedAlone(#require(jobs.running[1]))
    #expect(!firstEndedAlone)
    #expect(jobs.begun == [1])
    // The commit that has added the second job cancels it.
    jobs.add(3, .latest)
    jobs.end(1)
    #expect(jobs.begun == [1, 3])
    let thirdEndedAlone = try jobs.machine.endedAlone(#require(jobs.running[3]))
    #expect(thirdEndedAlone)
    #expect(jobs.machine.count == 0)
  }

  @Test(arguments: [
    EffectPolicy.debounced(for: .seconds(1)), .throttled(for: .seconds(1), latest: true),
  ])
  func `a timer's effect begins in its place in the order, where it may have been cancelled`(policy: EffectPolicy) {
    let (first, second, timer) = (Job(1), Job(2), Job(-1))
    var machine = EffectScheduler<Job>()
    if case .throttled = policy { _ = machine.add(first, policy, at: .zero) { timer } }
    _ = machine.add(second, policy, at: .zero) { timer }
    var hasTurn = false
    if case .begin = machine.timerWoke(timer, at: .seconds(1)) { hasTurn = true }
    #expect(hasTurn)
    _ = machine.cancelAll()
    let begun = machine.begin(timer, at: .seconds(1))
    #expect(begun == nil)
    #expect(machine.count == 0)
  }

  @Test func `an effect that replaces another between its timer's wake and its turn waits for its own time`() {
    let timer = Job(-1)
    var machine = EffectScheduler<Job>()
    _ = machine.add(Job(1), .debounced(for: .seconds(1)), at: .zero) { timer }
    _ = machine.timerWoke(timer, at: .seconds(1))
    _ = machine.add(Job(2), .debounced(for: .seconds(1)), at: .seconds(1)) { Job(-2) }
    let early = machine.begin(timer, at: .seconds(1))
    #expect(early == nil)
    var wakes: Duration?
    if case .sleep(let until) = machine.timerWoke(timer, at: .seconds(1)) { wakes = until }
    #expect(wakes == .seconds(2))
    let begun = machine.begin(timer, at: .seconds(2))
    #expect(begun?.number == 2)
  }

  @Test func `an effect in turn also waits for an earlier held effect that has begun meanwhile`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(1)))
    jobs.add(2, .inTurn())
    jobs.advance(by: .seconds(1))
    jobs.add(3, .newest(limit: 5))
    #expect(jobs.begun == [1, 3])
    jobs.end(1)
    #expect(jobs.begun == [1, 3, 2])
  }

  @Test func `the window of a throttled effect that was held begins with the effect, and not with its timer`() {
    let timer = Job(-1)
    let policy = EffectPolicy.throttled(for: .seconds(1), latest: true)
    var machine = EffectScheduler<Job>()
    _ = machine.add(Job(1), policy, at: .zero) { timer }
    _ = machine.add(Job(2), policy, at: .milliseconds(500)) { timer }
    let begun = machine.begin(timer, at: .milliseconds(1_500))
    #expect(begun?.number == 2)
    let steps = machine.add(Job(3), policy, at: .milliseconds(2_200)) { Job(-2) }
    #expect(steps.allSatisfy { if case .start = $0 { false } else { true } })
  }

  @Test func `an earlier time takes the place of a later one`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(10)))
    jobs.add(2, .debounced(for: .seconds(1)))
    #expect(jobs.timers.map(\.until) == [.seconds(1)])
    jobs.advance(by: .seconds(1))
    #expect(jobs.begun == [2])
    #expect(jobs.leftOut == [1])
    #expect(jobs.timers.isEmpty)
  }

  @Test func `the same timer sleeps for a later time after the earlier one`() {
    var jobs = Jobs()
    for number in 1...100 {
      jobs.add(number, .debounced(for: .seconds(2)))
      jobs.advance(by: .seconds(1))
      #expect(jobs.timers.count == 1)
    }
    jobs.advance(by: .seconds(1))
    #expect(jobs.begun == [100])
  }

  @Test func `the first effect excludes also effects that wait for their time or turn`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(1)))
    jobs.add(2, .first)
    #expect(jobs.begun == [])
    #expect(jobs.leftOut == [2])
    jobs.advance(by: .seconds(1))
    jobs.end(1)
    jobs.add(3, .throttled(for: .seconds(5)))
    jobs.add(4, .throttled(for: .seconds(5)))
    jobs.end(3)
    jobs.add(5, .first)
    #expect(jobs.begun == [1, 3])
    #expect(jobs.leftOut == [2, 5])
  }

  @Test func `each policy respects earlier effects of other policies`() {
    var jobs = Jobs()
    jobs.add(1, .concurrent(limit: 5))
    jobs.add(2, .inTurn())
    jobs.add(3, .first)
    #expect(jobs.begun == [1])
    #expect(jobs.leftOut == [3])
    jobs.add(4, .debounced(for: .seconds(1)))
    #expect(jobs.cancelled == [1])
    #expect(jobs.leftOut == [3, 2])
    jobs.add(5, .latest)
    #expect(jobs.begun == [1, 5])
    #expect(jobs.leftOut == [3, 2, 4])
    jobs.cancel()
    #expect(jobs.cancelled == [1, 5])
    #expect(jobs.machine.isOver(at: jobs.now))
  }

  @Test func `an effect in turn waits for earlier held effects`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(1)))
    jobs.add(2, .inTurn())
    #expect(jobs.begun.isEmpty)
    jobs.advance(by: .seconds(1))
    #expect(jobs.begun == [1])
    jobs.end(1)
    #expect(jobs.begun == [1, 2])
  }

  @Test func `an effect in turn waits for no later effect`() {
    var jobs = Jobs()
    jobs.add(1, .inTurn())
    jobs.add(2, .inTurn())
    jobs.add(3, .concurrent(limit: 2))
    jobs.add(4, .throttled(for: .seconds(3600)))
    jobs.add(5, .throttled(for: .seconds(3600)))
    jobs.add(6, .inTurn())
    #expect(jobs.begun == [1, 4])
    jobs.end(1)
    // One job precedes 3; every other job precedes 6.
    #expect(jobs.begun == [1, 4, 2, 3])
    jobs.end(2)
    jobs.end(3)
    #expect(jobs.begun == [1, 4, 2, 3])
    jobs.end(4)
    #expect(jobs.begun == [1, 4, 2, 3])
    // A held job is replaced by a later one.
    jobs.add(7, .throttled(for: .seconds(1)))
    #expect(jobs.leftOut == [5])
    #expect(jobs.begun == [1, 4, 2, 3, 6])
    jobs.advance(by: .seconds(3600))
    #expect(jobs.begun == [1, 4, 2, 3, 6, 7])
  }

  @Test func `concurrent effects count the earlier ones, and begin in order`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(1)))
    jobs.add(2, .concurrent(limit: 1))
    jobs.add(3, .concurrent(limit: 10))
    #expect(jobs.begun.isEmpty)
    jobs.advance(by: .seconds(1))
    jobs.add(4, .throttled(for: .seconds(5)))
    #expect(jobs.begun == [1, 4])
    jobs.end(1)
    #expect(jobs.begun == [1, 4, 2, 3])
  }

  @Test func `a throttled effect neither waits for a debounced one nor replaces it`() {
    var jobs = Jobs()
    jobs.add(1, .debounced(for: .seconds(10)))
    jobs.add(2, .throttled(for: .seconds(1)))
    jobs.add(3, .throttled(for: .seconds(1)))
    #expect(jobs.begun == [2])
    jobs.advance(by: .seconds(1))
    #expect(jobs.begun == [2, 3])
    jobs.advance(by: .seconds(9))
    #expect(jobs.begun == [2, 3, 1])
    // The debounced job cancels both throttled ones and ends their window.
    jobs.add(4, .throttled(for: .seconds(100)))
    jobs.add(5, .throttled(for: .seconds(100)))
    jobs.add(6, .debounced(for: .seconds(1)))
    jobs.add(7, .throttled(for: .seconds(100)))
    #expect(jobs.begun == [2, 3, 1, 4, 7])
    #expect(jobs.leftOut == [5])
    #expect(jobs.cancelled == [1, 2, 3, 4])
  }

  @Test func `a throttle without the latest leaves out effects in its window`() {
    var jobs = Jobs()
    for number in 1...3 { jobs.add(number, .throttled(for: .seconds(5), latest: false)) }
    #expect(jobs.begun == [1])
    #expect(jobs.leftOut == [2, 3])
    #expect(jobs.timers.isEmpty)
    jobs.advance(by: .seconds(5))
    jobs.add(4, .throttled(for: .seconds(5)))
    jobs.add(5, .throttled(for: .seconds(5)))
    jobs.add(6, .throttled(for: .seconds(5), latest: false))
    jobs.advance(by: .seconds(5))
    #expect(jobs.begun == [1, 4, 5])
    #expect(jobs.leftOut == [2, 3, 6])
  }

  @Test func `the newest effects remain, whatever their policies`() {
    var jobs = Jobs()
    jobs.add(1, .throttled(for: .seconds(5)))
    jobs.add(2, .throttled(for: .seconds(5)))
    jobs.add(3, .inTurn())
    jobs.add(4, .newest(limit: 3))
    #expect(jobs.cancelled == [1])
    #expect(jobs.begun == [1, 4])
    jobs.add(5, .newest(limit: 3))
    // The job in turn no longer waits.
    #expect(jobs.leftOut == [2])
    #expect(jobs.begun == [1, 4, 3, 5])
    #expect(jobs.timers.isEmpty)
    jobs.add(6, .newest(limit: 0))
    #expect(jobs.cancelled == [1, 3, 4, 5])
    jobs.end(6)
    #expect(jobs.machine.count == 0)
    // The throttle's window outlasts the cancelled jobs.
    jobs.add(7, .throttled(for: .seconds(5), latest: false))
    #expect(jobs.leftOut == [2, 7])
  }

  @Test func `after a throttle's window the next effect begins, and the window is forgotten`() {
    var jobs = Jobs()
    jobs.add(1, .throttled(for: .seconds(5)))
    jobs.end(1)
    #expect(!jobs.machine.isOver(at: jobs.now))
    jobs.advance(by: .seconds(5))
    #expect(jobs.machine.isOver(at: jobs.now))
    jobs.add(2, .throttled(for: .seconds(5)))
    #expect(jobs.begun == [1, 2])
  }

  @Test(arguments: [Int.min, -1, 0, 1])
  func `limits below the minimum count as the minimum`(limit: Int) {
    var jobs = Jobs()
    jobs.add(1, .concurrent(limit: limit))
    jobs.add(2, .concurrent(limit: limit))
    #expect(jobs.begun == [1])
    jobs.end(1)
    #expect(jobs.begun == [1, 2])
    jobs.add(3, .inTurn(limit: limit))
    #expect(jobs.turnedAway == (limit > 0 ? [] : [3]))
  }

  @Test func `times of zero or less count as none`() {
    for time in [Duration.zero, .seconds(-1), .seconds(Int64.min)] {
      var jobs = Jobs()
      jobs.add(1, .debounced(for: time))
      jobs.add(2, .throttled(for: time))
      jobs.add(3, .throttled(for: time))
      #expect(jobs.begun == [1, 2, 3])
      #expect(jobs.timers.isEmpty)
    }
  }

  @Test(arguments: [EffectPolicy.first, .inTurn(limit: 0), .concurrent(limit: 1), .throttled(for: .seconds(5))])
  func `a withdrawn effect blocks no other`(policy: EffectPolicy) {
    var jobs = Jobs()
    jobs.add(1, policy)
    jobs.add(2, policy)
    jobs.withdraw([1, 2])
    #expect(jobs.machine.isOver(at: jobs.now))
    #expect(jobs.timers.isEmpty)
    jobs.add(3, policy)
    #expect(jobs.begun == [1, 3])
  }

  @Test func `an effect behind a withdrawn one begins, unless it is withdrawn, too`() {
    var jobs = Jobs()
    for number in 1...4 { jobs.add(number, .inTurn()) }
    jobs.withdraw([1, 2])
    #expect(jobs.begun == [1, 3])
    jobs.end(3)
    #expect(jobs.begun == [1, 3, 4])
    jobs.end(4)
    // Held jobs block others, too.
    jobs.add(5, .debounced(for: .seconds(1)))
    jobs.add(6, .inTurn())
    jobs.withdraw([5])
    #expect(jobs.begun == [1, 3, 4, 6])
    #expect(jobs.timers.isEmpty)
  }

  @Test func `a window belongs to the effect that began it, also after that effect's end`() {
    var jobs = Jobs()
    jobs.add(1, .throttled(for: .seconds(5)))
    jobs.end(1)
    jobs.withdraw([1])
    jobs.add(2, .throttled(for: .seconds(5)))
    #expect(jobs.begun == [1, 2])
    jobs.add(3, .throttled(for: .seconds(5)))
    // A job that another one held back begins when that is withdrawn, and with it its own window.
    jobs.advance(by: .seconds(1))
    jobs.withdraw([2])
    #expect(jobs.begun == [1, 2, 3])
    #expect(jobs.timers.isEmpty)
    jobs.add(4, .throttled(for: .seconds(5)))
    jobs.withdraw([4])
    jobs.add(5, .throttled(for: .seconds(5)))
    #expect(jobs.begun == [1, 2, 3])
    jobs.advance(by: .seconds(4))
    #expect(jobs.begun == [1, 2, 3])
    jobs.advance(by: .seconds(1))
    #expect(jobs.begun == [1, 2, 3, 5])
  }

  /// In any order of events, each job is begun, left out, turned away or withdrawn exactly once, and only begun jobs
  /// are cancelled.
  @Test func `no effect is lost or begun twice`() {
    let seed = UInt64.random(in: 0..<1_000_000_000)
    var random = SeededGenerator(seed: seed)
    for _ in 0..<500 {
      var jobs = Jobs()
      var count = 0
      for _ in 0..<60 {
        switch Int.random(in: 0..<11, using: &random) {
        case 0: jobs.cancel()
        case 10:
          let gone = (0..<3).map { _ in Int.random(in: 1...max(1, count), using: &random) }
          let ends = Bool.random(using: &random)
          let wakes = Duration.seconds(Int.random(in: 0...1, using: &random))
          jobs.withdraw(gone.filter { $0 <= count }) { jobs in
            jobs.advance(by: wakes)
            if ends, let number = jobs.running.keys.min() { jobs.end(number) }
          }
        case 1...2: jobs.advance(by: .seconds(Int.random(in: 0...3, using: &random)))
        case 3...5: if let number = jobs.running.keys.sorted().randomElement(using: &random) { jobs.end(number) }
        default:
          count += 1
          let time = Duration.seconds(Int.random(in: -1...3, using: &random))
          let limit = Int.random(in: 0...3, using: &random)
          let policies: [EffectPolicy] = [
            .latest, .newest(limit: limit), .first, .inTurn(limit: limit), .concurrent(limit: limit),
            .debounced(for: time), .throttled(for: time), .throttled(for: time, latest: false),
          ]
          jobs.add(count, policies.randomElement(using: &random)!)
        }
        // One timer for the debounced job, and one for the throttled one.
        #expect(jobs.timers.count <= 2, "seed \(seed)")
      }
      for _ in 0..<100 {
        jobs.advance(by: .seconds(3))
        for number in jobs.running.keys.sorted() { jobs.end(number) }
      }
      let outcomes = jobs.begun + jobs.leftOut + jobs.turnedAway
      #expect(Set(outcomes).count == outcomes.count, "seed \(seed)")
      #expect(jobs.tooLate.isEmpty, "seed \(seed)")
      #expect(Set(outcomes).union(jobs.withdrawn) == Set((0..<count).map { $0 + 1 }), "seed \(seed)")
      #expect(Set(jobs.cancelled).isSubset(of: jobs.begun), "seed \(seed)")
      #expect(Set(jobs.cancelled).count == jobs.cancelled.count, "seed \(seed)")
      #expect(jobs.machine.isOver(at: jobs.now), "seed \(seed)")
      #expect(jobs.timers.isEmpty, "seed \(seed)")
    }
  }

  enum Crowd: CaseIterable, Sendable {
    case waitingAndWithdrawn, replacedByTheNewest, endingBesideOneThatWaits

    fileprivate func run(_ count: Int) {
      var machine = EffectScheduler<Job>()
      let jobs = (0..<count).map { Job($0) }
      func add(_ job: Job, _ policy: EffectPolicy) { _ = machine.add(job, policy, at: .zero) { Job(-1) } }
      switch self {
      case .waitingAndWithdrawn:
        for job in jobs { add(job, .inTurn()) }
        for job in jobs.dropFirst() {
          _ = machine.withdraw([job])
          _ = machine.goOn(at: .zero)
        }
      case .replacedByTheNewest: for job in jobs { add(job, .newest(limit: count / 2)) }
      case .endingBesideOneThatWaits:
        let first = Job(-2)
        add(first, .inTurn())
        add(Job(-3), .inTurn())
        for job in jobs { add(job, .newest(limit: .max)) }
        for job in jobs { _ = machine.ended(job) }
      }
    }
  }

  @Test(arguments: Crowd.allCases)
  func `many effects under one id take a time in proportion to their number`(crowd: Crowd) {
    // The thread's own time excludes other work on the machine.
    func now() -> Double {
      var time = timespec()
      // SAFETY: the function writes to the variable, and keeps no pointer to it.
      unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
      return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
    func time(_ count: Int) -> Double {
      (0..<3).map { _ in
        let beginning = now()
        crowd.run(count)
        return now() - beginning
      }.min() ?? 0
    }
    // The ratio would be 64 if linear, and 4,096 if quadratic: caches and a sanitizer change it by less than eight.
    let ratio = time(32_000) / time(500)
    #expect(ratio < 512)
  }
}
