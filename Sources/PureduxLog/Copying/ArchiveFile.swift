import Dispatch
import Puredux

/// A file of exported logs, one after the other, being written or read.
final class ArchiveFile: LogDirectory {
  struct Tree: Sendable {
    var start: Int
    var offset: Int
    var number: UInt64
    var head: UInt64 = 0
    var snapshot: Int?
  }

  private struct Contents {
    var trees: [String: Tree] = [:]
    var current: String?
    var end = ArchivePart.magic.count
    var next: UInt64 = 1
    var entries: UInt64 = 0
    var isClosed = false
  }

  private static let readSize = 1 << 20
  static let partLimit = Int(UInt32.max)

  let partLimit: Int
  private let disk: Disk
  private let isWritten: Bool
  private let queue = DispatchQueue(label: "puredux.archive")
  /// Used on the queue only, except for the keys.
  private let contents = LockedValue(Contents())
  /// Tells readers of the end.
  fileprivate let arrivals = Arrivals()

  private init(_ disk: Disk, isWritten: Bool, partLimit: Int = ArchiveFile.partLimit) {
    self.disk = disk
    self.partLimit = partLimit
    self.isWritten = isWritten
  }

  private static func refusal(_ text: String = "A file of exported logs is read-only.") -> LogError { .refused(text) }

  private static func onQueue<Result: Sendable>(
    _ queue: DispatchQueue, _ body: @escaping @Sendable () throws(LogError) -> Result
  ) async throws(LogError) -> Result {
    let result: Swift.Result<Result, LogError> = await withCheckedContinuation { continuation in
      queue.async { continuation.resume(returning: Swift.Result { () throws(LogError) in try body() }) }
    }
    return try result.get()
  }

  fileprivate func use<Result: Sendable>(
    _ body: @escaping @Sendable () throws(LogError) -> Result
  ) async throws(LogError) -> Result {
    try await Self.onQueue(queue) { () throws(LogError) in
      if self.contents.withLock({ $0.isClosed }) { throw .unavailable("The file of exported logs is closed.") }
      return try body()
    }
  }

  // MARK: Directories

