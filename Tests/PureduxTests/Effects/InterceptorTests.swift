import Puredux
import PureduxTestSupport
import Testing

private protocol AppAction: Sendable {}
private struct Search: AppAction { let text: String }
private struct Found: AppAction, Equatable { let results: [String] }

private struct Fetch: AppAction, AsyncAction {
  let text: String
  func execute(dispatch: Dispatch<any AppAction>) async {
    dispatch(Found(results: [text]))
  }
}

@Suite(.timeLimit(.minutes(15))) struct InterceptorTests {
  private func results(of interceptor: Interceptor<[[String]], any AppAction>, on actions: [any AppAction]) async
    -> [[String]]
  {
    let root = RootStore<[[String]], any AppAction>(initialState: [], interceptors: interceptor) { state, action in
      if let found = action as? Found { state.append(found.results) }
    }
    let last = root.states()
    for action in actions { root.dispatch(action) }
    let expected = actions.filter { !($0 is Found) }.count
    let results = await last.collect(until: { $0.count == expected }).last ?? []
    await root.shutdown()
    return results.sorted { $0.joined() < $1.joined() }
  }

  @Test func `an interceptor for a type takes the actions of that type`() async {
    let interceptor = Interceptor<[[String]], any AppAction>(for: Search.self) { search, dispatch in
      dispatch(Found(results: [search.text]))
    }
    #expect(await results(of: interceptor, on: [Search(text: "a"), Search(text: "b")]) == [["a"], ["b"]])
  }

  @Test func `the ready-made interceptor runs actions that contain their work`() async {
    #expect(await results(of: .asyncActions, on: [Fetch(text: "a"), Fetch(text: "b")]) == [["a"], ["b"]])
  }

  @Test func `several interceptors combine into one, each with a task of its own`() async {
    let search = Interceptor<[[String]], any AppAction>(for: Search.self) { search, dispatch in
      dispatch(Found(results: [search.text]))
    }
    #expect(
      await results(of: Interceptor(combining: [search, .asyncActions]), on: [Search(text: "a"), Fetch(text: "b")]) == [
        ["a"], ["b"],
      ])
    let twice = Record<Int>()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: Interceptor(combining: [
        Interceptor { action, _ in twice.add(action) }, Interceptor { action, _ in twice.add(-action) },
      ])
    ) { $0 += $1 }
    root.dispatch(1)
    await root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(twice.all.sorted() == [-1, 1])
  }

  @Test func `all interceptors decide before any effect of the commit runs`() async throws {
    let calls = Record<String>()
    let asleep = Gate()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        calls.add("first \(action)")
        if action == 2 { return .cancel("sleep") }
        return .run { _ in
          await withTaskCancellationHandler {
            asleep.open()
            await untilCancelled()
          } onCancel: {
            calls.add("cancelled")
          }
        }.id("sleep")
      },
      .effects { action, _ in
        calls.add("second \(action)")
        return nil
      }
    ) { $0 += $1 }
    root.dispatch(1)
    await asleep.wait()
    try await root.send(2)
    #expect(calls.all == ["first 1", "second 1", "first 2", "second 2", "cancelled"])
    await root.shutdown()
  }

  @Test func `an interceptor for a pattern receives the matched value`() async {
    enum Action: Sendable { case load(Int), loaded(Int) }
    let root = RootStore<[Int], Action>(
      initialState: [],
      interceptors: Interceptor(matching: { if case .load(let id) = $0 { id } else { nil } }) { id, dispatch in
        dispatch(.loaded(id * 2))
      }
    ) { state, action in
      if case .loaded(let id) = action { state.append(id) }
    }
    let states = root.states()
    root.dispatch(.load(21))
    #expect(await states.collect(until: { !$0.isEmpty }).last == [42])
  }

  @Test func `an action that no interceptor is meant for starts no task`() async throws {
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: Interceptor(combining: [
        Interceptor(where: { _ in false }) { _, _ in Issue.record("run") },
        Interceptor(for: String.self) { _, _ in Issue.record("run") },
        Interceptor(matching: { _ in Int?.none }) { _, _ in Issue.record("run") },
      ])
    ) { $0 += $1 }
    for action in 1...100 { root.dispatch(action) }
    await root.shutdown(interceptors: .finish(within: .seconds(60)))
  }
}
