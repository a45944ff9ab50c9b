import Puredux
import Testing

// Search as you type: a query is searched for when nothing has been typed for a while, what was typed before is forgotten,
// what fails is tried again; and the news are polled for as long as somebody looks at them.

private struct Search: Sendable {
  var query = ""
  var results: [String] = []
  var hasFailed = false
  var isPolling = false
  var news: [String] = []

  mutating func reduce(_ action: Action) {
    switch action {
    case .typed(let query): self.query = query
    case .found(let results): (self.results, hasFailed) = (results, false)
    case .failed: hasFailed = true
    case .looked(let isPolling): self.isPolling = isPolling
    case .heard(let news): self.news.append(news)
    }
  }

  enum Action: Sendable { case typed(String), found([String]), failed, looked(Bool), heard(String) }
}

private protocol Service: Sendable {
  func search(_ query: String) async throws -> [String]
  func news() async throws -> String
}

extension Interceptor<Search, Search.Action> {
  fileprivate static func search(by service: some Service) -> Interceptor {
    .effects(
      ofState: .onChange(of: \.query) { query in
        if query.isEmpty { return nil }
        return .run { dispatch in dispatch(.found(try await service.search(query))) }
          .after(.milliseconds(300))
          .retried(.exponential(from: .milliseconds(100), upTo: .seconds(5), attempts: 3))
          .catching { _ in .failed }
      },
      .while(\.isPolling) {
        .run { dispatch in
          while true {
            dispatch(.heard(try await service.news()))
            try await dispatch.sleep(for: .seconds(5))
          }
        }.retried(.constant(.seconds(30), attempts: .max))
      })
  }
}

/// Answers what it is to, and keeps what it was asked.
private final class Script: Service {
  struct Mishap: Error {}
  let asked = Record<String>()
  private let failures = Record<Void>()
  private let failing: Int

  init(failing: Int = 0) { self.failing = failing }

  func search(_ query: String) async throws -> [String] {
    asked.add(query)
    failures.add(())
    if failures.all.count <= failing { throw Mishap() }
    return ["\(query)!"]
  }

  func news() async throws -> String {
    asked.add("news")
    return "news \(asked.all.count)"
  }
}

@Suite(.timeLimit(.minutes(5))) struct SearchProgram {
  private let clock = ManualClock()

  private func store(_ script: Script) -> RootStore<Search, Search.Action> {
    RootStore(initialState: Search(), clock: clock, interceptors: .search(by: script), reducer: { $0.reduce($1) })
  }

  /// Time goes on, and what comes of it is done.
  private func pass(_ milliseconds: Int, _ store: RootStore<Search, Search.Action>) async {
    await store.settled()
    clock.advance(by: .milliseconds(milliseconds))
    await store.settled()
  }

  @Test func `only what was typed last is searched for`() async throws {
    let script = Script()
    let store = store(script)
    for query in ["s", "sw", "swi"] {
      store.dispatch(.typed(query))
      await pass(200, store)
    }
    #expect(script.asked.all.isEmpty)
    await pass(100, store)
    #expect(await store.state.results == ["swi!"])
    store.dispatch(.typed(""))
    await pass(1000, store)
    #expect(script.asked.all == ["swi"])
    await store.shutdown()
  }

  @Test(arguments: [2, 3]) func `what fails is tried again, three times in all`(failures: Int) async throws {
    let script = Script(failing: failures)
    let store = store(script)
    store.dispatch(.typed("a"))
    for milliseconds in [300, 100, 200] {
      #expect(await store.state.hasFailed == false)
      await pass(milliseconds, store)
    }
    #expect(script.asked.all == ["a", "a", "a"])
    #expect(await store.state.results == (failures == 2 ? ["a!"] : []))
    #expect(await store.state.hasFailed == (failures == 3))
    await store.shutdown()
  }

  @Test func `the news are polled for as long as somebody looks`() async throws {
    let store = store(Script())
    store.dispatch(.looked(true))
    for _ in 1...3 { await pass(5000, store) }
    store.dispatch(.looked(false))
    for _ in 1...3 { await pass(5000, store) }
    #expect(await store.state.news == (1...4).map { "news \($0)" })
    #expect(await store.statistics.runningTasks == 0)
    await store.shutdown()
  }
}
