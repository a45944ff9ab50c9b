#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A 64-bit hash of an encoded value, the same in every process, and independent of the order of sets, dictionaries and
/// encoded members.
///
/// It sums over members or elements, so nothing is sorted. Each summand mixes a member's name, or an element's number,
/// with its value's hash. A member that is nil, false, zero or empty counts as absent.
struct StateHash: Equatable, Sendable {
  /// Never 0, which means no hash.
  var value: UInt64
  var size: Int

  init(encoding value: some Encodable) throws {
    let root = HashingEncoder(in: nil, at: nil)
    self.init(value: try root.hash(of: value).value, size: root.size)
  }

  init(value: UInt64, size: Int) {
    self.value = max(1, value)
    self.size = size
  }

  struct Part {
    var value: UInt64
    var isNothing = false

    static let nothing = Part(value: StateHash.mix(0x6e69_6c00, 0), isNothing: true)

    init(value: UInt64, isNothing: Bool = false) {
      self.value = value
      self.isNothing = isNothing
    }

    init(_ flag: Bool) { self.init(value: StateHash.mix(1, flag ? 1 : 0), isNothing: !flag) }

    /// Integers are compared by value, whatever their types.
    init(_ integer: some BinaryInteger) {
      let low = UInt64(truncatingIfNeeded: integer)
      if let small = Int64(exactly: integer) {
        self.init(value: StateHash.mix(2, low), isNothing: small == 0)
      } else {
        let high = StateHash.mix(integer < 0 ? 13 : 12, UInt64(truncatingIfNeeded: integer >> 64))
        self.init(value: StateHash.mix(high, low))
      }
    }

    /// Both zeros are equal, and so are all NaN values.
    init(_ number: Double) {
      let bits = number == 0 ? 0 : number.isNaN ? Double.nan.bitPattern : number.bitPattern
      self.init(value: StateHash.mix(3, bits), isNothing: number == 0)
    }

    init(_ text: String) { self.init(value: StateHash.of(text.utf8, 4), isNothing: text.isEmpty) }

    init(_ data: Data) { self.init(value: StateHash.of(data, 5), isNothing: data.isEmpty) }
  }

  static func mix(_ first: UInt64, _ second: UInt64) -> UInt64 {
    let product = (first ^ 0x9e37_79b9_7f4a_7c15).multipliedFullWidth(by: second ^ 0xbf58_476d_1ce4_e5b9)
    var hash = product.high ^ product.low
    hash = (hash ^ (hash >> 32)) &* 0xd6e8_feb8_6659_fd93
    return hash ^ (hash >> 29) ^ first &* 0x94d0_49bb_1331_11eb
  }

  static func of(_ bytes: some Sequence<UInt8>, _ kind: UInt64) -> UInt64 {
    var (hash, word, count) = (kind, UInt64(0), UInt64(0))
    for byte in bytes {
      word = word << 8 | UInt64(byte)
      count &+= 1
      if count & 7 == 0 { (hash, word) = (mix(hash, word), 0) }
    }
    return mix(mix(hash, word), count)
  }
}

private final class HashingEncoder: Encoder {
  private let parent: HashingEncoder?
  private let key: (any CodingKey)?
  private var sum: UInt64 = 0
  private var hasWritten = false
  private var kinds: UInt64 = 0
  private var elementCount = 0
  private var nested: [(place: UInt64, encoder: HashingEncoder)] = []
  private var single = StateHash.Part.nothing
  private(set) var size = 0

  init(in parent: HashingEncoder?, at key: (any CodingKey)?) {
    self.parent = parent
    self.key = key
  }

  // MARK: Writing

  func hash<Value: Encodable>(of value: Value, at key: (any CodingKey)? = nil) throws -> StateHash.Part {
    size += 1
    if let value = value as? any StablyHashed { return try value.hash(in: self) }
    let encoder = HashingEncoder(in: self, at: key)
    try value.encode(to: encoder)
    size += encoder.size
    return encoder.end()
  }

  func add(_ part: StateHash.Part, at place: UInt64) {
    sum &+= StateHash.mix(place, part.value)
    hasWritten = true
  }

  func add(_ part: StateHash.Part, for key: some CodingKey) {
    if !part.isNothing { add(part, at: Self.place(of: key)) }
  }

