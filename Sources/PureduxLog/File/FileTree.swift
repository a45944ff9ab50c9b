import Dispatch
import Puredux

/// The log of one tree in files: a directory with files of records, one behind the other, of which the last is written.
///
/// What is appended while the disk works is written together, by one block of a serial queue. What is read comes from
/// the last records, which are kept, or from the files.
final class FileTree: LocalLog, DenseLog, SnapshotStore, SummaryStore {
  typealias Outcome = @Sendable (Result<UInt64, LogError>) -> Void

  private typealias Append = (entry: [UInt8], outcome: Outcome)

  private struct Waiting {
    /// The last position that is safe; nil until the files have been looked at.
    var head: UInt64?
    /// The last records, up to the head.
    var recent: [LogRecord] = []
    var recentBytes = 0
    /// Set for good when the files are found not to be where they were: who asks for the tree anew gets another one.
    var loss: LogError?
  }

  /// How many bytes of the last records are kept.
  private static let recentLimit = 256 << 10
  /// How many bytes are read from a file at a time.
  private static let readSize = 1 << 20

  let key: String
  private let owner: FileLog
  /// Shared with other trees.
  private let queue: DispatchQueue
  private let appends: BatchQueue<Append>
  private let waiting = LockedValue(Waiting())
  private let arrivals = Arrivals()
  let files: Files

  /// The files of a tree, while they are open: of all objects for its key that there are, one of which may just be
  /// going when the next one is made.
  final class Files: Sendable {
    /// Under which its descriptors are kept.
    let id: Int
    /// Used on a queue only.
    let segments = LockedValue<Segments?>(nil)

    init(_ id: Int) { self.id = id }
  }

  init(of key: String, in owner: FileLog) {
    self.key = key
    self.owner = owner
    files = owner.enter(key)
    queue = owner.lane()
    appends = BatchQueue(queue)
  }

  deinit { owner.leave(key) }

  var name: String? { key }
  var isLost: Bool { waiting.withLock { $0.loss != nil } }

  /// Returns when what was asked before is done.
  func finish() async {
    await withCheckedContinuation { continuation in
      queue.async {
        self.appends.performAll { self.writeAll($0) }
        continuation.resume()
      }
    }
  }

  /// Returns when no file is open. Who reads is told that the log is closed.
  func close() async {
    await withCheckedContinuation { continuation in
      queue.async {
        self.appends.performAll { self.writeAll($0) }
        self.files.segments.withLock { files in
          files?.close()
          files = nil
        }
        self.waiting.withLock { waiting in
          waiting.head = nil
          waiting.recent = []
          waiting.recentBytes = 0
        }
        self.arrivals.notify()
        continuation.resume()
      }
    }
  }

  var entryLimit: Int { 16 << 20 }
  var snapshots: (any SnapshotStore)? { self }
  var summaries: (any SummaryStore)? { self }

  // MARK: On the queue

  private func onQueue<Result: Sendable>(
    _ queue: DispatchQueue? = nil, _ body: @escaping @Sendable () throws(LogError) -> Result
  ) async throws(LogError) -> Result {
    let result: Swift.Result<Result, LogError> = await withCheckedContinuation { continuation in
      (queue ?? self.queue).async { continuation.resume(returning: Swift.Result { () throws(LogError) in try body() }) }
    }
    return try result.get()
  }

  /// Does something with the files, which are looked at first where they have not been.
  private func withFiles<Result>(
    _ body: (inout Segments) throws(LogError) -> Result
  ) throws(LogError) -> Result {
    if let loss = waiting.withLock({ $0.loss }) { throw loss }
    _ = try owner.home()
    var isFoundLost = false
    // Who waits is not resumed under the lock.
    defer { if isFoundLost { arrivals.notify() } }
    return try files.segments.withLock { files throws(LogError) in
      var opened: Segments
      if let files {
        opened = files
      } else {
        do throws(LogError) {
          opened = try Segments(in: owner.directoryName(of: key), of: key, for: owner, as: self.files.id)
          if !owner.options.syncs { try opened.setSnapshotAside() }
        } catch {
          owner.openFiles.close(self.files.id)
          throw error
        }
      }
      waiting.withLock { if $0.head == nil { $0.head = opened.head } }
      files = nil
      defer {
        if let loss = opened.loss {
          opened.letGo()
          lose(opened.identity, loss)
          isFoundLost = true
        } else {
          files = opened
        }
      }
      return try body(&opened)
    }
  }

