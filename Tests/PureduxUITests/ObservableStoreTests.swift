import Observation
import Puredux
import PureduxTestSupport
import PureduxUI
import Testing

@Suite(.timeLimit(.minutes(15))) @MainActor struct ObservableStoreTests {
  struct Page: Sendable, Equatable {
    var title = "none"
    var count = 0
    var tags: [String] = []
  }

  enum PageAction: Sendable {
    case title(String)
    case count(Int)
    case tag(String)
    case both(String, Int)
    case nothing
  }

  nonisolated static func page(_ page: inout Page, _ action: PageAction) {
    switch action {
    case .title(let title): page.title = title
    case .count(let count): page.count = count
    case .tag(let tag): page.tags.append(tag)
    case .both(let title, let count): (page.title, page.count) = (title, count)
    case .nothing: break
    }
  }

  /// Waits until the values that the closure reads satisfy it.
  private func until(_ isAsExpected: @escaping @MainActor @Sendable () -> Bool) async {
    while true {
      let (changes, continuation) = AsyncStream<Void>.makeStream()
      let isDone = withObservationTracking {
        isAsExpected()
      } onChange: {
        continuation.finish()
      }
      if isDone { return }
      // An announced change is applied before any other code runs on the main actor.
      for await _ in changes {}
    }
  }

  @Test(arguments: Kind.allCases)
  func `its state follows any store`(kind: Kind) async throws {
    let subject = Subject(kind)
    try await subject.store.send(1)
    let store = try await ObservableStore(subject.store.store())
    #expect(store.state == subject.expected(after: [1]))
    #expect(store.root.last == 1)
    #expect(store.dispatch(2) == .enqueued)
    try await store.send(3)
    await until { store.root.count == 3 }
    #expect(store.state == subject.expected(after: [1, 2, 3]))
    await subject.root.shutdown()
    #expect(store.dispatch(4) == .terminated)
    #expect(store.root.last == 3)
    await #expect(throws: StoreError.terminated) { try await ObservableStore(subject.store.store()) }
  }

  @Test func `a reader of a property is told of its changes, and of no other property's`() async throws {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let store = ObservableStore(root, initialState: Page(title: "initial"))
    #expect(store.title == "initial")
    await until { store.title == "none" }
    let (title, tags, all) = (Flag(), Flag(), Record<Int>())
    withObservationTracking {
      _ = store.title
    } onChange: {
      title.raise()
    }
    withObservationTracking {
      _ = store.tags
    } onChange: {
      tags.raise()
    }
    withObservationTracking {
      _ = store.state
    } onChange: {
      all.add(1)
    }
    root.dispatch(.count(5))
    await until { store.count == 5 }
    #expect(!title.isRaised && !tags.isRaised)
    #expect(all.all == [1])
    root.dispatch(.nothing)
    root.dispatch(.title("none"))
    root.dispatch(.count(6))
    await until { store.count == 6 }
    #expect(!title.isRaised && !tags.isRaised)
    root.dispatch(.title("new"))
    await until { store.title == "new" }
    #expect(title.isRaised && !tags.isRaised)
    root.dispatch(.tag("x"))
    await until { store.tags == ["x"] }
    #expect(tags.isRaised)
  }

  @Test func `a property first read during an announcement is reported as changed, too`() async throws {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let store = try await ObservableStore(root)
    let told = Record<String>()
    withObservationTracking {
      _ = store.title
    } onChange: {
      told.add("title")
      MainActor.assumeIsolated {
        withObservationTracking {
          _ = store.count
        } onChange: {
          told.add("count")
        }
        withObservationTracking {
          _ = store.tags
        } onChange: {
          told.add("tags")
        }
      }
    }
    root.dispatch(.both("both", 1))
    await until { store.title == "both" }
    #expect(told.all == ["title", "count"])
    root.dispatch(.tag("x"))
    await until { store.tags == ["x"] }
    #expect(told.all == ["title", "count", "tags"], "what did not change then is told when it does")
  }

  /// Reads two properties, and again at each change.
  private static func watch(_ store: ObservableStore<Page, PageAction>, _ seen: Record<String>) {
    withObservationTracking {
      seen.add("\(store.title) \(store.count)")
    } onChange: {
      MainActor.assumeIsolated { watch(store, seen) }
    }
  }

  @Test func `a reader that reads again during an announcement is told again, until it has read the new state`()
    async throws
  {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let store = try await ObservableStore(root)
    let seen = Record<String>()
    Self.watch(store, seen)
    root.dispatch(.count(1))
    await until { store.count == 1 }
    #expect(seen.all == ["none 0", "none 0", "none 1"])
    root.dispatch(.both("both", 2))
    await until { store.count == 2 }
    #expect(seen.all.dropFirst(3) == ["none 1", "both 2"])
    root.dispatch(.tag("x"))
    await until { store.tags == ["x"] }
    #expect(seen.all.count == 5)
  }

  @Test func `no reader is told twice without reading again`() async throws {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let store = try await ObservableStore(root)
    let told = Record<String>()
    for name in ["a", "b"] {
      withObservationTracking {
        _ = (store.title, store.count, store.state)
      } onChange: {
        told.add(name)
        MainActor.assumeIsolated {
          withObservationTracking {
            _ = (store.count, store.title)
          } onChange: {
            told.add("\(name) again")
          }
        }
      }
    }
    for count in 1...3 {
      root.dispatch(.both("\(count)", count))
      await until { store.count == count }
      #expect(told.all.sorted() == ["a", "a again", "b", "b again"])
    }
  }

  @Test func `an observations loop sees the newest values that it reads`() async throws {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let store = try await ObservableStore(root)
    let reader = Task {
      var seen: [Int] = []
      for await count in Observations({ store.count }) {
        seen.append(count)
        if count == 20 { break }
      }
      return seen
    }
    for count in 1...20 {
      root.dispatch(.title("\(count)"))
      root.dispatch(.count(count))
    }
    let seen = await reader.value
    #expect(seen == seen.sorted())
    #expect(seen.last == 20)
    #expect(Set(seen).count == seen.count)
  }

  @Test func `a value that is not Equatable counts as changed at every state`() async throws {
    struct Opaque: Sendable {
      var value = 0
      var mark: @Sendable () -> Int = { 0 }
    }
    let root = RootStore<Opaque, Int>(initialState: Opaque()) { $0.value += $1 }
    let store = try await ObservableStore(root)
    let told = Record<Int>()
    await until { store.value == 0 }
    withObservationTracking {
      _ = store.mark
    } onChange: {
      told.add(1)
    }
    root.dispatch(1)
    await until { store.value == 1 }
    #expect(told.all == [1])
  }

  @Test func `an element missing in later states is reported as changed, and not accessed`() async throws {
    let root = RootStore<[String], [String]>(initialState: ["a", "b", "c"]) { $0 = $1 }
    let store = try await ObservableStore(root)
    let told = Record<String>()
    withObservationTracking {
      #expect(store[2] == "c")
    } onChange: {
      told.add("third")
    }
    withObservationTracking {
      #expect(store[dynamicMember: \.last!] == "c")
    } onChange: {
      told.add("last")
    }
    for next in [["a"], [], ["d", "e", "f"]] {
      root.dispatch(next)
      await until { store.state == next }
      #expect(told.all.sorted() == ["last", "third"])
    }
    withObservationTracking {
      #expect(store[2] == "f")
    } onChange: {
      told.add("third again")
      MainActor.assumeIsolated {
        withObservationTracking {
          #expect(store[2] == "f")
        } onChange: {
          told.add("with the new state")
        }
      }
    }
    root.dispatch([])
    await until { store.state.isEmpty }
    #expect(told.all.dropFirst(2) == ["third again", "with the new state"])
  }

  /// A key that equals only itself.
  final class Mark: Hashable, Sendable {
    static func == (lhs: Mark, rhs: Mark) -> Bool { lhs === rhs }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
  }

  struct Marked: Sendable {
    var count = 0
    let evaluations = Record<Int>()

    subscript(_: Mark) -> Int {
      evaluations.add(count)
      return count
    }
  }

  @Test func `a value read by a key is not evaluated again, and the key is not retained`() async throws {
    let root = RootStore<Marked, Int>(initialState: Marked()) { $0.count = $1 }
    let store = try await ObservableStore(root)
    let told = Record<Int>()
    var marks: [Weak<Mark>] = []
    for index in 0..<100 {
      let mark = Mark()
      marks.append(Weak(mark))
      if index.isMultiple(of: 2) {
        _ = store[mark]
      } else {
        withObservationTracking {
          _ = store[mark]
        } onChange: {
          told.add(index)
        }
      }
    }
    #expect(marks.allSatisfy { $0.object == nil })
    for count in 1...3 {
      root.dispatch(count)
      await until { store.count == count }
    }
    #expect(told.all.sorted() == (0..<50).map { 2 * $0 + 1 }, "each is told once")
    #expect(store.evaluations.all.count == 100)
  }

  /// A value that records its comparisons.
  struct Compared: Sendable, Equatable {
    var value = 0
    let comparisons = Record<Int>()

    static func == (lhs: Compared, rhs: Compared) -> Bool {
      lhs.comparisons.add(lhs.value)
      return lhs.value == rhs.value
    }
  }

  @Test func `a property reported as changed is compared again only after it is read again`() async throws {
    struct Comparing: Sendable {
      var part = Compared()
      var count = 0
    }
    let root = RootStore<Comparing, Int>(initialState: Comparing()) {
      $0.count += 1
      $0.part.value = $1
    }
    let store = try await ObservableStore(root)
    let part = store.part
    root.dispatch(0)
    await until { store.count == 1 }
    #expect(part.comparisons.all == [0])
    root.dispatch(1)
    await until { store.count == 2 }
    #expect(part.comparisons.all == [0, 0])
    for count in 3...5 {
      root.dispatch(count)
      await until { store.count == count }
    }
    #expect(part.comparisons.all == [0, 0])
  }

  @Test func `an optional scope without a state is no store to show, but with an initial state it is`() async throws {
    let root = RootStore<Page, PageAction>(initialState: Page(), reducer: Self.page)
    let first = root.scope(toOptional: { $0.tags.first })
    await #expect(throws: StoreError.stateUnavailable) { try await ObservableStore(first) }
    let store = ObservableStore(first, initialState: "nothing yet")
    root.dispatch(.tag("a"))
    await until { store.state == "a" }
  }

  @Test func `it keeps no store alive, and ends its subscription when it is released`() async throws {
    let evaluations = Record<Int>()
    var root: RootStore<Page, PageAction>? = RootStore(initialState: Page(), reducer: Self.page)
    let scope = try #require(root).scope { page in
      evaluations.add(page.count)
      return page.count
    }
    var store: ObservableStore<Int, PageAction>? = ObservableStore(scope, initialState: -1)
    await until { [store] in store?.state == 0 }
    store = nil
    try await root?.send(.count(1))
    try await root?.send(.count(2))
    #expect(evaluations.all == [0])
    let late = ObservableStore(scope, initialState: -1)
    root = nil
    await until { late.state == 2 }
    #expect(late.dispatch(.nothing) == .terminated)
  }
}
