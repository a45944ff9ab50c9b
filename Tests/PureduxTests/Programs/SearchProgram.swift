import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

// Search as you type. A query is sent after a pause in typing, earlier queries are cancelled, and failed ones are
// retried. The news are polled while a user looks at them.

private struct Search: Sendable, Equatable {
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

  enum Action: Sendable, Equatable { case typed(String), found([String]), failed, looked(Bool), heard(String) }
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

/// Replies as scripted, and records the requests.
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

@Suite(.timeLimit(.minutes(15))) struct SearchProgram {
  private func store(_ script: Script) -> TestStore<Search, Search.Action> {
    TestStore(initialState: Search(), interceptors: .search(by: script), reducer: { $0.reduce($1) })
  }

  @Test func `only what was typed last is searched for`() async {
    let script = Script()
    let store = store(script)
    for query in ["s", "sw", "swi"] {
      await store.send(.typed(query)) { $0.query = query }
      await store.advance(by: .milliseconds(200))
    }
    await store.advance(by: .milliseconds(100))
    await store.receive(.found(["swi!"])) { $0.results = ["swi!"] }
    await store.send(.typed("")) { $0.query = "" }
    await store.advance(by: .seconds(1))
    #expect(script.asked.all == ["swi"])
    await store.finish()
  }

  @Test(arguments: [2, 3]) func `a failed search is retried, for three attempts in all`(failures: Int) async {
    let script = Script(failing: failures)
    let store = store(script)
    await store.send(.typed("a")) { $0.query = "a" }
    for milliseconds in [300, 100, 200] {
      #expect(await store.advanceToNextSleeper() == .milliseconds(milliseconds))
    }
    #expect(script.asked.all == ["a", "a", "a"])
    if failures == 2 {
      await store.receive(.found(["a!"])) { $0.results = ["a!"] }
    } else {
      await store.receive(.failed) { $0.hasFailed = true }
    }
    await store.finish()
  }

  @Test func `the news are polled while a user looks at them`() async {
    let store = store(Script())
    await store.send(.looked(true)) { $0.isPolling = true }
    await store.advance(by: .seconds(15))
    for number in 1...4 { await store.receive(.heard("news \(number)")) { $0.news.append("news \(number)") } }
    await store.send(.looked(false)) { $0.isPolling = false }
    await store.advance(by: .seconds(15))
    await store.finish()
  }
}
