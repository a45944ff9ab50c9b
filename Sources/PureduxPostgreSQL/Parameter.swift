#if PostgreSQL
  enum Parameter: Sendable {
    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case integers([Int64])
    case list([[UInt8]])
  }

  /// Parameters in PostgreSQL's binary formats, concatenated.
  struct EncodedParameters {
    /// Never empty, so that it has an address.
    private(set) var bytes: [UInt8] = [0]
    private(set) var ranges: [Range<Int>] = []
    /// The same in every database.
    private(set) var types: [UInt32] = []

    private enum Kind { static let bytes: UInt32 = 17, integer: UInt32 = 20, text: UInt32 = 25 }

    init(_ parameters: [Parameter]) {
      for parameter in parameters {
        let start = bytes.count
        switch parameter {
        case .integer(let value):
          types.append(Kind.integer)
          append(UInt64(bitPattern: value))
        case .bytes(let value):
          types.append(Kind.bytes)
          bytes += value
        case .text(let value):
          types.append(Kind.text)
          bytes += value.utf8
        case .integers(let values):
          types.append(1016)
          append(headerOf: values.count, Kind.integer)
          for value in values {
            append(UInt32(8))
            append(UInt64(bitPattern: value))
          }
        case .list(let values):
          types.append(1001)
          bytes.reserveCapacity(bytes.count + values.reduce(32) { $0 + $1.count + 4 })
          append(headerOf: values.count, Kind.bytes)
          for value in values {
            append(UInt32(truncatingIfNeeded: value.count))
            bytes += value
          }
        }
        ranges.append(start..<bytes.count)
      }
    }

    /// Dimensions, no nulls, element type, count, and first index.
    private mutating func append(headerOf count: Int, _ type: UInt32) {
      append(UInt32(count > 0 ? 1 : 0))
      append(UInt32(0))
      append(type)
      guard count > 0 else { return }
      append(UInt32(truncatingIfNeeded: count))
      append(UInt32(1))
    }

    private mutating func append(_ value: some FixedWidthInteger) {
      for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: value >> shift))
      }
    }
  }
#endif
