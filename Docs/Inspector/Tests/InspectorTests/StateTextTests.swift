import Puredux
import Testing

@testable import PureduxInspector

private struct Card: Sendable {
  enum Kind: Sendable { case task, note(colour: String), moved(Int, to: Int), pair((a: Int, b: Int)) }
  var text: String
  var kind = Kind.task
  var author: String?
}

private struct Board: Sendable {
  var title = "First"
  var cards: [Card] = []
  var votes: [String: Int] = [:]
  var tags: Set<String> = []
}

private final class Object: Sendable { let inside = 1 }

private struct Named: Sendable, CustomStringConvertible {
  let hidden = 1
  let description = "a name"
}

@Suite struct StateTextTests {
  private func text(of value: Any, limit: Int = 10_000) -> [String] {
    StateText(of: value, limit: limit).lines.map(\.shown)
  }

  @Test func `values that are short are in one line`() {
    #expect(text(of: 7) == ["7"])
    #expect(text(of: "a \"b\"\n") == ["\"a \\\"b\\\"\\n\""])
    #expect(text(of: ["ü\u{202E}": "\u{2067}"]) == ["1 element", "  [\"ü\\u{202E}\"]: \"\\u{2067}\""])
    #expect(text(of: Int?.none as Any) == ["nil"])
    #expect(text(of: Int??.some(.some(3)) as Any) == ["3"])
    #expect(text(of: [1, 2]) == ["[1, 2]"])
    #expect(text(of: [Int]()) == ["[]"])
    #expect(text(of: [String: Int]()) == ["[:]"])
    #expect(text(of: (1, ["b": 2, "a": 1])) == ["(1, [\"a\": 1, \"b\": 2])"])
    #expect(text(of: (1, Set(["b", "a"]))) == ["(1, [\"a\", \"b\"])"])
    #expect(text(of: (1, two: "2")) == ["(1, two: \"2\")"])
    #expect(text(of: Card.Kind.task) == [".task"])
    #expect(text(of: Card.Kind.note(colour: "red")) == [".note(colour: \"red\")"])
    #expect(text(of: Card.Kind.moved(1, to: 2)) == [".moved(1, to: 2)"])
    #expect(text(of: Named()) == ["a name"])
    var keyed = Keyed<String, Int>()
    keyed["a"] = 1
    #expect(text(of: keyed) == ["1 element", "  [\"a\"]: 1"])
  }

  @Test func `objects are not looked into`() {
    #expect(text(of: [Object()]) == ["1 element", "  [0]: Object (an object)"])
  }

  @Test func `parts are lines of their own where they are long`() {
    let board = Board(
      cards: [Card(text: "tea", author: "Ann"), Card(text: String(repeating: "x", count: 80))],
      votes: ["Ada": 1, "Grace": 2])
    #expect(
      text(of: board) == [
        "Board",
        "  title: \"First\"",
        "  cards: 2 elements",
        "    [0]: Card(text: \"tea\", kind: .task, author: \"Ann\")",
        "    [1]: Card",
        "      text: \"\(String(repeating: "x", count: 80))\"",
        "      kind: .task",
        "      author: nil",
        "  votes: 2 elements",
        "    [\"Ada\"]: 1",
        "    [\"Grace\"]: 2",
        "  tags: []",
      ])
  }

  @Test func `a text ends at its limit, however large the value is`() {
    let large = StateText(of: Array(0..<1_000_000), limit: 1_000)
    #expect(large.isCut && large.lines.count < 150)
    #expect(StateText(of: Array(repeating: "", count: 5_000), limit: .max).lines.count == StateText.lineLimit)
    let long = StateText(of: String(repeating: "ü", count: 1_000_000), limit: 1_000)
    #expect(long.lines[0].text.count < 510)
    indirect enum Chain: Sendable { case end, link(Chain) }
    let chain = (0..<100).reduce(Chain.end) { chain, _ in .link(chain) }
    #expect(StateText(of: chain, limit: 10_000).isCut)
  }

  private func changes(_ change: (inout Board) -> Void, of board: Board) -> [String] {
    var after = board
    change(&after)
    let before = StateText(of: board, limit: 10_000)
    return StateText(of: after, limit: 10_000).compared(with: before).changes.map {
      "\($0.path): \($0.before ?? "+") > \($0.after ?? "-")"
    }
  }

  @Test func `what differs is told by its path`() {
    let board = Board(cards: (1...9).map { Card(text: "card \($0)") }, votes: ["Ada": 1, "Grace": 2])
    #expect(changes({ _ in }, of: board) == [])
    #expect(changes({ $0.title = "Second" }, of: board) == ["title: \"First\" > \"Second\""])
    #expect(
      changes({ $0.cards[3].author = "Ann" }, of: board) == [
        "cards[3]: Card(text: \"card 4\", kind: .task, author: nil) > Card(text: \"card 4\", kind: .task, author: \"Ann\")"
      ])
    // Elements that only move are not reported.
    #expect(
      changes({ $0.cards.remove(at: 0) }, of: board) == [
        "cards[0]: Card(text: \"card 1\", kind: .task, author: nil) > -"
      ])
    #expect(
      changes({ $0.cards.insert(Card(text: "new"), at: 4) }, of: board) == [
        "cards[4]: + > Card(text: \"new\", kind: .task, author: nil)"
      ])
    #expect(changes({ $0.votes["Ada"] = 2 }, of: board) == ["votes[\"Ada\"]: 1 > 2"])
    #expect(changes({ $0.votes["Bob"] = 3 }, of: board) == ["votes[\"Bob\"]: + > 3"])
    #expect(changes({ $0.votes["Ada"] = nil }, of: board) == ["votes[\"Ada\"]: 1 > -"])
    #expect(changes({ $0.tags = ["a"] }, of: board) == ["tags: [] > 1 element", "tags[0]: + > \"a\""])
  }

  @Test func `texts that have little in common are not compared for long`() {
    let before = StateText(of: (0..<1_500).map { "a \($0)" }, limit: .max)
    let after = StateText(of: (0..<1_500).map { "b \($0)" }, limit: .max)
    let comparison = after.compared(with: before)
    #expect(comparison.changes.count == 1)
    #expect(comparison.newLines.count == 1_500)
  }

  @Test func `a ring has the newest`() {
    var ring = Ring<Int>(limit: 3)
    #expect(ring.newestFirst == [])
    for number in 1...2 { ring.append(number) }
    #expect(ring.newestFirst == [2, 1])
    for number in 3...7 { ring.append(number) }
    #expect(ring.newestFirst == [7, 6, 5])
  }

  @Test func `a token is matched by itself alone`() {
    #expect("secret".isMatched(by: "secret"))
    for other in ["", "s", "secre", "secretsecret", "Secret", "secret\0"] { #expect(!"secret".isMatched(by: other)) }
    #expect(!"".isMatched(by: "") && !"".isMatched(by: "a"))
  }
}
