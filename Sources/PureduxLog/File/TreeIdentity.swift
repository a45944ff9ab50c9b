/// Which tree the files of a directory are of: the file `tree` in it, made with the directory, or, where an older
/// version made that, with the first file that is added. Files of records and snapshots have its number, so that what
/// somebody has exchanged, or put here from elsewhere, is not taken. Those of an older version, which have none, are.
struct TreeIdentity: Equatable, Sendable {
  /// At random, for each tree that is made: two of one key are two trees.
  let id: UInt64
  let key: String

  init(key: String) {
    id = .random(in: 1 ... .max)
    self.key = key
  }

  // MARK: The file

  private static let magic: [UInt8] = [0x50, 0x44, 0x58, 0x54, 0x52, 0x45, 0x45, 1]

  /// None where there is none.
  static func read(in directory: Directory) throws(LogError) -> TreeIdentity? {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      let file = try Disk(FileNames.identity, in: directory, .reading)
      return try file.read(min(file.size(), 1 << 20), at: 0)
    }
    guard let bytes else { return nil }
    guard let identity = TreeIdentity(bytes) else {
      throw .damaged(
        position: 1,
        "\(directory.path)/\(FileNames.identity), which says which log the directory is of, cannot be read. Put this "
          + "directory's own file there, from a backup.")
    }
    return identity
  }

  /// On the disk when it returns, and before that not there.
  func write(in directory: Directory) throws(Disk.Failure) {
    let file = try Disk(FileNames.newIdentity, in: directory, .creating)
    try file.truncate(to: 0)
    try file.write(bytes, at: 0)
    try file.sync()
    try directory.move(FileNames.newIdentity, to: FileNames.identity)
    try directory.sync()
  }

  var bytes: [UInt8] {
    var bytes = ByteWriter()
    for byte in Self.magic { bytes.put(byte) }
    bytes.put(id)
    bytes.put(Array(key.utf8))
    bytes.put(RecordFormat.checksum(of: bytes.bytes))
    return bytes.bytes
  }

  init?(_ bytes: [UInt8]) {
    guard bytes.starts(with: Self.magic) else { return nil }
    var reader = ByteReader(bytes, at: Self.magic.count)
    guard let id = reader.take(UInt64.self), let key = reader.takeString(), let sum = reader.take(UInt32.self),
      reader.isAtEnd, RecordFormat.checksum(of: Array(bytes.dropLast(4))) == sum
    else { return nil }
    self.id = id
    self.key = String(decoding: key, as: UTF8.self)
  }
}

/// Does something with files, and says what went wrong as a log's error.
func onDisk<Result>(_ body: () throws(Disk.Failure) -> Result) throws(LogError) -> Result {
  do { return try body() } catch { throw error.logError }
}

/// The same; nil where the file is not there.
func onDiskIfThere<Result>(_ body: () throws(Disk.Failure) -> Result) throws(LogError) -> Result? {
  do {
    return try body()
  } catch {
    if error.isMissing { return nil }
    throw error.logError
  }
}
