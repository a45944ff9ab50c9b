/// How far the entries of a tree had been acknowledged: the last file, and the offset in it.
struct AcknowledgedMark: Equatable {
  var first: UInt64
  var end: UInt64

  var bytes: [UInt8] {
    var writer = ByteWriter(capacity: 20)
    writer.put(first)
    writer.put(end)
    writer.put(RecordFormat.checksum(of: writer.bytes))
    return writer.bytes
  }

  init(first: UInt64, end: UInt64) {
    self.first = first
    self.end = end
  }

  /// That of a tree's first file before anything in it is acknowledged. Notes are not waited for, but for this one: so
  /// there always is one, and what the death of a machine leaves is told from damage by it.
  static let ofNothing = AcknowledgedMark(first: 1, end: UInt64(RecordFormat.headerSize))

  var isOfNothing: Bool { self == .ofNothing }

  /// It is on the disk when this returns; its name, when the directory is.
  func place(in directory: Directory) throws(Disk.Failure) {
    let file = try Disk(FileNames.mark, in: directory, .creating)
    try file.write(bytes, at: 0)
    try file.sync()
  }

  /// None where there is none, or it cannot be read.
  static func read(in directory: Directory) throws(LogError) -> AcknowledgedMark? {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      try Disk(FileNames.mark, in: directory, .reading).read(20, at: 0)
    }
    guard let bytes else { return nil }
    var reader = ByteReader(bytes)
    guard let first = reader.take(UInt64.self), let end = reader.take(UInt64.self), let sum = reader.take(UInt32.self)
    else { return nil }
    let mark = AcknowledgedMark(first: first, end: end)
    return RecordFormat.checksum(of: Array(mark.bytes.prefix(16))) == sum ? mark : nil
  }
}
