import Dispatch
import Puredux
import Synchronization

/// Logs in files: one directory for any number of trees, without a server.
///
///     let log = try FileLog(directory: "data")
///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
///
/// An acknowledged entry is on the disk (`fdatasync`; on Apple's systems `F_FULLFSYNC`), unless `Options.syncs` is off.
/// Entries that arrive while the disk works share the next write. A checksum covers each entry's length, position and
/// bytes.
///
/// - **After a crash**, the unacknowledged rest of an interrupted write is moved to a separate file, and reported. Any
///   other damage is an error (`LogError.damaged`), and nothing is changed. After a crash of the *machine*, damaged
///   entries that were acknowledged right before may be taken for that rest.
/// - **If the disk fails or is full**, the failed write is removed from the file, and reported as failed. The store
///   retries until there is room.
/// - **Descriptors.** A tree that is written to has two files open, all trees together at most `Options.openFiles`.
///   Beyond that, the least recently used files are closed, and checked and reopened for the next entry. If only 64 of
///   the process's descriptors are left (a quarter of a limit below 256), opening a file fails
///   (`LogError.unavailable`); trees with open files continue.
/// - **Ownership.** A directory is open in one `FileLog` at a time. Directories and files of another tree are refused
///   (`LogError.damaged`, with advice). An append is acknowledged only while the directory, its file `lock` and the
///   tree's last file are where they were opened. Otherwise the stores that follow the tree stop
///   (`LogStop.unreadable`).
/// - **Threads.** The log waits for the disk on at most 21 threads of Dispatch, never on the cooperative pool.
///   Exceptions: `init(directory:options:onTornTail:)` blocks its caller, and a replay notes its progress in a file
///   without waiting for the disk.
public final class FileLog: LogDirectory {
  /// How the files are written.
  public struct Options: Sendable {
    /// The size at which the next file of entries begins. Truncation removes whole files.
    public var segmentBytes = 8 << 20
    /// Disks write faster to allocated bytes: a file is extended ahead of its entries, by up to its own size and at
    /// most this many bytes. 0 for none.
    public var preallocatedBytes = 1 << 20
    /// Whether each write waits for the disk. If not, a crash of the machine, but not of the process, can lose
    /// acknowledged entries. Everything after the first damage in the last file is then set aside, and so is a snapshot
    /// that is ahead of the rest. Snapshots, erasures and the end of a full file wait for the disk in any case: no
    /// crash loses a snapshot or the entries in it, and any lost entry was in the last file.
    public var syncs = true
    /// How many files stay open for appending: two for each of the most recently used trees. Work on the log's 21
    /// threads takes up to four more each. Less than two counts as two. Nil is a quarter of the process's limit of
    /// descriptors when the log is opened.
    public var openFiles: Int?

    /// The defaults.
    public init() {}
  }

  /// The rest of a write that a crash interrupted. It was not acknowledged, except as stated in `FileLog` and
  /// `Options.syncs`.
  public struct TornTail: Sendable, Hashable {
    /// The key of the tree.
    public var key: String
    /// The position that its first entry would have had.
    public var position: UInt64
    /// The number of bytes; 0 if, without `syncs`, acknowledged entries are missing.
    public var bytes: Int
    /// The file with the bytes, or the tree's directory if there are none.
    public var path: String
  }

  /// The directory, as passed to the initializer.
  public let directory: String
  let options: Options
  let report: @Sendable (TornTail) -> Void
  let faults: DiskFaults?
  private struct Opened: Sendable {
    let home: Directory
    let lock: Disk
    let lockPlace: FilePlace
    var spellings: [String: [String]]?
  }

  private let opened: LockedValue<Opened?>
  private let lost = LockedValue<[String: UInt64]>([:])
  private let closing = LockedValue<Task<Void, Never>?>(nil)
  let openFiles: OpenFiles
  private let trees = LockedValue(WeakTable<FileTree>())
  private let files = LockedValue<[String: (files: FileTree.Files, users: Int)]>([:])
  /// A fixed number, as each may take a thread.
  private let lanes = (0..<16).map { DispatchQueue(label: "puredux.log.\($0)") }
  private let listing = (0..<4).map { DispatchQueue(label: "puredux.log.list.\($0)") }
  private let nextLane = Atomic(0)
  let snapshotQueue = DispatchQueue(label: "puredux.log.snapshots")

