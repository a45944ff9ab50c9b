struct SnapshotContent<State: Sendable>: Sendable {
  var state: State
  var fold: Fold

  func encode(by coding: LogCoding<State>) throws -> [UInt8] {
    EncodedSnapshot(schema: coding.schema, fold: fold, state: try coding.encode(state)[...]).bytes
  }

  enum Failure: Error {
    case newer
    case undecodable(any Error)
    case unreadable
  }

  init(_ bytes: [UInt8], by coding: LogCoding<State>) throws(Failure) {
    switch EncodedSnapshot.decode(bytes) {
    case .newer: throw .newer
    case .unreadable: throw .unreadable
    case .snapshot(let encoded):
      if encoded.schema > coding.newestSchema { throw .newer }
      do {
        self.init(state: try coding.decode(encoded.state, encoded.schema), fold: encoded.fold)
      } catch {
        throw .undecodable(error)
      }
    }
  }

  init(state: State, fold: Fold) {
    self.state = state
    self.fold = fold
  }
}

struct EncodedSnapshot: Sendable {
  var schema: UInt32
  var fold: Fold
  var state: ArraySlice<UInt8>

  var bytes: [UInt8] {
    var bytes = ByteWriter()
    bytes.put(fold.format)
    bytes.put(schema)
    fold.encode(into: &bytes)
    bytes.put(Array(state))
    return bytes.bytes
  }

  enum Decoded {
    case snapshot(EncodedSnapshot)
    case newer
    case unreadable
  }

  static func decode(_ bytes: [UInt8]) -> Decoded {
    var reader = ByteReader(bytes)
    guard let format = reader.take(UInt8.self), format > 0, let schema = reader.take(UInt32.self) else {
      return .unreadable
    }
    if format > Fold.newestFormat { return .newer }
    guard let fold = Fold(&reader, format: format), let state = reader.takeString(), reader.isAtEnd else {
      return .unreadable
    }
    return .snapshot(EncodedSnapshot(schema: schema, fold: fold, state: state))
  }
}
