import Puredux
import PureduxTestSupport
import Testing

/// Reducers, middleware, mappings, filters and conditions run under no other caller's task-local values.
@Suite(.timeLimit(.minutes(15))) struct WhereCodeRuns {
  private enum Caller: Sendable { case dispatcher, sender, subscriber }

  @TaskLocal private static var caller: Caller?

  private struct Place: Sendable, Equatable {
    let name: String
    let action: Int
    let caller: Caller?
  }

  /// More actions are dispatched than one drain performs, so that some still wait when the sent action arrives.
  @Test(arguments: Kind.allCases)
  func `no caller's request runs under another caller's task-local values`(kind: Kind) async throws {
    let places = Record<Place>()
    @Sendable func note(_ name: String, _ action: Int) {
      places.add(Place(name: name, action: action, caller: Self.caller))
    }
    let executor = HeldExecutor()
    let subject = Subject(
      kind, executor: .serial(executor),
      interceptors: Interceptor(where: { action in
        note("condition", action)
        return false
      }) { _, _ in },
      middleware: [
        Middleware { action, _, next in
          note("middleware", action)
          next(action)
        }
      ],
      emits: .when { _, state in
        note("emission", state.root.last)
        return true
      }, reducing: { note("reducer", $0) })
    let states = Self.$caller.withValue(.subscriber) {
      subject.store.scope { state in
        note("mapping", state.root.last)
        return state
      }.states()
    }
    executor.hold()
    Self.$caller.withValue(.dispatcher) {
      for _ in 0..<1500 { subject.store.dispatch(1) }
    }
    let enqueued = executor.enqueued
    let sender = Task {
      try await Self.$caller.withValue(.sender) {
        try await subject.store.send(2)
        return try await subject.store.send(3) { $0.root.last }
      }
    }
    await executor.untilEnqueued(enqueued + 1)
    executor.letGo()
    #expect(try await sender.value == 3)
    _ = await states.collect(until: { $0.root.last == 3 })
    for name in ["condition", "middleware", "emission", "reducer", "mapping"] {
      let seen = places.all.filter { $0.name == name }
      // A root store's rule is not called for the subscribers of its child stores.
      if name != "emission" || kind.depth == 0 {
        #expect(Set(seen.map(\.action)).isSuperset(of: [1, 2, 3]), "\(name)")
      }
      for place in seen {
        #expect(place.caller == nil || (place.action > 1 && place.caller == .sender), "\(place)")
      }
    }
    await subject.root.shutdown()
  }
}
