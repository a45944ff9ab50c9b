/// The end of a tree's acknowledged entries: the last segment's first position, and an offset in it.
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

  /// Before any acknowledgement. Only this mark's write is waited for: a mark tells a torn tail from damage after a
  /// machine's crash.
  static let ofNothing = AcknowledgedMark(first: 1, end: UInt64(RecordFormat.headerSize))

  var isOfNothing: Bool { self == .ofNothing }

  /// On return the content is durable; its name is once the directory is synced.
  func place(in directory: Directory) throws(Disk.Failure) {
    let file = try Disk(FileNames.mark, in: directory, .creating)
    try file.write(bytes, at: 0)
    try file.sync()
  }

  static func read(in directory: Directory) throws(LogError) -> AcknowledgedMark? {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      try Disk(FileNames.mark, in: directory, .reading).read(20, at: 0)
    }
    guard let bytes else { return nil }
    var reader = ByteReader(bytes)
    guard let first = reader.take(UInt64.self), let end = reader.take(UInt64.self), let sum = reader.take(UInt32.self),
      end <= UInt64(Int.max)
    else { return nil }
    let mark = AcknowledgedMark(first: first, end: end)
    return RecordFormat.checksum(of: Array(mark.bytes.prefix(16))) == sum ? mark : nil
  }
}
