/// What one append carries: actions of one writer, numbered without a gap, and what the writer had applied when it
/// wrote them.
enum LogEntry {
  struct Header: Equatable, Sendable {
    /// One process's run of one store: a number that it has drawn.
    var writer: UInt64
    /// The number of the first action, counted from one.
    var first: UInt64
    var seen: Mark
    var schema: UInt32
  }

  /// A position, and the chain over all that was committed up to it.
  struct Mark: Equatable, Sendable {
    var position: UInt64 = 0
    var chain: UInt64 = Fold.firstChain
    /// A hash of the state there; 0 where there is none.
    var fingerprint: UInt64 = 0
  }

  /// What has been decided about an entry.
  struct Decision: Equatable, Sendable {
    /// The position of the entry that is skipped.
    var skipped: UInt64
    /// When it was decided, in seconds since 1970.
    var time: UInt64
    var reason: String
  }

  /// Of entries of actions, and of decisions, which versions that know no decisions take for one of a newer version.
  private static let format: UInt8 = 1
  private static let decisionFormat: UInt8 = 2
  private static let skipping: UInt8 = 1
  private static let kind: [UInt8] = [0x50, 0x44, 0x58]

  /// How many bytes an entry of one action has beside that action.
  static let overhead = 56

  static func encode(writer: UInt64, first: UInt64, seen: Mark, schema: UInt32, actions: some Collection<[UInt8]>)
    -> [UInt8]
  {
    var bytes = ByteWriter(capacity: overhead + actions.reduce(0) { $0 + 4 + $1.count })
    for byte in kind + [format] { bytes.put(byte) }
    bytes.put(schema)
    bytes.put(writer)
    bytes.put(first)
    bytes.put(seen.position)
    bytes.put(seen.chain)
    bytes.put(seen.fingerprint)
    bytes.put(UInt32(actions.count))
    for action in actions { bytes.put(action) }
    return bytes.bytes
  }

  static func encode(_ decision: Decision) -> [UInt8] {
    var bytes = ByteWriter()
    for byte in kind + [decisionFormat, skipping] { bytes.put(byte) }
    bytes.put(decision.skipped)
    bytes.put(decision.time)
    bytes.put(Array(decision.reason.utf8))
    return bytes.bytes
  }

  enum Decoded: Equatable {
    case entry(Header, [ArraySlice<UInt8>])
    case decision(Decision)
    /// A later version of this library has written it.
    case newerFormat
    /// It is none.
    case unreadable
  }

  static func decode(_ bytes: [UInt8]) -> Decoded {
    guard bytes.starts(with: kind), bytes.count > kind.count else { return .unreadable }
    var reader = ByteReader(bytes, at: kind.count + 1)
    switch bytes[kind.count] {
    case format: break
    case decisionFormat: return decodeDecision(&reader)
    case let format: return format > decisionFormat ? .newerFormat : .unreadable
    }
    guard let schema = reader.take(UInt32.self), let writer = reader.take(UInt64.self),
      let first = reader.take(UInt64.self), let position = reader.take(UInt64.self),
      let chain = reader.take(UInt64.self), let fingerprint = reader.take(UInt64.self),
      let count = reader.take(UInt32.self), first > 0,
      !first.addingReportingOverflow(UInt64(count)).overflow
    else { return .unreadable }
    var actions: [ArraySlice<UInt8>] = []
    for _ in 0..<count {
      guard let action = reader.takeString() else { return .unreadable }
      actions.append(action)
    }
    guard reader.isAtEnd else { return .unreadable }
    return .entry(
      Header(
        writer: writer, first: first, seen: Mark(position: position, chain: chain, fingerprint: fingerprint),
        schema: schema), actions)
  }

  private static func decodeDecision(_ reader: inout ByteReader) -> Decoded {
    guard let sort = reader.take(UInt8.self) else { return .unreadable }
    guard sort == skipping else { return .newerFormat }
    guard let skipped = reader.take(UInt64.self), let time = reader.take(UInt64.self),
      let reason = reader.takeString(), reader.isAtEnd
    else { return .unreadable }
    return .decision(Decision(skipped: skipped, time: time, reason: String(decoding: reason, as: UTF8.self)))
  }
}
