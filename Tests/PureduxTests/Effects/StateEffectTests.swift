import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

private final class Job: ScheduledWork {
  let number: Int
  var place = 0
  init(_ number: Int) { self.number = number }
}

/// The state machines of effects of the state, without concurrency.
@Suite struct StateEffectTests {
  /// The work for one element, and a minimal shell.
  private struct Element {
    var scheduler = EffectScheduler<Job>()
    var running: [Job] = []
    var cancelled: Set<Int> = []
    var leftOut: Set<Int> = []
    /// The numbers of the last requested jobs that have not ended.
    var wished: Set<Int> = []

    var current: Set<Int> { Set(running.map(\.number)).subtracting(cancelled) }

    mutating func replace(with jobs: [Job]) {
      wished = Set(jobs.map(\.number))
      carryOut(scheduler.replace(with: jobs))
    }

    mutating func end(_ job: Job) {
      running.removeAll { $0 === job }
      wished.remove(job.number)
      carryOut(scheduler.ended(job))
    }

    mutating func close() { carryOut(scheduler.leaveOutWaiting()) }

    private mutating func carryOut(_ steps: [EffectScheduler<Job>.Step]) {
      for step in steps {
        switch step {
        case .start(let job): running.append(job)
        case .cancel(let job): cancelled.insert(job.number)
        case .leaveOut(let job): leftOut.insert(job.number)
        case .startTimer, .turnAway: Issue.record("Effects of the state have no timers, and none is turned away.")
        }
      }
    }
  }

  /// Random requests and ends: the last request is fulfilled, and two never run at once.
  @Test(arguments: 1...50) func `in any order of events, no two run for one element, and the last request is fulfilled`(
    seed: UInt64
  ) throws {
    var generator = SeededGenerator(seed: seed)
    var element = Element()
    var count = 0
    for _ in 1...400 {
      switch Int.random(in: 0..<4, using: &generator) {
      case 0:
        let size = Int.random(in: 1...3, using: &generator)
        element.replace(with: (1...size).map { Job(count + $0) })
        count += size
      case 1: element.replace(with: [])
      default:
        if let job = element.running.randomElement(using: &generator) { element.end(job) }
      }
      let isStale = element.running.contains { element.cancelled.contains($0.number) }
      // The requested jobs run when all replaced ones have ended, and not before.
      #expect(element.current == (isStale ? [] : element.wished), "seed \(seed)")
      #expect(element.scheduler.count == element.running.count + (isStale ? element.wished.count : 0), "seed \(seed)")
      #expect(element.leftOut.isDisjoint(with: element.running.map(\.number)), "seed \(seed)")
    }
    while let job = element.running.first(where: { element.cancelled.contains($0.number) }) { element.end(job) }
    #expect(element.current == element.wished, "seed \(seed)")
  }

  @Test func `after the end of the states, running effects continue, and no others begin`() throws {
    var element = Element()
    let jobs = (1...2).map(Job.init)
    element.replace(with: [jobs[0]])
    element.close()
    #expect(element.current == [1])
    element.replace(with: [jobs[1]])
    #expect(element.cancelled == [1])
    element.close()
    #expect(element.leftOut == [2])
    element.end(jobs[0])
    #expect(element.running.isEmpty)
    #expect(element.scheduler.count == 0)
  }

  /// Compares with dictionaries of the collections.
  @Test(arguments: 1...50) func `changes of a collection are those of its elements by id`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var changes = ElementChanges<Int, Int>()
    var known: [Int: Int] = [:]
    var elements: [(id: Int, value: Int)] = []
    for _ in 1...200 {
      for _ in 0..<Int.random(in: 0...3, using: &generator) {
        let element = (id: Int.random(in: 0..<12, using: &generator), value: Int.random(in: 0..<3, using: &generator))
        if let index = elements.firstIndex(where: { $0.id == element.id }) {
          if element.value == 0 { elements.remove(at: index) } else { elements[index] = element }
        } else {
          elements.insert(element, at: Int.random(in: 0...elements.count, using: &generator))
        }
      }
      if Int.random(in: 0..<10, using: &generator) == 0 { elements.shuffle(using: &generator) }
      if Int.random(in: 0..<20, using: &generator) == 0 { elements = [] }
      changes.update(with: elements) { id in
        #expect(known.removeValue(forKey: id) != nil, "seed \(seed)")
      } begun: { element in
        #expect(known[element.id] != element.value, "seed \(seed)")
        known[element.id] = element.value
      }
      #expect(known == Dictionary(uniqueKeysWithValues: elements.map { ($0.id, $0.value) }), "seed \(seed)")
    }
  }

  /// Compares with the first element of each id.
  @Test(arguments: 1...50) func `of several elements with one id, the first counts`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var changes = ElementChanges<Int, Int>()
    var known: [Int: Int] = [:]
    var elements: [(id: Int, value: Int)] = []
    for _ in 1...300 {
      switch Int.random(in: 0..<6, using: &generator) {
      case 0, 1, 2:
        let element = (id: Int.random(in: 0..<5, using: &generator), value: Int.random(in: 0..<2, using: &generator))
        elements.insert(element, at: Int.random(in: 0...elements.count, using: &generator))
      case 3, 4:
        if !elements.isEmpty { elements.remove(at: Int.random(in: 0..<elements.count, using: &generator)) }
      default: elements.shuffle(using: &generator)
      }
      changes.update(with: elements) {
        known[$0] = nil
      } begun: {
        known[$0.id] = $0.value
      }
      let firsts = Dictionary(elements.map { ($0.id, $0.value) }, uniquingKeysWith: { first, _ in first })
      #expect(known == firsts, "seed \(seed)")
    }
  }
}
