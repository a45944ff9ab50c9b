import Foundation
import PureduxLog

/// What is stored by several versions of the server, of which each reads what those before it wrote.
///
/// | schema | the list | boards |
/// |---|---|---|
/// | 1 | boards are added | cards have a text |
/// | 2 | and deleted | and a kind and an author, who can be erased |
/// | 3 | | and edits say who asked for them, and when |
///
/// A server that reads a schema can write one before it: as long as others run that do not read the newer one, and
/// would stop there (`LogStop.newerSchema`). It is deployed like that first, and once more, writing the newest, when
/// all of them are.
protocol Versioned: Codable, Sendable {
  /// The first schema that can say this.
  var schema: UInt32 { get }
}

enum Schemas {
  static let newest: UInt32 = 3

  struct TooOld: Error {}
}

extension LogCoding where Value: Versioned {
  /// JSON. What the written schema cannot say is not written: such an action is rejected, and of such a state no
  /// snapshot is saved.
  static func json(writing schema: UInt32) -> LogCoding {
    LogCoding(schema: schema, newestSchema: Schemas.newest) { value in
      guard value.schema <= schema else { throw Schemas.TooOld() }
      return Array(try JSONEncoder().encode(value))
    } decode: { bytes, _ in
      try JSONDecoder().decode(Value.self, from: Data(bytes))
    }
  }
}
