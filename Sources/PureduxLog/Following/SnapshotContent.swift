/// What a snapshot holds: a state, and how far the log had been applied.
struct SnapshotContent<State: Sendable>: Sendable {
  var state: State
  var fold: Fold

  private static var format: UInt8 { 1 }
  /// Of a log that has been sealed, or has entries that were skipped.
  private static var longFormat: UInt8 { 2 }

  func encode(by coding: LogCoding<State>) throws -> [UInt8] {
    var bytes = ByteWriter()
    bytes.put(fold.hasMore ? Self.longFormat : Self.format)
    bytes.put(coding.schema)
    fold.encode(into: &bytes)
    bytes.put(try coding.encode(state))
    return bytes.bytes
  }

  /// Why a snapshot that is there cannot be begun with.
  enum Failure: Error {
    case newer
    case undecodable(any Error)
    /// It is none of this library's.
    case unreadable
  }

  init(_ bytes: [UInt8], by coding: LogCoding<State>) throws(Failure) {
    var reader = ByteReader(bytes)
    guard let format = reader.take(UInt8.self), format > 0, let schema = reader.take(UInt32.self) else {
      throw .unreadable
    }
    if format > Self.longFormat || schema > coding.newestSchema { throw .newer }
    guard let fold = Fold(&reader, hasMore: format == Self.longFormat), let encoded = reader.takeString(),
      reader.isAtEnd
    else { throw .unreadable }
    do {
      self.init(state: try coding.decode(encoded, schema), fold: fold)
    } catch {
      throw .undecodable(error)
    }
  }

  init(state: State, fold: Fold) {
    self.state = state
    self.fold = fold
  }
}
