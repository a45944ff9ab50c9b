#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// How actions or states become bytes, and which schema they have.
///
/// A schema is a number that rises when the bytes change their meaning. Older ones are decoded by whoever knows how
/// (upcast); a replica that meets a newer one stops and takes no more actions, but can be read (`LogStop.newerSchema`).
public struct LogCoding<Value: Sendable>: Sendable {
  /// The schema of what is written.
  public let schema: UInt32
  /// The newest schema that can be read: a newer one stops a replica.
  public let newestSchema: UInt32
  /// Encodes a value in `schema`. An action for which it throws is rejected; a state for which it does has no snapshot.
  public let encode: @Sendable (Value) throws -> [UInt8]
  /// Decodes bytes of a schema, which is the newest that can be read or an older one.
  public let decode: @Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value

  /// - Parameters:
  ///   - schema: The schema of what is written.
  ///   - newestSchema: The newest one that can be read: by default the one that is written. A version of a program that
  ///     reads the next schema and does not write it yet is what is deployed first.
  ///   - encode: What it throws is a rejection of the action.
  ///   - decode: A function of its arguments alone, as each replica has to come to the same. Where it throws the store
  ///     stops (`LogStop.undecodable`).
  public init(
    schema: UInt32 = 1, newestSchema: UInt32? = nil, encode: @escaping @Sendable (Value) throws -> [UInt8],
    decode: @escaping @Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value
  ) {
    self.schema = schema
    self.newestSchema = max(schema, newestSchema ?? schema)
    self.encode = encode
    self.decode = decode
  }
}

extension LogCoding where Value: Codable {
  /// JSON, as `JSONEncoder` writes it: some microseconds a value. For more, bring your own bytes.
  ///
  /// - Parameters:
  ///   - schema: The schema of what is written, and the newest that can be read.
  ///   - upcasting: Decodes values of older schemas. By default they are decoded as this one's.
  public static func json(
    schema: UInt32 = 1,
    upcasting: (@Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value)? = nil
  ) -> LogCoding {
    LogCoding(schema: schema) { value in
      Array(try JSONEncoder().encode(value))
    } decode: { bytes, older in
      if let upcasting, older < schema { return try upcasting(bytes, older) }
      return try JSONDecoder().decode(Value.self, from: Data(bytes))
    }
  }
}

/// The codings of a tree: what `RootStore(following:)` takes as `codings:`, where it is not to be JSON.
public struct LogCodings<State: Sendable, Action: Sendable>: Sendable {
  /// How actions become bytes.
  public var actions: LogCoding<Action>
  /// How states become the bytes of snapshots; without it there are none.
  public var states: LogCoding<State>?

  /// - Parameters:
  ///   - actions: How actions become bytes.
  ///   - states: How states become the bytes of snapshots; with nil there are none, and opening replays the whole log.
  public init(actions: LogCoding<Action>, states: LogCoding<State>?) {
    self.actions = actions
    self.states = states
  }
}

extension LogCodings where State: Codable, Action: Codable {
  /// JSON for both, by one schema.
  public static func json(schema: UInt32 = 1) -> LogCodings {
    LogCodings(actions: .json(schema: schema), states: .json(schema: schema))
  }
}
