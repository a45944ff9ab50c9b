/// The file of a tree's snapshot: the position, the length and a checksum, and the bytes.
enum SnapshotFile {
  private static let magic: [UInt8] = [0x50, 0x44, 0x58, 0x53, 0x4E, 0x41, 0x50, 1]

  /// The snapshot; none where there is none, or it cannot be read: it is only a cache.
  static func read(in directory: String) throws(LogError) -> LogSnapshot? {
    do {
      let file = try Disk(directory + "/" + FileNames.snapshot, .reading)
      return decode(try file.read(try file.size(), at: 0))
    } catch {
      if error.isMissing { return nil }
      throw error.logError
    }
  }

  /// Puts a snapshot in place of the one before, at once, so that one of them is always there.
  ///
  /// - Parameter always: Whether it also takes the place of one that is as new.
  static func write(_ snapshot: LogSnapshot, in directory: String, always: Bool, syncs: Bool) throws(LogError) {
    if !always, let kept = try read(in: directory), kept.position >= snapshot.position { return }
    do {
      try Disk.makeDirectory(directory)
      let path = directory + "/" + FileNames.newSnapshot
      let file = try Disk(path, .creating)
      try file.truncate(to: 0)
      try file.write(encode(snapshot), at: 0)
      if syncs { try file.sync() }
      try Disk.rename(path, to: directory + "/" + FileNames.snapshot)
      if syncs { try Disk.syncDirectory(directory) }
    } catch {
      throw error.logError
    }
  }

  /// Sets the snapshot aside if it is of more than the log has.
  static func setAside(in directory: String, beyond head: UInt64) throws(LogError) {
    guard let snapshot = try read(in: directory), snapshot.position > head else { return }
    do {
      try Disk.rename(directory + "/" + FileNames.snapshot, to: directory + "/" + FileNames.strayedSnapshot)
    } catch {
      throw error.logError
    }
  }

  static func encode(_ snapshot: LogSnapshot) -> [UInt8] {
    var bytes = ByteWriter(capacity: magic.count + 16 + snapshot.bytes.count)
    for byte in magic { bytes.put(byte) }
    bytes.put(snapshot.position)
    bytes.put(snapshot.bytes)
    bytes.put(RecordFormat.checksum(of: bytes.bytes))
    return bytes.bytes
  }

  static func decode(_ bytes: [UInt8]) -> LogSnapshot? {
    guard bytes.starts(with: magic) else { return nil }
    var reader = ByteReader(bytes, at: magic.count)
    guard let position = reader.take(UInt64.self), let content = reader.takeString(),
      let sum = reader.take(UInt32.self),
      reader.isAtEnd, RecordFormat.checksum(of: Array(bytes.dropLast(4))) == sum
    else { return nil }
    return LogSnapshot(position: position, bytes: Array(content))
  }
}
