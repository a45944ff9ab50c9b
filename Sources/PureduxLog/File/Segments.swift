/// The files of records of one tree, one behind the other. Used by one thread at a time.
struct Segments {
  private let key: String
  /// The directory of the tree, in that of the log.
  let name: String
  private let owner: FileLog
  /// Under which what is open is kept.
  private let id: Int
  /// None before anything is written.
  private(set) var identity: TreeIdentity?
  /// The positions that the files begin with, in order.
  private var firsts: [UInt64] = []
  /// The position of the first entry that is left.
  var first: UInt64 { firsts.first ?? 1 }
  /// The last file, which is written; none before the first entry. It may have been closed for others.
  private var last: FilePlace?
  /// Where its next record goes.
  private var end = RecordFormat.headerSize
  /// Up to where it consists of zeros behind that.
  private var allocated = 0
  /// Whether the name of the last file may not be on the disk yet.
  private var isUnplaced = false
  /// Whether something that failed may lie behind that.
  private var hasRemains = false
  /// How far was acknowledged, as far as that is noted.
  private var noted: AcknowledgedMark?
  private(set) var head: UInt64 = 0
  /// Whether something was set aside.
  private var wasTorn = false
  /// Set as soon as the files are found not to be where they were: what is written here is lost to who looks there.
  private(set) var loss: LogError?

