import Foundation
import PureduxLog

/// The schemas of the server's versions. Each version reads the schemas of all earlier ones.
///
/// | schema | the list | boards |
/// |---|---|---|
/// | 1 | boards are added | cards have a text |
/// | 2 | and deleted | and a kind and an author; authors can be erased |
/// | 3 | | edits have an author and a time |
///
/// A server can write an older schema than it reads. Use this during a rolling update, while servers that do not read
/// the newer schema run: they would stop there (`LogStop.newerSchema`). Deploy the new version with the old schema
/// first. When all servers run it, restart them with the newest schema.
protocol Versioned: Codable, Sendable {
  /// The first schema that can represent the value.
  var schema: UInt32 { get }
}

enum Schemas {
  static let newest: UInt32 = 3

  struct TooOld: Error {}
}

extension LogCoding where Value: Versioned {
  /// JSON. Values that the written schema cannot represent are refused: such an action is rejected, and such a state
  /// has no snapshot.
  static func json(writing schema: UInt32) -> LogCoding {
    LogCoding(schema: schema, newestSchema: Schemas.newest) { value in
      guard value.schema <= schema else { throw Schemas.TooOld() }
      return Array(try JSONEncoder().encode(value))
    } decode: { bytes, _ in
      try JSONDecoder().decode(Value.self, from: Data(bytes))
    }
  }
}