  /// Opens the log in a directory. Blocks until it is open.
  ///
  /// - Parameters:
  ///   - directory: Made if it does not exist.
  ///   - options: How the files are written.
  ///   - onTornTail: Called with each tail that is set aside; by default it is printed on standard error.
  /// - Throws: `LogError.inUse` if the directory is open in this process or another.
  /// - SeeAlso: `init(directory:waitingFor:)`, which waits for the other process.
  public convenience init(
    directory: String, options: Options = Options(), onTornTail: (@Sendable (TornTail) -> Void)? = nil
  ) throws(LogError) {
    try self.init(directory: directory, options: options, onTornTail: onTornTail, faults: nil)
  }

  convenience init(
    directory: String, options: Options, onTornTail: (@Sendable (TornTail) -> Void)?, faults: DiskFaults?
  ) throws(LogError) {
    self.init(
      try Self.lock(directory), directory: directory, options: options, onTornTail: onTornTail, faults: faults)
    try? deleteRemoved()
  }

  /// Opens a log that another process may still have open, such as this one's predecessor. Retries every 50 ms until
  /// that has closed it or ended, without holding a thread.
  ///
  /// - Parameters:
  ///   - directory: As for `init(directory:options:onTornTail:)`, like the options.
  ///   - limit: The longest wait, bounded to between zero and a hundred years.
  ///   - options: The sizes and limits of the log.
  ///   - clock: Measures the wait.
  ///   - onTornTail: As for `init(directory:options:onTornTail:)`.
  /// - Throws: `LogError.inUse` if it is still open elsewhere at the limit; `.unavailable` if the task is cancelled.
  public convenience init(
    directory: String, waitingFor limit: Duration, options: Options = Options(),
    clock: any Clock<Duration> = ContinuousClock(), onTornTail: (@Sendable (TornTail) -> Void)? = nil
  ) async throws(LogError) {
    let opened = try await Self.lock(directory, waitingFor: limit.clamped, by: ElapsedClock(clock))
    self.init(opened, directory: directory, options: options, onTornTail: onTornTail, faults: nil)
    await withCheckedContinuation { continuation in
      snapshotQueue.async {
        try? self.deleteRemoved()
        continuation.resume()
      }
    }
  }

  private init(
    _ opened: Opened, directory: String, options: Options, onTornTail: (@Sendable (TornTail) -> Void)?,
    faults: DiskFaults?
  ) {
    self.directory = directory
    self.opened = LockedValue(opened)
    self.options = options
    self.faults = faults
    openFiles = OpenFiles(limit: max(2, options.openFiles ?? Int(Disk.limitOfProcess / 4)))
    report =
      onTornTail ?? { tail in
        var error = StandardError()
        print("Set aside \(tail.bytes) bytes of an interrupted write to the log \(tail.key): \(tail.path)", to: &error)
      }
  }

  private static func lock(_ directory: String) throws(LogError) -> Opened {
    do throws(Disk.Failure) {
      let path = try Directory.absolute(directory)
      try Directory.make(path: path)
      let home = try Directory(path)
      let lock = try Disk(FileNames.lock, in: home, .creating)
      try lock.lock()
      return Opened(home: home, lock: lock, lockPlace: try lock.place())
    } catch {
      throw error.isLocked ? .inUse("\(directory) is open already.") : error.logError
    }
  }

