/// The file of a tree's summary, laid out as a `SnapshotFile`.
enum SummaryFile {
  private static let kind: [UInt8] = [0x50, 0x44, 0x58, 0x53, 0x55, 0x4D, 0x4D]
  private static let magic: [UInt8] = kind + [1]

  struct Stored: Equatable {
    var summary: LogSummary
    var tree: UInt64
  }

  static func stored(_ name: String = FileNames.summary, in directory: Directory) throws(LogError) -> Stored? {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      let file = try Disk(name, in: directory, .reading)
      return try file.read(min(file.size(), LogSummary.byteLimit + (1 << 12)), at: 0)
    }
    if let bytes, bytes.starts(with: kind), bytes.count > kind.count, bytes[kind.count] > magic[kind.count] {
      throw .damaged(
        position: 1,
        "\(directory.path)/\(name) was written by a newer version of this library, which is to read it.")
    }
    return bytes.flatMap(decode)
  }

  static func read(in directory: Directory, of identity: TreeIdentity?) throws(LogError) -> LogSummary? {
    guard let stored = try stored(in: directory), stored.tree == identity?.id else { return nil }
    return stored.summary
  }

  /// Replaces the summary atomically. False if one of a later position, which the log has, stays.
  static func write(
    _ summary: LogSummary, in directory: Directory, of identity: TreeIdentity, head: UInt64, syncs: Bool
  ) throws(LogError) -> Bool {
    if let kept = try read(in: directory, of: identity) {
      if kept == summary { return true }
      if kept.position > summary.position, kept.position <= head { return false }
    }
    try onDisk { () throws(Disk.Failure) in
      let file = try Disk(FileNames.newSummary, in: directory, .creating)
      try file.truncate(to: 0)
      try file.write(encode(summary, of: identity), at: 0)
      // A crash of the machine leaves this summary or the previous one.
      if syncs { try file.sync() }
      try directory.move(FileNames.newSummary, to: FileNames.summary)
    }
    return true
  }

  /// Keeps a readable summary of that position or later.
  static func erase(in directory: Directory, of identity: TreeIdentity, before position: UInt64) throws(LogError) {
    if let kept = try read(in: directory, of: identity), kept.position >= position { return }
    try onDisk { () throws(Disk.Failure) in try directory.remove(FileNames.summary) }
  }

  static func encode(_ summary: LogSummary, of identity: TreeIdentity) -> [UInt8] {
    let key = Array(identity.key.utf8)
    var bytes = ByteWriter(capacity: magic.count + 28 + key.count + summary.bytes.count)
    for byte in magic { bytes.put(byte) }
    bytes.put(identity.id)
    bytes.put(key)
    bytes.put(summary.position)
    bytes.put(summary.bytes)
    bytes.put(RecordFormat.checksum(of: bytes.bytes))
    return bytes.bytes
  }

  static func decode(_ bytes: [UInt8]) -> Stored? {
    guard bytes.starts(with: magic) else { return nil }
    var reader = ByteReader(bytes, at: magic.count)
    guard let tree = reader.take(UInt64.self), let key = reader.takeString(), let position = reader.take(UInt64.self),
      let content = reader.takeString(), let sum = reader.take(UInt32.self), reader.isAtEnd,
      RecordFormat.checksum(of: Array(bytes.dropLast(4))) == sum
    else { return nil }
    let summary = LogSummary(
      key: String(decoding: key, as: UTF8.self), position: position, bytes: Array(content))
    return Stored(summary: summary, tree: tree)
  }
}
