/// The segment files of one tree. Used by one thread at a time.
struct Segments {
  private let key: String
  let name: String
  private let owner: FileLog
  private let id: Int
  /// Nil before the first write, and in an older version's directory until a file is added.
  private(set) var identity: TreeIdentity?
  private var firsts: [UInt64] = []
  var first: UInt64 { firsts.first ?? 1 }
  /// The last segment, open or evicted; nil before the first entry.
  private var last: FilePlace?
  private var end = RecordFormat.headerSize
  /// The last segment's size, with preallocated zeros after `end`.
  private var allocated = 0
  /// Whether the name of a copied segment may not be durable yet.
  private var isUnplaced = false
  /// Whether a failed append may have left bytes after `end`.
  private var hasRemains = false
  private var noted: AcknowledgedMark?
  private(set) var head: UInt64 = 0
  private var wasTorn = false
  /// Set once the files were moved or replaced: readers would miss later writes.
  private(set) var loss: LogError?

  init(in name: String, of key: String, for owner: FileLog, as id: Int) throws(LogError) {
    self.id = id
    self.key = key
    self.name = name
    self.owner = owner
    try owner.checkPlace(position: 1)
    guard let directory = try openDirectory() else {
      if owner.lostID(of: key) != nil { throw moved() }
      return
    }
    firsts = try onDisk { () throws(Disk.Failure) in
      try directory.names().compactMap(FileNames.first(ofSegment:)).sorted()
    }
    identity = try TreeIdentity.read(in: directory)
    if let identity, identity.key != key {
      throw .damaged(
        position: firsts.first ?? 1,
        "\(directory.path) is the directory of the log \"\(identity.key)\", and not of \"\(key)\": directories were "
          + "exchanged, moved or copied. Put each where it was. To give a log another key, let an action set the state."
      )
    }
    if let lost = owner.lostID(of: key), identity?.id ?? 0 != lost { throw moved() }
    let mark = try AcknowledgedMark.read(in: directory)
    noted = mark
    if !owner.options.syncs {
      try openWhatIsLeft(mark, in: directory)
    } else if let first = firsts.last {
      // The name may not be durable if its maker died.
      try onDisk { () throws(Disk.Failure) in try directory.sync() }
      try open(first, mark, in: directory)
    } else if let mark, !mark.isOfNothing {
      throw .damaged(position: mark.first, "The files of the log \(key) are missing. \(Self.choices)")
    }
  }

  private func openDirectory() throws(LogError) -> Directory? {
    let home = try owner.home()
    return try onDiskIfThere { () throws(Disk.Failure) in try home.directory(name) }
  }

  private mutating func identify(_ directory: Directory) throws(LogError) -> TreeIdentity {
    let new = TreeIdentity(key: key)
    try onDisk { () throws(Disk.Failure) in try new.write(in: directory) }
    identity = new
    return new
  }

  /// Without `syncs`, entries lost in a machine's crash are only reported.
  private mutating func openWhatIsLeft(_ mark: AcknowledgedMark?, in directory: Directory) throws(LogError) {
    if let first = firsts.last { try open(first, nil, in: directory) }
    let left = AcknowledgedMark(first: firsts.last ?? 0, end: UInt64(end))
    guard let mark, (mark.first, mark.end) > (left.first, left.end) else { return }
    if !wasTorn { owner.report(FileLog.TornTail(key: key, position: head + 1, bytes: 0, path: directory.path)) }
    if firsts.isEmpty {
      try onDisk { () throws(Disk.Failure) in try directory.remove(FileNames.mark) }
      noted = nil
    } else if var files = owner.openFiles.files(of: id) {
      acknowledge(&files, in: directory)
    }
  }

