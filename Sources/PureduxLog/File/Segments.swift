/// The files of records of one tree, one behind the other. Used by one thread at a time.
struct Segments {
  private let key: String
  private let directory: String
  private let owner: FileLog
  /// The positions that the files begin with, in order.
  private var firsts: [UInt64] = []
  /// The last file, which is written; none before the first entry.
  private var last: Disk?
  /// Where its next record goes.
  private var end = RecordFormat.headerSize
  /// Up to where it consists of zeros behind that.
  private var allocated = 0
  /// Whether something that failed may lie behind that.
  private var hasRemains = false
  private var mark: Disk?
  private(set) var head: UInt64 = 0
  /// Whether something was set aside.
  private var wasTorn = false

  /// Looks at the last file, and sets aside what was being written when somebody died.
  init(in directory: String, of key: String, for owner: FileLog) throws(LogError) {
    self.key = key
    self.directory = directory
    self.owner = owner
    firsts = try onDisk { () throws(Disk.Failure) in
      try Disk.names(in: directory).compactMap(FileNames.first(ofSegment:)).sorted()
    }
    let mark = try AcknowledgedMark.read(path(FileNames.mark))
    guard owner.options.syncs else {
      try openWhatIsLeft(mark)
      return
    }
    guard let first = firsts.last else {
      if let mark { throw .damaged(position: mark.first, "The files of the log \(key) are missing.") }
      return
    }
    // Who made the last file may have died before its name was on the disk.
    try onDisk { () throws(Disk.Failure) in try Disk.syncDirectory(directory) }
    try open(first, mark)
  }

  /// Where nothing waits for the disk a machine that dies leaves anything: what is missing is reported.
  private mutating func openWhatIsLeft(_ mark: AcknowledgedMark?) throws(LogError) {
    if let first = firsts.last { try open(first, nil) }
    let left = AcknowledgedMark(first: firsts.last ?? 0, end: UInt64(end))
    guard let mark, (mark.first, mark.end) > (left.first, left.end) else { return }
    if !wasTorn { owner.report(FileLog.TornTail(key: key, position: head + 1, bytes: 0, path: directory)) }
    if firsts.isEmpty {
      try onDisk { () throws(Disk.Failure) in try Disk.remove(path(FileNames.mark)) }
    } else {
      acknowledge()
    }
  }

  private func path(_ name: String) -> String { directory + "/" + name }

  private func onDisk<Result>(_ body: () throws(Disk.Failure) -> Result) throws(LogError) -> Result {
    do { return try body() } catch { throw error.logError }
  }

  // MARK: Opening

  private mutating func open(_ first: UInt64, _ acknowledged: AcknowledgedMark?) throws(LogError) {
    if let acknowledged, acknowledged.first > first {
      throw .damaged(position: acknowledged.first, "A file of the log \(key) is missing.")
    }
    let acknowledgedEnd = acknowledged.flatMap { $0.first == first ? Int($0.end) : nil }
    let file = try onDisk { () throws(Disk.Failure) in try Disk(path(FileNames.segment(first)), .writing) }
    let size = try onDisk { () throws(Disk.Failure) in try file.size() }
    let header = try onDisk { () throws(Disk.Failure) in try file.read(RecordFormat.headerSize, at: 0) }
    head = first - 1
    guard RecordFormat.first(ofHeader: header) == first else {
      // It was being made when somebody died, if nobody was told of anything in it, and there is nothing.
      let isCut = try onDisk { () throws(Disk.Failure) in
        if RecordFormat.header(first: first).starts(with: header) { return true }
        return try file.read(size, at: 0).allSatisfy { $0 == 0 }
      }
      guard acknowledgedEnd == nil, isCut || !owner.options.syncs else {
        throw .damaged(position: first, "\(file.path) does not begin as a file of this log.")
      }
      try setAside(file, from: 0, size)
      return try onDisk { () throws(Disk.Failure) in
        try file.write(RecordFormat.header(first: first), at: 0)
        try file.sync()
        last = file
      }
    }
    let tail = try scan(file, size)
    if let acknowledgedEnd, end < acknowledgedEnd {
      throw .damaged(
        position: head + 1,
        "What the log \(key) acknowledged up to byte \(acknowledgedEnd) of \(file.path) ends at byte \(end).")
    }
    if let tail, tail.end > end {
      // Where nothing tells what was acknowledged, it has to look as what dies in the middle leaves.
      guard acknowledged != nil || tail.isCut || !owner.options.syncs else {
        throw .damaged(position: head + 1, "An entry of the log \(key) cannot be read.")
      }
      try setAside(file, from: end, tail.end)
      allocated = end
    } else {
      allocated = max(size, end)
      // Who wrote the last records may have died before they were on the disk. From now on, readers are given them.
      try onDisk { () throws(Disk.Failure) in try sync(file) }
    }
    last = file
  }

