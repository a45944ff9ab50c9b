import Testing

@testable import Puredux

@Suite struct StateChangeTests {
  struct Card {
    var text: String
    var tags: [String] = []
  }
  struct Board {
    var title = "Plans"
    var cards: [Card] = []
    var owner: String?
    var counts: [String: Int] = [:]
  }

  private func changes(_ before: Any, _ after: Any) -> [String] {
    StateChange.all(from: before, to: after).map(\.description)
  }

  @Test func `parts are named by their paths`() {
    let before = Board(cards: [Card(text: "a"), Card(text: "b", tags: ["x"])])
    var after = before
    after.title = "Ideas"
    after.cards[1].text = "c"
    after.cards[1].tags.append("y")
    after.owner = "ann"
    #expect(
      changes(before, after) == [
        #"title: "Plans" -> "Ideas""#, #"cards[1].text: "b" -> "c""#, #"cards[1].tags[1]: nothing -> "y""#,
        #"owner: nil -> Optional("ann")"#,
      ])
    #expect(changes(after, before).contains(#"cards[1].tags[1]: "y" -> nothing"#))
    #expect(changes(before, before).isEmpty)
  }

  @Test func `a value without parts is the state as a whole`() {
    #expect(changes(1, 2) == ["state: 1 -> 2"])
    #expect(changes([Int](), [1]) == ["state: [] -> [1]"])
    #expect(changes((1, "a"), (1, "b")) == [#".1: "a" -> "b""#])
    #expect(changes(["a": 1], ["a": 2]) == [#"state: ["a": 1] -> ["a": 2]"#])
  }
}