  /// False also after a crash before the first record, which leaves a header and zeros. True if damaged.
  static func hasRecords(_ path: String, in home: Directory) throws(LogError) -> Bool {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      try Disk(path, in: home, .reading).read(RecordFormat.headerSize + RecordFormat.recordOverhead, at: 0)
    }
    guard let bytes else { return false }
    guard let header = RecordFormat.Header(bytes) else { return bytes.contains { $0 != 0 } }
    return bytes.dropFirst(header.size).contains { $0 != 0 }
  }

  // MARK: Whose the files are, and where

  private static let choices =
    "Nothing has been changed. Put the files back, from a copy of the directory, or import the last export into an "
    + "empty one."

  private func moved() -> LogError {
    .damaged(
      position: head + 1,
      "The directory \(owner.directory)/\(name) of the log \(key) was moved, replaced or removed while it was open. The "
        + "entries appended since have not been acknowledged. Put the directory back, and open the store again. Or, to "
        + "go on without its entries, open the FileLog again.")
  }

  /// Throws if the files were moved or replaced, and from then on always. Costs two system calls.
  mutating func checkPlace() throws(LogError) {
    if loss == nil {
      let isThere: Bool
      do throws(LogError) {
        try owner.checkPlace(position: head + 1)
        isThere = try isInPlace()
      } catch {
        if case .damaged = error { loss = error }
        throw error
      }
      if !isThere { loss = moved() }
    }
    if let loss { throw loss }
  }

  private func isInPlace() throws(LogError) -> Bool {
    guard let last, let first = firsts.last else { return true }
    let home = try owner.home()
    return try onDisk { () throws(Disk.Failure) in
      try home.place(of: name + "/" + FileNames.segment(first)) == last
    }
  }

  private mutating func ownDirectory() throws(LogError) -> (directory: Directory, identity: TreeIdentity) {
    if identity == nil, firsts.isEmpty {
      try checkPlace()
      let home = try owner.home()
      try onDisk { () throws(Disk.Failure) in try home.make(name) }
    }
    let directory = try checkedDirectory()
    if let identity { return (directory, identity) }
    return (directory, try identify(directory))
  }

  private mutating func checkedDirectory() throws(LogError) -> Directory {
    try checkPlace()
    if let directory = try openDirectory(), try TreeIdentity.read(in: directory)?.id == identity?.id,
      try holdsLast(directory)
    {
      return directory
    }
    let error = moved()
    loss = error
    throw error
  }

  private func holdsLast(_ directory: Directory) throws(LogError) -> Bool {
    guard let last, let first = firsts.last else { return true }
    return try onDisk { () throws(Disk.Failure) in
      try directory.place(of: FileNames.segment(first)) == last
    }
  }

  private mutating func written() throws(LogError) -> OpenFiles.Files? {
    guard let last, let first = firsts.last else { return nil }
    if let files = owner.openFiles.files(of: id) { return files }
    let directory = try checkedDirectory()
    let file = try onDisk { () throws(Disk.Failure) in
      let file = try Disk(FileNames.segment(first), in: directory, .writing)
      try file.lock()
      return file
    }
    let (size, place) = try onDisk { () throws(Disk.Failure) in (try file.size(), try file.place()) }
    let mark = try AcknowledgedMark.read(in: directory)
    guard place == last, size >= end, mark == nil || mark == noted else {
      let error = LogError.damaged(
        position: head + 1,
        "The files of the log \(key) in \(directory.path) were changed from outside while the log was open. The "
          + "entries appended since have not been acknowledged. Put the files back, and open the store again.")
      loss = error
      throw error
    }
    let files = OpenFiles.Files(last: file)
    owner.openFiles.keep(files, of: id)
    return files
  }

  mutating func identified() throws(LogError) -> TreeIdentity {
    if let identity {
      try checkPlace()
      return identity
    }
    return try ownDirectory().identity
  }

  mutating func snapshot() throws(LogError) -> LogSnapshot? {
    try checkPlace()
    guard let directory = try openDirectory() else { return nil }
    return try SnapshotFile.read(in: directory, of: identity)
  }

  mutating func summary() throws(LogError) -> LogSummary? {
    try checkPlace()
    guard let directory = try openDirectory() else { return nil }
    return try SummaryFile.read(in: directory, of: identity)
  }

  func setSnapshotAside() throws(LogError) {
    if let directory = try openDirectory() { try SnapshotFile.setAside(in: directory, beyond: head) }
  }

  /// An older version's header, without a tree, is accepted.
  private func isOwn(_ header: RecordFormat.Header) -> Bool {
    header.tree.map { $0 == identity?.id } ?? true
  }

  private func foreign(_ path: String, _ first: UInt64) -> LogError {
    identity == nil
      ? .damaged(
        position: first,
        "The file \(FileNames.identity), which says which log the directory is of, is missing beside \(path). Put it "
          + "there, from a backup.")
      : .damaged(
        position: first, "\(path) is a file of another log. Put this log's own file there, from a backup.")
  }

  // MARK: Opening

  private mutating func open(
    _ first: UInt64, _ acknowledged: AcknowledgedMark?, in directory: Directory
  ) throws(LogError) {
    if let acknowledged, acknowledged.first > first {
      throw .damaged(position: acknowledged.first, "A file of the log \(key) is missing. \(Self.choices)")
    }
    let acknowledgedEnd = acknowledged.flatMap { $0.first == first ? Int($0.end) : nil }
    let file = try onDisk { () throws(Disk.Failure) in
      let file = try Disk(FileNames.segment(first), in: directory, .writing)
      try file.lock()
      return file
    }
    let (size, place) = try onDisk { () throws(Disk.Failure) in (try file.size(), try file.place()) }
    let bytes = try onDisk { () throws(Disk.Failure) in try file.read(RecordFormat.headerSize, at: 0) }
    head = first - 1
    guard let header = RecordFormat.Header(bytes), header.first == first else {
      // If it is empty and unacknowledged, a crash interrupted its creation.
      let new = RecordFormat.Header(first: first, tree: identity?.id)
      let isCut = try onDisk { () throws(Disk.Failure) in
        let older = RecordFormat.Header(first: first, tree: nil)
        if new.bytes.starts(with: bytes) || older.bytes.starts(with: bytes) { return true }
        return try file.read(size, at: 0).allSatisfy { $0 == 0 }
      }
      guard acknowledgedEnd == nil, isCut || !owner.options.syncs else {
        throw .damaged(position: first, "\(file.path) does not begin as a file of this log. \(Self.choices)")
      }
      try setAside(file, from: 0, size, in: directory)
      try onDisk { () throws(Disk.Failure) in
        try file.write(new.bytes, at: 0)
        try file.sync()
      }
      end = new.size
      last = place
      owner.openFiles.keep(OpenFiles.Files(last: file), of: id)
      return
    }
    guard isOwn(header) else { throw foreign(file.path, first) }
    end = header.size
    let tail = try scan(file, size)
    if let acknowledgedEnd, end < acknowledgedEnd {
      throw .damaged(
        position: head + 1,
        "The log \(key) acknowledged \(file.path) up to byte \(acknowledgedEnd), but only \(end) bytes can be read. "
          + Self.choices)
    }
    if let tail, tail.end > end {
      // Without a mark, only a record that was cut off is a torn tail.
      guard acknowledged != nil || tail.isCut || !owner.options.syncs else {
        throw .damaged(position: head + 1, "An entry of the log \(key) cannot be read. \(Self.choices)")
      }
      try setAside(file, from: end, tail.end, in: directory)
      allocated = end
    } else {
      allocated = max(size, end)
      // The last records may not be durable if their writer died.
      try onDisk { () throws(Disk.Failure) in try sync(file) }
    }
    last = place
    owner.openFiles.keep(OpenFiles.Files(last: file), of: id)
  }

  /// Finds the end of the readable records. Returns the end of nonzero bytes after them, if any, and whether these may
  /// be a record that was cut off.
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

  private mutating func setAside(
    _ file: Disk, from offset: Int, _ size: Int, in directory: Directory
  ) throws(LogError) {
    let name = FileNames.torn(head + 1)
    let tail = FileLog.TornTail(
      key: key, position: head + 1, bytes: size - offset, path: directory.path + "/" + name)
    try onDisk { () throws(Disk.Failure) in
      if size > offset {
        let torn = try Disk(name, in: directory, .creating)
        try torn.write(try file.read(size - offset, at: offset), at: try torn.size())
        try torn.sync()
        try directory.sync()
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

  /// On return, the entries are durable, where readers look for them. If it throws, none is there, unless removing them
  /// fails, too. Then the next append removes them first, and a process that dies before leaves a torn tail.
  mutating func append(_ entries: [[UInt8]]) throws(LogError) -> [LogRecord] {
    if let loss { throw loss }
    var open = try written()
    if isUnplaced { try place(in: checkedDirectory()) }
    if let open, hasRemains {
      do { try takeBack(open.last) } catch { throw error.logError }
    }
    if open == nil || end >= max(RecordFormat.headerSize + 1, owner.options.segmentBytes) {
      open = try begin(head + 1, behind: open)
    }
    guard var files = open else { return [] }
    open = nil
    var bytes: [UInt8] = []
    bytes.reserveCapacity(entries.reduce(0) { $0 + RecordFormat.recordOverhead + $1.count })
    let records = entries.enumerated().map {
      LogRecord(position: head + 1 + UInt64($0.offset), bytes: $0.element)
    }
    for record in records { RecordFormat.append(record, to: &bytes) }
    hasRemains = true
    do throws(LogError) {
      try write(bytes, to: files.last)
      try checkPlace()
    } catch {
      try? takeBack(files.last)
      throw error
    }
    hasRemains = false
    end += bytes.count
    head += UInt64(records.count)
    acknowledge(&files)
    return records
  }

  private mutating func write(_ bytes: [UInt8], to file: Disk) throws(LogError) {
    do {
      try owner.fail(.write, file, bytes.count)
      try file.write(bytes, at: end)
      allocate(file, behind: end + bytes.count)
      try sync(file)
    } catch {
      throw error.logError
    }
  }

  /// If there is no room, the next write reports it.
  private mutating func allocate(_ file: Disk, behind used: Int) {
    guard used > allocated else { return }
    allocated = used
    let count = min(used, owner.options.preallocatedBytes, owner.options.segmentBytes - used)
    guard count > 0, (try? file.write([UInt8](repeating: 0, count: count), at: used)) != nil else { return }
    allocated = used + count
  }

  /// After a failed write, the bytes after `end` are unknown.
  private mutating func takeBack(_ file: Disk) throws(Disk.Failure) {
    try owner.fail(.truncate, file, 0)
    try file.truncate(to: end)
    allocated = end
    try sync(file)
    hasRemains = false
  }

  private func sync(_ file: Disk) throws(Disk.Failure) {
    if owner.options.syncs { try owner.sync(file) }
  }

  private mutating func begin(_ first: UInt64, behind before: OpenFiles.Files?) throws(LogError) -> OpenFiles.Files {
    do { try owner.fail(.write, nil, RecordFormat.headerSize) } catch { throw error.logError }
    let (directory, identity) = try ownDirectory()
    let header = RecordFormat.Header(first: first, tree: identity.id)
    // Removes the preallocated zeros, which readers accept, too.
    try? before?.last.truncate(to: end)
    let (file, place) = try onDisk { () throws(Disk.Failure) in
      // After a power cut, no file may follow one whose end is lost: that tree could not be opened.
      if !owner.options.syncs, let before { try owner.sync(before.last) }
      let file = try Disk(FileNames.segment(first), in: directory, .creating)
      try file.lock()
      guard try file.size() <= header.size else {
        throw Disk.Failure(call: "create", path: file.path, code: Disk.Failure.exists)
      }
      try file.truncate(to: 0)
      try file.write(header.bytes, at: 0)
      try sync(file)
      if firsts.isEmpty, owner.options.syncs { try? AcknowledgedMark.ofNothing.place(in: directory) }
      try directory.sync()
      return (file, try file.place())
    }
    firsts.append(first)
    last = place
    end = header.size
    allocated = end
    var files = OpenFiles.Files(last: file, mark: before?.mark)
    owner.openFiles.keep(files, of: id)
    acknowledge(&files, in: directory)
    return files
  }

  mutating func letGo() {
    last = nil
    owner.openFiles.close(id)
  }

  func close() {
    if !hasRemains { try? owner.openFiles.files(of: id)?.last.truncate(to: end) }
    owner.openFiles.close(id)
  }

  /// Writes the mark, which tells a torn tail from damage, without waiting for the disk.
  ///
  /// After a crash of the process it is current: if it cannot be written, its file is removed. After a crash of the
  /// machine it may be older, at the oldest `AcknowledgedMark.ofNothing`: damaged entries after it are set aside and
  /// reported, even if acknowledged.
  private mutating func acknowledge(_ files: inout OpenFiles.Files, in directory: Directory? = nil) {
    guard let first = firsts.last else { return }
    let isOpen = files.mark != nil
    if !isOpen, let directory = directory ?? (try? checkedDirectory()) {
      files.mark = try? Disk(FileNames.mark, in: directory, .creating)
    }
    let mark = AcknowledgedMark(first: first, end: UInt64(end))
    let isNoted: Void? = try? files.mark?.write(mark.bytes, at: 0)
    noted = mark
    if isNoted == nil {
      files.mark = nil
      // Needs no descriptor. The tree's directory was checked just before.
      if loss == nil { try? owner.home().remove(name + "/" + FileNames.mark) }
    }
    if isOpen != (files.mark != nil) { owner.openFiles.keep(files, of: id) }
  }

  // MARK: Reading

  mutating func read(
    _ reader: SegmentReader, atMost limit: Int
  ) throws(LogError) -> ([LogRecord], SegmentReader) {
    var reader = reader
    try checkPlace()
    guard reader.position < head, let start = firsts.last(where: { $0 <= reader.position + 1 }) else {
      if let first = firsts.first, reader.position < head { throw .truncated(first: first) }
      return ([], reader)
    }
    if reader.segment != start || reader.next != reader.position + 1 { reader.begin(start) }
    var records: [LogRecord] = []
    let home = try owner.home()
    do {
      let file = try Disk(name + "/" + FileNames.segment(start), in: home, .reading)
      if reader.offset == 0 {
        guard let header = RecordFormat.Header(try file.read(RecordFormat.headerSize, at: 0)), header.first == start
        else {
          throw Damage(
            error: .damaged(
              position: start, "\(file.path) does not begin as a file of this log. \(Self.choices)"))
        }
        guard isOwn(header) else { throw Damage(error: foreign(file.path, start)) }
        reader.pass(header)
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
        throw Damage(error: .damaged(position: reader.next, "\(file.path) cannot be read. \(Self.choices)"))
      }
      return (records, reader)
    } catch let damage as Damage {
      throw damage.error
    } catch {
      throw (error as? Disk.Failure)?.logError ?? .unavailable("\(error)")
    }
  }

  mutating func truncate(through position: UInt64) throws(LogError) {
    guard firsts.count > 1, firsts[1] - 1 <= position else { return }
    let directory = try checkedDirectory()
    if isUnplaced { try place(in: directory) }
    while firsts.count > 1, firsts[1] - 1 <= position {
      do { try directory.remove(FileNames.segment(firsts[0])) } catch { throw error.logError }
      firsts.removeFirst()
    }
  }

  /// Entries after the position in the same segment are copied first.
  mutating func erase(through position: UInt64) throws(LogError) {
    guard position > 0, position < head else { throw .notErasable(position) }
    let (directory, identity) = try ownDirectory()
    if let first = firsts.last(where: { $0 <= position + 1 }), first <= position {
      try copy(behind: position, from: first, to: directory, of: identity)
    }
    try truncate(through: position)
    try onDisk { () throws(Disk.Failure) in try directory.sync() }
  }

  /// Copies a segment's entries after a position to a new segment. Until the old one is removed, readers take from it
  /// only the entries before the next segment.
  private mutating func copy(
    behind position: UInt64, from first: UInt64, to directory: Directory, of identity: TreeIdentity
  ) throws(LogError) {
    let end = firsts.first { $0 > first }.map { $0 - 1 } ?? head
    var bytes = RecordFormat.Header(first: position + 1, tree: identity.id).bytes
    var reader = SegmentReader(after: position)
    while reader.position < end {
      let (records, next) = try read(reader, atMost: 1 << 20)
      for record in records where record.position <= end { RecordFormat.append(record, to: &bytes) }
      reader = next
    }
    do { try owner.fail(.write, nil, bytes.count) } catch { throw error.logError }
    let (file, place) = try onDisk { () throws(Disk.Failure) in
      let file = try Disk(FileNames.newSegment, in: directory, .creating)
      try file.lock()
      try file.truncate(to: 0)
      try file.write(bytes, at: 0)
      // Also without `syncs`: the removal of the old segment will be durable.
      try owner.sync(file)
      try directory.move(FileNames.newSegment, to: FileNames.segment(position + 1))
      return (file, try file.place())
    }
    let isLast = first == firsts.last
    firsts.append(position + 1)
    firsts.sort()
    isUnplaced = true
    var files = OpenFiles.Files(last: file)
    if isLast {
      (last, self.end, allocated, hasRemains) = (place, bytes.count, bytes.count, false)
      owner.openFiles.keep(files, of: id)
    }
    try self.place(in: directory)
    // Only now: the mark's segment must be found after a crash.
    if isLast { acknowledge(&files, in: directory) }
  }

  /// Makes a copied segment's name durable, before it is written to or the old one removed.
  private mutating func place(in directory: Directory) throws(LogError) {
    try onDisk { () throws(Disk.Failure) in
      try owner.fail(.sync, nil, 0)
      try directory.sync()
    }
    isUnplaced = false
  }
}

/// The compiler (6.3) crashes if a `LogError` itself is caught along with a `Disk.Failure`.
private struct Damage: Error {
  let error: LogError
}
