#if canImport(Darwin)
  import Foundation
#else
  @_spi(_Unicode) import Swift
#endif

/// The keys of logs: texts that are equal are one key, however their accents are written, so that whoever compares keys
/// as texts and whoever makes names of their bytes mean the same.
///
/// The standard library compares texts in their composed form and does not say in its public interface what that is;
/// Foundation for Linux, which would, comes with ICU.
extension String {
  /// The same text, with its characters composed (NFC).
  package var composed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return precomposedStringWithCanonicalMapping
    #else
      return _nfc.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }

  /// The same text, with its characters decomposed (NFD).
  package var decomposed: String {
    if utf8.allSatisfy({ $0 < 0x80 }) { return self }
    #if canImport(Darwin)
      return decomposedStringWithCanonicalMapping
    #else
      return _nfd.reduce(into: "") { $0.unicodeScalars.append($1) }
    #endif
  }
}
