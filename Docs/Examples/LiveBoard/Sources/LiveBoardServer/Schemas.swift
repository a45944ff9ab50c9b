import Foundation
import PureduxLog

/// What is stored by several versions of the server, of which each reads what those before it wrote.
///
/// | schema | the list | boards |
/// |---|---|---|
/// | 1 | boards are added | cards have a text |
/// | 2 | and deleted | and a kind and an author, who can be erased |
///
/// A server that reads schema 2 can write schema 1: as long as others run that do not read schema 2, and would stop
/// there (`LogStop.newerSchema`). It is deployed like that first, and once more, writing schema 2, when all of them
/// are.
protocol Versioned: Codable, Sendable {
  /// The first schema that can say this.
  var schema: UInt32 { get }
}

enum Schemas {
  static let newest: UInt32 = 2

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