  /// Removes the tree, and returns when nothing is left of it.
  func remove() async throws(LogError) {
    try await onQueue { () throws(LogError) in
      self.appends.performAll { self.writeAll($0) }
      // Removed by another call: what is there by now is the next tree's.
      if self.isLost { return }
      try self.files.segments.withLock { files throws(LogError) in
        // They are opened again where it is not removed.
        files = nil
        self.owner.openFiles.close(self.files.id)
        try self.owner.setAside(self.key)
        // Even if there was no directory: a store may follow a tree that has no entry.
        self.waiting.withLock { $0 = Waiting(loss: .removed) }
      }
      self.arrivals.notify()
    }
    // On the queue of snapshots: none is written meanwhile.
    try await onQueue(owner.snapshotQueue) { () throws(LogError) in try self.owner.deleteRemoved() }
  }

  /// Nothing more is taken or delivered: what is written would not be where it is looked for.
  private func lose(_ identity: TreeIdentity?, _ loss: LogError) {
    // Of an older version's, which has no number, any that has none.
    owner.lose(key, identity?.id ?? 0)
    waiting.withLock { waiting in
      waiting.loss = loss
      waiting.head = nil
      waiting.recent = []
      waiting.recentBytes = 0
    }
  }

  // MARK: Appending

  func append(_ entry: [UInt8], outcome: @escaping Outcome) {
    appends.add((entry, outcome)) { self.writeAll($0) }
  }