  subscript(key: String) -> any OrderedLog { ArchivedTree(key, in: self) }

  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
    let keys = LockedValue(contents.withLock { $0.trees.keys.filter { $0.isKey(beginningWith: prefix) }.sorted(by: >) })
    return AsyncThrowingStream {
      if self.contents.withLock({ $0.isClosed }) { throw LogError.unavailable("The file of exported logs is closed.") }
      return keys.withLock { $0.popLast() }
    }
  }

  func remove(_ key: String) async throws(LogError) { throw Self.refusal() }

  func close() async {
    try? await use { () throws(LogError) in self.contents.withLock { $0.isClosed = true } }
    arrivals.notify()
  }

  // MARK: Writing

  /// Writes a file under a temporary name until it is complete.
  ///
  /// - Throws: `LogError.refused` if either name exists and is not a regular file: a device would be replaced, and a
  ///   write through a link would change another file.
  static func write<Result: Sendable>(
    _ path: String, partLimit: Int = ArchiveFile.partLimit, _ body: (ArchiveFile) async throws -> Result
  ) async throws -> Result {
    let queue = DispatchQueue(label: "puredux.archive.place")
    let (directory, name, disk) = try await onQueue(queue) { () throws(LogError) in
      let (directory, name) = try place(of: path, making: true)
      for name in [name, name + ".new"] { try checkIsReplaceable(name, in: directory) }
      let disk = try onDisk { () throws(Disk.Failure) in
        let disk = try Disk.lockedNew(name + ".new", in: directory)
        try disk.write(ArchivePart.magic, at: 0)
        return disk
      }
      return (directory, name, disk)
    }
    let file = ArchiveFile(disk, isWritten: true, partLimit: partLimit)
    do {
      let result = try await body(file)
      try await file.use { () throws(LogError) in
        try file.end()
        try onDisk { () throws(Disk.Failure) in try disk.sync() }
        try checkIsReplaceable(name, in: directory)
        try onDisk { () throws(Disk.Failure) in
          try directory.move(name + ".new", to: name)
          try directory.sync()
        }
      }
      return result
    } catch {
      try? await onQueue(queue) { () throws(LogError) in
        try onDisk { () throws(Disk.Failure) in
          if try directory.place(of: name + ".new") == disk.place() { try directory.remove(name + ".new") }
        }
      }
      throw error
    }
  }

  private static func checkIsReplaceable(_ name: String, in directory: Directory) throws(LogError) {
    guard try onDisk({ () throws(Disk.Failure) in try directory.isRegular(name) }) == false else { return }
    throw .refused("\(directory.path)/\(name) is not a regular file: an export would replace it. Name another path.")
  }

  private static func place(of path: String, making: Bool) throws(LogError) -> (Directory, String) {
    try onDisk { () throws(Disk.Failure) in
      let path = try Directory.absolute(path)
      let slash = path.lastIndex(of: "/") ?? path.startIndex
      let parent = path[..<slash].isEmpty ? "/" : String(path[..<slash])
      if making { try Directory.make(path: parent) }
      return (try Directory(parent), String(path[slash...].dropFirst()))
    }
  }

  fileprivate func append(_ entries: [[UInt8]], to key: String, behind head: UInt64?) throws(LogError) -> UInt64 {
    guard isWritten else { throw Self.refusal() }
    return try contents.withLock { contents throws(LogError) in
      try begin(key, &contents)
      guard var tree = contents.trees[key], contents.current == key else {
        throw Self.refusal("Logs are written to the file one after the other.")
      }
      if let head, head != tree.head { throw .headIsElsewhere(tree.head) }
      try write(entries.map { .entry($0) }, &contents)
      tree.head += UInt64(entries.count)
      contents.trees[key] = tree
      contents.entries += UInt64(entries.count)
      return tree.head
    }
  }

  fileprivate func save(_ snapshot: LogSnapshot, of key: String) throws(LogError) {
    guard isWritten else { throw Self.refusal() }
    try contents.withLock { contents throws(LogError) in
      guard contents.current == key else {
        throw Self.refusal("Logs are written to the file one after the other.")
      }
      let offset = contents.end
      try write([.snapshot(snapshot)], &contents)
      contents.trees[key]?.snapshot = offset
    }
  }

  private func begin(_ key: String, _ contents: inout Contents) throws(LogError) {
    guard contents.current != key, contents.trees[key] == nil else { return }
    try endTree(&contents)
    let start = contents.end
    try write([.tree(key)], &contents)
    contents.trees[key] = Tree(start: start, offset: contents.end, number: contents.next)
    contents.current = key
  }

  func leaveOut(_ key: String) async throws(LogError) {
    try await use { () throws(LogError) in
      try self.contents.withLock { contents throws(LogError) in
        guard contents.current == key, let tree = contents.trees.removeValue(forKey: key) else { return }
        (contents.current, contents.end, contents.next) = (nil, tree.start, tree.number - 1)
        contents.entries -= tree.head
        try onDisk { () throws(Disk.Failure) in try self.disk.truncate(to: tree.start) }
      }
    }
  }

  private func endTree(_ contents: inout Contents) throws(LogError) {
    guard let current = contents.current, let tree = contents.trees[current] else { return }
    try write([.endOfTree(entries: tree.head)], &contents)
    contents.current = nil
  }

  private func end() throws(LogError) {
    try contents.withLock { contents throws(LogError) in
      try endTree(&contents)
      try write([.end(trees: UInt64(contents.trees.count), entries: contents.entries)], &contents)
    }
  }

  private func write(_ parts: [ArchivePart], _ contents: inout Contents) throws(LogError) {
    var bytes: [UInt8] = []
    for (offset, part) in parts.enumerated() {
      RecordFormat.append(LogRecord(position: contents.next + UInt64(offset), bytes: part.bytes), to: &bytes)
    }
    let end = contents.end
    try onDisk { () throws(Disk.Failure) in try disk.write(bytes, at: end) }
    contents.end += bytes.count
    contents.next += UInt64(parts.count)
  }

  // MARK: Reading

  static func read(_ path: String) async throws(LogError) -> ArchiveFile {
    try await onQueue(DispatchQueue(label: "puredux.archive.place")) { () throws(LogError) in
      let (directory, name) = try place(of: path, making: false)
      let disk = try onDisk { () throws(Disk.Failure) in try Disk(name, in: directory, .reading) }
      let file = ArchiveFile(disk, isWritten: false)
      try file.scan()
      return file
    }
  }

  private func scan() throws(LogError) {
    let magic = ArchivePart.magic
    let start = try onDisk { () throws(Disk.Failure) in try disk.read(magic.count, at: 0) }
    guard start == magic else {
      guard start.count == magic.count, start.dropLast() == magic.dropLast(), start[magic.count - 1] > magic.last ?? 0
      else { throw Self.refusal("\(disk.path) is not a file of exported logs.") }
      throw Self.refusal("\(disk.path) was written by a newer version of this library, which is to open it.")
    }
    var found = Contents()
    var cursor = Cursor(offset: magic.count, number: 1)
    var isWhole = false
    while let (part, offset) = try next(&cursor) {
      var isRight = !isWhole
      let current = found.current
      switch part {
      case .tree(let key):
        isRight = isRight && current == nil && found.trees[key] == nil
        found.trees[key] = Tree(start: offset, offset: cursor.offset, number: cursor.number)
        found.current = key
      case .entry:
        isRight = isRight && current != nil
        if let current { found.trees[current]?.head += 1 }
        found.entries += 1
      case .snapshot:
        isRight = isRight && current != nil
        if let current { found.trees[current]?.snapshot = offset }
      case .endOfTree(let entries):
        isRight = isRight && current.flatMap { found.trees[$0]?.head } == entries
        found.current = nil
      case .end(let trees, let entries):
        isRight = isRight && current == nil && trees == UInt64(found.trees.count) && entries == found.entries
        isWhole = true
      }
      guard isRight else { throw damage(cursor.number - 1, "has a misplaced part") }
    }
    guard isWhole else { throw damage(cursor.number, "is incomplete: it has no end") }
    contents.withLock { $0 = found }
  }

  fileprivate func damage(_ number: UInt64, _ text: String) -> LogError {
    .damaged(position: number, "\(disk.path) \(text), at part \(number).")
  }

  struct Cursor: Sendable {
    var offset: Int
    var number: UInt64
    var bytes: [UInt8] = []
    var start = 0

    init(offset: Int, number: UInt64) {
      self.offset = offset
      self.number = number
    }
  }

  fileprivate func next(_ cursor: inout Cursor) throws(LogError) -> (ArchivePart, Int)? {
    while true {
      let place = cursor.offset - cursor.start
      let isRead = place >= 0 && place <= cursor.bytes.count
      switch isRead ? RecordFormat.parse(cursor.bytes, at: place) : .short(RecordFormat.recordOverhead) {
      case .record(let record, let end):
        guard record.position == cursor.number, let part = ArchivePart(record.bytes) else {
          throw damage(cursor.number, "cannot be read")
        }
        defer {
          cursor.offset = cursor.start + end
          cursor.number += 1
        }
        return (part, cursor.offset)
      case .invalid: throw damage(cursor.number, "cannot be read")
      case .short(let count):
        let offset = cursor.offset
        let size = try onDisk { () throws(Disk.Failure) in try disk.size() }
        if offset == size { return nil }
        guard count <= size - offset else { throw damage(cursor.number, "is incomplete: it was cut off") }
        guard try isWhole(count, at: offset) else { throw damage(cursor.number, "cannot be read") }
        cursor.bytes = try onDisk { () throws(Disk.Failure) in try disk.read(max(count, Self.readSize), at: offset) }
        cursor.start = offset
      }
    }
  }

  private func isWhole(_ count: Int, at offset: Int) throws(LogError) -> Bool {
    guard count > Self.readSize else { return true }
    return try onDisk { () throws(Disk.Failure) in
      try RecordFormat.isWhole(count, pieces: Self.readSize) { range throws(Disk.Failure) in
        try disk.read(range.count, at: offset + range.lowerBound)
      }
    }
  }

  fileprivate func tree(_ key: String) -> Tree? { contents.withLock { $0.trees[key] } }

  fileprivate func snapshot(of key: String) throws(LogError) -> LogSnapshot? {
    guard let offset = tree(key)?.snapshot else { return nil }
    let bytes = try onDisk { () throws(Disk.Failure) in try disk.read(RecordFormat.recordOverhead, at: offset) }
    guard case .short(let count) = RecordFormat.parse(bytes, at: 0), try isWhole(count, at: offset) else {
      throw damage(0, "cannot be read")
    }
    let whole = try onDisk { () throws(Disk.Failure) in try disk.read(count, at: offset) }
    guard case .record(let record, _) = RecordFormat.parse(whole, at: 0),
      case .snapshot(let snapshot) = ArchivePart(record.bytes)
    else { throw damage(0, "cannot be read") }
    return snapshot
  }
}

