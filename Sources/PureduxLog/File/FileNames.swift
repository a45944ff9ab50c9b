enum FileNames {
  static let lock = "lock"
  static let mark = "acknowledged"
  static let recovery = "recovering"
  static let removed = "removed"
  static let identity = "tree"
  static let newIdentity = "tree.new"
  static let newSegment = "segment.new"
  static let snapshot = "snapshot"
  static let newSnapshot = "snapshot.new"
  /// A snapshot that is ahead of the log, set aside.
  static let strayedSnapshot = "snapshot.beyond"
  static let summary = "summary"
  static let newSummary = "summary.new"

  private static let limit = 255
  private static let hashPrefix: Character = "~"

  /// A tree's directory: the key, with an escape for every byte that a file system may treat specially. If that is too
  /// long, a hash of the key, which the file `tree` has in full.
  static func directory(of key: String) -> String {
    var name = "="
    for byte in key.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
        UInt8(ascii: "_"), UInt8(ascii: "."):
        name.unicodeScalars.append(Unicode.Scalar(byte))
      default: name += "%" + hex(UInt64(byte), digits: 2)
      }
    }
    if name.utf8.count <= limit { return name }
    return String(hashPrefix) + SHA256.hash(Array(key.utf8)).map { hex(UInt64($0), digits: 2) }.joined()
  }

  static func isHash(_ name: String) -> Bool { name.first == hashPrefix && name.utf8.count == 65 }

  static func key(ofDirectory name: String) -> String? {
    guard name.first == "=" else { return nil }
    var bytes: [UInt8] = []
    var rest = Substring(name.dropFirst())
    while let character = rest.popFirst() {
      if character == "%" {
        guard let byte = UInt8(rest.prefix(2), radix: 16), rest.count >= 2 else { return nil }
        bytes.append(byte)
        rest = rest.dropFirst(2)
      } else {
        bytes += character.utf8
      }
    }
    let key = String(decoding: bytes, as: UTF8.self)
    return directory(of: key) == name ? key : nil
  }

  static func segment(_ first: UInt64) -> String { hex(first, digits: 16) + ".log" }

  static func first(ofSegment name: String) -> UInt64? {
    guard let first = UInt64(name.dropLast(4), radix: 16), first > 0, first <= UInt64(Int64.max), segment(first) == name
    else { return nil }
    return first
  }

  static func torn(_ position: UInt64) -> String { tornPrefix + hex(position, digits: 16) }

  private static let tornPrefix = "torn-"

  /// Whether a file is unused, and may have bytes of entries or states.
  static func isLeftOver(_ name: String) -> Bool {
    name.hasPrefix(tornPrefix) || [newSegment, newSnapshot, strayedSnapshot, newSummary].contains(name)
  }

  private static func hex(_ value: UInt64, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}
