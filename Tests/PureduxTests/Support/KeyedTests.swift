import Foundation
import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import Puredux

/// A collection by keys, and its record of writes.
@Suite struct KeyedTests {
  private struct Card: Identifiable, Codable, Hashable {
    let id: String
    var title: String
  }

  @Test func `it is used as a dictionary, and keeps the order in which keys came`() {
    var cards: Keyed<String, Card> = [:]
    #expect(cards.isEmpty)
    cards["b"] = Card(id: "b", title: "Second letter")
    cards.set(Card(id: "a", title: "First letter"))
    cards["c", default: Card(id: "c", title: "")].title += "Third"
    cards["c", default: Card(id: "c", title: "")].title += " letter"
    cards["b"]?.title = "B"
    cards["x"]?.title = "Nothing"
    #expect(cards.count == 3)
    #expect(cards.keys == ["b", "a", "c"])
    #expect(cards.values.map(\.title) == ["B", "First letter", "Third letter"])
    #expect(cards.removeValue(forKey: "b")?.title == "B")
    #expect(cards.removeValue(forKey: "b") == nil)
    cards["c"] = nil
    cards["none"] = nil
    #expect(cards.keys == ["a"])
    cards["b"] = Card(id: "b", title: "Again")
    #expect(cards.map(\.key) == ["a", "b"])
    cards.removeAll()
    #expect(cards == [:])
    #expect(Keyed([Card(id: "a", title: "1"), Card(id: "a", title: "2")]).values.map(\.title) == ["2"])
    #expect(Keyed([("a", 1), ("b", 2)]) == ["a": 1, "b": 2])
    #expect(Keyed([("a", 1), ("b", 2)]) != ["b": 2, "a": 1])
    #expect(Set([Keyed([("a", 1)]), ["a": 1], ["a": 2]]).count == 2)
  }

  @Test func `its text, its mirror and its differences are those of its pairs`() {
    #expect("\(Keyed<Int, Int>())" == "[:]")
    #expect("\(Keyed([(1, "one"), (2, "two")]))" == #"[1: "one", 2: "two"]"#)
    #expect(Mirror(reflecting: Keyed([(1, "one")])).children.count == 1)
    let lines = difference(expected: Keyed([(1, 1), (2, 2)]), actual: Keyed([(1, 1), (2, 3)]))
    #expect(lines == ["[2]: expected 2, is 3"])
    let order = difference(expected: Keyed([(2, "b"), (1, "a")]), actual: Keyed([(1, "a"), (2, "b")]))
    #expect(order == [#"expected [2: "b", 1: "a"], is [1: "a", 2: "b"]"#])
  }