  /// Finds the end of what can be read. Returns where what lies behind that ends but for zeros, and whether it may be
  /// the beginning of a record.
  private mutating func scan(_ file: Disk, _ size: Int) throws(LogError) -> (end: Int, isCut: Bool)? {
    var (bytes, start) = ([UInt8](), end)
    while true {
      switch RecordFormat.parse(bytes, at: end - start) {
      case .record(let record, let next):
        guard record.position == head + 1 else { return (size, false) }
        head += 1
        end = start + next
      case .invalid(let count):
        let rest = try onDisk { () throws(Disk.Failure) in try file.read(size - end, at: end) }
        guard let last = rest.lastIndex(where: { $0 != 0 }) else { return nil }
        return (end + last + 1, last + 1 < count)
      case .short(let count):
        if count > size - end {
          let rest = try onDisk { () throws(Disk.Failure) in try file.read(size - end, at: end) }
          return rest.lastIndex { $0 != 0 }.map { (end + $0 + 1, true) }
        }
        start = end
        bytes = try onDisk { () throws(Disk.Failure) in try file.read(max(count, 1 << 20), at: start) }
      }
    }
  }

  /// Moves what lies behind an offset to a file of its own.
  private mutating func setAside(_ file: Disk, from offset: Int, _ size: Int) throws(LogError) {
    let tail = FileLog.TornTail(
      key: key, position: head + 1, bytes: size - offset, path: path(FileNames.torn(head + 1)))
    try onDisk { () throws(Disk.Failure) in
      if size > offset {
        let torn = try Disk(tail.path, .creating)
        try torn.write(try file.read(size - offset, at: offset), at: try torn.size())
        try torn.sync()
        try Disk.syncDirectory(directory)
      }
      try file.truncate(to: offset)
      try file.sync()
    }
    if size > offset {
      wasTorn = true
      owner.report(tail)
    }
  }

  // MARK: Writing

  /// Appends entries. When it returns they are safe; where it throws none of them is there, unless taking back what was
  /// written fails, too: that is done before anything else is appended, and a process that dies before leaves a tail.
  mutating func append(_ entries: [[UInt8]]) throws(LogError) -> [LogRecord] {
    do {
      if let last, hasRemains { try takeBack(last) }
      if last == nil || end >= max(RecordFormat.headerSize + 1, owner.options.segmentBytes) { try begin(head + 1) }
      guard let last else { return [] }
      var bytes: [UInt8] = []
      bytes.reserveCapacity(entries.reduce(0) { $0 + RecordFormat.recordOverhead + $1.count })
      let records = entries.enumerated().map {
        LogRecord(position: head + 1 + UInt64($0.offset), bytes: $0.element)
      }
      for record in records { RecordFormat.append(record, to: &bytes) }
      hasRemains = true
      try owner.fail(.write, last, bytes.count)
      try last.write(bytes, at: end)
      allocate(last, behind: end + bytes.count)
      try sync(last)
      hasRemains = false
      end += bytes.count
      head += UInt64(records.count)
      acknowledge()
      return records
    } catch {
      if let last, hasRemains { try? takeBack(last) }
      throw error.logError
    }
  }

  /// Makes the file longer by zeros, if it has to be; if there is no room, the next write will tell.
  private mutating func allocate(_ file: Disk, behind used: Int) {
    guard used > allocated else { return }
    allocated = used
    let count = min(used, owner.options.preallocatedBytes, owner.options.segmentBytes - used)
    guard count > 0, (try? file.write([UInt8](repeating: 0, count: count), at: used)) != nil else { return }
    allocated = used + count
  }

