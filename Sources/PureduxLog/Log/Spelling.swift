#if canImport(Darwin)
  import Foundation
#else
  @_spi(_Unicode) import Swift
#endif

/// Normalized keys: keys that are equal as texts have equal bytes.
///
/// The standard library compares composed texts, but has no public API for them. Foundation for Linux has one, but
/// brings ICU.
extension String {
  package var composed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return precomposedStringWithCanonicalMapping
    #else
      return _nfc.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }

  package var decomposed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return decomposedStringWithCanonicalMapping
    #else
      return _nfd.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }
}
