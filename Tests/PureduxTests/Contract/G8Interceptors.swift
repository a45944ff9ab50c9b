import Puredux
import PureduxTestSupport
import Testing

/// Each action reaches the interceptor once, as a task of the store it was dispatched to.
@Suite(.timeLimit(.minutes(15))) struct G8Interceptors {
  @Test(arguments: Kind.allCases)
  func `every action reaches the interceptor once, however it is given`(kind: Kind) async throws {
    let seen = Record<Int>()
    let subject = Subject(kind, interceptors: Interceptor { action, _ in seen.add(action) })
    for action in 1...200 {
      if action.isMultiple(of: 3) { try await subject.store.send(action) } else { subject.store.dispatch(action) }
    }
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(seen.all.sorted() == Array(1...200))
  }

  @Test(arguments: Kind.allCases)
  func `an interceptor's dispatch goes to the store of the action, after earlier requests`(kind: Kind) async throws {
    let answer = Interceptor<Snapshot, Int>(where: { $0 < 100 }) { action, dispatch in
      #expect(dispatch(action + 100) == .enqueued)
      #expect(dispatch(action + 200) == .enqueued)
    }
    let subject = Subject(kind, interceptors: answer)
    let states = subject.states()
    subject.store.dispatch(1)
    let seen = await states.collect(4)
    #expect(seen == subject.expectedStates(during: [1, 101, 201]))
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `the tasks are cancelled when their store ends, and none outlives it`(kind: Kind, isReleased: Bool) async throws
  {
    let started = Gate()
    let cancelled = Gate()
    let answers = Record<DispatchResult>()
    var subject: Subject? = Subject(
      kind,
      interceptors: Interceptor { _, dispatch in
        started.open()
        await untilCancelled()
        answers.add(dispatch(2))
        cancelled.open()
      })
    subject?.store.dispatch(1)
    await started.wait()
    if isReleased {
      subject = nil
      await cancelled.wait()
    } else {
      await subject?.root.shutdown()
    }
    #expect(answers.all == [.terminated])
  }

  @Test func `the end of one store cancels its tasks and no others`() async throws {
    let started = (1...3).map { _ in Gate() }
    let cancelled = (1...3).map { _ in Gate() }
    let subject = Subject(
      .rootActor,
      interceptors: Interceptor { action, _ in
        started[action - 1].open()
        await untilCancelled()
        cancelled[action - 1].open()
      })
    var child: StateStore<Snapshot, Int>? = subject.root.ledgerChild()
    let sibling = subject.root.ledgerChild()
    subject.root.dispatch(1)
    child?.dispatch(2)
    sibling.dispatch(3)
    for gate in started { await gate.wait() }
    child = nil
    await cancelled[1].wait()
    await sibling.shutdown()
    await cancelled[2].wait()
    let late = Gate()
    subject.root.interceptActions { _, _ in late.open() }
    subject.root.dispatch(4)
    await late.wait()
    await subject.root.shutdown()
    await cancelled[0].wait()
  }

  @Test(arguments: Kind.allCases)
  func `no commit waits for an interceptor`(kind: Kind) async throws {
    let blocked = Gate()
    let subject = Subject(kind, interceptors: Interceptor { _, _ in await blocked.wait() })
    for action in 1...100 { subject.store.dispatch(action) }
    #expect(try await subject.store.send(101) { $0.root.count } == 101)
    blocked.open()
  }

  @Test(arguments: Kind.allCases)
  func `an interceptor may send, read and follow the store it serves`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let done = Gate()
    let subject = Subject(
      kind,
      interceptors: Interceptor(where: { $0 == 1 }) { _, _ in
        let store = proxies.all[0]
        let states = store.states()
        #expect((try? await store.send(2) { $0.root.last }) == 2)
        #expect((try? await store.state.root.last) == 2)
        #expect(await states.collect(2).map(\.root.last) == [1, 2])
        done.open()
      })
    proxies.add(subject.store.store())
    subject.store.dispatch(1)
    await done.wait()
  }
}
