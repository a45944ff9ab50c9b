/// Standard error, for reports that are not directed elsewhere.
package struct StandardError: TextOutputStream {
  package init() {}

  /// SAFETY: these are the string's own bytes, which stay in place while the closure runs.
  package mutating func write(_ string: String) {
    var string = string
    string.withUTF8 { bytes in unsafe Platform.writeError(bytes) }
  }
}