  /// Looks at the last file, and sets aside what was being written when somebody died.
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
      // Who made the last file may have died before its name was on the disk.
      try onDisk { () throws(Disk.Failure) in try directory.sync() }
      try open(first, mark, in: directory)
    } else if let mark, !mark.isOfNothing {
      throw .damaged(position: mark.first, "The files of the log \(key) are missing. \(Self.choices)")
    }
  }

  /// None where there is none.
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

  /// Where nothing waits for the disk a machine that dies leaves anything: what is missing is reported.
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

  /// Whether a file of records has records, or is damaged: a process that dies before the first record leaves a header,
  /// with zeros behind it.
  static func hasRecords(_ path: String, in home: Directory) throws(LogError) -> Bool {
    let bytes = try onDiskIfThere { () throws(Disk.Failure) in
      try Disk(path, in: home, .reading).read(RecordFormat.headerSize + RecordFormat.recordOverhead, at: 0)
    }
    guard let bytes else { return false }
    guard let header = RecordFormat.Header(bytes) else { return bytes.contains { $0 != 0 } }
    return bytes.dropFirst(header.size).contains { $0 != 0 }
  }

  // MARK: Whose the files are, and where

  /// What can be done about what is damaged or missing.
  private static let choices =
    "Nothing has been changed. Put back what was there, from a copy of the directory, or import the last export into an "
    + "empty one."

  private func moved() -> LogError {
    .damaged(
      position: head + 1,
      "The directory \(owner.directory)/\(name) of the log \(key) was moved, replaced or removed while it was open. What "
        + "was appended since has not been acknowledged. Put the directory back and open the store anew; or, to begin "
        + "without what was in it, open the FileLog anew.")
  }

  /// Throws where the files are not where they were any more, from then on always. Costs two calls of the system.
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

  /// The directory that the last file is in, to change something there, and which tree it is of. It is made where there
  /// is none yet.
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

  /// The directory that the last file is in.
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

  /// The files that are written, which are opened again where they have been closed for others; none before the first
  /// entry.
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
        "The files of the log \(key) in \(directory.path) were changed by somebody else while the log was open. What was "
          + "appended since has not been acknowledged. Put back what was there, and open the store anew.")
      loss = error
      throw error
    }
    let files = OpenFiles.Files(last: file)
    owner.openFiles.keep(files, of: id)
    return files
  }

  /// Which tree it is, to be said in another file of it.
  mutating func identified() throws(LogError) -> TreeIdentity {
    if let identity {
      try checkPlace()
      return identity
    }
    return try ownDirectory().identity
  }

  /// The snapshot; none where there is none, or it cannot be read.
  mutating func snapshot() throws(LogError) -> LogSnapshot? {
    try checkPlace()
    guard let directory = try openDirectory() else { return nil }
    return try SnapshotFile.read(in: directory, of: identity)
  }

  /// The summary; none where there is none, or it cannot be read.
  mutating func summary() throws(LogError) -> LogSummary? {
    try checkPlace()
    guard let directory = try openDirectory() else { return nil }
    return try SummaryFile.read(in: directory, of: identity)
  }

  /// Where nothing waits for the disk, a machine that dies may leave the snapshot and not its entries.
  func setSnapshotAside() throws(LogError) {
    if let directory = try openDirectory() { try SnapshotFile.setAside(in: directory, beyond: head) }
  }

  /// Whether a file of records that begins with this header is this tree's.
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
      // It was being made when somebody died, if nobody was told of anything in it, and there is nothing.
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
        "What the log \(key) acknowledged up to byte \(acknowledgedEnd) of \(file.path) ends at byte \(end). "
          + Self.choices)
    }
    if let tail, tail.end > end {
      // Where nothing tells what was acknowledged, it has to look as what dies in the middle leaves.
      guard acknowledged != nil || tail.isCut || !owner.options.syncs else {
        throw .damaged(position: head + 1, "An entry of the log \(key) cannot be read. \(Self.choices)")
      }
      try setAside(file, from: end, tail.end, in: directory)
      allocated = end
    } else {
      allocated = max(size, end)
      // Who wrote the last records may have died before they were on the disk. From now on, readers are given them.
      try onDisk { () throws(Disk.Failure) in try sync(file) }
    }
    last = place
    owner.openFiles.keep(OpenFiles.Files(last: file), of: id)
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

  /// Appends entries. When it returns they are safe, and where who looks for them finds them; where it throws none of
  /// them is there, unless taking back what was written fails, too: that is done before anything else is appended, and
  /// a process that dies before leaves a tail.
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

  /// Begins a file behind the one that was written.
  private mutating func begin(_ first: UInt64, behind before: OpenFiles.Files?) throws(LogError) -> OpenFiles.Files {
    do { try owner.fail(.write, nil, RecordFormat.headerSize) } catch { throw error.logError }
    let (directory, identity) = try ownDirectory()
    let header = RecordFormat.Header(first: first, tree: identity.id)
    // What was allocated and is not needed; a log can be read with it, too.
    try? before?.last.truncate(to: end)
    let (file, place) = try onDisk { () throws(Disk.Failure) in
      let file = try Disk(FileNames.segment(first), in: directory, .creating)
      try file.lock()
      // What failed here before has left no more than a header.
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

  /// Closes the files as they are.
  mutating func letGo() {
    last = nil
    owner.openFiles.close(id)
  }

  /// Closes the files, and gives back what was allocated and is not needed, unless they have been closed for others.
  func close() {
    if !hasRemains { try? owner.openFiles.files(of: id)?.last.truncate(to: end) }
    owner.openFiles.close(id)
  }

  /// Notes how far somebody has been told, without waiting for the disk: it tells what a process that dies leaves from
  /// damage. After the death of a machine it may be older, at the oldest the note that the tree began with: what was
  /// acknowledged since, and is damaged, is set aside and reported then, as what was not. Of a process that dies it
  /// never is: where nothing can be noted, as there are too few descriptors, the file goes until it can be. Without it,
  /// what does not look like a tail is damage.
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
      // Takes no descriptor. That the tree's directory is there has just been made sure of.
      if loss == nil { try? owner.home().remove(name + "/" + FileNames.mark) }
    }
    if isOpen != (files.mark != nil) { owner.openFiles.keep(files, of: id) }
  }

  // MARK: Reading

  /// What comes next, about so many bytes of it, and where to go on.
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

  /// Removes the files that have nothing behind a position.
  mutating func truncate(through position: UInt64) throws(LogError) {
    guard firsts.count > 1, firsts[1] - 1 <= position else { return }
    let directory = try checkedDirectory()
    if isUnplaced { try place(in: directory) }
    while firsts.count > 1, firsts[1] - 1 <= position {
      do { try directory.remove(FileNames.segment(firsts[0])) } catch { throw error.logError }
      firsts.removeFirst()
    }
  }

  /// Removes the entries up to a position, and the files that have them: those behind it are in another file by then.
  mutating func erase(through position: UInt64) throws(LogError) {
    guard position > 0, position < head else { throw .notErasable(position) }
    let (directory, identity) = try ownDirectory()
    if let first = firsts.last(where: { $0 <= position + 1 }), first <= position {
      try copy(behind: position, from: first, to: directory, of: identity)
    }
    try truncate(through: position)
    try onDisk { () throws(Disk.Failure) in try directory.sync() }
  }

  /// Has what a file has behind a position in a file of its own. Until the one before is removed both are read as one:
  /// of each file what comes before the next.
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
      try sync(file)
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
    // Not before: what is acknowledged in a file has to be found in it.
    if isLast { acknowledge(&files, in: directory) }
  }

  /// Has the name of a file that took what another had on the disk, before it is written to, or that one removed.
  private mutating func place(in directory: Directory) throws(LogError) {
    try onDisk { () throws(Disk.Failure) in
      try owner.fail(.sync, nil, 0)
      try directory.sync()
    }
    isUnplaced = false
  }
}

/// Thrown as it is, a `LogError` that is caught beside a failure of the disk crashes the compiler (6.3).
private struct Damage: Error {
  let error: LogError
}
