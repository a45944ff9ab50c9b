/// The content of one append: consecutively numbered actions of one writer, and the mark that the writer had applied.
enum LogEntry {
  struct Header: Equatable, Sendable {
    var writer: UInt64
    var first: UInt64
    var seen: Mark
    var schema: UInt32
    var fingerprintVersion: UInt32?
    var rules: UInt32 = 0
  }

  /// A position, and the hash chain of all commits up to it.
  struct Mark: Equatable, Sendable {
    var position: UInt64 = 0
    var chain: UInt64 = Fold.firstChain
    var fingerprint: UInt64 = 0
  }

  struct Decision: Equatable, Sendable {
    var skipped: UInt64
    /// In seconds since 1970.
    var time: UInt64
    var reason: String
    var takesBack = false
  }

  /// Later entries under older rules are void.
  struct Seal: Equatable, Sendable {
    var rules: UInt32
    var time: UInt64
    var reason: String
  }

  /// From here on, positions belong to a copy or a restored backup.
  struct Epoch: Equatable, Sendable {
    var number: UInt64
    var time: UInt64
    var reason: String
  }

  private static let format: UInt8 = 1
  private static let sortedFormat: UInt8 = 2
  private enum Sort: UInt8 {
    case compared = 0
    case skipping = 1
    case ruled = 2
    case sealing = 3
    case beginning = 4
    /// In a copied log, replaces a truncated entry that only the snapshot has.
    case standingIn = 5
    /// Versions without this sort see a newer entry.
    case takingBack = 6
  }
  private static let kind: [UInt8] = [0x50, 0x44, 0x58]

  /// The maximum size of an entry with one action, not counting the action.
  static let overhead = 66

  static func encode(_ header: Header, actions: some Collection<[UInt8]>) -> [UInt8] {
    var bytes = ByteWriter(capacity: overhead + actions.reduce(0) { $0 + 4 + $1.count })
    if header.rules > 0 {
      for byte in kind + [sortedFormat, Sort.ruled.rawValue] { bytes.put(byte) }
      bytes.put(header.rules)
      bytes.put(UInt8(header.fingerprintVersion == nil ? 0 : 1))
      bytes.put(header.fingerprintVersion ?? 0)
    } else if let version = header.fingerprintVersion {
      for byte in kind + [sortedFormat, Sort.compared.rawValue] { bytes.put(byte) }
      bytes.put(version)
    } else {
      for byte in kind + [format] { bytes.put(byte) }
    }
    bytes.put(header.schema)
    bytes.put(header.writer)
    bytes.put(header.first)
    bytes.put(header.seen.position)
    bytes.put(header.seen.chain)
    bytes.put(header.seen.fingerprint)
    bytes.put(UInt32(actions.count))
    for action in actions { bytes.put(action) }
    return bytes.bytes
  }

  static func encode(_ decision: Decision) -> [UInt8] {
    encode(decision.takesBack ? .takingBack : .skipping, decision.skipped, at: decision.time, decision.reason)
  }

  static func encode(_ seal: Seal) -> [UInt8] { encode(.sealing, seal.rules, at: seal.time, seal.reason) }

  static func encode(_ epoch: Epoch) -> [UInt8] { encode(.beginning, epoch.number, at: epoch.time, epoch.reason) }

  static func standIn(for position: UInt64, moment: UInt64) -> [UInt8] {
    var bytes = ByteWriter()
    for byte in kind + [sortedFormat, Sort.standingIn.rawValue] { bytes.put(byte) }
    bytes.put(position)
    bytes.put(moment)
    return bytes.bytes
  }

  private static func encode(
    _ sort: Sort, _ number: some FixedWidthInteger & UnsignedInteger, at time: UInt64, _ reason: String
  ) -> [UInt8] {
    var bytes = ByteWriter()
    for byte in kind + [sortedFormat, sort.rawValue] { bytes.put(byte) }
    bytes.put(number)
    bytes.put(time)
    bytes.put(Array(reason.utf8))
    return bytes.bytes
  }

  enum Decoded: Equatable {
    case entry(Header, [ArraySlice<UInt8>])
    case decision(Decision)
    case seal(Seal)
    case epoch(Epoch)
    case standIn(UInt64, moment: UInt64)
    case newerFormat
    case unreadable
  }

  static func isDecision(_ bytes: [UInt8]) -> Bool {
    bytes.count > 5 && bytes[3] == sortedFormat && bytes.starts(with: kind)
      && (bytes[4] == Sort.skipping.rawValue || bytes[4] == Sort.takingBack.rawValue)
  }

