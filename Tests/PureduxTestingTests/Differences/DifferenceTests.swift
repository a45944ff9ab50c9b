import PureduxTesting
import Testing

struct DifferenceTests {
  private struct Item: Equatable {
    var name = "tea"
    var count = 1
  }

  private enum Phase: Equatable {
    case idle, failed(String)
    case loaded(Item, page: Int)
  }

  private struct Cart: Equatable {
    var items: [Item] = []
    var phase = Phase.idle
    var prices: [String: Int] = [:]
    var tags: Set<String> = []
    var owner: String?
    var size = (width: 1, height: 2)
    static func == (one: Cart, other: Cart) -> Bool {
      one.items == other.items && one.phase == other.phase && one.prices == other.prices && one.tags == other.tags
        && one.owner == other.owner && one.size == other.size
    }
  }

  @Test func `equal values have no differences`() {
    #expect(difference(expected: Cart(), actual: Cart()).isEmpty)
    #expect(difference(expected: 1, actual: 1).isEmpty)
    #expect(difference(expected: nil as Int?, actual: nil) == [])
    #expect(difference(expected: (1, "a"), actual: (1, "a")).isEmpty)
  }

  @Test func `different members are listed with their paths`() {
    let expected = Cart(
      items: [Item(), Item(name: "jam")], phase: .loaded(Item(), page: 1), prices: ["tea": 3, "jam": 2],
      tags: ["a", "b"],
      owner: "Ann")
    var actual = expected
    actual.items[1].name = "ham"
    actual.phase = .loaded(Item(count: 2), page: 2)
    actual.prices = ["tea": 4, "egg": 1]
    actual.tags = ["b", "c"]
    actual.owner = nil
    actual.size.height = 3
    #expect(
      difference(expected: expected, actual: actual) == [
        #"items[1].name: expected "jam", is "ham""#,
        "phase.loaded.0.count: expected 1, is 2",
        "phase.loaded.page: expected 1, is 2",
        #"prices["egg"]: unexpected 1"#,
        #"prices["jam"]: missing 2"#,
        #"prices["tea"]: expected 3, is 4"#,
        #"tags: missing "a""#,
        #"tags: unexpected "c""#,
        #"owner: expected "Ann", is nil"#,
        "size.height: expected 2, is 3",
      ])
  }

  @Test func `cases and plain values`() {
    #expect(difference(expected: 1, actual: 2) == ["expected 1, is 2"])
    #expect(difference(expected: "a", actual: "b") == [#"expected "a", is "b""#])
    #expect(difference(expected: Phase.idle, actual: .failed("x")) == [#"expected .idle, is .failed("x")"#])
    #expect(difference(expected: Phase.failed("y"), actual: .failed("x")) == [#".failed: expected "y", is "x""#])
    #expect(difference(expected: 1 as Int?, actual: 2) == ["expected 1, is 2"])
    #expect(difference(expected: 1 as Any, actual: "1" as Any) == [#"expected 1, is "1""#])
    #expect(
      difference(expected: Phase.loaded(Item(), page: 1), actual: .idle) == [
        #"expected .loaded(Item(name: "tea", count: 1), page: 1), is .idle"#
      ])
  }

  @Test(arguments: [
    ([1, 2, 3], [1, 3], ["[1]: missing 2"]), ([1, 3], [1, 2, 3], ["[1]: unexpected 2"]),
    ([], [1], ["[0]: unexpected 1"]),
    ([1, 2, 3, 4], [0, 1, 2, 4], ["[0]: expected 1, is 0", "[1]: expected 2, is 1", "[2]: expected 3, is 2"]),
    ([1, 2, 3, 4, 5], [1, 9, 3, 4], ["[1]: expected 2, is 9", "[4]: missing 5"]),
  ]) func `elements of arrays, inserted and removed`(expected: [Int], actual: [Int], lines: [String]) {
    #expect(difference(expected: expected, actual: actual) == lines)
  }

  @Test func `the number and the length of lines are limited`() {
    let (ones, twos) = (Array(repeating: 1, count: 100_000), Array(repeating: 2, count: 100_000))
    let lines = difference(expected: ones, actual: twos, limit: 3)
    #expect(lines == ["[0]: expected 1, is 2", "[1]: expected 1, is 2", "[2]: expected 1, is 2", "and more"])
    #expect(
      difference(expected: ones, actual: twos + [2]) == ["[0...]: expected 100000 elements here, are 100001"])
    let long = difference(expected: String(repeating: "a", count: 100_000), actual: "b")
    #expect(long.count == 1 && long[0].count < 300)
    let longArray = difference(expected: [ones], actual: [])
    #expect(longArray.count == 1 && longArray[0].count < 300)
  }

  private enum Named: CustomStringConvertible {
    case one, other
    var description: String { "the \(self == .one ? "first" : "second")" }
  }

  @Test func `long texts with equal beginnings, and cases with descriptions of their own`() {
    let text = String(repeating: "a", count: 250)
    #expect(
      difference(expected: text + "b", actual: text + "c" + text) == [
        "expected \"…\(text.prefix(20))b\", is \"…\(text.prefix(20))c\(text.prefix(59))…\", from character 250 on"
      ])
    #expect(difference(expected: Named.one, actual: .other) == ["expected Named(the first), is Named(the second)"])
  }

  private final class Node {
    var name: String
    var next: Node?
    var values: [Int] = []
    init(_ name: String) { self.name = name }
  }

  @Test func `cycles of references end`() {
    let (one, other) = (Node("a"), Node("b"))
    one.next = one
    other.next = other
    #expect(difference(expected: one, actual: other) == [#"name: expected "a", is "b""#])
    #expect(difference(expected: one, actual: one).isEmpty)
    let (first, second) = (Node("a"), Node("a"))
    (first.next, second.next) = (second, first)
    #expect(difference(expected: first, actual: second).isEmpty)
    (one.next, other.next) = (nil, nil)
  }

  private struct Opaque: Equatable {
    let name = "x"
    static func == (one: Opaque, other: Opaque) -> Bool { false }
  }

  private struct Deep {
    var inner: [Any]
  }

  @Test func `values whose differences are invisible, and depth`() {
    #expect(
      difference(expected: Opaque(), actual: Opaque()) == [#"not equal, although both are Opaque(name: "x")"#])
    var (one, other): (Any, Any) = (1, 2)
    for _ in 0..<1_000 { (one, other) = (Deep(inner: [one]), Deep(inner: [other])) }
    #expect(difference(expected: one, actual: other).count <= 1)
    #expect(difference(expected: [[[1]]], actual: [[[2]]], depth: 1) == ["[0]: expected [[1]], is [[2]]"])
  }
}