final class ArchivedTree: DenseLog, SnapshotStore {
  private let key: String
  private let file: ArchiveFile

  init(_ key: String, in file: ArchiveFile) {
    self.key = key
    self.file = file
  }

  var name: String? { key }
  var entryLimit: Int { min(1 << 30, file.partLimit - 1) }
  /// In bytes, without the part's overhead.
  var snapshotLimit: Int { file.partLimit - 9 }
  var snapshots: (any SnapshotStore)? { self }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    Task.detached { [file, key] in
      do throws(LogError) {
        let position = try await file.use { () throws(LogError) in try file.append([entry], to: key, behind: nil) }
        outcome(.success(position))
      } catch {
        outcome(.failure(error))
      }
    }
  }

  func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError) {
    _ = try await file.use { [file, key] () throws(LogError) in try file.append(entries, to: key, behind: head) }
  }

  func leaveOut() async throws(LogError) { try await file.leaveOut(key) }

  func head() async throws(LogError) -> UInt64 {
    try await file.use { [file, key] () throws(LogError) in file.tree(key)?.head ?? 0 }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    struct Reading: Sendable {
      var cursor: ArchiveFile.Cursor?
      var position: UInt64 = 0
    }
    let reading = LockedValue(Reading())
    return AsyncThrowingStream { [file, key] in
      while !Task.isCancelled {
        let count = file.arrivals.count
        let records = try await file.use { () throws(LogError) in
          try reading.withLock { reading throws(LogError) -> [LogRecord] in
            guard let tree = file.tree(key) else { return [] }
            var cursor = reading.cursor ?? ArchiveFile.Cursor(offset: tree.offset, number: tree.number)
            var (records, bytes): ([LogRecord], Int) = ([], 0)
            while reading.position < tree.head, records.count < 512, bytes < 1 << 20 {
              guard let (part, _) = try file.next(&cursor) else {
                throw file.damage(cursor.number, "is incomplete: it was cut off")
              }
              guard case .entry(let entry) = part else { continue }
              reading.position += 1
              guard reading.position > position else { continue }
              records.append(LogRecord(position: reading.position, bytes: entry))
              bytes += entry.count
            }
            reading.cursor = cursor
            return records
          }
        }
        if !records.isEmpty { return records }
        // No more entries appear while a file is read.
        await file.arrivals.wait(after: count)
      }
      return nil
    }
  }

  func truncate(through position: UInt64) async throws(LogError) {
    throw .refused("A file of exported logs is not truncated.")
  }

  func newest() async throws(LogError) -> LogSnapshot? {
    try await file.use { [file, key] () throws(LogError) in try file.snapshot(of: key) }
  }

  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    try await file.use { [file, key] () throws(LogError) in try file.save(snapshot, of: key) }
  }

  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await save(snapshot) }
}
