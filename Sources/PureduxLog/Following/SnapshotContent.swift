/// What a snapshot holds: a state, and how far the log had been applied.
struct SnapshotContent<State: Sendable>: Sendable {
  var state: State
  var fold: Fold

  private static var format: UInt8 { 1 }

  func encode(by coding: LogCoding<State>) throws -> [UInt8] {
    var bytes = ByteWriter()
    bytes.put(Self.format)
    bytes.put(coding.schema)
    fold.encode(into: &bytes)
    bytes.put(try coding.encode(state))
    return bytes.bytes
  }

  /// None where it cannot be read: a snapshot is only a cache.
  init?(_ bytes: [UInt8], by coding: LogCoding<State>) {
    var reader = ByteReader(bytes)
    guard reader.take(UInt8.self) == Self.format, let schema = reader.take(UInt32.self), schema <= coding.newestSchema,
      let fold = Fold(&reader), let encoded = reader.takeString(), reader.isAtEnd,
      let state = try? coding.decode(encoded, schema)
    else { return nil }
    self.init(state: state, fold: fold)
  }

  init(state: State, fold: Fold) {
    self.state = state
    self.fold = fold
  }
}
