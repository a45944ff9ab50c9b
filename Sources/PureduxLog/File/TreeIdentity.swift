/// The tree that a directory's files belong to: the file `tree`, made with the directory, or with the first file added
/// to an older version's. Segments and snapshots have its number; another tree's files are refused. An older version's
/// files have no number, and are accepted.
struct TreeIdentity: Equatable, Sendable {
  /// Random: two trees of one key are two trees.
  let id: UInt64
  let key: String

  init(key: String) {
    id = .random(in: 1 ... .max)
    self.key = key
  }

  // MARK: The file

  private static let magic: [UInt8] = [0x50, 0x44, 0x58, 0x54, 0x52, 0x45, 0x45, 1]

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

  /// On return the file is durable. Before that it does not exist.
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

func onDisk<Result>(_ body: () throws(Disk.Failure) -> Result) throws(LogError) -> Result {
  do { return try body() } catch { throw error.logError }
}

func onDiskIfThere<Result>(_ body: () throws(Disk.Failure) -> Result) throws(LogError) -> Result? {
  do {
    return try body()
  } catch {
    if error.isMissing { return nil }
    throw error.logError
  }
}
