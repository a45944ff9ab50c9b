import Puredux
import PureduxTestSupport
import Testing

/// A child store may set its interceptor, as the root store may.
@Suite(.timeLimit(.minutes(15))) struct G8ChildInterceptors {
  private func noting(_ name: String, in notes: Record<String>) -> Interceptor<Snapshot, Int> {
    .effects(before: \.root.count) { action, before, context in
      notes.add("\(name) \(action) \(before) \(context.state.root.count) \(context.position)")
      return nil
    }
  }

  @Test(arguments: Kind.children, [false, true])
  func `a child's new interceptor is called at its place on the path, from its place in the order on`(
    kind: Kind, rootSetsLater: Bool
  ) async throws {
    let notes = Record<String>()
    let subject = Subject(kind, interceptors: rootSetsLater ? nil : noting("root", in: notes))
    let parent = try #require(subject.children.last)
    let child = parent.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, interceptors: noting("made", in: notes),
      reducer: { $0.enter($1) })
    let (grandchild, sibling) = (child.ledgerChild(), parent.ledgerChild())
    grandchild.dispatch(1)
    grandchild.interceptActions(with: noting("grandchild", in: notes))
    parent.interceptActions(with: noting("parent", in: notes))
    if rootSetsLater { subject.root.interceptActions(with: noting("root", in: notes)) }
    grandchild.dispatch(2)
    sibling.dispatch(3)
    child.interceptActions(with: noting("set", in: notes))
    parent.interceptActions(with: Interceptor(combining: []))
    grandchild.dispatch(4)
    try await grandchild.send(5)
    await grandchild.shutdown()
    try await child.send(6)
    try await subject.root.send(7)
    var expected = ["made 1 0 1 1"]
    if !rootSetsLater { expected.append("root 1 0 1 1") }
    expected += ["grandchild 2 1 2 2", "made 2 1 2 2", "parent 2 1 2 2", "root 2 1 2 2"]
    expected += ["parent 3 2 3 3", "root 3 2 3 3"]
    for number in 4...5 {
      let rest = "\(number) \(number - 1) \(number) \(number)"
      expected += ["grandchild \(rest)", "set \(rest)", "root \(rest)"]
    }
    expected += ["set 6 5 6 6", "root 6 5 6 6", "root 7 6 7 7"]
    #expect(notes.all == expected)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.children)
  func `its effects belong to the store that the action was given to`(kind: Kind) async throws {
    let subject = Subject(kind)
    let child = try #require(subject.children.last)
    let seen = Record<Int>()
    child.interceptActions { action, dispatch in
      seen.add(action)
      if action < 3 { dispatch(action + 1) }
    }
    child.dispatch(1)
    await subject.root.settled()
    #expect(seen.all == [1, 2, 3])
    #expect(await child.state.locals.last == Ledger(count: 3, last: 3))
    subject.root.dispatch(1)
    await subject.root.settled()
    #expect(seen.all == [1, 2, 3])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.children)
  func `effects of the state last until another interceptor is set`(kind: Kind) async throws {
    let (ended, seen) = (Record<String>(), Record<String>())
    let subject = Subject(kind)
    let parent = try #require(subject.children.last)
    let effects = { @Sendable (name: String) in
      Interceptor<Snapshot, Int>.effects(
        ofState: .while({ $0.root.count < 100 }) {
          .run { _ in
            seen.add(name)
            await untilCancelled()
            ended.add(name)
          }
        })
    }
    let child = parent.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, interceptors: effects("made"), reducer: { $0.enter($1) })
    await seen.untilCount(1)
    child.interceptActions(with: effects("set"))
    await seen.untilCount(2)
    await ended.untilCount(1)
    child.interceptActions(with: Interceptor(combining: []))
    await ended.untilCount(2)
    #expect(seen.all == ["made", "set"])
    #expect(ended.all == ["made", "set"])
    await subject.root.shutdown()
  }

  @Test func `nothing remains of a child's interceptors after its release`() async throws {
    let gone: Gate
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let seen = Record<Int>()
    root.interceptActions { action, _ in seen.add(action) }
    do {
      let held = Token()
      let child = root.childStore(initialState: 0) { $0 += $1 }
      let grandchild = child.childStore(initialState: 0) { $0 += $1 }
      child.interceptActions(
        with: .effects { [held] _, _ in
          _ = held
          return nil
        })
      grandchild.interceptActions(
        with: .effects(
          ofState: .while({ [held] _ in
            _ = held
            return false
          }) { nil }))
      try await grandchild.send(1)
      await seen.untilCount(1)
      gone = held.gone
    }
    await gone.wait()
    try await root.send(2)
    await root.settled()
    #expect(seen.all.sorted() == [1, 2])
    await root.shutdown()
  }
}
