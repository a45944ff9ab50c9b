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
  public let schema: UInt32
  public let encode: @Sendable (Value) throws -> [UInt8]
  /// Decodes bytes of a schema, which is this one's or an older one.
  public let decode: @Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value

  /// - Parameters:
  ///   - encode: What it throws is a rejection of the action.
  ///   - decode: A function of its arguments alone, as each replica has to come to the same. An action for which it
  ///     throws is skipped by all, and counted in `LogStatistics.skipped`.
  public init(
    schema: UInt32 = 1, encode: @escaping @Sendable (Value) throws -> [UInt8],
    decode: @escaping @Sendable (_ bytes: ArraySlice<UInt8>, _ schema: UInt32) throws -> Value
  ) {
    self.schema = schema
    self.encode = encode
    self.decode = decode
  }
}

extension LogCoding where Value: Codable {
  /// JSON, as `JSONEncoder` writes it: some microseconds a value. For more, bring your own bytes.
  ///
  /// - Parameter upcasting: Decodes values of older schemas. By default they are decoded as this one's.
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
