#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

/// Standard error, for reports that are not directed elsewhere.
package struct StandardError: TextOutputStream {
  package init() {}

  /// SAFETY: these are the string's own bytes, which stay in place while the closure runs.
  package mutating func write(_ string: String) {
    var string = string
    string.withUTF8 { bytes in _ = unsafe Self.write(bytes.baseAddress, bytes.count) }
  }

  private static func write(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int {
    guard let bytes = unsafe bytes else { return 0 }
    #if canImport(Glibc)
      return unsafe Glibc.write(STDERR_FILENO, bytes, count)
    #elseif canImport(Musl)
      return unsafe Musl.write(STDERR_FILENO, bytes, count)
    #elseif canImport(Android)
      return unsafe Android.write(STDERR_FILENO, bytes, count)
    #else
      return unsafe Darwin.write(STDERR_FILENO, bytes, count)
    #endif
  }
}
