import Foundation

/// A directory as the version before identities wrote it: the log "tree" of nine entries, "0" to "8". The entries up to
/// the sixth have been truncated behind a snapshot.
enum OlderFiles {
  static let entries = (0...8).map { "\($0)" }

  static let files = [
    "0000000000000007.log": """
    5044584c4f47000107000000000000003b0000001c521e4007000000000000005044580101000000ad415be1f645d2b8070000000000000006\
    00000000000000ea7525c8f22c5fcb000000000000000001000000030000002236223b00000014154c1a0800000000000000504458010100\
    0000ad415be1f645d2b8080000000000000007000000000000003e75b1d159b3bdc900000000000000000100000003000000223722
    """,
    "0000000000000009.log": """
    5044584c4f47000109000000000000003b000000b628e92009000000000000005044580101000000ad415be1f645d2b8090000000000000008\
    000000000000004036642e034f00aa00000000000000000100000003000000223822
    """,
    "acknowledged": "09000000000000005b0000000000000006f9903e",
    "snapshot": """
    504458534e41500109000000000000007e000000010100000009000000000000008a3a668255d4b10e0000000000000000090000000000000000\
    0000000000000001000000ad415be1f645d2b809000000000000000900000000000000310000007b22656e7472696573223a5b2230222c223122\
    2c2232222c2233222c2234222c2235222c2236222c2237222c2238225d7de296f627
    """,
  ]

  /// Writes the files to the directory of a tree.
  static func write(to path: String, without: [String] = []) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    for (name, text) in files where !without.contains(name) {
      let digits = Array(text.utf8)
      let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
      }
      try Data(bytes).write(to: URL(fileURLWithPath: path + "/" + name))
    }
  }
}
