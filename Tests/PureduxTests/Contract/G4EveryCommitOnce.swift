import Puredux
import PureduxTestSupport
import Testing

/// After its first element, a sequence yields one element for each commit of the tree, in order, without gaps or
/// repeats.
@Suite(.timeLimit(.minutes(15))) struct G4EveryCommitOnce {
  @Test(arguments: Kind.allCases)
  func `a consumer that leaves its loop and returns continues where it left`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    for action in 1...100 { try await subject.store.send(action) }
    await subject.root.shutdown()
    var seen: [Snapshot] = []
    for count in [1, 2, 40, 3] { seen += await states.collect(count) }
    #expect(seen == Array(subject.expectedStates(during: Array(1...100)).prefix(46)))
    #expect(await (seen + states.collect()) == subject.expectedStates(during: Array(1...100)))
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `every commit of the store itself is delivered once`(kind: Kind, sends: Bool) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    for action in 1...100 {
      if sends { try await subject.store.send(action) } else { subject.store.dispatch(action) }
    }
    await subject.root.shutdown()
    #expect(await states.collect() == subject.expectedStates(during: Array(1...100)))
  }

  @Test(arguments: Kind.allCases)
  func `the commits of the root, of a sibling and of a store below are delivered too, once each`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let sibling = subject.root.ledgerChild()
    let below = subject.children.last?.ledgerChild() ?? subject.root.ledgerChild()
    let states = subject.states()
    subject.root.dispatch(1)
    sibling.dispatch(2)
    below.dispatch(3)
    subject.store.dispatch(4)
    await subject.root.shutdown()
    let seen = await states.collect()
    #expect(seen.map(\.root.last) == [0, 1, 2, 3, 4])
    for index in 0..<kind.depth { #expect(seen.map { $0.locals[index].last } == [0, 0, 0, 3, 4]) }
  }

  @Test(arguments: Kind.allCases)
  func `a duplicate filter omits exactly the states that equal the previously delivered one`(kind: Kind) async throws {
    let subject = Subject(kind)
    let tens = subject.states(removeStateDuplicates: .equal { $0.root.last / 10 })
    let both = subject.states(removeStateDuplicates: .equal { $0.root.last / 10 } && .equal { $0.root.last / 4 })
    let rising = subject.states(removeStateDuplicates: Equating { $1.root.last < $0.root.last + 10 })
    let first = subject.states(removeStateDuplicates: .alwaysEqual)
    let every = subject.states(removeStateDuplicates: .neverEqual)
    let different = subject.states(removeStateDuplicates: .equal)
    for action in 1...25 { subject.store.dispatch(action) }
    await subject.root.shutdown()
    #expect(await tens.collect().map(\.root.last) == [0, 10, 20])
    #expect(await both.collect().map(\.root.last) == [0, 4, 8, 10, 12, 16, 20, 24])
    #expect(await rising.collect().map(\.root.last) == [0, 10, 20])
    #expect(await first.collect().map(\.root.last) == [0])
    #expect(await every.collect().count == 26)
    #expect(await different.collect().count == 26)
  }

  @Test(arguments: Kind.allCases)
  func `while an optional scope is nil, its sequence omits elements`(kind: Kind) async throws {
    let subject = Subject(kind)
    let even = subject.store.scope(toOptional: { $0.root.last.isMultiple(of: 2) ? $0.root.last : nil })
    let odd = subject.store.scope(toOptional: { $0.root.last.isMultiple(of: 2) ? nil : $0.root.last })
    let evens = even.states()
    let odds = odd.states()
    let firstOdd = odd.states(removeStateDuplicates: .alwaysEqual)
    await #expect(throws: StoreError.stateUnavailable) { try await odd.state }
    for action in 1...4 { odd.dispatch(action) }
    #expect(try await even.state == 4)
    await #expect(throws: StoreError.stateUnavailable) { try await odd.send(6) { $0 } }
    #expect(try await even.state == 6, "the action was committed all the same")
    await subject.root.shutdown()
    #expect(await evens.collect() == [0, 2, 4, 6])
    #expect(await odds.collect() == [1, 3])
    #expect(await firstOdd.collect() == [1])
  }

  @Test func `a scope is computed once a commit for all its followers, and never without followers`() async throws {
    let evaluations = Record<Int>()
    let subject = Subject(.rootActor)
    let scope = subject.root.scope { snapshot in
      evaluations.add(snapshot.root.last)
      return snapshot.root.last
    }
    try await subject.root.send(1)
    #expect(evaluations.all.isEmpty)
    let sequences = (0..<10).map { _ in scope.states() }
    try await subject.root.send(2)
    let copy = scope
    try await copy.send(3)
    #expect(evaluations.all == Array(repeating: 1, count: 10) + [2, 3])
    for sequence in sequences { #expect(await sequence.collect(3) == [1, 2, 3]) }
    #expect(evaluations.all.count == 12)
  }

  @Test(arguments: Kind.allCases)
  func `after the last subscriber has left, nothing is computed`(kind: Kind) async throws {
    let subject = Subject(kind)
    let evaluations = Record<Int>()
    let scope = subject.store.scope { snapshot in
      evaluations.add(snapshot.root.last)
      return snapshot.root.last
    }
    let cancelled = Task { [states = scope.states()] in for await _ in states {} }
    for await _ in scope.scope(to: { $0 + 1 }).states(removeStateDuplicates: .equal) { break }
    cancelled.cancel()
    await cancelled.value
    _ = try await subject.store.state
    let count = evaluations.all.count
    for action in 1...10 { try await subject.store.send(action) }
    #expect(evaluations.all.count == count)
    #expect(await scope.states().collect(1) == [10])
  }
}
