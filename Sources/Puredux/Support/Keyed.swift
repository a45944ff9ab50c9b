/// An ordered dictionary whose keys can be followed one by one.
///
///     struct Hotel { var rooms: Keyed<Int, Room> = [:] }
///
///     state.rooms[12]?.guests.append(guest)  // In a reducer, as with a dictionary: in place.
///     state.rooms[12] = nil
///
///     for await room in hotel.scope(to: \.rooms, at: 12).states() { … }  // This room only.
///
/// It records which keys are written, so a commit costs only their followers. Keys are in insertion order, the same on
/// every replica. Two collections are equal if they have equal values at the same keys in the same order.
///
/// Reading, writing and removing take amortized constant time. The first write after a copy copies the entries if the
/// copy is still held, for instance by a history or by a follower of the whole state. In addition to the values, it
/// stores the keys of the last writes: at least 64, and at most 128 or four per value.
public struct Keyed<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline struct Entry: Sendable {
    @usableFromInline let key: Key
    @usableFromInline var value: Value?

    @inlinable init(key: Key, value: Value) {
      self.key = key
      self.value = value
    }
  }

  @usableFromInline var places: [Key: Int] = [:]
  /// Removed entries are compacted from time to time.
  @usableFromInline var entries: ContiguousArray<Entry> = []
  @usableFromInline var writes = KeyedWrites<Key>()

  /// Makes an empty collection.
  @inlinable public init() {}

  /// Makes a collection of pairs. Later pairs replace earlier ones with the same key.
  @inlinable public init(_ pairs: some Sequence<(Key, Value)>) {
    for (key, value) in pairs { self[key] = value }
  }

  /// Like `init(_:)` with pairs, by the values' ids.
  @inlinable public init(_ values: some Sequence<Value>) where Value: Identifiable, Value.ID == Key {
    for value in values { self[value.id] = value }
  }

  /// The number of keys, in constant time.
  @inlinable public var count: Int { places.count }
  /// Whether there are no keys.
  @inlinable public var isEmpty: Bool { places.isEmpty }

  /// The keys in order, as a new array, in linear time.
  @inlinable public var keys: [Key] { map(\.key) }

  /// The values in order, as a new array, in linear time.
  @inlinable public var values: [Value] { map(\.value) }

  /// The value of a key, or nil. Changed in place; a new key is appended.
  @inlinable public subscript(key: Key) -> Value? {
    get { places[key].flatMap { entries[$0].value } }
    _modify {
      if let place = places[key] {
        writes.note(key, count: count)
        defer { if entries[place].value == nil { removed(key) } }
        yield &entries[place].value
      } else {
        var value: Value?
        defer { if let value { _ = append(value, for: key) } }
        yield &value
      }
    }
  }

  /// The value of a key, or a default for a new key. Changed in place.
  @inlinable public subscript(key: Key, default makeValue: @autoclosure () -> Value) -> Value {
    get { self[key] ?? makeValue() }
    _modify {
      let place = places[key]
      if place != nil { writes.note(key, count: count) }
      yield &entries[place ?? append(makeValue(), for: key)].value!
    }
  }

  @inlinable func has(_ key: Key) -> Bool { places[key] != nil }

  @inlinable func inOrder(_ keys: Set<Key>) -> [Key] {
    keys.compactMap { places[$0] }.sorted().map { entries[$0].key }
  }

  @inlinable mutating func change(_ key: Key, _ change: (inout Value) -> Void) -> Bool {
    guard let place = places[key] else { return false }
    writes.note(key, count: count)
    change(&entries[place].value!)
    return true
  }

  /// Sets an identifiable value.
  @inlinable public mutating func set(_ value: Value) where Value: Identifiable, Value.ID == Key {
    self[value.id] = value
  }

  /// Removes a key, and returns its value.
  @inlinable @discardableResult public mutating func removeValue(forKey key: Key) -> Value? {
    var value: Value?
    swap(&self[key], &value)
    return value
  }

  /// Removes all keys, which all count as written.
  @inlinable public mutating func removeAll() {
    writes.noteAll()
    places = [:]
    entries = []
  }

  @inlinable mutating func append(_ value: Value, for key: Key) -> Int {
    places[key] = entries.count
    entries.append(Entry(key: key, value: value))
    writes.note(key, count: count)
    return entries.count - 1
  }

  @inlinable mutating func removed(_ key: Key) {
    places[key] = nil
    guard entries.count > 2 * places.count + 16 else { return }
    entries.removeAll { $0.value == nil }
    places.removeAll(keepingCapacity: true)
    for (place, entry) in entries.enumerated() { places[entry.key] = place }
  }
}

extension Keyed: Sequence {
  public struct Iterator: IteratorProtocol {
    @usableFromInline let entries: ContiguousArray<Entry>
    @usableFromInline var place = 0

    @inlinable init(_ entries: ContiguousArray<Entry>) { self.entries = entries }

    @inlinable public mutating func next() -> (key: Key, value: Value)? {
      while place < entries.count {
        defer { place += 1 }
        if let value = entries[place].value { return (entries[place].key, value) }
      }
      return nil
    }
  }

  @inlinable public func makeIterator() -> Iterator { Iterator(entries) }
  @inlinable public var underestimatedCount: Int { count }
}

extension Keyed: ExpressibleByDictionaryLiteral {
  @inlinable public init(dictionaryLiteral pairs: (Key, Value)...) { self.init(pairs) }
}

extension Keyed: Equatable where Value: Equatable {
  @inlinable public static func == (lhs: Keyed, rhs: Keyed) -> Bool {
    lhs.count == rhs.count && lhs.elementsEqual(rhs) { $0.key == $1.key && $0.value == $1.value }
  }
}

extension Keyed: Hashable where Value: Hashable {
  @inlinable public func hash(into hasher: inout Hasher) {
    hasher.combine(count)
    for (key, value) in self {
      hasher.combine(key)
      hasher.combine(value)
    }
  }
}

/// Encodes a list in which keys and values alternate, in order.
extension Keyed: Encodable where Key: Encodable, Value: Encodable {
  public func encode(to encoder: any Encoder) throws {
    var list = encoder.unkeyedContainer()
    for (key, value) in self {
      try list.encode(key)
      try list.encode(value)
    }
  }
}

extension Keyed: Decodable where Key: Decodable, Value: Decodable {
  /// Decodes a list of alternating keys and values.
  ///
  /// - Throws: `DecodingError`, also if a key occurs twice.
  public init(from decoder: any Decoder) throws {
    self.init()
    var list = try decoder.unkeyedContainer()
    while !list.isAtEnd {
      let key = try list.decode(Key.self)
      guard self[key] == nil else {
        throw DecodingError.dataCorruptedError(in: list, debugDescription: "The key \(key) is there twice.")
      }
      self[key] = try list.decode(Value.self)
    }
  }
}

extension Keyed: CustomStringConvertible, CustomReflectable {
  public var description: String {
    let pairs = map { "\(String(reflecting: $0.key)): \(String(reflecting: $0.value))" }
    return "[" + (pairs.isEmpty ? ":" : pairs.joined(separator: ", ")) + "]"
  }

  public var customMirror: Mirror {
    Mirror(self, unlabeledChildren: Array(self), displayStyle: .dictionary)
  }
}

/// An ordered collection with a dictionary's mirror.
package protocol OrderedByKeys {}

extension Keyed: OrderedByKeys {}
