/// The names of a log's files and directories.
enum FileNames {
  static let lock = "lock"
  static let mark = "acknowledged"
  /// Which entry a recovery is at.
  static let recovery = "recovering"
  /// Where the directories of trees are that were removed, until their files have been deleted.
  static let removed = "removed"
  /// Says which tree a directory is of.
  static let identity = "tree"
  static let newIdentity = "tree.new"
  /// What stays of a file of records of which some are erased.
  static let newSegment = "segment.new"
  static let snapshot = "snapshot"
  static let newSnapshot = "snapshot.new"
  /// One of more than the log has, set aside.
  static let strayedSnapshot = "snapshot.beyond"
  static let summary = "summary"
  static let newSummary = "summary.new"

  /// The largest number of bytes of a name on the usual file systems.
  private static let limit = 255
  private static let hashPrefix: Character = "~"

  /// The name of a tree's directory: its key, with an escape for every byte that a file system may treat in a special
  /// way. If that is too long for a name, a hash of the key; the file `tree` has the key in full.
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

  /// Whether the name is a hash of the key, and not the key.
  static func isHash(_ name: String) -> Bool { name.first == hashPrefix && name.utf8.count == 65 }

  /// Nil if the name is no tree's, or a hash.
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

  /// A file of records, which begins with that position: in the order of their names.
  static func segment(_ first: UInt64) -> String { hex(first, digits: 16) + ".log" }

  static func first(ofSegment name: String) -> UInt64? {
    guard let first = UInt64(name.dropLast(4), radix: 16), first > 0, segment(first) == name else { return nil }
    return first
  }

  /// Where a tail that was set aside lies.
  static func torn(_ position: UInt64) -> String { tornPrefix + hex(position, digits: 16) }

  private static let tornPrefix = "torn-"

  /// Whether a file may have bytes of entries or of states, and is not used any more.
  static func isLeftOver(_ name: String) -> Bool {
    name.hasPrefix(tornPrefix) || [newSegment, newSnapshot, strayedSnapshot, newSummary].contains(name)
  }

  private static func hex(_ value: UInt64, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}
