/// The format of a segment: a header, then records, each with its length, a checksum over all of it, and its position.
enum RecordFormat {
  /// The kind of the file, and the format's version. The older one has no tree number.
  private static let magic: [UInt8] = [0x50, 0x44, 0x58, 0x4C, 0x4F, 0x47, 0, 2]
  private static let olderMagic: [UInt8] = [0x50, 0x44, 0x58, 0x4C, 0x4F, 0x47, 0, 1]
  static let headerSize = 24
  static let recordOverhead = 16

  struct Header: Equatable {
    let first: UInt64
    let tree: UInt64?

    var size: Int { tree == nil ? 16 : headerSize }

    var bytes: [UInt8] {
      var bytes = ByteWriter(capacity: size)
      for byte in tree == nil ? olderMagic : magic { bytes.put(byte) }
      bytes.put(first)
      if let tree { bytes.put(tree) }
      return bytes.bytes
    }

    init(first: UInt64, tree: UInt64?) {
      self.first = first
      self.tree = tree
    }

    init?(_ bytes: [UInt8]) {
      let isOlder = bytes.starts(with: olderMagic)
      guard isOlder || bytes.starts(with: magic) else { return nil }
      var reader = ByteReader(bytes, at: magic.count)
      guard let first = reader.take(UInt64.self) else { return nil }
      if isOlder {
        self.init(first: first, tree: nil)
      } else {
        guard let tree = reader.take(UInt64.self) else { return nil }
        self.init(first: first, tree: tree)
      }
    }
  }

  static func append(_ record: LogRecord, to bytes: inout [UInt8]) {
    let start = bytes.count
    put(UInt32(record.bytes.count), to: &bytes)
    put(0, to: &bytes)
    put(UInt32(truncatingIfNeeded: record.position), to: &bytes)
    put(UInt32(truncatingIfNeeded: record.position >> 32), to: &bytes)
    bytes += record.bytes
    let sum = checksum(of: bytes.span, start..<bytes.count)
    for place in 0..<4 { bytes[start + 4 + place] = UInt8(truncatingIfNeeded: sum >> (8 * UInt32(place))) }
  }

  private static func put(_ value: UInt32, to bytes: inout [UInt8]) {
    for place in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: value >> (8 * UInt32(place)))) }
  }

  enum Parsed: Equatable {
    case record(LogRecord, end: Int)
    case short(Int)
    case invalid(Int)
  }

  static func parse(_ bytes: [UInt8], at offset: Int) -> Parsed {
    let span = bytes.span
    guard span.count - offset >= recordOverhead else { return .short(recordOverhead) }
    let size = recordOverhead + Int(integer(in: span, at: offset))
    guard size <= span.count - offset else { return .short(size) }
    guard checksum(of: span, offset..<offset + size) == integer(in: span, at: offset + 4) else {
      return .invalid(size)
    }
    let position =
      UInt64(integer(in: span, at: offset + 8)) | UInt64(integer(in: span, at: offset + 12)) << 32
    let content = [UInt8](bytes[(offset + recordOverhead)..<(offset + size)])
    return .record(LogRecord(position: position, bytes: content), end: offset + size)
  }

  private static func integer(in bytes: borrowing Span<UInt8>, at offset: Int) -> UInt32 {
    UInt32(bytes[offset]) | UInt32(bytes[offset + 1]) << 8 | UInt32(bytes[offset + 2]) << 16
      | UInt32(bytes[offset + 3]) << 24
  }

  private static func checksum(of bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> UInt32 {
    var sum = Sum()
    for place in range.lowerBound..<range.lowerBound + 4 { sum.add(bytes[place]) }
    for _ in 0..<4 { sum.add(0) }
    for place in range.lowerBound + 8..<range.upperBound { sum.add(bytes[place]) }
    return sum.value
  }

  /// Checks a record's checksum piecewise, so that a corrupted length allocates no memory.
  ///
  /// - Parameter read: Returns the bytes in a range of the record.
  static func isWhole<Failure: Error>(
    _ count: Int, pieces: Int, _ read: (Range<Int>) throws(Failure) -> [UInt8]
  ) throws(Failure) -> Bool {
    let header = try read(0..<recordOverhead)
    guard header.count == recordOverhead else { return false }
    var sum = Sum()
    for place in header.indices { sum.add((4..<8).contains(place) ? 0 : header[place]) }
    for start in stride(from: recordOverhead, to: count, by: pieces) {
      for byte in try read(start..<min(start + pieces, count)) { sum.add(byte) }
    }
    return sum.value == integer(in: header.span, at: 4)
  }

  static func checksum(of bytes: [UInt8]) -> UInt32 {
    var sum = Sum()
    for byte in bytes { sum.add(byte) }
    return sum.value
  }

  private struct Sum {
    private static let table: [UInt32] = (0..<256).map { index in
      (0..<8).reduce(UInt32(index)) { sum, _ in sum & 1 == 1 ? 0x82F6_3B78 ^ (sum >> 1) : sum >> 1 }
    }

    /// A copy: a debug build looks up a global under a lock for each byte.
    private let table = Self.table
    private var inverted = ~UInt32(0)

    var value: UInt32 { ~inverted }

    @inline(__always) mutating func add(_ byte: UInt8) {
      inverted = table[Int((inverted ^ UInt32(byte)) & 0xFF)] ^ (inverted >> 8)
    }
  }
}
