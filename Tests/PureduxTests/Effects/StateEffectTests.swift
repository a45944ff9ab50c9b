import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

private final class Job: Sendable {
  let number: Int
  init(_ number: Int) { self.number = number }
}

/// The state machines of effects of the state, without concurrency.
@Suite struct StateEffectTests {
  /// Random begins and ends, and a minimal shell: the last request for each element is fulfilled, and two never run at
  /// once.
  @Test(arguments: 1...50) func `in any order of events, no two run for one element, and the last request is fulfilled`(
    seed: UInt64
  ) {
    var generator = SeededGenerator(seed: seed)
    var scheduler = StateEffectScheduler<Int, Job>()
    var running: [Int: [Job]] = [:]
    var cancelled: Set<Int> = []
    var wished: [Int: [Int]] = [:]
    var count = 0
    func carryOut(_ steps: [StateEffectScheduler<Int, Job>.Step]) {
      for step in steps {
        switch step {
        case .cancel(let job): cancelled.insert(job.number)
        case .start(let job, let id): running[id, default: []].append(job)
        }
      }
    }
    for _ in 1...400 {
      let id = Int.random(in: 0..<3, using: &generator)
      switch Int.random(in: 0..<4, using: &generator) {
      case 0:
        let jobs = (0..<Int.random(in: 1...2, using: &generator)).map { _ in
          count += 1
          return Job(count)
        }
        wished[id] = jobs.map(\.number)
        carryOut(scheduler.begin(jobs, for: id))
      case 1:
        wished[id] = []
        carryOut(scheduler.end(id))
      default:
        guard let job = running[id]?.randomElement(using: &generator) else { continue }
        running[id]?.removeAll { $0 === job }
        wished[id]?.removeAll { $0 == job.number }
        carryOut(scheduler.ended(job, for: id))
      }
      for (id, jobs) in running {
        let current = jobs.map(\.number).filter { !cancelled.contains($0) }
        // Each running job is requested, or all of them are cancelled.
        #expect(current.isEmpty || Set(current) == Set(wished[id] ?? []), "seed \(seed)")
        #expect(jobs.count <= 2, "seed \(seed)")
      }
    }
    // When the cancelled jobs have ended, the last requested one runs.
    for id in 0..<3 {
      while let job = running[id]?.first(where: { cancelled.contains($0.number) }) {
        running[id]?.removeAll { $0 === job }
        carryOut(scheduler.ended(job, for: id))
      }
      #expect(Set((running[id] ?? []).map(\.number)) == Set(wished[id] ?? []), "seed \(seed)")
    }
    carryOut(scheduler.endAll())
    let late = Job(0)
    carryOut(scheduler.begin([late], for: 0))
    #expect(cancelled.contains(0))
    #expect(running.values.joined().allSatisfy { cancelled.contains($0.number) })
  }

  @Test func `after the end of the states, running effects continue, and no others begin`() {
    var scheduler = StateEffectScheduler<Int, Job>()
    let jobs = (1...4).map(Job.init)
    _ = scheduler.begin([jobs[0]], for: 1)
    _ = scheduler.begin([jobs[1]], for: 1)
    _ = scheduler.begin([jobs[2]], for: 2)
    func cancelled(_ steps: [StateEffectScheduler<Int, Job>.Step]) -> [Int] {
      steps.compactMap { if case .cancel(let job) = $0 { job.number } else { nil } }
    }
    #expect(cancelled(scheduler.close()) == [2])
    #expect(cancelled(scheduler.begin([jobs[3]], for: 3)) == [4])
    #expect(scheduler.ended(jobs[0], for: 1).isEmpty)
    #expect(scheduler.isOver(1))
    #expect(!scheduler.isOver(2))
    #expect(cancelled(scheduler.endAll()) == [3])
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
