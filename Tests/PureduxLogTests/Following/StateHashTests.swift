import Foundation
import Testing

@testable import PureduxLog

/// `StateFingerprint.encoded`: the differences that a hash ignores, and the ones that it shows.
@Suite struct StateHashTests {
  private static func hash(_ value: some Encodable) throws -> UInt64 { try StateHash(encoding: value).value }

  private enum Suit: Codable, Hashable {
    case clubs
    case hearts
    case number(Int)
    case maybe(Int?)
    case named(rank: String, of: Set<Int>)
  }

  private struct Card: Codable, Hashable {
    var id = 0
    var title = ""
    var votes: Set<String> = []
    var suit = Suit.clubs
    var due: Date?
    var weight = 0.0
  }

  private struct Table: Codable {
    var cards: [Card] = []
    var places: [Int: [UUID: Set<Int>]] = [:]
    var byCard: [Card: String?] = [:]
    var names: Set<String>? = nil
    var price = Decimal(0)
    var page: URL? = nil
    var bytes = Data()
    var sets: Set<Set<Int>> = []
  }

  /// - Parameter capacity: Sets and dictionaries with room for more elements have another order.
  private static func table(capacity: Int) -> Table {
    func set<Element>(_ elements: [Element]) -> Set<Element> {
      var set = Set<Element>(minimumCapacity: capacity)
      // The elements are inserted in another order as well.
      for element in capacity % 2 == 0 ? elements : elements.reversed() { set.insert(element) }
      return set
    }
    func dictionary<Key, Value>(_ pairs: [(Key, Value)]) -> [Key: Value] {
      var dictionary = [Key: Value](minimumCapacity: capacity)
      for (key, value) in capacity % 2 == 0 ? pairs : pairs.reversed() { dictionary[key] = value }
      return dictionary
    }
    let words = (0..<40).map { "word \($0)" }
    func id(_ byte: UInt8) -> UUID { UUID(uuid: (byte, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte)) }
    let card = Card(
      id: 7, title: "Seven \u{1F600}", votes: set(words), suit: .named(rank: "7", of: set(Array(0..<20))),
      due: Date(timeIntervalSinceReferenceDate: 12.5), weight: -0.25)
    return Table(
      cards: [card, Card()],
      places: dictionary((0..<30).map { ($0, dictionary([(id(1), set([1, 2, 3])), (id(2), set([]))])) }),
      byCard: dictionary([(card, "one"), (Card(id: 1), nil), (Card(id: 2), "two")]), names: set(words),
      price: Decimal(string: "12.5")!, page: URL(string: "https://example.org/a?b=c"), bytes: Data([1, 2, 3, 250]),
      sets: set([set([1, 2]), set([3]), set([])]))
  }

  @Test("sets and dictionaries, also nested, optional and as keys, have no order", arguments: [1, 8, 101, 1000, 5001])
  func unordered(capacity: Int) throws {
    let table = Self.table(capacity: capacity)
    #expect(try Self.hash(table) == Self.hash(Self.table(capacity: 0)))
    // The hash of another process, whose `Hasher` has another seed.
    #expect(try Self.hash(table) == 12_837_932_313_116_543_556)
    let decoded = try JSONDecoder().decode(Table.self, from: JSONEncoder().encode(table))
    #expect(try Self.hash(decoded) == Self.hash(table), "as it is after a snapshot")
  }

  /// Members that are encoded in either order, one of them in a nested container.
  private struct Ordered: Encodable {
    var isReversed: Bool