  private static func lock(
    _ directory: String, waitingFor limit: Duration, by clock: ElapsedClock
  ) async throws(LogError) -> Opened {
    let end = clock.now + limit
    while true {
      let result: Result<Opened, LogError> = await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
          continuation.resume(returning: Result { () throws(LogError) in try lock(directory) })
        }
      }
      let rest = end - clock.now
      guard case .failure(.inUse) = result, rest > .zero else { return try result.get() }
      guard await clock.sleep(for: min(.milliseconds(50), rest)) else { throw .unavailable("The task was cancelled.") }
    }
  }

  /// The log of a tree. Nothing is read until it is used; the first entry makes its directory.
  ///
  /// - Parameter key: Any text of up to 2,000 bytes; the use of a longer one is refused (`LogError.refused`). Equal
  ///   texts are one key, however their accents are encoded.
  public subscript(key: String) -> any OrderedLog {
    trees.withLock { $0.value(of: key, unless: \.isLost) { FileTree(of: key, in: self) } }
  }

  /// Closes the log, and returns when earlier requests are done: the directory can be opened again. Later requests
  /// fail. Without this call, the log closes when it and its trees are released.
  public func close() async {
    await closing.withLock { closing in
      let task = closing ?? Task { await self.closeOnce() }
      closing = task
      return task
    }.value
  }

  func lane() -> DispatchQueue {
    lanes[nextLane.wrappingAdd(1, ordering: .relaxed).oldValue % lanes.count]
  }

  func enter(_ key: String) -> FileTree.Files {
    files.withLock { files in
      let users = files[key]?.users ?? 0
      let found = files[key]?.files ?? FileTree.Files(openFiles.makeID())
      files[key] = (found, users + 1)
      return found
    }
  }

  /// Closes the files with the last object, under the lock: before they are reopened.
  func leave(_ key: String) {
    files.withLock { files in
      guard let (found, users) = files[key] else { return }
      files[key] = users > 1 ? (found, users - 1) : nil
      guard users == 1 else { return }
      found.segments.withLock { segments in
        segments = nil
        openFiles.close(found.id)
      }
    }
  }

  private func closeOnce() async {
    for tree in trees.withLock({ $0.objects }) { await tree.finish() }
    await withCheckedContinuation { continuation in snapshotQueue.async { continuation.resume() } }
    let opened = opened.withLock { $0.take() }
    for tree in trees.withLock({ $0.objects }) { await tree.close() }
    // A snapshot being written must not replace a later owner's.
    await withCheckedContinuation { continuation in snapshotQueue.async { continuation.resume() } }
    withExtendedLifetime(opened) {}
  }

  // MARK: The directory

  private var closed: LogError { .unavailable("The log in \(directory) is closed.") }

  func home() throws(LogError) -> Directory {
    guard let home = opened.withLock({ $0?.home }) else { throw closed }
    return home
  }

  /// Throws if the path leads to another directory or lock file than the open ones.
  func checkPlace(position: UInt64) throws(LogError) {
    guard let (home, place) = opened.withLock({ $0.map { ($0.home, $0.lockPlace) } }) else { throw closed }
    let now = try onDisk { () throws(Disk.Failure) in try FilePlace(ofPath: home.path + "/" + FileNames.lock) }
    guard now == place else {
      throw .damaged(
        position: position,
        "The directory \(directory) was moved, replaced or removed while it was open, or its file \(FileNames.lock) was: "
          + "another process may write there. The entries appended since have not been acknowledged. Put the directory "
          + "back, or end the process that uses it, and open the FileLog again.")
    }
  }

  /// The directory of the composed key, unless an older version made one for another spelling.
  func directoryName(of key: String) throws(LogError) -> String {
    let composed = key.composed
    guard composed.utf8.count <= Self.keyLimit else { throw .refused("The key of a log is too long: \(key)") }
    let home = try home()
    let name = FileNames.directory(of: composed)
    var names: [String] = []
    if let others = try spellings(in: home)[composed] {
      for name in others + [name] {
        if try onDisk({ () throws(Disk.Failure) in try home.place(of: name) }) != nil { names.append(name) }
      }
    }
    guard names.count < 2 else {
      throw .refused(
        "\(directory) has several directories for the key \(key), in different spellings: "
          + "\(names.sorted().joined(separator: ", ")). Keys that are equal texts are one log: move all but one away.")
    }
    return names.first ?? name
  }

  private static let keyLimit = 2000

  /// Read once: none is made while the log is open.
  private func spellings(in home: Directory) throws(LogError) -> [String: [String]] {
    if let spellings = opened.withLock({ $0?.spellings }) { return spellings }
    var spellings: [String: [String]] = [:]
    for name in try onDisk({ () throws(Disk.Failure) in try home.names() }) {
      guard let key = FileNames.key(ofDirectory: name) else { continue }
      let composed = key.composed
      if !composed.utf8.elementsEqual(key.utf8) { spellings[composed, default: []].append(name) }
    }
    opened.withLock { $0?.spellings = spellings }
    return spellings
  }

  /// Another tree under the key does not replace a lost one.
  func lostID(of key: String) -> UInt64? { lost.withLock { $0[key] } }
  func lose(_ key: String, _ id: UInt64) { lost.withLock { $0[key] = id } }

  /// The keys in text order.
  ///
  /// Cost: at most 200,000 keys are in memory. Each pass over the directory's names yields 100,000: a million trees
  /// take eleven passes, of about a second each. The first file of each tree is examined. For a key that is too long
  /// for a file's name, each pass also reads the file `tree`.
  ///
  /// - Throws: `LogError.damaged`, after all other keys, if such a file `tree` is missing or damaged. It names one of
  ///   the damaged trees, and counts the others. A damaged tree with a shorter key is listed.
  public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { keys(prefix: prefix, batch: 100_000) }

  func keys(prefix: String, batch: Int) -> AsyncThrowingStream<String, any Error> {
    keys(prefix: prefix, batch: batch) { $0.summary }
  }

  private func keys(
    prefix: String, batch: Int, failingWith failure: @escaping @Sendable (ListingErrors) -> (any Error)?
  ) -> AsyncThrowingStream<String, any Error> {
    struct Found: Sendable {
      /// In reverse order.
      var keys: [String] = []
      var last: String?
      var isWhole = false
      var errors = ListingErrors()
    }
    let found = LockedValue(Found())
    let queue = lane()
    return AsyncThrowingStream { [self] in
      while true {
        let (key, isWhole, last) = found.withLock { ($0.keys.popLast(), $0.isWhole, $0.last) }
        if key != nil { return key }
        if isWhole {
          // Thrown once, even if the caller continues.
          let errors = found.withLock { found in
            defer { found.errors = ListingErrors() }
            return found.errors
          }
          if let error = failure(errors) { throw error }
          return nil
        }
        let next: Result<Found, LogError> = await withCheckedContinuation { continuation in
          queue.async {
            continuation.resume(
              returning: Result { () throws(LogError) -> Found in
                let home = try self.home()
                let (keys, errors) = try self.keys(after: last, prefix: prefix, batch: batch, in: home)
                let written = keys.filter { self.isWritten(FileNames.directory(of: $0), in: home) }
                return Found(
                  keys: written.reversed(), last: keys.last, isWhole: keys.count < batch, errors: errors)
              })
          }
        }
        let page = try next.get()
        found.withLock { $0 = page }
      }
    }
  }

  /// Returns fewer keys than a batch only at the end, and the errors of directories with unreadable keys.
  private func keys(
    after last: String?, prefix: String, batch: Int, in home: Directory
  ) throws(LogError) -> (keys: [String], errors: ListingErrors) {
    var keys: Set<String> = []
    var errors = ListingErrors()
    func first() -> [String] { Array(keys.sorted().prefix(batch)) }
    func add(_ key: String) {
      guard key.isKey(beginningWith: prefix) else { return }
      if let last, key <= last { return }
      keys.insert(key)
      if keys.count / 2 >= batch { keys = Set(first()) }
    }
    try onDisk { () throws(Disk.Failure) in
      try home.forEachName { name in
        if let key = FileNames.key(ofDirectory: name) { return add(key) }
        guard FileNames.isHash(name) else { return }
        do throws(LogError) {
          if let key = try self.key(ofHashed: name, in: home) { add(key) }
        } catch {
          errors.add(error)
        }
      }
    }
    return (first(), errors)
  }

  private func key(ofHashed name: String, in home: Directory) throws(LogError) -> String? {
    let directory = try onDiskIfThere { () throws(Disk.Failure) in try home.directory(name) }
    guard let directory else { return nil }
    guard let key = try TreeIdentity.read(in: directory)?.key.composed else {
      guard isWritten(name, in: home) else { return nil }
      throw .damaged(
        position: 1,
        "The file \(FileNames.identity), which says the key of the log in \(directory.path), is missing there. Put it "
          + "back, from a backup.")
    }
    guard FileNames.directory(of: key) == name else {
      throw .damaged(
        position: 1,
        "\(directory.path) is the directory of the log \"\(key)\", which has the name \(FileNames.directory(of: key)): "
          + "directories were exchanged, moved or copied. Put each where it was.")
    }
    return key
  }

  /// False for the directory that a crash before the first write leaves. True if unreadable, which opening the log
  /// reports.
  private func isWritten(_ name: String, in home: Directory) -> Bool {
    (try? hasBeenWritten(name, in: home)) ?? true
  }

  private func hasBeenWritten(_ name: String, in home: Directory) throws(LogError) -> Bool {
    if try Segments.hasRecords(name + "/" + FileNames.segment(1), in: home) { return true }
    let names = try onDiskIfThere { () throws(Disk.Failure) in try home.directory(name).names() } ?? []
    if names.contains(where: { file in
      FileNames.first(ofSegment: file).map { $0 > 1 } ?? (file == FileNames.snapshot || file == FileNames.summary)
    }) {
      return true
    }
    // Acknowledged entries may be missing, which opening the log reports.
    guard names.contains(FileNames.mark),
      let directory = try onDiskIfThere({ () throws(Disk.Failure) in try home.directory(name) }),
      let mark = try AcknowledgedMark.read(in: directory)
    else { return false }
    return !mark.isOfNothing
  }

  // MARK: Summaries

  /// The summaries in the order of their keys. Cost: 1,024 of these files are read at a time, on four threads, and are
  /// in memory in addition to the keys (`keys(prefix:)`).
  ///
  /// - Throws: As `keys(prefix:)`, after all other summaries. Also if a newer version has written a summary.
  public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    summaries(prefix: prefix, batch: 1024)
  }

  func summaries(prefix: String, batch: Int) -> AsyncThrowingStream<LogSummary, any Error> {
    struct Found: Sendable {
      var summaries: [LogSummary] = []
      var isWhole = false
      var errors = ListingErrors()
    }
    let found = LockedValue(Found())
    let keys = keys(prefix: prefix, batch: 100_000) { $0.count > 0 ? $0 : nil }
    return AsyncThrowingStream { [self] in
      while true {
        let (summary, isWhole) = found.withLock { ($0.summaries.popLast(), $0.isWhole) }
        if summary != nil { return summary }
        var errors = found.withLock { $0.errors }
        if isWhole {
          if let error = errors.summary { throw error }
          return nil
        }
        var next: [String] = []
        var iterator = keys.makeAsyncIterator()
        do {
          while next.count < batch, let key = try await iterator.next() { next.append(key) }
        } catch let unlisted as ListingErrors {
          errors.add(unlisted)
        } catch let error as LogError {
          errors.add(error)
        }
        let summaries = try await readSummaries(of: next)
        for case .failure(let error) in summaries { errors.add(error) }
        found.withLock { [isWhole = next.isEmpty, errors] in
          $0 = Found(
            summaries: summaries.reversed().compactMap { try? $0.get() }, isWhole: isWhole, errors: errors)
        }
      }
    }
  }

  private func readSummaries(of keys: [String]) async throws -> [Result<LogSummary, LogError>] {
    let size = (keys.count + listing.count - 1) / listing.count
    return try await withThrowingTaskGroup(of: (Int, [Result<LogSummary, LogError>]).self) { tasks in
      for (number, lane) in listing.enumerated() {
        let some = keys.dropFirst(number * size).prefix(size)
        if some.isEmpty { break }
        tasks.addTask {
          let read: Result<[Result<LogSummary, LogError>], LogError> = await withCheckedContinuation { continuation in
            lane.async {
              continuation.resume(returning: Result { () throws(LogError) in try self.summaries(of: some) })
            }
          }
          return (number, try read.get())
        }
      }
      var parts: [Int: [Result<LogSummary, LogError>]] = [:]
      for try await (number, part) in tasks { parts[number] = part }
      return listing.indices.flatMap { parts[$0] ?? [] }
    }
  }

  /// Blocks. A summary names its key: the tree's identity is not read.
  private func summaries(of keys: ArraySlice<String>) throws(LogError) -> [Result<LogSummary, LogError>] {
    let home = try home()
    return keys.compactMap { key in
      let path = FileNames.directory(of: key) + "/" + FileNames.summary
      do throws(LogError) {
        guard var summary = try SummaryFile.stored(path, in: home)?.summary, summary.key == key else { return nil }
        summary.key = key
        return .success(summary)
      } catch {
        return .failure(error)
      }
    }
  }

  // MARK: Removing

  /// Removes a tree. Its directory is first renamed, so that nothing more is written to it, and then deleted.
  ///
  /// - Throws: Also if the tree is removed, but some files of it, or of a tree removed earlier, could not be deleted.
  ///   Each removal, and opening the log, tries that again.
  public func remove(_ key: String) async throws(LogError) {
    let tree = trees.withLock { $0.value(of: key, unless: \.isLost) { FileTree(of: key, in: self) } }
    try await tree.remove()
  }

  /// From then on the tree is removed, even if its files cannot be deleted.
  func setAside(_ key: String) throws(LogError) {
    try checkPlace(position: 1)
    let (home, name) = (try home(), try directoryName(of: key))
    lost.withLock { $0[key] = nil }
    try onDisk { () throws(Disk.Failure) in
      guard try home.place(of: name) != nil else { return }
      try home.make(FileNames.removed)
      try home.move(name, to: FileNames.removed + "/" + String(UInt64.random(in: .min ... .max), radix: 16))
    }
  }

  /// On return, removals are durable, and files deleted. Tries all files, and throws the first error. Must not run while
  /// a snapshot is written.
  func deleteRemoved() throws(LogError) {
    let home = try home()
    do throws(Disk.Failure) {
      let removed: Directory
      do throws(Disk.Failure) {
        removed = try home.directory(FileNames.removed)
      } catch {
        if error.isMissing { return }
        throw error
      }
      try removed.sync()
      try home.sync()
      var failure: Disk.Failure?
      for name in try removed.names() {
        do throws(Disk.Failure) {
          let tree = try removed.directory(name)
          for file in try tree.names() {
            do throws(Disk.Failure) {
              try fail(.remove, nil, 0)
              try tree.remove(file)
            } catch {
              failure = failure ?? error
            }
          }
          try removed.removeDirectory(name)
        } catch {
          failure = failure ?? error
        }
      }
      if let failure { throw failure }
    } catch {
      throw error.logError
    }
  }
}

