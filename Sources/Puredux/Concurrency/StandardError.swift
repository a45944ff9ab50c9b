/// Standard error, the default destination of reports.
package struct StandardError: TextOutputStream {
  package init() {}

  /// SAFETY: these are the string's own bytes, which stay in place while the closure runs.
  package mutating func write(_ string: String) {
    var string = string
    string.withUTF8 { bytes in unsafe Platform.writeError(bytes) }
  }
}