    private enum CodingKeys: CodingKey { case first, second, third }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      if isReversed {
        var nested = container.nestedUnkeyedContainer(forKey: .third)
        try container.encode("b", forKey: .second)
        try container.encode(1, forKey: .first)
        try nested.encode(1)
        try nested.encode(2)
      } else {
        try container.encode(1, forKey: .first)
        try container.encode("b", forKey: .second)
        var nested = container.nestedUnkeyedContainer(forKey: .third)
        try nested.encode(1)
        try nested.encode(2)
      }
    }
  }

  private struct Older: Encodable {
    var count = 3
    var name = "a"
  }

  private struct Newer: Encodable {
    var count: Int64 = 3
    var name = "a"
    var isArchived = false
    var tags: [String] = []
    var limit: Int?
    var price = Decimal(0)
    var share = 0.0
    var text = ""
    var places: [Int: Int] = [:]
    var order = Older(count: 0, name: "")
  }

  @Test("equal values have equal hashes")
  func equal() throws {
    #expect(try Self.hash(Ordered(isReversed: false)) == Self.hash(Ordered(isReversed: true)))
    #expect(try Self.hash(Older()) == Self.hash(Newer()), "a new member that is nil, false, zero or empty")
    #expect(try Self.hash(-0.0) == Self.hash(0.0))
    #expect(try Self.hash(Double.nan) == Self.hash(-Double.nan))
    #expect(try Self.hash(Double(signalOf: 1)) == Self.hash(Double.nan))
    #expect(try Self.hash(Float(0.1)) == Self.hash(Double(Float(0.1))))
    #expect(try Self.hash(Int8(-3)) == Self.hash(Int128(-3)))
    #expect(try Self.hash(UInt8(200)) == Self.hash(UInt128(200)))
    #expect(try Self.hash(Decimal(string: "1.50")!) == Self.hash(Decimal(15) / 10))
    #expect(try Self.hash(Decimal(100)) == Self.hash(Decimal(sign: .plus, exponent: 2, significand: 1)))
    let relative = URL(string: "b", relativeTo: URL(string: "https://example.org/a/"))!
    #expect(try Self.hash(relative) == Self.hash(relative.absoluteURL))
    // Data is not the array of its bytes, so it is equal only to other data.
    #expect(try Self.hash(Data([1, 2])) == Self.hash(Data([0, 1, 2])[1...]))
  }

  private class Base: Encodable {
    var number: Int
    init(number: Int) { self.number = number }
  }

  private final class Derived: Base {
    var name: String
    /// Whether the superclass uses the same container.
    var isShared: Bool

    init(number: Int, name: String, isShared: Bool = false) {
      (self.name, self.isShared) = (name, isShared)
      super.init(number: number)
    }

    private enum CodingKeys: CodingKey { case name, above }

    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      if isShared {
        try super.encode(to: encoder)
      } else {
        try super.encode(to: name == "keyed" ? container.superEncoder(forKey: .above) : container.superEncoder())
      }
      try container.encode(name, forKey: .name)
    }
  }

  /// Requests containers of several kinds, and none.
  private enum Odd: Encodable {
    case nothing
    case keyed
    case unkeyed
    case nested
    case single
    case both

    private enum CodingKeys: CodingKey { case member }

    func encode(to encoder: any Encoder) throws {
      switch self {
      case .nothing: break
      case .keyed: _ = encoder.container(keyedBy: CodingKeys.self)
      case .unkeyed: _ = encoder.unkeyedContainer()
      case .nested:
        var container = encoder.unkeyedContainer()
        _ = container.nestedContainer(keyedBy: CodingKeys.self)
        var second = container.nestedUnkeyedContainer()
        try second.superEncoder().singleValueContainer().encodeNothing()
      case .single:
        var container = encoder.singleValueContainer()
        try container.encode("x")
      case .both:
        var container = encoder.singleValueContainer()
        try container.encode("x")
        var list = encoder.unkeyedContainer()
        try list.encode("x")
      }
    }
  }

  private struct Optionals: Encodable {
    var number: Int?
    var text: String?
    var flag: Bool?
    var list: [Int]?
    var real: Double?
  }

  @Test("different values have different hashes")
  func different() throws {
    let values: [any Encodable] = [
      // Order and nesting.
      [1, 2], [2, 1], [1, 2, 0], [[1], [2]], [[1, 2]], [[], [1, 2]], [[1, 2], []], ["ab", "c"], ["a", "bc"], ["abc"],
      ["a", "b", "c"], "abc", "abcdefgh", "abcdefgh\u{0}", "\u{0}", ["", ""], [""],
      // Sets, dictionaries, and similar values that are neither.
      Set([1, 2]), Set([3]), Set([Set([1, 2])]), Set([Set([1]), Set([2])]), [1: 2], [2: 1], [1: 2, 3: 4],
      [1: 4, 3: 2], ["1": 2], [1: nil as Int?], [1: Int?.some(0)], [0: 0],
      0, 1, -1, UInt64.max, Int64.min, Int128.max, UInt128.max, UInt128(UInt64.max) + 1, 1.0, 0.5, -0.5, Double.nan,
      Double.infinity, -Double.infinity, Double.leastNonzeroMagnitude, Decimal(1), Decimal(string: "0.1")!,
      Decimal(string: "-0.1")!, Decimal.nan, true,
      // Types with an encoding of their own.
      Data([0]), Data([0, 0]), Data("abc".utf8), Date(timeIntervalSinceReferenceDate: 1.5),
      URL(string: "https://example.org")!, UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
      // Enum cases.
      Suit.clubs, Suit.hearts, Suit.number(0), Suit.number(1), Suit.maybe(nil), Suit.maybe(0), Suit.maybe(1),
      Suit.named(rank: "", of: []), Suit.named(rank: "a", of: [1]), Suit.named(rank: "1", of: [1]),
      // nil compared with zero, empty and absent values.
      [Int?.none], [Int?.some(0)], [Int](), Optionals(number: 0), Optionals(text: ""), Optionals(flag: false),
      Optionals(list: []), Optionals(list: [0]), Optionals(real: 0), Optionals(number: 7),
      // Classes, and encoders for a superclass.
      Base(number: 1), Derived(number: 1, name: "a"), Derived(number: 2, name: "a"), Derived(number: 1, name: "keyed"),
      Derived(number: 1, name: "a", isShared: true), Odd.unkeyed, Odd.nested, Odd.both,
      Older(), Older(count: 4), Card(), Card(id: 1), Card(votes: ["a"]), Card(title: "a"),
    ]
    var found: [UInt64: any Encodable] = [:]
    for value in values {
      let other = try found.updateValue(value, forKey: Self.hash(value))
      // An empty list has one hash, however it was written.
      if let other, !(value is Odd && other is [Int]) { Issue.record("\(value) has the hash of \(other)") }
    }
    for odd in [Odd.nothing, .keyed, .single] { _ = try Self.hash(odd) }
  }

  private struct Throwing: Encodable {
    struct Failure: Error, Equatable {}

    func encode(to encoder: any Encoder) throws { throw Failure() }
  }

  @Test("an error thrown anywhere in the encoding is rethrown")
  func throwing() {
    let values: [any Encodable] = [Throwing(), [Throwing()], ["a": Throwing()], [Throwing?.some(Throwing())]]
    for value in values { #expect(throws: Throwing.Failure()) { try Self.hash(value) } }
  }

  @Test("the size is that of the encoded value")
  func size() throws {
    let small = try StateHash(encoding: Array(repeating: Card(), count: 100)).size
    let large = try StateHash(encoding: Array(repeating: Card(), count: 1000)).size
    #expect(large > 9 * small && large < 11 * small && small >= 100)
    #expect(try StateHash(encoding: String(repeating: "a", count: 8000)).size >= 1000)
    #expect(try StateHash(encoding: Data(count: 8000)).size >= 1000)
  }
}

extension Double {
  /// A NaN with other bits.
  fileprivate init(signalOf payload: UInt64) { self.init(nan: RawSignificand(payload), signaling: false) }
}

extension SingleValueEncodingContainer {
  fileprivate func encodeNothing() throws {}
}
