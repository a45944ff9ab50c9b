/// The file of a tree's snapshot: the tree's number and key, the position, the length, the bytes, and a checksum.
enum SnapshotFile {
  private static let kind: [UInt8] = [0x50, 0x44, 0x58, 0x53, 0x4E, 0x41, 0x50]
  private static let magic: [UInt8] = kind + [2]
  /// The older version, without number and key.
  private static let olderMagic: [UInt8] = kind + [1]

  struct Stored: Equatable {
    var snapshot: LogSnapshot
    var tree: UInt64?
    var key: String?
  }

  static func stored(in directory: Directory) throws(LogError) -> Stored? {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      let file = try Disk(FileNames.snapshot, in: directory, .reading)
      return try file.read(try file.size(), at: 0)
    }
    if let bytes, bytes.starts(with: kind), bytes.count > kind.count, bytes[kind.count] > magic[kind.count] {
      throw .damaged(
        position: 1,
        "\(directory.path)/\(FileNames.snapshot) was written by a newer version of this library, which is to open it.")
    }
    return bytes.flatMap(decode)
  }

  private static func isOwn(_ stored: Stored, _ identity: TreeIdentity?) -> Bool {
    stored.tree.map { $0 == identity?.id } ?? true
  }

  static func read(in directory: Directory, of identity: TreeIdentity?) throws(LogError) -> LogSnapshot? {
    guard let stored = try stored(in: directory) else { return nil }
    guard isOwn(stored, identity) else {
      let whose = stored.key.map { $0 == identity?.key ? "an earlier log of this key" : "the log \"\($0)\"" }
      throw .damaged(
        position: stored.snapshot.position,
        "\(directory.path)/\(FileNames.snapshot) is a snapshot of \(whose ?? "another log"). Put this log's own there, "
          + "or remove it: then the log is replayed, if it is whole.")
    }
    return stored.snapshot
  }

  /// Replaces the snapshot atomically. The log may then be truncated behind it. So also without `syncs` it is durable on
  /// return, and so are its entries: a snapshot that is ahead of the log is set aside.
  ///
  /// - Parameter head: Nil to replace only an older or unreadable snapshot. With the head of the log, a snapshot of the
  ///   same position, ahead of the log, or of a newer version is replaced, too. Another tree's always is.
  static func write(
    _ snapshot: LogSnapshot, in directory: Directory, of identity: TreeIdentity, replacing head: UInt64?,
    for owner: FileLog
  ) throws(LogError) {
    let kept = head == nil ? try stored(in: directory) : (try? stored(in: directory)) ?? nil
    if let kept, isOwn(kept, identity), kept.snapshot.position >= snapshot.position {
      guard let head, kept.snapshot.position == snapshot.position || kept.snapshot.position > head else { return }
    }
    var start: UInt64 = 0
    if let kept, isOwn(kept, identity), kept.snapshot.position < snapshot.position { start = kept.snapshot.position }
    do {
      if !owner.options.syncs { try syncEntries(behind: start, in: directory, for: owner) }
      let file = try Disk(FileNames.newSnapshot, in: directory, .creating)
      try file.truncate(to: 0)
      try file.write(encode(snapshot, of: identity), at: 0)
      try owner.sync(file)
      try directory.move(FileNames.newSnapshot, to: FileNames.snapshot)
      try directory.sync()
    } catch {
      throw error.logError
    }
  }

  private static func syncEntries(
    behind position: UInt64, in directory: Directory, for owner: FileLog
  ) throws(Disk.Failure) {
    let firsts = try directory.names().compactMap(FileNames.first(ofSegment:)).sorted()
    for (first, next) in zip(firsts, firsts.dropFirst() + [.max]) where next - 1 > position {
      do throws(Disk.Failure) {
        try owner.sync(Disk(FileNames.segment(first), in: directory, .reading))
      } catch {
        // The log may be truncated at the same time.
        if !error.isMissing { throw error }
      }
    }
  }

  static func setAside(in directory: Directory, beyond head: UInt64) throws(LogError) {
    guard let stored = try stored(in: directory), stored.snapshot.position > head else { return }
    do {
      try directory.move(FileNames.snapshot, to: FileNames.strayedSnapshot)
    } catch {
      throw error.logError
    }
  }

  /// Keeps a readable snapshot of that position or later.
  static func erase(in directory: Directory, of identity: TreeIdentity, before position: UInt64) throws(LogError) {
    if let kept = try read(in: directory, of: identity), kept.position >= position { return }
    try onDisk { () throws(Disk.Failure) in try directory.remove(FileNames.snapshot) }
  }

  static func encode(_ snapshot: LogSnapshot, of identity: TreeIdentity) -> [UInt8] {
    let key = Array(identity.key.utf8)
    var bytes = ByteWriter(capacity: magic.count + 28 + key.count + snapshot.bytes.count)
    for byte in magic { bytes.put(byte) }
    bytes.put(identity.id)
    bytes.put(key)
    bytes.put(snapshot.position)
    bytes.put(snapshot.bytes)
    bytes.put(RecordFormat.checksum(of: bytes.bytes))
    return bytes.bytes
  }

  static func decode(_ bytes: [UInt8]) -> Stored? {
    let isOlder = bytes.starts(with: olderMagic)
    guard isOlder || bytes.starts(with: magic) else { return nil }
    var reader = ByteReader(bytes, at: magic.count)
    var (tree, key): (UInt64?, String?) = (nil, nil)
    if !isOlder {
      guard let id = reader.take(UInt64.self), let text = reader.takeString() else { return nil }
      (tree, key) = (id, String(decoding: text, as: UTF8.self))
    }
    guard let position = reader.take(UInt64.self), let content = reader.takeString(),
      let sum = reader.take(UInt32.self),
      reader.isAtEnd, RecordFormat.checksum(of: Array(bytes.dropLast(4))) == sum
    else { return nil }
    return Stored(snapshot: LogSnapshot(position: position, bytes: Array(content)), tree: tree, key: key)
  }
}
