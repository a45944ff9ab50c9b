#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Encodes and decodes actions or states.
///
/// A schema is a number that rises when the meaning of the bytes changes. `decode` upcasts older schemas. A replica
/// that meets a newer one stops, and can still be read (`LogStop.newerSchema`).
public struct LogCoding<Value: Sendable>: Sendable {
  /// The schema of encoded values.
  public let schema: UInt32
  /// The newest schema that can be decoded. A newer one stops a replica.
  public let newestSchema: UInt32
  /// Encodes a value in `schema`. If it throws, an action is rejected, and a state has no snapshot.
  public let encode: @Sendable (Value) throws -> [UInt8]
  /// Decodes bytes of a schema up to `newestSchema`.
  public let decode: @Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value

  /// - Parameters:
  ///   - schema: The schema of encoded values.
  ///   - newestSchema: The newest schema that can be decoded; by default `schema`. First deploy a version that decodes
  ///     a new schema, then one that encodes it.
  ///   - encode: If it throws, the action is rejected.
  ///   - decode: A pure function: all replicas must decode the same value. If it throws, the store stops
  ///     (`LogStop.undecodable`).
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
  /// JSON by `JSONEncoder`. Cost: some microseconds for each value.
  ///
  /// - Parameters:
  ///   - schema: The schema of encoded values, and the newest that can be decoded.
  ///   - upcasting: Decodes values of older schemas. By default they are decoded like those of `schema`.
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

/// A tree's codings (`codings:` of `RootStore(following:)`).
public struct LogCodings<State: Sendable, Action: Sendable>: Sendable {
  /// The coding of actions.
  public var actions: LogCoding<Action>
  /// The coding of states in snapshots; nil for no snapshots.
  public var states: LogCoding<State>?

  /// - Parameters:
  ///   - actions: The coding of actions.
  ///   - states: The coding of states. With nil there are no snapshots, and opening replays the whole log.
  public init(actions: LogCoding<Action>, states: LogCoding<State>?) {
    self.actions = actions
    self.states = states
  }
}

extension LogCodings where State: Codable, Action: Codable {
  /// JSON for both, with one schema.
  public static func json(schema: UInt32 = 1) -> LogCodings {
    LogCodings(actions: .json(schema: schema), states: .json(schema: schema))
  }
}
