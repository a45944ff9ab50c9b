import Puredux
import PureduxTestSupport
import Testing

private enum Trace {
  @TaskLocal static var id = 0
  @TaskLocal static var name = "none"
  @TaskLocal static var other = 0
}

/// In a store that carries task-local values, each commit and its effects have the values of the action's caller.
@Suite(.timeLimit(.minutes(15))) struct G8Context {
  private struct Sight: Sendable, Equatable {
    let place: String
    let action: Int
    let id: Int
    let name: String
    var other = 0

    static func here(_ place: String, _ action: Int) -> Sight {
      Sight(place: place, action: action, id: Trace.id, name: Trace.name, other: Trace.other)
    }
  }

  /// Actions below 1,000 come from outside. The effect of an action dispatches that action plus 1,000, unless it is
  /// 2,000 or more.
  private func effects(seen: Record<Sight>) -> Interceptor<Snapshot, Int> {
    Interceptor(combining: [
      .effects { action, _ in
        seen.add(.here("decide", action))
        if action >= 2000 { return nil }
        let effect = Effect<Int>.run { dispatch in
          seen.add(.here("effect", action))
          dispatch(action + 1000)
        }
        return switch action % 4 {
        case 0: effect
        case 1: effect.id(action)
        case 2: effect.id("turn", .inTurn())
        default: effect.id(action, .debounced(for: .nanoseconds(1)))
        }
      },
      .effects(
        ofState: .onChange(of: \.root.last) { action in
          .run { _ in seen.add(.here("of the state", action)) }
        }),
    ])
  }

  @Test(arguments: Kind.allCases)
  func `carried values are present in the commit, its effects, and their commits`(kind: Kind) async throws {
    let seen = Record<Sight>()
    let subject = Subject(
      kind, interceptors: effects(seen: seen), carrying: .values(of: Trace.$id, Trace.$name),
      middleware: [
        Middleware { action, _, next in
          seen.add(.here("middleware", action))
          next(action)
        }
      ], reducing: { seen.add(.here("reducer", $0)) })
    await withTaskGroup { callers in
      for caller in 1...8 {
        callers.addTask {
          for step in 0..<25 {
            let action = caller * 100 + step
            await Trace.$id.withValue(action) {
              await Trace.$name.withValue("caller \(action)") {
                await Trace.$other.withValue(action) {
                  switch step % 3 {
                  case 0: subject.store.dispatch(action)
                  case 1: try? await subject.store.send(action)
                  default: _ = try? await subject.store.send(action) { $0.root.count }
                  }
                }
              }
            }
          }
        }
      }
    }
    await subject.root.settled()
    // The first state has no caller.
    let ofOthers = seen.all.filter { $0.action > 0 && $0.id != $0.action % 1000 }
    #expect(ofOthers.isEmpty, "\(ofOthers.prefix(3))")
    #expect(seen.all.allSatisfy { $0.action == 0 || $0.name == "caller \($0.action % 1000)" })
    for place in ["decide", "middleware", "reducer"] {
      #expect(seen.all.filter { $0.place == place }.count == 600, "\(place)")
    }
    #expect(seen.all.filter { $0.place == "effect" }.count == 400)
    // A value that is not carried is the caller's own, or absent.
    #expect(seen.all.allSatisfy { $0.other == 0 || $0.other == $0.action })
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a dispatch without a value carries none, and a store that carries nothing sees no caller's values`(kind: Kind)
    async throws
  {
    for carrying in [nil, CarriedValues.values(of: Trace.$id)] {
      let seen = Record<Int>()
      let executor = HeldExecutor()
      let subject = Subject(
        kind, executor: .serial(executor), carrying: carrying, reducing: { _ in seen.add(Trace.id) })
      executor.hold()
      Trace.$id.withValue(1) { _ = subject.store.dispatch(1) }
      subject.store.dispatch(2)
      Trace.$id.withValue(3) { _ = subject.store.dispatch(3) }
      executor.letGo()
      try await subject.store.send(4)
      #expect(seen.all == (carrying == nil ? [0, 0, 0, 0] : [1, 0, 3, 0]))
      await subject.root.shutdown()
    }
  }

  @Test func `carrying no values carries nothing`() async throws {
    let seen = Record<Int>()
    await withStore(
      initialState: 0, options: StoreOptions(carrying: .values()),
      reducer: { (_: inout Int, _: Int) in seen.add(Trace.id) }
    ) { store in
      Trace.$id.withValue(1) { _ = store.dispatch(1) }
      await store.settled()
      await Trace.$id.withValue(2) { await store.settled() }
      let factory = StoreFactory<Int, Int>(
        initialState: 0, reducers: [Reducer { _, _ in seen.add(Trace.id) }],
        options: StoreOptions(carrying: .values(of: Trace.$id)))
      let child = factory.childStore(initialState: 0, stateMapping: { $0 + $1 }) { _, _ in seen.add(Trace.id) }
      Trace.$id.withValue(3) { _ = child.dispatch(1) }
      await factory.root.settled()
      await factory.root.shutdown()
    }
    #expect(seen.all == [0, 3, 3])
  }

  @Test(arguments: [false, true]) func `a child's last action has no caller's values`(isFinishing: Bool) async throws {
    let seen = Record<Sight>()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(carrying: .values(of: Trace.$id))) {
      _, action in
      seen.add(.here("reducer", action))
    }
    let child = root.childStore(
      initialState: 0, stateMapping: { $0 + $1 },
      interceptors: .effects { action, _ in
        action == 1
          ? .run { dispatch in
            seen.add(.here("effect", action))
            dispatch(2)
          } : nil
      }, atEnd: 1
    ) { _, _ in }
    await Trace.$id.withValue(7) {
      await Trace.$other.withValue(7) {
        await child.shutdown(
          interceptors: isFinishing ? .finish(within: .seconds(60)) : .cancel, clock: ManualClock())
      }
    }
    #expect(seen.all.first == Sight(place: "reducer", action: 1, id: 0, name: "none"))
    #expect(seen.all.allSatisfy { $0.id == 0 && $0.other == 0 })
    if isFinishing { #expect(seen.all.map(\.action) == [1, 1, 2]) }
    await root.shutdown()
  }

  @Test func `an effect's dispatch through a projection carries the effect's values`() async throws {
    let seen = Record<Int>()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(carrying: .values(of: Trace.$id))) {
      state, action in
      state = action
      seen.add(Trace.id)
    }
    let projected = root.projection(action: { (text: String) in Int(text) }, state: { "\($0)" })
    projected.subscribe(effect: .onChange(of: { $0 }) { text in .run { $0(text == "5" ? "6" : "x") } })
    Trace.$id.withValue(3) { _ = projected.dispatch("5") }
    await root.settled()
    #expect(seen.all == [3, 3])
    await root.shutdown()
  }
}
