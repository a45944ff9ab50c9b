import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Puredux
import PureduxDirectory
import PureduxInspector
import PureduxLog
import PureduxLogTesting
import PureduxTesting
import Testing

@Suite(.timeLimit(.minutes(5))) struct InspectorTests {
  // MARK: Access

  static let paths = [
    "/inspect", "/inspect/stores/1", "/inspect/inspector.css", "/inspect/inspector.js", "/inspect/data/stores",
    "/inspect/data/stores/1", "/inspect/data/stores/1/states/1/commits/1", "/inspect/events", "/inspect/events/1",
  ]

  @Test(arguments: paths) func `nobody is let in without the token`(path: String) async throws {
    try await withPages(Inspector()) { client in
      let given: [HTTPFields] = [
        [:], [.authorization: "Bearer "], [.authorization: "Bearer \(token)x"],
        [.authorization: "Bearer \(token.dropLast())"],
        [.authorization: token], [.cookie: "puredux-inspector=wrong"], [.cookie: "other=\(token)"],
      ]
      for headers in given {
        let answer = try await client.get(path, headers)
        #expect(answer.status == .unauthorized)
        #expect(answer.headers[.wwwAuthenticate] == "Bearer")
        #expect(answer.headers[.setCookie] == nil)
      }
      #expect(try await client.get(path + "?token=wrong", [:]).status == .unauthorized)
    }
  }

  @Test func `the token in the address sets a cookie for the pages alone, which is enough from then on`() async throws {
    try await withPages(Inspector()) { client in
      let query = try #require(token.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
      let page = try await client.get("/inspect?token=\(query)", [:])
      #expect(page.status == .ok)
      let cookie = try #require(page.headers[.setCookie])
      #expect(cookie.hasSuffix("; HttpOnly; SameSite=Strict; Path=/inspect"))
      let pair = String(cookie.prefix { $0 != ";" })
      let answer = try await client.get("/inspect/data/stores", [.cookie: "a=b; puredux-inspector=other; \(pair)"])
      #expect(answer.status == .ok)
      #expect(answer.headers[.setCookie] == nil)
    }
  }

  @Test func `an empty token lets nobody in`() async throws {
    let router = Router()
    Inspector().mount(on: router, at: "inner/look/", token: "")
    try await Application(router: router).test(.router) { client in
      for headers in [[:], [.authorization: "Bearer "], [.cookie: "puredux-inspector="]] as [HTTPFields] {
        for path in ["/inner/look", "/inner/look?token="] {
          let answer = try await client.get(path, headers)
          #expect(answer.status == .unauthorized)
        }
      }
    }
  }

  @Test func `the pages are where they are mounted, and can only be read`() async throws {
    let router = Router()
    Inspector().mount(on: router, at: "inner/\"look\"", token: token)
    try await Application(router: router).test(.router) { client in
      let page = String(buffer: try await client.get("/inner/%22look%22").body)
      #expect(page.isEmpty || page.contains("data-root=\"/inner/&quot;look&quot;\""))
    }
    try await withPages(Inspector()) { client in
      let page = String(buffer: try await client.get("/inspect").body)
      #expect(page.contains("src=\"/inspect/inspector.js\""))
      for method in [HTTPRequest.Method.post, .put, .delete, .patch] {
        #expect(try await client.execute(uri: "/inspect", method: method, headers: bearer).status == .notFound)
      }
      #expect(try await client.get("/inspect/stores/x").status == .badRequest)
      #expect(try await client.get("/inspect/data/stores/0").status == .notFound)
    }
  }

  @Test(arguments: paths.filter { !$0.contains("events") })
  func `browsers take nothing from elsewhere, run nothing that is shown, and keep nothing`(path: String) async throws {
    try await withPages(Inspector()) { client in
      for headers in [bearer, [:] as HTTPFields] {
        let answer = try await client.get(path, headers)
        let policy = try #require(answer.headers[.contentSecurityPolicy])
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"] {
          #expect(policy.contains(part))
        }
        #expect(!policy.contains("unsafe"))
        #expect(answer.headers[.xContentTypeOptions] == "nosniff")
        #expect(answer.headers[.cacheControl] == "no-store")
        #expect(answer.headers[HTTPField.Name("Referrer-Policy")!] == "no-referrer")
      }
    }
  }

  // MARK: Stores

  @Test func `stores are listed with their figures`() async throws {
    let inspector = Inspector(limits: atOnce)
    let store = RootStore<Items, ItemAction>.items("items/1", inspector)
    let child = store.childStore(initialState: 0) { count, _ in count += 1 }
    let states = child.states()
    for text in ["tea", "jam"] { try await child.send(.add(text)) }
    await #expect(throws: StoreError.self) { try await store.send(.add("nothing")) }
    try await store.send(.work)
    _ = try await store.first { $0.texts.contains("begun") }
    try await withPages(inspector) { client in
      let listed = try await client.json("/inspect/data/stores")["stores"]["stores"]
      #expect(listed.elements.count == 1)
      let shown = listed[0]
      #expect(shown["name"].text == "items/1")
      #expect(shown["commits"].number == 4)
      #expect(shown["rejections"].number == 1)
      #expect(shown["ended"].isMissing && shown["log"].isMissing && shown["silence"].isMissing)
      let figures = shown["figures"]
      #expect(figures["waiting"].number == 0)
      #expect(figures["childStores"].number == 1)
      #expect(figures["subscriptions"].number == 1)
      // The first was taken by none: it counts with the four that follow.
      #expect(figures["longestBacklog"].number == 5)
      #expect(figures["runningTasks"].number == 1)
      #expect(figures["effects"][0]["id"].text?.contains("work") == true)
      #expect(figures["effects"][0]["count"].number == 1)
    }
    withExtendedLifetime(states) {}
  }

  @Test func `the page of a store has its last commits and rejections, and what is under way`() async throws {
    let inspector = Inspector(limits: atOnce)
    let store = RootStore<Items, ItemAction>.items("items", inspector)
    let child = store.childStore(initialState: 0) { count, _ in count += 1 }
    try await child.send(.add("tea"))
    await #expect(throws: StoreError.self) { try await store.send(.add("nothing")) }
    try await store.perform(.fail("It is <broken>."))
    try await store.send(.work)
    _ = try await store.first { $0.texts.contains("begun") }
    try await withPages(inspector) { client in
      let page = try await client.store()
      let commits = page["commits"].elements
      #expect(commits.map { $0["action"].text } == ["add", "work", "fail", "add", "add"])
      #expect(commits.map { $0["position"].number } == [4, 3, 2, 1, 1])
      #expect(commits.map { $0["store"].text } == ["root", "root", "root", "root", "child 1"])
      #expect(commits.map { $0["rejection"].text } == [nil, nil, nil, "There is <nothing> to add.", nil])
      #expect(commits.allSatisfy { $0["waited"].fraction ?? -1 >= 0 && $0["reduced"].fraction ?? -1 >= 0 })
      let effects = page["effects"].elements
      #expect(effects.count == 1)
      #expect(effects.first?["id"].text?.contains("work") == true)
      #expect(effects.first?["store"].text == "root")
      #expect(effects.first?["attempts"].number == 1)
      let troubles = page["troubles"].elements.compactMap { $0["text"].text }
      #expect(troubles.count == 1 && troubles[0].hasSuffix("has failed: It is <broken>."))
    }
    await store.shutdown()
    try await withPages(inspector) { client in
      let page = try await client.store()
      #expect(page["effects"].elements.isEmpty)
      #expect(page["store"]["ended"].number != nil && page["store"]["figures"].isMissing)
      #expect(page["commits"].elements.count == 5)
    }
  }

  @Test func `where a store stands with its log is shown`() async throws {
    let inspector = Inspector(limits: atOnce)
    let log = MemoryLog()
    var options = FollowingOptions<Int, Int>(fingerprint: .unchecked)
    options.store.name = "sum"
    options.store.instrument = inspector
    do {
      let store = try await RootStore<Int, Int>(following: log, initialState: 0, options: options) { $0 += $1 }
      for number in 1...3 { try await store.send(number) }
      await store.shutdown()
    }
    let store = try await RootStore<Int, Int>(following: log, initialState: 0, options: options) { $0 += $1 }
    inspector.show(store, named: "sum")
    try await withPages(inspector) { client in
      let page = try await client.store()
      #expect(page["store"]["commits"].number == 3)
      // Replayed commits are counted, not listed.
      #expect(page["commits"].elements.isEmpty)
      let shown = page["store"]["log"]
      #expect(shown["phase"].text == "following")
      #expect(shown["position"].number == 3)
      #expect(shown["replayed"].number == 3)
      for figure in ["behind", "pendingActions", "skipped", "rejected", "failedSnapshots"] {
        #expect(shown[figure].number == 0)
      }
      #expect(page["states"][0]["state"]["lines"].texts == ["6"])
    }
    await store.shutdown()
  }

  @Test func `directories are listed with their keys`() async throws {
    let inspector = Inspector(limits: atOnce)
    let directory = StoreDirectory<String, Int, Int>(idleLimit: .zero, name: "sums", instrument: inspector) { key in
      if key == "bad" { throw Failure(description: "It is <bad>.") }
      return RootStore(initialState: 0) { $0 += $1 }
    }
    await #expect(throws: Failure.self) { try await directory.withStore("bad") { _ in } }
    let handle = try await directory.open("<kept>")
    try await directory.withStore("left") { _ in }
    while await directory.keys.contains("left") { await Task.yield() }
    try await withPages(inspector) { client in
      let shown = try await client.json("/inspect/data/stores")["directories"]
      #expect(shown.elements.count == 1)
      #expect(shown[0]["name"].text == "sums")
      #expect(["opening", "open", "failed", "closed"].map { shown[0][$0].number } == [0, 1, 1, 1])
      let keys = shown[0]["keys"].elements
      #expect(keys.map { $0["key"].text } == ["<kept>", "left", "bad"])
      #expect(keys.map { $0["phase"].text } == ["open", "closed", "failed"])
      #expect(keys.last?["error"].text == "It is <bad>.")
    }
    withExtendedLifetime(handle) {}
    await directory.shutdown()
  }

  @Test func `a tree that is at work is shown as it was, and that it does not answer`() async throws {
    let inspector = Inspector(limits: atOnce)
    let executor = ManualExecutor()
    let store = RootStore<Items, ItemAction>.items("items", inspector, executor: .serial(executor))
    try await store.send(.add("tea"))
    try await withPages(inspector) { client in
      #expect(try await client.store()["store"]["figures"]["waiting"].number == 0)
      executor.hold()
      store.dispatch(.add("jam"))
      var silence: Double?
      while silence == nil {
        let shown = try await client.store()["store"]
        #expect(shown["commits"].number == 1)
        silence = shown["silence"].fraction
      }
      executor.letGo()
      while try await client.store()["store"]["commits"].number != 2 {}
      #expect(try await client.store()["store"]["silence"].isMissing)
    }
    await store.shutdown()
  }

  // MARK: States

  @Test func `a state is shown only if that is said, redacted, and with what has changed`() async throws {
    let inspector = Inspector(limits: atOnce)
    let store = RootStore<Items, ItemAction>.items("items", inspector)
    try await withPages(inspector) { client in
      #expect(try await client.store()["states"].elements.isEmpty)
      #expect(!inspector.show(store, named: "others"))
      #expect(!inspector.show(store))
      #expect(inspector.show(store, named: "items") { $0.password = "…" })
      var state = try await client.store()["states"][0]["state"]
      #expect(state["lines"].texts == ["Items", "  texts: []", "  count: 0", "  password: \"…\""])
      try await store.send(.add("tea"))
      state = try await client.store()["states"][0]["state"]
      #expect(
        state["lines"].texts == [
          "Items", "  texts: 1 element", "    [0]: \"tea\"", "  count: 1", "  password: \"…\"",
        ])
      #expect(state["changes"].elements.map { $0["path"].text } == ["texts", "texts[0]", "count"])
      #expect(state["changes"].elements.map { $0["before"].text } == ["[]", nil, "0"])
      #expect(state["changes"].elements.map { $0["after"].text } == ["1 element", "\"tea\"", "1"])
      #expect(state["newLines"].elements.map(\.number) == [1, 2, 3])
      #expect(!String(buffer: try await client.get("/inspect/data/stores").body).contains("hunter2"))
    }
    withExtendedLifetime(store) {}
  }

  @Test func `child stores and parts are shown beside their root, until they end`() async throws {
    let inspector = Inspector(limits: atOnce)
    let store = RootStore<Items, ItemAction>.items("items", inspector)
    var child: StateStore<(Items, Int), ItemAction>? = store.childStore(initialState: 7) { _, _ in }
    try #require(child.map { inspector.show($0.scope { $0.1 }, named: "items") } == true)
    inspector.show(store.scope(to: \.count), named: "items")
    try await withPages(inspector) { client in
      let states = try await client.store()["states"].elements
      #expect(states.map { $0["store"].text } == ["child 1", "root"])
      #expect(states.map { $0["state"]["lines"].texts } == [["7"], ["0"]])
    }
    child = nil
    try await store.send(.add("tea"))
    try await withPages(inspector) { client in
      while try await client.store()["states"].elements.count == 2 {}
      #expect(try await client.store()["states"][0]["state"]["lines"].texts == ["1"])
    }
  }

  @Test func `the commits of a history can be gone through, reducer by reducer`() async throws {
    let inspector = Inspector(limits: atOnce)
    let history = History<Items, ItemAction>(limit: 2)
    let store = RootStore<Items, ItemAction>.items("items", inspector, history: history)
    inspector.show(store, named: "items", history: history) { $0.password = "…" }
    let texts = ["tea", "jam", "rum"]
    for text in texts { try await store.send(.add(text)) }
    try await withPages(inspector) { client in
      let page = try await client.store()
      let shown = page["states"][0]
      #expect(shown["hasHistory"].number == 1)
      #expect(shown["positions"].elements.map(\.number) == [2, 3])
      let numbers = (try #require(page["store"]["number"].number), try #require(shown["number"].number))
      let path = "/inspect/data/stores/\(numbers.0)/states/\(numbers.1)/commits/"
      let answer = try await client.get(path + "3")
      #expect(!String(buffer: answer.body).contains("hunter2"))
      let commit = try JSON(answer.body)
      #expect(commit["action"].text == "add" && commit["store"].text == "root" && commit["position"].number == 3)
      let steps = commit["steps"].elements
      #expect(steps.map { $0["reducer"].text } == [nil, "keep", "tally"])
      #expect(steps.map { $0["lines"].texts.dropLast().last } == ["  count: 2", "  count: 2", "  count: 3"])
      #expect(steps.map { $0["changes"].elements.map { $0["path"].text } } == [[], ["texts[2]"], ["count"]])
      for path in [path + "1", path + "4", "/inspect/data/stores/0/states/1/commits/3"] {
        #expect(try await client.get(path).status == .notFound)
      }
    }
    withExtendedLifetime(store) {}
  }

  @Test func `no text of a state, an action or an error is ever markup`() async throws {
    struct Shout: Sendable, CustomStringConvertible {
      var description: String { "<img onerror=alert(1)>" }
    }
    struct Wall: Sendable { var texts: [String: Shout] = [:] }
    let inspector = Inspector(limits: atOnce)
    let history = History<Wall, Shout>(limit: 10)
    let name = "<script>alert(1)</script>"
    let store = RootStore<Wall, Shout>(
      initialState: Wall(), options: StoreOptions(reporting: { _ in }, name: name, instrument: inspector),
      interceptors: .effects { _, _ in .run { _ in throw Failure(description: "</script><b>") }.id("<i>") },
      history: history
    ) { wall, shout in wall.texts["<script>alert(2)</script>\n\nevent: stores"] = shout }
    #expect(inspector.show(store, named: name, history: history))
    try await store.perform(Shout())
    try await withPages(inspector) { client in
      let page = try await client.store()
      let number = try #require(page["store"]["number"].number)
      let shown = try #require(page["states"][0]["number"].number)
      for path in [
        "data/stores", "data/stores/\(number)", "data/stores/\(number)/states/\(shown)/commits/1", "stores/\(number)",
      ] {
        let answer = try await client.get("/inspect/" + path)
        #expect(answer.status == .ok)
        let text = String(buffer: answer.body)
        #expect(!text.contains("alert") || !text.contains("<"), "\(path)")
        #expect(!text.contains("\n\n"))
      }
      // The text is still complete.
      #expect(page["store"]["name"].text == name)
      #expect(page["states"][0]["state"]["lines"].texts.joined().contains("<script>alert(2)</script>\\n\\nevent"))
      let script = String(buffer: try await client.get("/inspect/inspector.js").body)
      for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http:", "https:"] {
        #expect(!script.contains(way))
      }
    }
  }

  // MARK: Memory

  @Test func `no more is kept than the limits say`() async throws {
    var limits = atOnce
    (limits.commits, limits.stores, limits.keys, limits.stateBytes) = (3, 2, 2, 60)
    let inspector = Inspector(limits: limits)
    let stores = (1...4).map { RootStore<Items, ItemAction>.items("items/\($0)", inspector) }
    for number in 1...10 { try await stores[0].send(.add("\(number)")) }
    for store in stores { try await store.send(.add("tea")) }
    inspector.show(stores[0], named: "items/1")
    let directory = StoreDirectory<Int, Int, Int>(name: "sums", instrument: inspector) { _ in
      RootStore(initialState: 0) { $0 += $1 }
    }
    for key in 1...5 { try await directory.withStore(key) { _ in } }
    try await withPages(inspector) { client in
      let answer = try await client.json("/inspect/data/stores")
      #expect(answer["stores"]["stores"].elements.map { $0["name"].text } == ["items/1", "items/2"])
      #expect(answer["stores"]["more"].number == 2)
      #expect(answer["directories"][0]["open"].number == 5)
      #expect(answer["directories"][0]["keys"].elements.count == 2)
      #expect(answer["directories"][0]["more"].number == 3)
      let page = try await client.store(answer["stores"]["stores"][0]["number"].number)
      #expect(page["commits"].elements.map { $0["position"].number } == [11, 10, 9])
      let state = page["states"][0]["state"]
      #expect(state["isCut"].number == 1)
      #expect(state["lines"].texts.joined(separator: "\n").utf8.count < 120)
    }
    // Unlisted open stores are listed as soon as there is room, before ended ones.
    await stores[0].shutdown()
    try await stores[3].send(.add("jam"))
    try await withPages(inspector) { client in
      let answer = try await client.json("/inspect/data/stores")["stores"]
      #expect(answer["stores"].elements.map { $0["name"].text } == ["items/2", "items/4"])
      #expect(answer["more"].number == 1)
    }
    await directory.shutdown()
  }

  @Test func `of stores that have ended the last are kept`() async throws {
    let inspector = Inspector(limits: atOnce)
    for number in 1...30 {
      let store = RootStore<Items, ItemAction>.items("items/\(number)", inspector)
      try await store.send(.add("tea"))
      await store.shutdown()
    }
    try await withPages(inspector) { client in
      let names = try await client.json("/inspect/data/stores")["stores"]["stores"].elements.map { $0["name"].text }
      #expect(names == (11...30).map { "items/\($0)" })
    }
  }

  @Test func `what effects do after the end of their store does not list it again`() async throws {
    final class Ends: StoreInstrument {
      let (effects, stores) = (Tally(), Tally())
      func closed(_ store: InstrumentedStore) { stores.add() }
      func effect(_ event: EffectEvent, in store: InstrumentedStore) {
        if case .ended = event.kind { effects.add() }
      }
    }
    let inspector = Inspector(limits: atOnce)
    let (ends, goOn) = (Ends(), Gate())
    for number in 1...30 {
      let store = RootStore<Int, Int>(
        initialState: 0,
        options: StoreOptions(name: "\(number)", instrument: CombinedInstrument(inspector, ends)),
        interceptors: .effects { _, _ in .run { _ in await goOn.wait() } }
      ) { $0 += $1 }
      try await store.send(1)
      await store.settled()
    }
    await ends.stores.reaches(30)
    goOn.open()
    await ends.effects.reaches(30)
    try await withPages(inspector) { client in
      let stores = try await client.json("/inspect/data/stores")["stores"]["stores"].elements
      #expect(stores.count == 20)
      #expect(stores.allSatisfy { !$0["ended"].isMissing })
    }
  }

  @Test func `what others say takes no more room than the limits say, whatever it is made of`() async throws {
    let long = "e" + String(repeating: "\u{301}", count: 200_000)
    let inspector = Inspector(limits: atOnce)
    let store = RootStore<Items, ItemAction>(
      initialState: Items(texts: [long]),
      options: StoreOptions(reporting: { _ in }, name: "long", instrument: inspector),
      interceptors: .effects { _, _ in .run { _ in throw Failure(description: long) }.id(long) }
    ) { _, _ in }
    #expect(inspector.show(store, named: "long"))
    try await store.send(.work)
    await store.settled()
    let directory = StoreDirectory<String, Int, Int>(name: long, instrument: inspector) { _ in
      throw Failure(description: long)
    }
    await #expect(throws: Failure.self) { try await directory.withStore(long) { _ in } }
    try await withPages(inspector) { client in
      let list = try await client.get("/inspect/data/stores").body
      #expect(list.readableBytes < 10_000)
      let number = try JSON(list)["stores"]["stores"][0]["number"].number
      #expect(try await client.get("/inspect/data/stores/\(number ?? 0)").body.readableBytes < 10_000)
    }
    await directory.shutdown()
  }

  @Test func `a redaction may hold what is the last to hold its store`() async throws {
    let inspector = Inspector(limits: atOnce)
    var root: RootStore<Items, ItemAction>? = .items("items", inspector)
    let proxy = try #require(root).store()
    do {
      let child = try #require(root).childStore(initialState: 0, stateMapping: { $1 }, reducer: { _, _ in })
      let holder = root
      let isShown = inspector.show(child, named: "items") { _ in withExtendedLifetime(holder) {} }
      #expect(isShown)
      await child.shutdown()
    }
    // The end of the child is detected at the next read.
    try await withPages(inspector) { client in
      while try await !client.store()["states"].elements.isEmpty {}
    }
    root = nil
    let isShown = inspector.show(proxy, named: "items")
    #expect(isShown)
    while proxy.dispatch(.work) != .terminated { await Task.yield() }
  }

  @Test func `no store, no state and no history is kept alive`() async throws {
    final class Witness: Sendable {}
    struct Watched: Sendable { let witness: Witness }
    let inspector = Inspector(limits: atOnce)
    weak var state: Witness?
    weak var kept: History<Watched, Witness>?
    weak var action: Witness?
    weak var closure: Witness?
    do {
      let (first, next, captured) = (Witness(), Witness(), Witness())
      let history = History<Watched, Witness>(limit: 10)
      (state, kept, action, closure) = (first, history, next, captured)
      let store = RootStore<Watched, Witness>(
        initialState: Watched(witness: first), options: StoreOptions(name: "watched", instrument: inspector),
        history: history
      ) { _, _ in }
      #expect(inspector.show(store, named: "watched", history: history) { _ in withExtendedLifetime(captured) {} })
      try await store.send(next)
      try await withPages(inspector) { client in
        let shown = try await client.store()["states"][0]
        #expect(shown["positions"].elements.count == 1)
      }
    }
    // The store ends on its executor.
    while state != nil || kept != nil || action != nil || closure != nil { await Task.yield() }
    try await withPages(inspector) { client in
      let page = try await client.store()
      #expect(page["store"]["ended"].number != nil)
      #expect(page["states"].elements.isEmpty)
    }
  }

  @Test func `it is one of several instruments`() async throws {
    struct Silent: StoreInstrument {}
    let inspector = Inspector(limits: atOnce, timesCommits: false)
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(instrument: CombinedInstrument(Silent(), inspector))
    ) { $0 += $1 }
    #expect(inspector.show(store))
    try await store.send(1)
    try await withPages(inspector) { client in
      let page = try await client.store()
      #expect(page["store"]["name"].text == "Int")
      #expect(page["commits"][0]["action"].text == "Int")
      #expect(page["commits"][0]["waited"].isMissing)
    }
  }

  // MARK: Live

  /// Runs a body with the port of a server.
  private func withServer(
    _ inspector: Inspector, _ body: @escaping @Sendable (Int) async throws -> Void
  ) async throws {
    let router = Router()
    inspector.mount(on: router, token: token)
    let configuration = ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0))
    try await Application(router: router, configuration: configuration).test(.live) { client in
      try await body(try #require(client.port))
    }
  }

  private static func live(streams: Int = 32) -> Inspector {
    var limits = Inspector.Limits()
    limits.interval = .milliseconds(10)
    limits.streams = streams
    return Inspector(limits: limits)
  }

  @Test func `a page that is open is told what changes, and nothing twice`() async throws {
    let inspector = Self.live()
    let store = RootStore<Items, ItemAction>.items("items", inspector)
    inspector.show(store, named: "items")
    let number = try await Self.number(of: inspector)
    try await withServer(inspector) { port in
      try await EventConnection.open(port: port, "/inspect/events") { events in
        try await events.expect { $0.contains("\r\n\r\n") && $0.contains("event: beat") }
        try await events.expect { $0.contains("text/event-stream") && $0.contains("\"commits\":0,") }
        try await store.send(.add("tea"))
        try await events.expect { $0.contains("\"commits\":1,") }
        var directories = 0
        try await events.expect {
          directories = $0.components(separatedBy: "event: directories").count - 1
          return $0.components(separatedBy: "event: beat").count > 5
        }
        #expect(directories == 1)
      }
      try await EventConnection.open(port: port, "/inspect/events/\(number)") { events in
        try await events.expect { $0.contains(#"[0]: \"tea\""#) }
        try await store.send(.add("jam"))
        try await events.expect { $0.contains(#"[1]: \"jam\""#) }
      }
      try await EventConnection.open(port: port, "/inspect/events/0") { events in
        try await events.expect { $0.contains("event: gone") }
      }
    }
    await store.shutdown()
  }

  /// The number of the only store.
  private static func number(of inspector: Inspector) async throws -> Int {
    let router = Router()
    inspector.mount(on: router, token: token)
    return try await Application(router: router).test(.router) { client in
      try #require(try await client.store()["store"]["number"].number)
    }
  }

  @Test func `a page that is closed takes no place any more, and there are no more than there may be`() async throws {
    let inspector = Self.live(streams: 2)
    let isOpen = { @Sendable (text: String) in text.contains("event: beat") }
    let isRefused = { @Sendable (text: String) in text.contains("503") }
    try await withServer(inspector) { port in
      var refusals = 0
      // The places of disconnected pages are returned after a moment.
      while refusals < 3 {
        try await EventConnection.open(port: port, "/inspect/events") { first in
          try await EventConnection.open(port: port, "/inspect/events") { second in
            try await first.expect { isOpen($0) || isRefused($0) }
            try await second.expect { isOpen($0) || isRefused($0) }
            try await EventConnection.open(port: port, "/inspect/events") { third in
              try await third.expect {
                if isRefused($0) { refusals += 1 }
                return isOpen($0) || isRefused($0)
              }
            }
          }
        }
      }
      var places = 0
      while places < 2 {
        places = 0
        try await EventConnection.open(port: port, "/inspect/events") { first in
          try await EventConnection.open(port: port, "/inspect/events") { second in
            for events in [first, second] {
              try await events.expect {
                if isOpen($0) { places += 1 }
                return isOpen($0) || isRefused($0)
              }
            }
          }
        }
      }
    }
  }

  @Test func `pages that are open end with the server`() async throws {
    let inspector = Self.live()
    let router = Router()
    inspector.mount(on: router, token: token)
    let configuration = ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0))
    let (open, opened) = AsyncStream.makeStream(of: Void.self)
    let (ports, port) = AsyncStream.makeStream(of: Int.self)
    let page = Task {
      for await port in ports {
        try await EventConnection.open(port: port, "/inspect/events") { events in
          try await events.expect { $0.contains("event: beat") }
          opened.yield()
          let goesOn = try await events.reads { _ in false }
          #expect(!goesOn)
        }
        return
      }
    }
    // The server ends with the body: it would wait for a page that continues.
    try await Application(router: router, configuration: configuration).test(.live) { client in
      port.yield(try #require(client.port))
      for await _ in open { break }
    }
    try await page.value
  }
}
