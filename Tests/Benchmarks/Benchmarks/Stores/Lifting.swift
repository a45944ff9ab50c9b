import Benchmark
import Puredux

private struct Part: Sendable {
  var count = 0
  var trace: [Int] = [0]
}

private struct Whole: Sendable {
  var before = 0
  var part = Part()
  var guest: Part? = Part()
  var byID: [Int: Part] = Dictionary(uniqueKeysWithValues: (0..<1_000).map { ($0, Part()) })
}

private enum WholeAction: Sendable {
  case part(Int), guest(Int), element(Int, Int), other
}

@inline(__always) private func change(_ part: inout Part, _ step: Int) {
  part.count &+= step
  part.trace[0] = step
}

/// The cost of lifting, compared with a hand-written switch. Each reducer is the only one.
func lifting() {
  let operations = 200_000
  let reducer = Reducer<Part, Int> { part, step in change(&part, step) }
  @Sendable func run(_ reducer: Reducer<Whole, WholeAction>, _ action: @Sendable (Int) -> WholeAction) {
    var whole = Whole()
    for number in 0..<operations {
      reducer.reduce(&whole, action(number))
      blackHole(number)
    }
    blackHole(whole.part.count)
  }
  let byHand = Reducer<Whole, WholeAction> { whole, action in
    switch action {
    case .part(let step): change(&whole.part, step)
    case .guest(let step): if whole.guest != nil { change(&whole.guest!, step) }
    case .element(let id, let step):
      if let index = whole.byID.index(forKey: id) { change(&whole.byID.values[index], step) }
    case .other: break
    }
  }
  let part = reducer.lifted(to: \Whole.part) { (action: WholeAction) in
    if case .part(let step) = action { step } else { nil }
  }
  let guest = reducer.lifted(toOptional: \Whole.guest) { (action: WholeAction) in
    if case .guest(let step) = action { step } else { nil }
  }
  let element = reducer.lifted(toElements: \Whole.byID) { (action: WholeAction) -> (id: Int, action: Int)? in
    if case .element(let id, let step) = action { (id, step) } else { nil }
  }
  compare(Line(name: "lifted to a part", beside: "a switch", bound: 1.1), operations: operations) {
    run(part) { .part($0) }
  } theirs: {
    run(byHand) { .part($0) }
  }
  compare(Line(name: "lifted to an optional part", beside: "a switch", bound: 1.3), operations: operations) {
    run(guest) { .guest($0) }
  } theirs: {
    run(byHand) { .guest($0) }
  }
  compare(Line(name: "lifted to the elements of a dictionary", beside: "a switch", bound: 1.3), operations: operations)
  {
    run(element) { .element($0 % 1_000, $0) }
  } theirs: {
    run(byHand) { .element($0 % 1_000, $0) }
  }
}
