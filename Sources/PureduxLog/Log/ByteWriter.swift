/// Encodes integers, least significant byte first, and byte strings.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

  mutating func put<Integer: FixedWidthInteger & UnsignedInteger>(_ value: Integer) {
    var rest = value
    for _ in 0..<(Integer.bitWidth / 8) {
      bytes.append(UInt8(truncatingIfNeeded: rest))
      rest = rest >> 8
    }
  }

  mutating func put(_ string: [UInt8]) {
    put(UInt32(string.count))
    bytes += string
  }
}

/// Decodes the bytes of a `ByteWriter`; nil if there are too few.
struct ByteReader {
  private let bytes: [UInt8]
  private var offset: Int

  init(_ bytes: [UInt8], at offset: Int = 0) {
    self.bytes = bytes
    self.offset = offset
  }

  var isAtEnd: Bool { offset == bytes.count }

  mutating func take<Integer: FixedWidthInteger & UnsignedInteger>(_ type: Integer.Type) -> Integer? {
    let size = Integer.bitWidth / 8
    guard bytes.count - offset >= size else { return nil }
    var value: Integer = 0
    for place in (0..<size).reversed() { value = value << 8 | Integer(bytes[offset + place]) }
    offset += size
    return value
  }

  mutating func takeString() -> ArraySlice<UInt8>? {
    guard let count = take(UInt32.self), bytes.count - offset >= Int(count) else { return nil }
    defer { offset += Int(count) }
    return bytes[offset..<offset + Int(count)]
  }
}