  /// Takes back what may lie behind the end: after a failure nobody knows what of it is on the disk.
  private mutating func takeBack(_ file: Disk) throws(Disk.Failure) {
    try owner.fail(.truncate, file, 0)
    try file.truncate(to: end)
    allocated = end
    try sync(file)
    hasRemains = false
  }

  private func sync(_ file: Disk) throws(Disk.Failure) {
    try owner.fail(.sync, file, 0)
    if owner.options.syncs { try file.sync() }
  }

  /// Begins a file.
  private mutating func begin(_ first: UInt64) throws(Disk.Failure) {
    try owner.fail(.write, nil, RecordFormat.headerSize)
    if firsts.isEmpty { try Disk.makeDirectory(directory) }
    // What was allocated and is not needed; a log can be read with it, too.
    try? last?.truncate(to: end)
    let file = try Disk(path(FileNames.segment(first)), .creating)
    try file.truncate(to: 0)
    try file.write(RecordFormat.header(first: first), at: 0)
    try sync(file)
    try Disk.syncDirectory(directory)
    firsts.append(first)
    last = file
    end = RecordFormat.headerSize
    allocated = end
    acknowledge()
  }

  /// Gives back what was allocated and is not needed.
  func close() { if !hasRemains { try? last?.truncate(to: end) } }

  /// Notes how far somebody has been told, without waiting for the disk: it tells what a process that dies leaves from
  /// damage. After the death of a machine it may be older: what was acknowledged since, and is damaged, is set aside
  /// and reported then, as what was not.
  private mutating func acknowledge() {
    guard let first = firsts.last else { return }
    do {
      if mark == nil { mark = try Disk(path(FileNames.mark), .creating) }
      try mark?.write(AcknowledgedMark(first: first, end: UInt64(end)).bytes, at: 0)
    } catch {
      mark = nil
      try? Disk.remove(path(FileNames.mark))
    }
  }

  // MARK: Reading

  /// What comes next, about so many bytes of it, and where to go on.
  func read(_ reader: SegmentReader, atMost limit: Int) throws(LogError) -> ([LogRecord], SegmentReader) {
    var reader = reader
    guard reader.position < head, let start = firsts.last(where: { $0 <= reader.position + 1 }) else {
      if let first = firsts.first, reader.position < head { throw .truncated(first: first) }
      return ([], reader)
    }
    if reader.segment != start || reader.next != reader.position + 1 { reader.begin(start) }
    var records: [LogRecord] = []
    do {
      let file = try Disk(path(FileNames.segment(start)), .reading)
      if reader.offset == RecordFormat.headerSize,
        RecordFormat.first(ofHeader: try file.read(RecordFormat.headerSize, at: 0)) != start
      {
        throw Damage(error: .damaged(position: start, "\(file.path) does not begin as a file of this log."))
      }
      var bytes = try file.read(limit, at: reader.offset)
      var offset = 0
      let lastOfFile = firsts.first { $0 > start }.map { $0 - 1 } ?? head
      while reader.next <= lastOfFile {
        switch RecordFormat.parse(bytes, at: offset) {
        case .record(let record, let end) where record.position == reader.next:
          if record.position > reader.position { records.append(record) }
          reader.advance(by: end - offset)
          offset = end
          continue
        case .short(let count) where !records.isEmpty && count > bytes.count - offset && bytes.count >= limit:
          return (records, reader)
        case .short(let count) where try count <= file.size() - reader.offset:
          let more = try file.read(max(count, limit), at: reader.offset)
          if more.count >= count {
            (bytes, offset) = (more, 0)
            continue
          }
        default: break
        }
        throw Damage(error: .damaged(position: reader.next, "\(file.path) cannot be read."))
      }
      return (records, reader)
    } catch let damage as Damage {
      throw damage.error
    } catch {
      throw (error as? Disk.Failure)?.logError ?? .unavailable("\(error)")
    }
  }

  /// Removes the files that have nothing behind a position.
  mutating func truncate(through position: UInt64) throws(LogError) {
    try onDisk { () throws(Disk.Failure) in
      while firsts.count > 1, firsts[1] - 1 <= position {
        try Disk.remove(path(FileNames.segment(firsts[0])))
        firsts.removeFirst()
      }
    }
  }
}

/// Thrown as it is, a `LogError` that is caught beside a failure of the disk crashes the compiler (6.3).
private struct Damage: Error {
  let error: LogError
}