  /// The skipped entries, each with the position of the last decision about it. A skipped decision does not count.
  ///
  /// - Parameter decisions: The positions of the decisions, each with that of the earlier entry that it is about.
  static func skipped(by decisions: [UInt64: UInt64]) -> [UInt64: UInt64] {
    var skipped: [UInt64: UInt64] = [:]
    for (position, entry) in decisions.sorted(by: { $0.key > $1.key })
    where skipped[position] == nil && skipped[entry] == nil {
      skipped[entry] = position
    }
    return skipped
  }

  static func decode(_ bytes: [UInt8]) -> Decoded {
    guard bytes.starts(with: kind), bytes.count > kind.count else { return .unreadable }
    var reader = ByteReader(bytes, at: kind.count + 1)
    switch bytes[kind.count] {
    case format: return decodeActions(&reader)
    case sortedFormat: break
    case let format: return format > sortedFormat ? .newerFormat : .unreadable
    }
    guard let sort = reader.take(UInt8.self) else { return .unreadable }
    switch Sort(rawValue: sort) {
    case .compared:
      guard let version = reader.take(UInt32.self) else { return .unreadable }
      return decodeActions(&reader, fingerprintVersion: version)
    case .ruled:
      guard let rules = reader.take(UInt32.self), let isCompared = reader.take(UInt8.self), isCompared < 2,
        let version = reader.take(UInt32.self)
      else { return .unreadable }
      return decodeActions(&reader, fingerprintVersion: isCompared == 1 ? version : nil, rules: rules)
    case .skipping: return decodeDecision(&reader, takesBack: false)
    case .takingBack: return decodeDecision(&reader, takesBack: true)
    case .sealing: return decodeSeal(&reader)
    case .beginning: return decodeEpoch(&reader)
    case .standingIn:
      guard let position = reader.take(UInt64.self), let moment = reader.take(UInt64.self), reader.isAtEnd else {
        return .unreadable
      }
      return .standIn(position, moment: moment)
    case nil: return .newerFormat
    }
  }

  private static func decodeActions(
    _ reader: inout ByteReader, fingerprintVersion: UInt32? = nil, rules: UInt32 = 0
  ) -> Decoded {
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
    let seen = Mark(position: position, chain: chain, fingerprint: fingerprint)
    return .entry(
      Header(
        writer: writer, first: first, seen: seen, schema: schema, fingerprintVersion: fingerprintVersion, rules: rules),
      actions)
  }

  private static func decodeSeal(_ reader: inout ByteReader) -> Decoded {
    guard let rules = reader.take(UInt32.self), let time = reader.take(UInt64.self),
      let reason = reader.takeString(), reader.isAtEnd
    else { return .unreadable }
    return .seal(Seal(rules: rules, time: time, reason: String(decoding: reason, as: UTF8.self)))
  }

  private static func decodeEpoch(_ reader: inout ByteReader) -> Decoded {
    guard let number = reader.take(UInt64.self), let time = reader.take(UInt64.self),
      let reason = reader.takeString(), reader.isAtEnd
    else { return .unreadable }
    return .epoch(Epoch(number: number, time: time, reason: String(decoding: reason, as: UTF8.self)))
  }

  private static func decodeDecision(_ reader: inout ByteReader, takesBack: Bool) -> Decoded {
    guard let skipped = reader.take(UInt64.self), let time = reader.take(UInt64.self),
      let reason = reader.takeString(), reader.isAtEnd
    else { return .unreadable }
    return .decision(
      Decision(skipped: skipped, time: time, reason: String(decoding: reason, as: UTF8.self), takesBack: takesBack))
  }

  // MARK: At other positions

  /// The same entry with another position of its writer's mark, or of the skipped entry, for a copy of the log. Bytes
  /// without such a position stay unchanged.
  static func moved(_ bytes: [UInt8], to position: UInt64) -> [UInt8] {
    guard bytes.count > 5 else { return bytes }
    let offset: Int
    switch (bytes[3], Sort(rawValue: bytes[4])) {
    case (format, _): offset = 4 + offsetOfSeen
    case (sortedFormat, .compared): offset = 9 + offsetOfSeen
    case (sortedFormat, .ruled): offset = 14 + offsetOfSeen
    case (sortedFormat, .skipping), (sortedFormat, .takingBack): offset = 5
    default: return bytes
    }
    var moved = bytes
    for place in 0..<8 { moved[offset + place] = UInt8(truncatingIfNeeded: position >> (8 * UInt64(place))) }
    return moved
  }

  private static let offsetOfSeen = 20
}
