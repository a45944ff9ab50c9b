import Puredux
import PureduxTestSupport
import Testing

@Suite struct EquatingTests {
  struct Page: Equatable, Sendable {
    var title = ""
    var subtitle = ""
  }
  let old = Page(title: "a", subtitle: "b")

  @Test func `each witness compares its own values`() {
    #expect(Equating<Page>.equal(old, old))
    #expect(!Equating<Page>.equal(old, Page(title: "a", subtitle: "c")))
    let title = Equating<Page>.equal { $0.title }
    #expect(title(old, Page(title: "a", subtitle: "c")))
    #expect(!title(old, Page(title: "x", subtitle: "b")))
    #expect(Equating<Page>.alwaysEqual(old, Page()))
    #expect(!Equating<Page>.neverEqual(old, old))
    #expect(Equating<Page> { $0.title.count == $1.title.count }(old, Page(title: "x")))
  }

  @Test func `both witnesses must agree`() {
    let both: Equating<Page> = .equal { $0.title } && .equal { $0.subtitle }
    #expect(both(old, old))
    #expect(!both(old, Page(title: "a", subtitle: "c")))
    #expect(!both(old, Page(title: "c", subtitle: "b")))
    #expect(!(.neverEqual && .alwaysEqual)(old, old))
    #expect((.alwaysEqual && .alwaysEqual)(old, Page()))
  }

  @Test func `two subscribers of one store can look at different parts`() async throws {
    let root = RootStore<Page, Page>(initialState: Page()) { $0 = $1 }
    let titles = root.states(removeStateDuplicates: .equal { $0.title })
    let subtitles = root.states(removeStateDuplicates: .equal { $0.subtitle })
    root.dispatch(Page(title: "a"))
    root.dispatch(Page(title: "a", subtitle: "b"))
    root.dispatch(Page(title: "c", subtitle: "b"))
    await root.shutdown()
    #expect(await titles.collect().map(\.title) == ["", "a", "c"])
    #expect(await subtitles.collect().map(\.subtitle) == ["", "b"])
  }

  @Test func `a value is made once for each state`() async throws {
    let made = Record<Int>()
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let states = root.states(
      removeStateDuplicates: .equal { state in
        made.add(state)
        return state / 2
      })
    for action in 1...5 { root.dispatch(action) }
    await root.shutdown()
    #expect(await states.collect() == [0, 2, 4])
    #expect(made.all == [0, 1, 2, 3, 4, 5])
  }
}