  @Test func `it is encoded in its order, and duplicate keys are not decoded`() throws {
    let cards = Keyed([Card(id: "b", title: "B"), Card(id: "a", title: "A")])
    let data = try JSONEncoder().encode(cards)
    #expect(try JSONDecoder().decode(Keyed<String, Card>.self, from: data) == cards)
    for text in [#"["a",1,"a",2]"#, #"["a"]"#, #"{"a":1}"#] {
      #expect(throws: DecodingError.self) {
        try JSONDecoder().decode(Keyed<String, Int>.self, from: Data(text.utf8))
      }
    }
  }

  private struct Contents: Sendable {
    private final class Object: Sendable {}
    private var object = Object()

    mutating func isHeldOnce() -> Bool { isKnownUniquelyReferenced(&object) }
  }

  @Test func `values are changed in place`() {
    var values: Keyed<Int, Contents> = [1: Contents()]
    var isHeldOnce = [values[1]?.isHeldOnce() == true, values[1, default: Contents()].isHeldOnce()]
    isHeldOnce.append(values[2, default: Contents()].isHeldOnce())
    #expect(isHeldOnce == [true, true, true])
    let kept = values
    let isHeldOnceBesideACopy = values[1]?.isHeldOnce()
    #expect(isHeldOnceBesideACopy == false)
    #expect(kept.count == 2)
  }

  @Test func `removed keys are swept, and old writes are forgotten`() {
    var values: Keyed<Int, Int> = [:]
    for key in 0..<100_000 { values[key] = key }
    for key in 0..<99_990 { values[key] = nil }
    #expect(values.keys == Array(99_990..<100_000))
    #expect(values.entries.count <= 2 * values.count + 17)
    #expect(values.writes.keys.count <= 128)
  }

  /// Compares the beginnings and ends of its values' effects with those of a list of the same values, which is scanned
  /// each time.
  @Test(arguments: [1, 2].map { UInt64($0) } + [UInt64.random(in: .min ... .max)])
  func `additions, removals and changes of its values agree with a list's`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var (changes, all) = (KeyedChanges<Int, Int>(), ElementChanges<Int, Int>())
    var values: Keyed<Int, Int> = [1: 1, 2: 2]
    var kept = values
    for step in 0..<2000 {
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let key = Int.random(in: 0..<9, using: &random)
        switch Int.random(in: 0..<9, using: &random) {
        case 0..<4: values[key] = step % 3
        case 4..<7: values[key] = nil
        case 7: kept = values
        default: values = kept
        }
      }
      let looked = step % 10 == 9 ? [:] : values
      var (gone, begun): (Set<Int>, [[Int]]) = ([], [])
      changes.update(with: looked) {
        gone.insert($0)
      } begun: {
        begun.append([$0, $1])
      }
      var (allGone, allBegun): (Set<Int>, [[Int]]) = ([], [])
      all.update(with: looked.map { (id: $0.key, value: $0.value) }) {
        allGone.insert($0)
      } begun: {
        allBegun.append([$0.id, $0.value])
      }
      #expect(gone == allGone, "seed \(seed), step \(step)")
      #expect(begun == allBegun, "seed \(seed), step \(step)")
    }
  }

  // MARK: Writes

  private func written(_ values: Keyed<Int, Int>, since mark: KeyedWrites<Int>.Mark) -> Set<Int>? {
    values.writes.keys(since: mark).map { Set($0) }
  }

  @Test func `the writes since a mark are known`() {
    var values: Keyed<Int, Int> = [1: 1, 2: 2, 3: 3]
    var mark = values.writes.mark
    #expect(written(values, since: mark) == [])
    values[1] = 10
    values[4] = nil
    values[5]? += 1
    #expect(written(values, since: mark) == [1])
    mark = values.writes.mark
    values[2] = nil
    values[4] = 4
    values[3, default: 0] += 1
    #expect(written(values, since: mark) == [2, 3, 4])
    mark = values.writes.mark
    values.removeAll()
    #expect(written(values, since: mark) == nil)
  }

  @Test func `copies are independent`() {
    var values: Keyed<Int, Int> = [1: 1, 2: 2]
    let start = values.writes.mark
    let kept = values
    values[1] = 10
    let mark = values.writes.mark
    #expect(written(values, since: start) == [1])
    #expect(written(kept, since: start) == [])
    #expect(written(kept, since: mark) == nil)
    var other = kept
    other[2] = 20
    #expect(written(other, since: start) == [2])
    #expect(written(other, since: mark) == nil)
    #expect(written(values, since: other.writes.mark) == nil)
    #expect(written([:], since: mark) == nil)
    #expect(written([1: 1], since: mark) == nil)
    #expect(written([1: 1], since: KeyedWrites<Int>.Mark()) == [1])
  }

  @Test func `after more writes than are remembered, the written keys are unknown`() {
    var values: Keyed<Int, Int> = [:]
    let start = values.writes.mark
    for key in 0..<128 { values[0] = key }
    #expect(written(values, since: start) == [0])
    values[0] = 128
    #expect(written(values, since: start) == nil)
    // The last 64 writes are always known.
    for number in 0..<500 {
      let mark = values.writes.mark
      for _ in 0..<64 { values[0] = number }
      #expect(written(values, since: mark) == [0])
      values[0] = 0
    }
  }

  /// If the writes between two values of a program are known, the values differ only in the written keys.
  @Test(arguments: [1, 2, 3].map { UInt64($0) } + [UInt64.random(in: .min ... .max)])
  func `no difference is left out after copies and restores`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var values: Keyed<Int, Int> = [:]
    var model: [(key: Int, value: Int)] = []
    var kept: [(values: Keyed<Int, Int>, model: [(key: Int, value: Int)])] = [(values, model)]
    var knownCount = 0
    for step in 0..<3000 {
      let key = Int.random(in: 0..<12, using: &random)
      let place = model.firstIndex { $0.key == key }
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<9:
        values[key] = step
        if let place { model[place].value = step } else { model.append((key, step)) }
      case 9..<12:
        values[key]? += 1
        if let place { model[place].value += 1 }
      case 12..<16:
        values[key] = nil
        if let place { model.remove(at: place) }
      case 16: if kept.count < 12 { kept.append((values, model)) }
      case 17: kept[Int.random(in: 0..<kept.count, using: &random)] = (values, model)
      case 18: if kept.count > 4 { kept.remove(at: Int.random(in: 0..<kept.count, using: &random)) }
      default: (values, model) = kept[Int.random(in: 0..<kept.count, using: &random)]
      }
      #expect(values.elementsEqual(model) { $0 == $1 }, "seed \(seed), step \(step)")
      for earlier in kept {
        guard let known = written(values, since: earlier.values.writes.mark) else { continue }
        knownCount += 1
        for key in 0..<12 where !known.contains(key) {
          #expect(values[key] == earlier.values[key], "seed \(seed), step \(step), key \(key)")
        }
      }
    }
    #expect(knownCount > 1000)
  }
}