private struct ListingErrors: Error {
  private var first: LogError?
  private(set) var count = 0

  private var isDamage: Bool { if case .damaged = first { true } else { false } }

  mutating func add(_ error: LogError) { add(ListingErrors(first: error, count: 1)) }

  /// A disk's failure takes precedence over damage, as it may pass.
  mutating func add(_ errors: ListingErrors) {
    count += errors.count
    if first == nil || (isDamage && errors.count > 0 && !errors.isDamage) { first = errors.first }
  }

  var summary: LogError? {
    guard case .damaged(let position, let text) = first, count > 1 else { return first }
    return .damaged(position: position, "\(text) … and \(count - 1) more.")
  }
}

private struct WeakTable<Object: AnyObject & Sendable>: Sendable {
  private struct Entry: Sendable { weak var object: Object? }

  private var entries: [String: Entry] = [:]
  private var sweepCount = 64

  /// In the order of their keys.
  var objects: [Object] {
    let found = entries.compactMap { key, entry in entry.object.map { (key: key, object: $0) } }
    return found.sorted { $0.key < $1.key }.map(\.object)
  }

  mutating func value(of key: String, unless isOver: (Object) -> Bool, orMake make: () -> Object) -> Object {
    if let object = entries[key]?.object, !isOver(object) { return object }
    if entries.count >= sweepCount {
      entries = entries.filter { $0.value.object != nil }
      sweepCount = max(64, entries.count * 2)
    }
    let made = make()
    entries[key] = Entry(object: made)
    return made
  }
}
