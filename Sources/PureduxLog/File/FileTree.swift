import Dispatch
import Puredux

/// The log of one tree in files: segments in a directory, of which the last is appended to.
///
/// Appends that arrive while the disk works are written together. Readers get the last records from memory, earlier
/// ones from the files.
final class FileTree: LocalLog, DenseLog, SnapshotStore, SummaryStore {
  typealias Outcome = @Sendable (Result<UInt64, LogError>) -> Void

  private typealias Append = (entry: [UInt8], outcome: Outcome)

  private struct Waiting {
    var head: UInt64?
    var recent: [LogRecord] = []
    var recentBytes = 0
    /// Set for good when the files were moved or replaced; the key then gets another object.
    var loss: LogError?
  }

  private static let recentLimit = 256 << 10
  private static let readSize = 1 << 20

  let key: String
  private let owner: FileLog
  private let queue: DispatchQueue
  private let appends: BatchQueue<Append>
  private let waiting = LockedValue(Waiting())
  private let arrivals = Arrivals()
  let files: Files

  /// The open files of a tree, shared by all objects for its key: one may be released while the next is made.
  final class Files: Sendable {
    let id: Int
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

  /// Returns when earlier requests are done.
  func finish() async {
    await withCheckedContinuation { continuation in
      queue.async {
        self.appends.performAll { self.writeAll($0) }
        continuation.resume()
      }
    }
  }

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

  private func withFiles<Result>(
    _ body: (inout Segments) throws(LogError) -> Result
  ) throws(LogError) -> Result {
    if let loss = waiting.withLock({ $0.loss }) { throw loss }
    _ = try owner.home()
    var isFoundLost = false
    // Outside of the lock, as this resumes readers.
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

  func remove() async throws(LogError) {
    try await onQueue { () throws(LogError) in
      self.appends.performAll { self.writeAll($0) }
      // Another call has removed the tree: the key may name the next one.
      if self.isLost { return }
      try self.files.segments.withLock { files throws(LogError) in
        files = nil
        self.owner.openFiles.close(self.files.id)
        try self.owner.setAside(self.key)
        // Even without a directory: a store may follow a tree without entries.
        self.waiting.withLock { $0 = Waiting(loss: .removed) }
      }
      self.arrivals.notify()
    }
    // On the snapshot queue: no snapshot is written meanwhile.
    try await onQueue(owner.snapshotQueue) { () throws(LogError) in try self.owner.deleteRemoved() }
  }

  /// Ends all appends and reads: readers would not find a write.
  private func lose(_ identity: TreeIdentity?, _ loss: LogError) {
    // 0 for an older version's trees, which have no number.
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

  private func next(for reader: borrowing LockedValue<SegmentReader>) async throws(LogError) -> [LogRecord]? {
    let position = reader.withLock { $0.position }
    let (isAtHead, recent) = try waiting.withLock { waiting throws(LogError) -> (Bool, [LogRecord]) in
      if let loss = waiting.loss { throw loss }
      guard let head = waiting.head else { return (false, []) }
      guard position < head else { return (true, []) }
      guard let first = waiting.recent.first?.position, first <= position + 1 else { return (false, []) }
      // A copy: sharing the array's storage, `publish` would have to copy all of it. The thread sanitizer would not see
      // a reader's release either.
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
        // Not from memory either: all processes read the same entries.
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
      try self.withFiles { files throws(LogError) in try files.snapshot() }
    }
  }

  func save(_ snapshot: LogSnapshot) async throws(LogError) { try await write(snapshot, always: false) }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await write(snapshot, always: true) }

  private func write(_ snapshot: LogSnapshot, always: Bool) async throws(LogError) {
    let (name, identity) = try await onQueue { () throws(LogError) in
      try self.withFiles { files throws(LogError) in (files.name, try files.identified()) }
    }
    // Not on the entries' queue: these do not wait for snapshots.
    try await onQueue(owner.snapshotQueue) { () throws(LogError) in
      let home = try self.owner.home()
      do throws(LogError) {
        let directory = try onDisk { () throws(Disk.Failure) in try home.directory(name) }
        guard try TreeIdentity.read(in: directory) == identity else {
          throw .damaged(position: snapshot.position, "\(directory.path) is the directory of another log by now.")
        }
        try SnapshotFile.write(
          snapshot, in: directory, of: identity,
          // The head when the stored snapshot is read: by then the log has that snapshot's entries.
          replacing: always ? self.waiting.withLock { $0.head ?? 0 } : nil, for: self.owner)
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
    // Enqueued at once, so that `close` waits for it.
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

  /// On the snapshot queue.
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
