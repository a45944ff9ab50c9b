import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct WithStoreTests {
  @TaskLocal static var mark = "none"

  struct Failure: Error {}

  @Test func `the body's result is returned, and the store is shut down`() async throws {
    let escaped = Record<Store<Int, Int>>()
    let states = Record<AsyncStream<Int>>()
    let result = try await withStore(initialState: 0, reducer: { $0 += $1 }) { (store: RootStore<Int, Int>) in
      escaped.add(store.store())
      states.add(store.states())
      store.dispatch(1)
      return try await store.send(2) { $0 }
    }
    #expect(result == 3)
    #expect(escaped.all[0].dispatch(4) == .terminated)
    #expect(await states.all[0].collect() == [0, 1, 3])
  }

  @Test func `an error is rethrown with its type, and nothing remains`() async throws {
    let ends = Record<String>()
    let started = Record<Int>()
    await #expect(throws: Failure.self) {
      try await withStore(
        initialState: 0,
        interceptors: Interceptor { (action: Int, _: Dispatch<Int>) in
          started.add(action)
          await untilCancelled()
          ends.add("cancelled")
        }, reducer: { $0 += $1 }
      ) { store in
        let child = store.childStore(initialState: 0) { $0 += $1 }
        child.dispatch(0)
        store.dispatch(1)
        await started.untilCount(2)
        withExtendedLifetime(child) {}
        throw Failure()
      }
    }
    #expect(ends.all.allSatisfy { $0 == "cancelled" })
    #expect(ends.all.count == 2)
  }

  @Test func `interceptors are children of the caller's task: its task-local values and its cancellation reach them`()
    async throws
  {
    let marks = Record<String>()
    let started = Gate()
    let ends = Record<String>()
    let caller = Task {
      await Self.$mark.withValue("caller") {
        await withStore(
          initialState: 0,
          interceptors: Interceptor { (_: Int, _: Dispatch<Int>) in
            marks.add(Self.mark)
            started.open()
            await untilCancelled()
            ends.add("interceptor")
          }, reducer: { $0 += $1 }
        ) { store in
          store.dispatch(1)
          await untilCancelled()
          ends.add("body")
        }
      }
      ends.add("caller")
    }
    await started.wait()
    caller.cancel()
    await caller.value
    #expect(marks.all == ["caller"])
    #expect(Set(ends.all) == ["interceptor", "body", "caller"])
    #expect(ends.all.last == "caller")
  }

  @Test func `an interceptor is cancelled with the child store it serves, in a structured tree too`() async throws {
    let started = Gate()
    let cancelled = Gate()
    try await withStore(
      initialState: 0,
      interceptors: Interceptor { (_: Int, _: Dispatch<Int>) in
        started.open()
        await untilCancelled()
        cancelled.open()
      }, reducer: { $0 += $1 }
    ) { store in
      var child: StateStore<(Int, Int), Int>? = store.childStore(initialState: 0) { $0 += $1 }
      child?.dispatch(1)
      await started.wait()
      child = nil
      await cancelled.wait()
      let sum = try await store.send(1) { $0 }
      #expect(sum == 2)
    }
  }

  @Test func `a body may wait for its interceptors`() async throws {
    let ends = Record<Int>()
    await withStore(
      initialState: 0, interceptors: Interceptor { (action: Int, _) in ends.add(action) }, reducer: { $0 += $1 }
    ) { store in
      for action in 1...50 { store.dispatch(action) }
      await store.shutdown(interceptors: .finish(within: .seconds(60)))
      #expect(ends.all.sorted() == Array(1...50))
    }
  }

  @Test func `an interceptor's actions are committed in a structured tree, too`() async throws {
    await withStore(
      initialState: [Int](),
      interceptors: Interceptor { (action: Int, dispatch: Dispatch<Int>) in if action < 5 { dispatch(action + 1) } },
      reducer: { $0.append($1) }
    ) { store in
      let states = store.states()
      store.dispatch(1)
      #expect(await states.collect(until: { $0.last == 5 }).last == [1, 2, 3, 4, 5])
    }
  }

  @Test func `an unused tree is made and released`() async {
    await withStore(initialState: 0, reducer: { (_: inout Int, _: Int) in }) { _ in }
    await RootStore<Int, Int>(initialState: 0, reducer: { _, _ in }).shutdown()
  }

  @Test func `a proxy of a store made by an effect does not retain that effect's store`() async throws {
    final class Captured: Sendable {}
    struct Weak: Sendable { weak var captured: Captured? }
    let proxies = Record<Store<Int, Int>>()
    let over = Gate()
    let weak: Weak
    do {
      let captured = Captured()
      weak = Weak(captured: captured)
      let root = RootStore<Int, Int>(
        initialState: 0,
        interceptor: { _, _ in
          await withStore(initialState: 0, interceptor: { (_: Int, _) in }, reducer: { $0 += $1 }) { inner in
            proxies.add(inner.store())
            try? await inner.send(1)
          }
          over.open()
        }
      ) { [captured] state, action in
        withExtendedLifetime(captured) {}
        state += action
      }
      root.dispatch(1)
      await over.wait()
      await root.shutdown()
    }
    #expect(proxies.all.count == 1 && proxies.all[0].dispatch(1) == .terminated)
    // The task that ran the effect may still be releasing its captures.
    while weak.captured != nil { await Task.yield() }
    withExtendedLifetime(proxies) {}
  }
}
