#if canImport(Darwin)
  import Foundation
#else
  @_spi(_Unicode) import Swift
#endif

/// The keys of logs: equal texts are one key, however their accents are written. So keys that are compared as texts
/// match the names that are made of their bytes.
///
/// The standard library compares texts in composed form, but does not offer that form publicly. Foundation for Linux
/// does, and comes with ICU.
extension String {
  /// The text with composed characters (NFC).
  package var composed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return precomposedStringWithCanonicalMapping
    #else
      return _nfc.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }

  /// The text with decomposed characters (NFD).
  package var decomposed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return decomposedStringWithCanonicalMapping
    #else
      return _nfd.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }
}