  func addElement(_ part: StateHash.Part) { add(part, at: nextPlace()) }

  func set(_ part: StateHash.Part) { single = part }

  func nest(_ key: (any CodingKey)?, at place: UInt64) -> HashingEncoder {
    let encoder = HashingEncoder(in: self, at: key)
    nested.append((place, encoder))
    return encoder
  }

  static func place(of key: some CodingKey) -> UInt64 { StateHash.of(key.stringValue.utf8, 6) }

  func nextPlace() -> UInt64 {
    elementCount += 1
    return StateHash.mix(7, UInt64(elementCount))
  }

  func count(_ text: String) { size += 1 + text.utf8.count / 8 }
  func count(_ count: Int) { size += count }
  var count: Int { elementCount }

  func end() -> StateHash.Part {
    if kinds == Self.single { return single }
    for (place, encoder) in nested {
      add(StateHash.Part(value: encoder.end().value), at: place)
      size += encoder.size
    }
    return StateHash.Part(
      value: StateHash.mix(StateHash.mix(kinds &+ 8, sum), UInt64(elementCount)), isNothing: !hasWritten)
  }

  func hash<Value: Encodable & StablyHashed>(of value: Value) throws -> StateHash.Part {
    size += 1
    return try value.hash(in: self)
  }

  // MARK: As an encoder

  private static let (keyed, unkeyed, single): (UInt64, UInt64, UInt64) = (1, 2, 4)

  var codingPath: [any CodingKey] {
    var path: [any CodingKey] = []
    var encoder: HashingEncoder? = self
    while let next = encoder {
      if let key = next.key { path.append(key) }
      encoder = next.parent
    }
    return path.reversed()
  }

  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    kinds |= Self.keyed
    return KeyedEncodingContainer(KeyedHashing<Key>(encoder: self))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    kinds |= Self.unkeyed
    return UnkeyedHashing(encoder: self)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    kinds |= Self.single
    return SingleHashing(encoder: self)
  }
}

private struct SuperKey: CodingKey {
  var stringValue: String { "super" }
  var intValue: Int? { nil }
  init() {}
  init?(stringValue: String) { nil }
  init?(intValue: Int) { nil }
}

private struct KeyedHashing<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let encoder: HashingEncoder

  var codingPath: [any CodingKey] { encoder.codingPath }

  func encodeNil(forKey key: Key) {}
  func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
    encoder.add(try encoder.hash(of: value, at: key), for: key)
  }
  func encode<Value: Encodable & StablyHashed>(_ value: Value, forKey key: Key) throws {
    encoder.add(try encoder.hash(of: value), for: key)
  }

  private func add<Value: Encodable & StablyHashed>(_ value: Value?, for key: Key) throws {
    guard let value else { return }
    encoder.add(StateHash.Part(value: try encoder.hash(of: value).value), for: key)
  }
  func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
    guard let value else { return }
    encoder.add(StateHash.Part(value: try encoder.hash(of: value, at: key).value), for: key)
  }
  // The default implementations would call `encode(_:forKey:)`.
  func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Int128?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try add(value, for: key) }
  func encodeIfPresent(_ value: String?, forKey key: Key) throws { try add(value, for: key) }

  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested>
  {
    encoder.nest(key, at: HashingEncoder.place(of: key)).container(keyedBy: type)
  }
  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    encoder.nest(key, at: HashingEncoder.place(of: key)).unkeyedContainer()
  }
  func superEncoder() -> any Encoder { encoder.nest(SuperKey(), at: HashingEncoder.place(of: SuperKey())) }
  func superEncoder(forKey key: Key) -> any Encoder { encoder.nest(key, at: HashingEncoder.place(of: key)) }
}

private struct UnkeyedHashing: UnkeyedEncodingContainer {
  let encoder: HashingEncoder

  var codingPath: [any CodingKey] { encoder.codingPath }
  var count: Int { encoder.count }

