import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

@Suite struct StateQueueTests {
  /// A state of `words` words. Its token counts the live states.
  private struct Held<let words: Int>: Equatable {
    var padding: [words of Int]
    let token: Token
    var number: Int { padding[0] }

    init(_ number: Int, _ token: Token = Token()) {
      padding = .init(repeating: number)
      self.token = token
    }

    static func == (lhs: Held, rhs: Held) -> Bool { lhs.number == rhs.number }
  }

  private func run<State>(seed: UInt64, make: (Int) -> State, number: (State) -> Int) {
    var random = SeededGenerator(seed: seed)
    var queue = StateQueue()
    var model: [Int] = []
    var copy = (queue: queue, model: model)
    var next = 0
    // The queue alternately grows and shrinks, over several segments each time.
    for round in 0..<40 {
      for _ in 0..<Int.random(in: 0...[3, 40, 700][round % 3], using: &random) {
        queue.append(make(next))
        model.append(next)
        next += 1
      }
      if let first = model.first, Bool.random(using: &random) {
        #expect(queue.replaceFirst(appending: make(next)).map(number) == first, "seed \(seed)")
        model = Array(model.dropFirst()) + [next]
        next += 1
      }
      if round.isMultiple(of: 7) { copy = (queue, model) }
      for _ in 0..<Int.random(in: 0...[900, 5, 60][round % 3], using: &random) {
        #expect(
          queue.popFirst(as: State.self).map(number) == (model.isEmpty ? nil : model.removeFirst()), "seed \(seed)")
      }
      #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
      #expect(queue.all(as: State.self).map(number) == model, "seed \(seed)")
      #expect(queue.state(at: model.count, as: State.self) == nil)
    }
    #expect(copy.queue.all(as: State.self).map(number) == copy.model, "a copy stays as it was, seed \(seed)")
  }

  @Test(arguments: 0..<10)
  func `states come out in the order in which they went in, whatever their size`(seed: UInt64) {
    run(seed: seed, make: { $0 }, number: { $0 })
    run(seed: seed, make: { UInt8(truncatingIfNeeded: $0) }, number: { Int($0) }) { Int(UInt8(truncatingIfNeeded: $0)) }
    run(seed: seed, make: { Held<1>($0) }, number: \.number)
    run(seed: seed, make: { Held<20>($0) }, number: \.number)
    run(seed: seed, make: { Held<700>($0) }, number: \.number)
    run(seed: seed, make: { "\($0)" as Any }, number: { ($0 as? String).flatMap { Int($0) } ?? -1 })
  }

  private func run<State>(seed: UInt64, make: (Int) -> State, number: (State) -> Int, of model: (Int) -> Int) {
    var queue = StateQueue()
    for index in 0..<1000 { queue.append(make(index)) }
    #expect(queue.all(as: State.self).map(number) == (0..<1000).map(model))
  }

  @Test(arguments: [1, 31, 32, 33, 1000])
  func `states moved to another queue are released with that queue, or when it is emptied`(count: Int) {
    let tokens = (0..<count).map { _ in Token() }
    let weak = tokens.map { Weak($0) }
    do {
      var (queue, other) = (StateQueue(), StateQueue())
      for (number, token) in zip(0..., consume tokens) { queue.append(Held<3>(number, token)) }
      let copy = queue
      for _ in 0..<count / 2 { queue.move(1, to: &other) }
      queue.move(1, to: &other)
      #expect(other.all(as: Held<3>.self).map(\.number) == Array(0...count / 2))
      #expect(queue.all(as: Held<3>.self).map(\.number) == Array(count / 2 + 1..<count))
      #expect(copy.count == count)
      other.removeAll()
      #expect(other.isEmpty && weak[0].object != nil, "the copy has it")
      queue.move(count, to: &other)
      queue.move(1, to: &other)
      #expect(other.count == count - count / 2 - 1)
    }
    #expect(weak.allSatisfy { $0.object == nil })
  }

  /// Holds however long the queue is in use: a segment is released once it is fully read.
  @Test func `no room for many states is kept if states are large`() {
    func room<State>(of state: State) -> Int {
      var queue = StateQueue()
      for _ in 0..<3 { queue.append(state) }
      for _ in 0..<1000 { _ = queue.replaceFirst(appending: state) }
      let states = queue.unique(of: State.self).queue
      return states.segments.all.reduce(0) { $0 + $1.capacity } * MemoryLayout<State?>.stride
    }
    #expect(room(of: 0) <= 3 * 4096)
    #expect(room(of: Held<25>(0)) <= 4 * 4096)
    #expect(room(of: Held<700>(0)) <= 8 * MemoryLayout<Held<700>?>.stride)
  }

  @Test func `states of no size are counted`() {
    var queue = StateQueue()
    for _ in 0..<1000 { queue.append(()) }
    for _ in 0..<1000 { #expect(queue.popFirst(as: Void.self) != nil) }
    #expect(queue.popFirst(as: Void.self) == nil)
  }

  @Test(arguments: [0, 1, 31, 32, 33, 1000])
  func `a taken state is released, and the rest with the queue and its last copy`(count: Int) {
    var weak: [Weak<Token>] = []
    do {
      var copy: StateQueue
      do {
        var queue = StateQueue()
        for number in 0..<count {
          let token = Token()
          weak.append(Weak(token))
          queue.append(Held<3>(number, token))
        }
        for number in 0..<count / 2 { #expect(queue.popFirst(as: Held<3>.self)?.number == number) }
        #expect(weak.prefix(count / 2).allSatisfy { $0.object == nil })
        #expect(weak.dropFirst(count / 2).allSatisfy { $0.object != nil })
        copy = queue
        _ = queue.popFirst(as: Held<3>.self)
      }
      #expect(weak.dropFirst(count / 2).allSatisfy { $0.object != nil }, "the copy has them")
      _ = copy.popFirst(as: Held<3>.self)
    }
    #expect(weak.allSatisfy { $0.object == nil })
  }
}
