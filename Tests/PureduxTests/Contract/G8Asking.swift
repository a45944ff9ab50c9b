import Puredux
import PureduxTestSupport
import Testing

/// An effect may wait for the commit of its own actions, and read its store.
@Suite(.timeLimit(.minutes(15))) struct G8Asking {
  @Test(arguments: Kind.allCases)
  func `an effect's send returns after its commit, which follows the effect's earlier dispatches`(kind: Kind)
    async throws
  {
    let reduced = Record<Int>()
    let seen = Record<[Int]>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          dispatch(2)
          dispatch.map { $0 + 1 }(2)
          try await dispatch.send(4)
          seen.add(reduced.all)
          dispatch(5)
          try await dispatch.map { $0 + 1 }.send(5)
          seen.add(reduced.all)
        }
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    subject.store.dispatch(1)
    await subject.root.settled()
    #expect(seen.all == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]])
    await subject.root.shutdown()
  }

  /// The `send` has its place after the action that cancels its effect.
  @Test(arguments: Kind.inMemory, [false, true])
  func `the action of a cancelled effect's send is not committed, and the send throws`(kind: Kind, isOfState: Bool)
    async throws
  {
    let (mayEnd, ended) = (Gate(isWork: true), Gate())
    let executor = HeldExecutor()
    let errors = Record<StoreError>()
    let reduced = Record<Int>()
    let effect = Effect<Int>.run { dispatch in
      try await dispatch.send(51)
      await mayEnd.wait()
      for dispatch in [dispatch, dispatch.map { $0 }] {
        do throws(StoreError) { try await dispatch.send(53) } catch { errors.add(error) }
      }
      ended.open()
    }
    let byID = Interceptor<Snapshot, Int>.effects { action, _ in
      switch action {
      case 1: effect.id("a")
      case 2: .cancel("a")
      default: nil
      }
    }
    let subject = Subject(
      kind, executor: .serial(executor), interceptors: isOfState ? nil : byID, reducing: { reduced.add($0) })
    if isOfState { subject.store.subscribe(effect: .while({ $0.root.last % 2 == 1 }) { effect }) }
    let states = subject.states()
    subject.store.dispatch(1)
    _ = await states.collect(until: { $0.root.last == 51 })
    executor.hold()
    subject.store.dispatch(2)
    let jobs = executor.enqueued
    mayEnd.open()
    await executor.untilEnqueued(jobs + 1)
    subject.store.dispatch(4)
    executor.letGo()
    await ended.wait()
    await subject.root.shutdown()
    #expect(reduced.all == [1, 51, 2, 4])
    #expect(errors.all == [.terminated, .terminated])
  }

  @Test(arguments: Kind.allCases)
  func `an effect's actions are committed while its store finishes, from any of the effect's tasks`(kind: Kind)
    async throws
  {
    let (started, mayGoOn) = (Gate(), Gate())
    let seen = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        return context.run { store in
          started.open()
          await mayGoOn.wait()
          try await store.send(2)
          try await Task.detached { try await store.send(3) }.value
          seen.add(try await store.send(4) { $0.root.count })
          seen.add(try await Task.detached { try await store.state.root.last }.value)
        }
      }, reporting: { Issue.record("\($0)") })
    let states = subject.states()
    subject.store.dispatch(1)
    await started.wait()
    let clock = ManualClock()
    let end = Task { await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: clock) }
    await clock.untilAsleep(1)
    mayGoOn.open()
    await end.value
    #expect(await states.collect() == subject.expectedStates(during: Array(1...4)))
    #expect(seen.all == [4, 4])
  }

  @Test(arguments: Kind.allCases)
  func `work with its store reads the state right after its commit, and follows the states`(kind: Kind)
    async throws
  {
    let seen = Record<Int>()
    let followed = Record<Int>()
    let ids = Record<StoreID>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        switch action {
        case 1:
          context.run { store in
            ids.add(store.id)
            seen.add(try await store.send(10) { $0.root.last })
            store.dispatch(11)
            seen.add(try await store.state.root.last)
          }
        case 2:
          context.run { store in
            for await state in store.states() as StateSequence { followed.add(state.root.last) }
          }
        default: nil
        }
      }, reporting: { Issue.record("\($0)") })
    subject.store.dispatch(1)
    await subject.root.settled()
    #expect(seen.all == [10, 11])
    #expect(ids.all == [subject.store.id])
    subject.store.dispatch(2)
    await subject.root.settled()
    subject.store.dispatch(3)
    await subject.root.settled()
    #expect(followed.all == [2, 3])
    await subject.root.shutdown()
  }

  @Test func `work with a store that omits commits sees the store's published states`() async throws {
    let followed = Record<Int>()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        return context.run { store in for await state in store.states() as StateSequence { followed.add(state) } }
      }, emits: .when { $1 % 2 == 0 }
    ) { $0 = $1 }
    root.dispatch(1)
    await root.settled()
    for action in 2...5 { try await root.send(action) }
    await root.settled()
    #expect(followed.all == [1, 2, 4])
    await root.shutdown()
  }

  private struct Room: Equatable, Sendable {
    var count = 0
  }

  private enum Action: Equatable, Sendable {
    case room(String, Int)
    case close(String)
  }

  @Test func `work of a lifted interceptor has its own element, whichever others are decided meanwhile`() async throws {
    let seen = Record<String>()
    let mayGoOn = Gate()
    let ofRoom = Interceptor<Room, Int>.effects { action, context in
      guard action == 1 else { return nil }
      return context.run { store in
        await mayGoOn.wait()
        do throws(StoreError) {
          seen.add("\(try await store.send(100) { $0.count }), \(try await store.state.count)")
        } catch {
          seen.add("\(error)")
        }
        do throws(StoreError) { seen.add("\(try await store.state.count)") } catch { seen.add("\(error)") }
      }
    }
    let lifted = ofRoom.lifted(elements: { (rooms: [String: Room]) in rooms }) { (action: Action) in
      if case .room(let id, let action) = action { (id: id, action: action) } else { nil }
    } into: {
      Action.room($0, $1)
    }
    let root = RootStore<[String: Room], Action>(
      initialState: ["a": Room(), "b": Room()],
      options: StoreOptions(reporting: { Issue.record("\($0)") }), interceptors: lifted
    ) { rooms, action in
      switch action {
      case .room(let id, let number): rooms[id]?.count += number
      case .close(let id): rooms[id] = nil
      }
    }
    try await root.send(.room("a", 1))
    try await root.send(.room("b", 5))
    mayGoOn.open()
    await root.settled()
    #expect(seen.all == ["101, 101", "101"])
    await root.shutdown()
  }

  @Test func `work of a lifted interceptor finds no state after its element is removed`() async throws {
    let errors = Record<StoreError>()
    let (started, mayGoOn) = (Gate(), Gate())
    let ofRoom = Interceptor<Room, Int>.effects { _, context in
      context.run { store in
        started.open()
        await mayGoOn.wait()
        do throws(StoreError) { _ = try await store.state } catch { errors.add(error) }
        do throws(StoreError) { try await store.send(1) } catch { errors.add(error) }
      }
    }
    let root = RootStore<[String: Room], Action>(
      initialState: ["a": Room()],
      interceptors: ofRoom.lifted(elements: { (rooms: [String: Room]) in rooms }) { (action: Action) in
        if case .room(let id, let action) = action { (id: id, action: action) } else { nil }
      } into: {
        Action.room($0, $1)
      }
    ) { rooms, action in if case .close(let id) = action { rooms[id] = nil } }
    try await root.send(.room("a", 1))
    await started.wait()
    try await root.send(.close("a"))
    mayGoOn.open()
    await root.settled()
    #expect(errors.all == [.stateUnavailable, .terminated])
    await root.shutdown()
  }
}