  func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError) {
    try await onQueue { () throws(LogError) in
      self.appends.performAll { self.writeAll($0) }
      let records = try self.withFiles { files throws(LogError) in
        guard files.head == head else { throw .headIsElsewhere(files.head) }
        return try files.append(entries)
      }
      self.publish(records)
    }
  }

  private func writeAll(_ appends: [Append]) {
    let fitting = appends.filter { $0.entry.count <= entryLimit }
    for append in appends where append.entry.count > entryLimit {
      append.outcome(.failure(.refused("An entry of \(append.entry.count) bytes is too large.")))
    }
    if !fitting.isEmpty { write(fitting) }
  }

  private func write(_ appends: [Append]) {
    do throws(LogError) {
      let records = try withFiles { files throws(LogError) in try files.append(appends.map(\.entry)) }
      publish(records)
      for (append, record) in zip(appends, records) { append.outcome(.success(record.position)) }
    } catch {
      for append in appends { append.outcome(.failure(error)) }
    }
  }

  private func publish(_ records: [LogRecord]) {
    waiting.withLock { waiting in
      waiting.head = records.last?.position ?? waiting.head
      waiting.recent += records
      waiting.recentBytes += records.reduce(0) { $0 + $1.bytes.count }
      if waiting.recentBytes > Self.recentLimit {
        var dropped = 0
        while waiting.recentBytes > Self.recentLimit / 2, dropped < waiting.recent.count {
          waiting.recentBytes -= waiting.recent[dropped].bytes.count
          dropped += 1
        }
        waiting.recent.removeFirst(dropped)
      }
    }
    arrivals.notify()
  }

  // MARK: Reading

  func head() async throws(LogError) -> UInt64 {
    try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in
        try files.checkPlace()
        return files.head
      }
    }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let reader = LockedValue(SegmentReader(after: position))
    return AsyncThrowingStream {
      while !Task.isCancelled {
        let count = self.arrivals.count
        if let records = try await self.next(for: reader) { return records }
        await self.arrivals.wait(after: count)
      }
      return nil
    }
  }

  /// What comes next; nil where there is nothing yet.
  private func next(for reader: borrowing LockedValue<SegmentReader>) async throws(LogError) -> [LogRecord]? {
    let position = reader.withLock { $0.position }
    let (isAtHead, recent) = try waiting.withLock { waiting throws(LogError) -> (Bool, [LogRecord]) in
      if let loss = waiting.loss { throw loss }
      guard let head = waiting.head else { return (false, []) }
      guard position < head else { return (true, []) }
      guard let first = waiting.recent.first?.position, first <= position + 1 else { return (false, []) }
      // Element by element: an array of all of them would be the same one, which `publish` would have to copy. And the
      // thread sanitizer does not see that who reads lets go of an array before another adds to it in place.
      return (false, waiting.recent[Int(position + 1 - first)...].map { $0 })
    }
    if isAtHead { return nil }
    if let last = recent.last {
      reader.withLock { $0 = SegmentReader(after: last.position) }
      return recent
    }
    let before = reader.withLock { $0 }
    let (records, after) = try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in try files.read(before, atMost: Self.readSize) }
    }
    reader.withLock { $0 = after }
    return records.isEmpty ? nil : records
  }

  func localDirectory() async throws(LogError) -> Directory? {
    try await onQueue { () throws(LogError) in
      let (name, home) = (try self.owner.directoryName(of: self.key), try self.owner.home())
      return try onDiskIfThere { () throws(Disk.Failure) in try home.directory(name) }
    }
  }

  func truncate(through position: UInt64) async throws(LogError) {
    try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in
        try files.truncate(through: position)
        // They are not read from memory either: the log has the same entries for every process.
        let first = files.first
        self.waiting.withLock { waiting in
          waiting.recent.removeAll { $0.position < first }
          waiting.recentBytes = waiting.recent.reduce(0) { $0 + $1.bytes.count }
        }
      }
    }
  }

  func erase(through position: UInt64) async throws(LogError) {
    let (name, identity) = try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in
        try files.erase(through: position)
        self.waiting.withLock { waiting in
          waiting.recent.removeAll { $0.position <= position }
          waiting.recentBytes = waiting.recent.reduce(0) { $0 + $1.bytes.count }
        }
        return (files.name, try files.identified())
      }
    }
    // No snapshot is written meanwhile.
    try await onQueue(owner.snapshotQueue) { () throws(LogError) in
      if let loss = self.waiting.withLock({ $0.loss }) { throw loss }
      let home = try self.owner.home()
      let directory = try onDisk { () throws(Disk.Failure) in try home.directory(name) }
      guard try TreeIdentity.read(in: directory) == identity else {
        throw .damaged(position: position, "\(directory.path) is the directory of another log by now.")
      }
      try SnapshotFile.erase(in: directory, of: identity, before: position)
      try SummaryFile.erase(in: directory, of: identity, before: position)
      try onDisk { () throws(Disk.Failure) in
        for file in try directory.names() where FileNames.isLeftOver(file) {
          try self.owner.fail(.remove, nil, 0)
          try directory.remove(file)
        }
        try directory.sync()
      }
    }
  }

  // MARK: Snapshots

  func newest() async throws(LogError) -> LogSnapshot? {
    try await onQueue { () throws(LogError) in
      // Looks at the files first.
      try self.withFiles { files throws(LogError) in try files.snapshot() }
    }
  }

  func save(_ snapshot: LogSnapshot) async throws(LogError) { try await write(snapshot, always: false) }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await write(snapshot, always: true) }

  private func write(_ snapshot: LogSnapshot, always: Bool) async throws(LogError) {
    let (name, identity) = try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in (files.name, try files.identified()) }
    }
    // Not on the queue of the entries, which do not wait for it.
    try await onQueue(owner.snapshotQueue) { () throws(LogError) in
      let home = try self.owner.home()
      do throws(LogError) {
        let directory = try onDisk { () throws(Disk.Failure) in try home.directory(name) }
        // What has taken its place since is not written to.
        guard try TreeIdentity.read(in: directory) == identity else {
          throw .damaged(position: snapshot.position, "\(directory.path) is the directory of another log by now.")
        }
        try SnapshotFile.write(
          snapshot, in: directory, of: identity,
          // As it is when the snapshot that is kept is looked at: what that is of is in the log by then.
          replacing: always ? self.waiting.withLock { $0.head ?? 0 } : nil, syncs: self.owner.options.syncs)
      } catch {
        throw self.waiting.withLock { $0.loss } ?? error
      }
    }
  }

  // MARK: The summary

  func kept() async throws(LogError) -> LogSummary? {
    try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in try files.summary() }
    }
  }

  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
    // On the queues at once, so that who closes the log waits for it.
    queue.async {
      do throws(LogError) {
        let (name, identity) = try self.withFiles { files throws(LogError) in (files.name, try files.identified()) }
        self.owner.snapshotQueue.async {
          outcome(
            Result { () throws(LogError) in
              try self.write(LogSummary(key: identity.key, position: position, bytes: bytes), to: name, of: identity)
            })
        }
      } catch {
        outcome(.failure(error))
      }
    }
  }

  /// On the queue of snapshots.
  private func write(_ summary: LogSummary, to name: String, of identity: TreeIdentity) throws(LogError) -> Bool {
    do throws(LogError) {
      let home = try owner.home()
      let directory = try onDisk { () throws(Disk.Failure) in try home.directory(name) }
      guard try TreeIdentity.read(in: directory) == identity else {
        throw .damaged(position: summary.position, "\(directory.path) is the directory of another log by now.")
      }
      return try SummaryFile.write(
        summary, in: directory, of: identity, head: waiting.withLock { $0.head ?? 0 }, syncs: owner.options.syncs)
    } catch {
      throw waiting.withLock { $0.loss } ?? error
    }
  }
}