  func encodeNil() { encoder.addElement(.nothing) }
  func encode<Value: Encodable>(_ value: Value) throws { encoder.addElement(try encoder.hash(of: value)) }
  func encode<Value: Encodable & StablyHashed>(_ value: Value) throws {
    encoder.addElement(try encoder.hash(of: value))
  }

  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    encoder.nest(nil, at: encoder.nextPlace()).container(keyedBy: type)
  }
  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
    encoder.nest(nil, at: encoder.nextPlace()).unkeyedContainer()
  }
  func superEncoder() -> any Encoder { encoder.nest(nil, at: encoder.nextPlace()) }
}

private struct SingleHashing: SingleValueEncodingContainer {
  let encoder: HashingEncoder

  var codingPath: [any CodingKey] { encoder.codingPath }

  func encodeNil() { encoder.set(.nothing) }
  func encode<Value: Encodable>(_ value: Value) throws { encoder.set(try encoder.hash(of: value)) }
  func encode<Value: Encodable & StablyHashed>(_ value: Value) throws { encoder.set(try encoder.hash(of: value)) }
}

/// A value that hashes itself: it has no parts, its encoding has an arbitrary order, or equal values have several
/// encodings.
private protocol StablyHashed {
  func hash(in encoder: HashingEncoder) throws -> StateHash.Part
}

extension Bool: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part { StateHash.Part(self) }
}

extension StablyHashed where Self: BinaryInteger {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part { StateHash.Part(self) }
}

extension Int: StablyHashed {}
extension Int8: StablyHashed {}
extension Int16: StablyHashed {}
extension Int32: StablyHashed {}
extension Int64: StablyHashed {}
extension UInt: StablyHashed {}
extension UInt8: StablyHashed {}
extension UInt16: StablyHashed {}
extension UInt32: StablyHashed {}
extension UInt64: StablyHashed {}
extension Int128: StablyHashed {}
extension UInt128: StablyHashed {}

extension Double: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part { StateHash.Part(self) }
}

extension Float: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part { StateHash.Part(Double(self)) }
}

extension String: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part {
    encoder.count(utf8.count / 8)
    return StateHash.Part(self)
  }
}

extension Data: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part {
    encoder.count(count / 8)
    return StateHash.Part(self)
  }
}

/// A URL's encoding includes the base, unlike JSON.
extension URL: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part { StateHash.Part(absoluteString) }
}

/// Decimals are encoded with or without trailing zeros.
extension Decimal: StablyHashed {
  fileprivate func hash(in encoder: HashingEncoder) -> StateHash.Part {
    var text = Substring(description)
    if text.contains(".") {
      while text.last == "0" { text.removeLast() }
      if text.last == "." { text.removeLast() }
    }
    return StateHash.Part(value: StateHash.of(text.utf8, 9), isNothing: self == 0)
  }
}

extension Optional: StablyHashed where Wrapped: Encodable {
  fileprivate func hash(in encoder: HashingEncoder) throws -> StateHash.Part {
    guard let self else { return .nothing }
    return StateHash.Part(value: try encoder.hash(of: self).value)
  }
}

/// Of the failures in a collection without an order, the one with the first description is reported.
private func reported(_ failure: (any Error)?, _ other: any Error) -> any Error {
  guard let failure, "\(failure)" <= "\(other)" else { return other }
  return failure
}

extension Set: StablyHashed where Element: Encodable {
  fileprivate func hash(in encoder: HashingEncoder) throws -> StateHash.Part {
    var sum: UInt64 = 0
    var failure: (any Error)?
    for element in self {
      do { sum &+= StateHash.mix(10, try encoder.hash(of: element).value) } catch { failure = reported(failure, error) }
    }
    if let failure { throw failure }
    return StateHash.Part(value: StateHash.mix(sum, UInt64(count)), isNothing: isEmpty)
  }
}

extension Dictionary: StablyHashed where Key: Encodable, Value: Encodable {
  fileprivate func hash(in encoder: HashingEncoder) throws -> StateHash.Part {
    var sum: UInt64 = 0
    var failure: (any Error)?
    for (key, value) in self {
      do {
        sum &+= StateHash.mix(try encoder.hash(of: key).value, try encoder.hash(of: value).value)
      } catch {
        failure = reported(failure, error)
      }
    }
    if let failure { throw failure }
    return StateHash.Part(value: StateHash.mix(StateHash.mix(11, sum), UInt64(count)), isNothing: isEmpty)
  }
}
