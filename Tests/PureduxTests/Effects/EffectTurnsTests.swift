import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

/// Some work, told apart by its number.
private final class Job: Sendable, CustomStringConvertible {
  let number: Int
  init(_ number: Int) { self.number = number }
  var description: String { "\(number)" }
}

/// The state machine with what its shell would do, in a time that goes on by hand.
private struct Turns {
  var machine = EffectTurns<Job>()
  var now = Duration.zero
  var running: [Int: Job] = [:]
  var leftOut: [Int] = []
  var turnedAway: [Int] = []
  var cancelled: [Int] = []
  var begun: [Int] = []
  /// The timers that sleep, and until when.
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

  /// The jobs by their numbers, as their owners know them.
  private var jobs: [Int: Job] = [:]
  var withdrawn: Set<Int> = []
  /// What has begun although it had been withdrawn.
  var tooLate: [Int] = []

  /// - Parameter meanwhile: What happens on other threads before it goes on.
  mutating func withdraw(_ numbers: [Int], meanwhile: (inout Turns) -> Void = { _ in }) {
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
    case .run(let job): begin(job)
    case .end: break
    }
  }

  private mutating func begin(_ job: Job) {
    if withdrawn.contains(job.number) { tooLate.append(job.number) }
    begun.append(job.number)
    running[job.number] = job
  }

  private mutating func carryOut(_ steps: [EffectTurns<Job>.Step]) {
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

@Suite struct EffectTurnsTests {
  @Test(arguments: [EffectPolicy.inTurn(), .concurrent(limit: 1)])
  func `behind the last that may begin nothing does, and nothing is kept`(policy: EffectPolicy) {
    var turns = Turns()
    for number in 1...3 { turns.add(number, policy) }
    turns.end(1, isLast: true)
    #expect(turns.begun == [1])
    #expect(turns.leftOut == [2, 3])
    #expect(turns.machine.count == 0)
  }

  @Test func `an earlier time takes the place of a later one`() {
    var turns = Turns()
    turns.add(1, .debounced(for: .seconds(10)))
    turns.add(2, .debounced(for: .seconds(1)))
    #expect(turns.timers.map(\.until) == [.seconds(1)])
    turns.advance(by: .seconds(1))
    #expect(turns.begun == [2])
    #expect(turns.leftOut == [1])
    #expect(turns.timers.isEmpty)
  }

  @Test func `a later time is slept for when the earlier has come, by the same timer`() {
    var turns = Turns()
    for number in 1...100 {
      turns.add(number, .debounced(for: .seconds(2)))
      turns.advance(by: .seconds(1))
      #expect(turns.timers.count == 1)
    }
    turns.advance(by: .seconds(1))
    #expect(turns.begun == [100])
  }

  @Test func `the first is first before those that wait for their time or turn, too`() {
    var turns = Turns()
    turns.add(1, .debounced(for: .seconds(1)))
    turns.add(2, .first)
    #expect(turns.begun == [])
    #expect(turns.leftOut == [2])
    turns.advance(by: .seconds(1))
    turns.end(1)
    turns.add(3, .throttled(for: .seconds(5)))
    turns.add(4, .throttled(for: .seconds(5)))
    turns.end(3)
    turns.add(5, .first)
    #expect(turns.begun == [1, 3])
    #expect(turns.leftOut == [2, 5])
  }

  @Test func `each policy deals with those of another before it`() {
    var turns = Turns()
    turns.add(1, .concurrent(limit: 5))
    turns.add(2, .inTurn())
    turns.add(3, .first)
    #expect(turns.begun == [1])
    #expect(turns.leftOut == [3])
    turns.add(4, .debounced(for: .seconds(1)))
    #expect(turns.cancelled == [1])
    #expect(turns.leftOut == [3, 2])
    turns.add(5, .latest)
    #expect(turns.begun == [1, 5])
    #expect(turns.leftOut == [3, 2, 4])
    turns.cancel()
    #expect(turns.cancelled == [1, 5])
    #expect(turns.machine.isOver(at: turns.now))
  }

  @Test func `one in turn waits for what is held before it`() {
    var turns = Turns()
    turns.add(1, .debounced(for: .seconds(1)))
    turns.add(2, .inTurn())
    #expect(turns.begun.isEmpty)
    turns.advance(by: .seconds(1))
    #expect(turns.begun == [1])
    turns.end(1)
    #expect(turns.begun == [1, 2])
  }

  @Test func `one in turn waits for nothing that comes after it`() {
    var turns = Turns()
    turns.add(1, .inTurn())
    turns.add(2, .inTurn())
    turns.add(3, .concurrent(limit: 2))
    turns.add(4, .throttled(for: .seconds(3600)))
    turns.add(5, .throttled(for: .seconds(3600)))
    turns.add(6, .inTurn())
    #expect(turns.begun == [1, 4])
    turns.end(1)
    // 3 has one before it, and 6 all.
    #expect(turns.begun == [1, 4, 2, 3])
    turns.end(2)
    turns.end(3)
    #expect(turns.begun == [1, 4, 2, 3])
    turns.end(4)
    #expect(turns.begun == [1, 4, 2, 3])
    // What was held before it is replaced by one that comes after it.
    turns.add(7, .throttled(for: .seconds(1)))
    #expect(turns.leftOut == [5])
    #expect(turns.begun == [1, 4, 2, 3, 6])
    turns.advance(by: .seconds(3600))
    #expect(turns.begun == [1, 4, 2, 3, 6, 7])
  }

  @Test func `concurrent ones count those before them, and begin in their order`() {
    var turns = Turns()
    turns.add(1, .debounced(for: .seconds(1)))
    turns.add(2, .concurrent(limit: 1))
    turns.add(3, .concurrent(limit: 10))
    #expect(turns.begun.isEmpty)
    turns.advance(by: .seconds(1))
    turns.add(4, .throttled(for: .seconds(5)))
    #expect(turns.begun == [1, 4])
    turns.end(1)
    #expect(turns.begun == [1, 4, 2, 3])
  }

  @Test func `a throttled one does not wait for the time of a debounced one, nor replaces it`() {
    var turns = Turns()
    turns.add(1, .debounced(for: .seconds(10)))
    turns.add(2, .throttled(for: .seconds(1)))
    turns.add(3, .throttled(for: .seconds(1)))
    #expect(turns.begun == [2])
    turns.advance(by: .seconds(1))
    #expect(turns.begun == [2, 3])
    turns.advance(by: .seconds(9))
    #expect(turns.begun == [2, 3, 1])
    // The debounced one cancels both, and ends their time.
    turns.add(4, .throttled(for: .seconds(100)))
    turns.add(5, .throttled(for: .seconds(100)))
    turns.add(6, .debounced(for: .seconds(1)))
    turns.add(7, .throttled(for: .seconds(100)))
    #expect(turns.begun == [2, 3, 1, 4, 7])
    #expect(turns.leftOut == [5])
    #expect(turns.cancelled == [1, 2, 3, 4])
  }

  @Test func `a throttle without the latest leaves out what comes in its time`() {
    var turns = Turns()
    for number in 1...3 { turns.add(number, .throttled(for: .seconds(5), latest: false)) }
    #expect(turns.begun == [1])
    #expect(turns.leftOut == [2, 3])
    #expect(turns.timers.isEmpty)
    turns.advance(by: .seconds(5))
    turns.add(4, .throttled(for: .seconds(5)))
    turns.add(5, .throttled(for: .seconds(5)))
    turns.add(6, .throttled(for: .seconds(5), latest: false))
    turns.advance(by: .seconds(5))
    #expect(turns.begun == [1, 4, 5])
    #expect(turns.leftOut == [2, 3, 6])
  }

  @Test func `the newest are left, whatever their policies`() {
    var turns = Turns()
    turns.add(1, .throttled(for: .seconds(5)))
    turns.add(2, .throttled(for: .seconds(5)))
    turns.add(3, .inTurn())
    turns.add(4, .newest(limit: 3))
    #expect(turns.cancelled == [1])
    #expect(turns.begun == [1, 4])
    turns.add(5, .newest(limit: 3))
    // The one in turn waits for nothing any more.
    #expect(turns.leftOut == [2])
    #expect(turns.begun == [1, 4, 3, 5])
    #expect(turns.timers.isEmpty)
    turns.add(6, .newest(limit: 0))
    #expect(turns.cancelled == [1, 3, 4, 5])
    turns.end(6)
    #expect(turns.machine.count == 0)
    // The time of the throttle is not that of those that are cancelled.
    turns.add(7, .throttled(for: .seconds(5), latest: false))
    #expect(turns.leftOut == [2, 7])
  }

  @Test func `a throttle that is over lets the next begin, and can be forgotten then`() {
    var turns = Turns()
    turns.add(1, .throttled(for: .seconds(5)))
    turns.end(1)
    #expect(!turns.machine.isOver(at: turns.now))
    turns.advance(by: .seconds(5))
    #expect(turns.machine.isOver(at: turns.now))
    turns.add(2, .throttled(for: .seconds(5)))
    #expect(turns.begun == [1, 2])
  }

  @Test(arguments: [Int.min, -1, 0, 1])
  func `limits that make no sense count as the least that does`(limit: Int) {
    var turns = Turns()
    turns.add(1, .concurrent(limit: limit))
    turns.add(2, .concurrent(limit: limit))
    #expect(turns.begun == [1])
    turns.end(1)
    #expect(turns.begun == [1, 2])
    turns.add(3, .inTurn(limit: limit))
    #expect(turns.turnedAway == (limit > 0 ? [] : [3]))
  }

  @Test func `times of zero or less are none`() {
    for time in [Duration.zero, .seconds(-1), .seconds(Int64.min)] {
      var turns = Turns()
      turns.add(1, .debounced(for: time))
      turns.add(2, .throttled(for: time))
      turns.add(3, .throttled(for: time))
      #expect(turns.begun == [1, 2, 3])
      #expect(turns.timers.isEmpty)
    }
  }

  @Test(arguments: [EffectPolicy.first, .inTurn(limit: 0), .concurrent(limit: 1), .throttled(for: .seconds(5))])
  func `what is withdrawn is in nobody's way`(policy: EffectPolicy) {
    var turns = Turns()
    turns.add(1, policy)
    turns.add(2, policy)
    turns.withdraw([1, 2])
    #expect(turns.machine.isOver(at: turns.now))
    #expect(turns.timers.isEmpty)
    turns.add(3, policy)
    #expect(turns.begun == [1, 3])
  }

  @Test func `who waits for what is withdrawn begins, unless it is withdrawn, too`() {
    var turns = Turns()
    for number in 1...4 { turns.add(number, .inTurn()) }
    turns.withdraw([1, 2])
    #expect(turns.begun == [1, 3])
    turns.end(3)
    #expect(turns.begun == [1, 3, 4])
    turns.end(4)
    // One that is held, too, keeps others waiting.
    turns.add(5, .debounced(for: .seconds(1)))
    turns.add(6, .inTurn())
    turns.withdraw([5])
    #expect(turns.begun == [1, 3, 4, 6])
    #expect(turns.timers.isEmpty)
  }

  @Test func `a time is that of who began it, also when that is over`() {
    var turns = Turns()
    turns.add(1, .throttled(for: .seconds(5)))
    turns.end(1)
    turns.withdraw([1])
    turns.add(2, .throttled(for: .seconds(5)))
    #expect(turns.begun == [1, 2])
    turns.add(3, .throttled(for: .seconds(5)))
    // What was held back by another begins when that is withdrawn, and its own time with it.
    turns.advance(by: .seconds(1))
    turns.withdraw([2])
    #expect(turns.begun == [1, 2, 3])
    #expect(turns.timers.isEmpty)
    turns.add(4, .throttled(for: .seconds(5)))
    turns.withdraw([4])
    turns.add(5, .throttled(for: .seconds(5)))
    #expect(turns.begun == [1, 2, 3])
    turns.advance(by: .seconds(4))
    #expect(turns.begun == [1, 2, 3])
    turns.advance(by: .seconds(1))
    #expect(turns.begun == [1, 2, 3, 5])
  }

  /// Whatever comes in whatever order: each is begun, left out, turned away or withdrawn, once, and what was cancelled
  /// was begun.
  @Test func `nothing is lost, and nothing begun twice`() {
    let seed = UInt64.random(in: 0..<1_000_000_000)
    var random = SeededGenerator(seed: seed)
    for _ in 0..<500 {
      var turns = Turns()
      var count = 0
      for _ in 0..<60 {
        switch Int.random(in: 0..<11, using: &random) {
        case 0: turns.cancel()
        case 10:
          let gone = (0..<3).map { _ in Int.random(in: 1...max(1, count), using: &random) }
          let ends = Bool.random(using: &random)
          let wakes = Duration.seconds(Int.random(in: 0...1, using: &random))
          turns.withdraw(gone.filter { $0 <= count }) { turns in
            turns.advance(by: wakes)
            if ends, let number = turns.running.keys.min() { turns.end(number) }
          }
        case 1...2: turns.advance(by: .seconds(Int.random(in: 0...3, using: &random)))
        case 3...5: if let number = turns.running.keys.sorted().randomElement(using: &random) { turns.end(number) }
        default:
          count += 1
          let time = Duration.seconds(Int.random(in: -1...3, using: &random))
          let limit = Int.random(in: 0...3, using: &random)
          let policies: [EffectPolicy] = [
            .latest, .newest(limit: limit), .first, .inTurn(limit: limit), .concurrent(limit: limit),
            .debounced(for: time), .throttled(for: time), .throttled(for: time, latest: false),
          ]
          turns.add(count, policies.randomElement(using: &random)!)
        }
        // One for the debounced, and one for the throttled.
        #expect(turns.timers.count <= 2, "seed \(seed)")
      }
      for _ in 0..<100 {
        turns.advance(by: .seconds(3))
        for number in turns.running.keys.sorted() { turns.end(number) }
      }
      let outcomes = turns.begun + turns.leftOut + turns.turnedAway
      #expect(Set(outcomes).count == outcomes.count, "seed \(seed)")
      #expect(turns.tooLate.isEmpty, "seed \(seed)")
      #expect(Set(outcomes).union(turns.withdrawn) == Set((0..<count).map { $0 + 1 }), "seed \(seed)")
      #expect(Set(turns.cancelled).isSubset(of: turns.begun), "seed \(seed)")
      #expect(Set(turns.cancelled).count == turns.cancelled.count, "seed \(seed)")
      #expect(turns.machine.isOver(at: turns.now), "seed \(seed)")
      #expect(turns.timers.isEmpty, "seed \(seed)")
    }
  }
}
