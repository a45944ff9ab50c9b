import Dispatch
import Puredux
import Synchronization

/// Logs in files: one directory for any number of trees, without a server.
///
///     let log = try FileLog(directory: "data")
///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
///
/// An entry that is told to be appended is on the disk (`fdatasync`; on Apple's systems `F_FULLFSYNC`). All that waits
/// while the disk works goes with the next write, so that many senders share one. Each entry has a checksum over its
/// length, position and bytes.
///
/// **After a crash.** What was being written when the process or the machine died, and was acknowledged to nobody, is
/// set aside in a file of its own, and reported. Anything else that is not as it was written is an error
/// (`LogError.damaged`), and nothing is changed. What was acknowledged right before the *machine* died, and is damaged
/// as well, cannot always be told from a tail: it is set aside and reported, too.
///
/// **When the disk fails or is full** what could not be saved is taken back from the file, and told as failed; the
/// store that follows the log tries again until there is room.
///
/// **Descriptors.** A tree that is written to has two files open. At most `Options.openFiles` are, by default a quarter
/// of those that the process may have: beyond that, the files of the trees that were not used for longest are closed,
/// and opened again with the next entry, where it is looked whether they are still the same. Where the process has 64
/// file descriptors left (a quarter, where it may have fewer than 256), no more files are opened: that is
/// `LogError.unavailable`, and the trees whose files are open go on.
///
/// **Whose the files are.** A directory is open in one `FileLog` at a time. Each tree's directory says which tree it is
/// of, and its files do: directories that were exchanged, and files of other trees, are not taken
/// (`LogError.damaged`, which says what to do). Before an append is acknowledged it is made sure that the directory,
/// its file `lock` and the tree's last file are still where they were opened. Where they were moved, replaced or
/// removed nothing is acknowledged any more, and the stores that follow the tree stop (`LogStop.unreadable`).
///
/// The disk is waited for on at most 21 threads of Dispatch, and never on those of the cooperative pool. (While a store
/// replays, it notes where it is in a file that nobody waits for.)
public final class FileLog: LogDirectory {
  /// How the files are written.
  public struct Options: Sendable {
    /// A file of entries is begun when the last one has so many bytes. Truncation removes whole files.
    public var segmentBytes = 8 << 20
    /// Files are made longer ahead of what is written, by as much as they have grown, and at most by so many bytes: a
    /// write then changes only bytes that are there, which disks do faster. 0 for none.
    public var preallocatedBytes = 1 << 20
    /// Whether each write waits for the disk. Without it a crash of the machine can lose what was acknowledged, and one
    /// of the process cannot; what lies behind the first damage in the last file, or a snapshot of more than is left,
    /// is set aside.
    public var syncs = true
    /// How many files are kept open to be written to: two for each of the trees that were used last. What is being done
    /// on the log's 21 threads takes up to four more each for the time. Fewer than two count as two; nil, as a quarter
    /// of the descriptors that the process may have when the log is opened.
    public var openFiles: Int?

    /// The defaults.
    public init() {}
  }

  /// A tail that was being written when the process or the machine died, and was acknowledged to nobody.
  public struct TornTail: Sendable, Hashable {
    /// The key of the tree.
    public var key: String
    /// The position that its first entry would have had.
    public var position: UInt64
    /// How many there were: 0 where, without `syncs`, what was acknowledged is not there at all.
    public var bytes: Int
    /// The file that they were moved to, or the directory of the tree.
    public var path: String
  }

  /// Where the files are, as it was given.
  public let directory: String
  let options: Options
  let report: @Sendable (TornTail) -> Void
  let faults: DiskFaults?
  private struct Opened: Sendable {
    let home: Directory
    /// Locked for as long as the log is open.
    let lock: Disk
    let lockPlace: FilePlace
    /// The names of directories whose keys are not composed, by the composed key: older versions made those.
    var spellings: [String: [String]]?
  }

  private let opened: LockedValue<Opened?>
  /// The numbers of the trees whose files were found not to be where they were.
  private let lost = LockedValue<[String: UInt64]>([:])
  private let closing = LockedValue<Task<Void, Never>?>(nil)
  let openFiles: OpenFiles
  private let trees = LockedValue(WeakTable<FileTree>())
  /// The files of the trees that there are objects for, and for how many.
  private let files = LockedValue<[String: (files: FileTree.Files, users: Int)]>([:])
  /// The queues on which the disk is waited for: so many, as each may take a thread.
  private let lanes = (0..<16).map { DispatchQueue(label: "puredux.log.\($0)") }
  /// Those on which summaries are listed: entries do not wait for that.
  private let listing = (0..<4).map { DispatchQueue(label: "puredux.log.list.\($0)") }
  private let nextLane = Atomic(0)
  let snapshotQueue = DispatchQueue(label: "puredux.log.snapshots")

  /// - Parameters:
  ///   - directory: Made where it is not there.
  ///   - options: How the files are written.
  ///   - onTornTail: Told of each tail that is set aside. Without it, it is printed on standard error.
  /// - Throws: `LogError.inUse` where it is open in another process, or twice in this one.
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
    // What is not deleted now, as the disk fails, is the next time.
    try? deleteRemoved()
  }

  /// Opens a log that another process may have open still: the one that this one takes the place of. Waits until that
  /// has closed it, or has ended, and tries again each 50 ms. No thread is held while it waits.
  ///
  ///     let log = try await FileLog(directory: "data", waitingFor: .seconds(30))
  ///
  /// - Parameters:
  ///   - directory: Made where it is not there.
  ///   - limit: How long it waits; less than zero counts as zero, and more than a hundred years as that.
  ///   - options: How the files are written.
  ///   - clock: Measures that.
  ///   - onTornTail: As above.
  /// - Throws: `LogError.inUse` where it is open elsewhere until then, `.unavailable` where the task is cancelled while
  ///   it waits.
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
        print("Set aside \(tail.bytes) bytes that nobody was told of, of the log \(tail.key): \(tail.path)", to: &error)
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

  /// The log of a tree. Asks nothing of the disk until it is used, and makes its directory with the first entry.
  ///
  /// - Parameter key: Any text of up to 2,000 bytes. A longer one is refused when the log is used
  ///   (`LogError.refused`). Texts that are equal are one key, however their accents are written.
  public subscript(key: String) -> any OrderedLog {
    trees.withLock { $0.value(of: key, unless: \.isLost) { FileTree(of: key, in: self) } }
  }

  /// Closes the log, and returns when what was asked of it before is done: the directory can be opened anew. What is
  /// asked later fails. Without this call it is closed when nobody holds it, or one of its trees, any more.
  public func close() async {
    await closing.withLock { closing in
      let task = closing ?? Task { await self.closeOnce() }
      closing = task
      return task
    }.value
  }

  /// A queue for one more tree.
  func lane() -> DispatchQueue {
    lanes[nextLane.wrappingAdd(1, ordering: .relaxed).oldValue % lanes.count]
  }

  /// The files of a tree, for one more object.
  func enter(_ key: String) -> FileTree.Files {
    files.withLock { files in
      let users = files[key]?.users ?? 0
      let found = files[key]?.files ?? FileTree.Files(openFiles.makeID())
      files[key] = (found, users + 1)
      return found
    }
  }

  /// Closes them with the last object. Under the lock, so that they are closed before they are opened anew.
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
    // A snapshot that is being written would take the place of one that is written after this.
    await withCheckedContinuation { continuation in snapshotQueue.async { continuation.resume() } }
    withExtendedLifetime(opened) {}
  }

  // MARK: The directory

  private var closed: LogError { .unavailable("The log in \(directory) is closed.") }

  /// The directory, as long as the log is open.
  func home() throws(LogError) -> Directory {
    guard let home = opened.withLock({ $0?.home }) else { throw closed }
    return home
  }

  /// Throws where the path leads to another directory than the one that is open, or the lock is another file.
  func checkPlace(position: UInt64) throws(LogError) {
    guard let (home, place) = opened.withLock({ $0.map { ($0.home, $0.lockPlace) } }) else { throw closed }
    let now = try onDisk { () throws(Disk.Failure) in try FilePlace(ofPath: home.path + "/" + FileNames.lock) }
    guard now == place else {
      throw .damaged(
        position: position,
        "The directory \(directory) was moved, replaced or removed while it was open, or its file \(FileNames.lock) was: "
          + "another process may write there. What was appended since has not been acknowledged. Put the directory "
          + "back, or end whatever else uses it, and open the FileLog anew.")
    }
  }

  /// The name of a tree's directory: of the composed key, unless an older version made one for another spelling.
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

  /// The largest number of bytes of a key.
  private static let keyLimit = 2000

  /// Looked for once: none is made while the log is open.
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

  /// The number of a tree whose files were not where they were: another one under its key is not taken for it.
  func lostID(of key: String) -> UInt64? { lost.withLock { $0[key] } }
  func lose(_ key: String, _ id: UInt64) { lost.withLock { $0[key] = id } }

  /// In their order as texts. At most 200,000 are in memory at a time, and 100,000 of them come from one look at the
  /// names in the directory: with a million trees it is looked at eleven times, for about a second each. The first
  /// file of each tree is examined. If a key is too long for a file's name, each look reads the tree's file `tree` too.
  ///
  /// - Throws: `LogError.damaged`, behind all other keys, if such a file `tree` is missing or damaged. The error names
  ///   one of the damaged trees, and counts the others. A damaged tree with a shorter key is in the list.
  public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { keys(prefix: prefix, batch: 100_000) }

  func keys(prefix: String, batch: Int) -> AsyncThrowingStream<String, any Error> {
    keys(prefix: prefix, batch: batch) { $0.summary }
  }

  private func keys(
    prefix: String, batch: Int, failingWith failure: @escaping @Sendable (ListingErrors) -> (any Error)?
  ) -> AsyncThrowingStream<String, any Error> {
    struct Found: Sendable {
      /// The last one first.
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
          // Once, also if a caller goes on afterwards.
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

  /// The next keys in order, of all trees that have a directory: fewer than a batch only if there are no more.
  /// Also returns the errors of the directories whose keys cannot be read.
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

  /// The key of a tree whose directory is named by a hash; nil if nothing has been written there.
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

  /// Whether a tree has been written to: a process that dies before the first write may leave a directory. If its files
  /// cannot be read, it has been: opening the log reports the damage.
  private func isWritten(_ name: String, in home: Directory) -> Bool {
    (try? hasBeenWritten(name, in: home)) ?? true
  }

  private func hasBeenWritten(_ name: String, in home: Directory) throws(LogError) -> Bool {
    if try Segments.hasRecords(name + "/" + FileNames.segment(1), in: home) { return true }
    // The log was truncated, or has other names: this is rare.
    let names = try onDiskIfThere { () throws(Disk.Failure) in try home.directory(name).names() } ?? []
    if names.contains(where: { file in
      FileNames.first(ofSegment: file).map { $0 > 1 } ?? (file == FileNames.snapshot || file == FileNames.summary)
    }) {
      return true
    }
    // Acknowledged entries may be gone. Opening the log reports the damage.
    guard names.contains(FileNames.mark),
      let directory = try onDiskIfThere({ () throws(Disk.Failure) in try home.directory(name) }),
      let mark = try AcknowledgedMark.read(in: directory)
    else { return false }
    return !mark.isOfNothing
  }

  // MARK: Summaries

  /// In the order of their keys. Each is a file of its own, of which 1,024 are read at a time, on four
  /// threads; beside what `keys(prefix:)` has in memory, those are.
  ///
  /// - Throws: As `keys(prefix:)`, behind all other summaries; so does a summary that a newer version has written.
  public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    summaries(prefix: prefix, batch: 1024)
  }

  func summaries(prefix: String, batch: Int) -> AsyncThrowingStream<LogSummary, any Error> {
    struct Found: Sendable {
      /// The last one first.
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

  /// What there is of some trees, in their order.
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

  /// Blocks. Which tree a file is of is not looked up: it says which key.
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

  /// As a log of before is not written to any more, the directory of a tree is renamed first; who opens the `FileLog`
  /// the next time deletes what was not deleted here.
  ///
  /// - Throws: Also where the tree is removed, and not all of its files could be deleted: that is tried again with each
  ///   removal, and when the log is opened.
  public func remove(_ key: String) async throws(LogError) {
    let tree = trees.withLock { $0.value(of: key, unless: \.isLost) { FileTree(of: key, in: self) } }
    try await tree.remove()
  }

  /// Takes the directory of a tree, if there is one, out of the log: from then on the tree is removed, whatever becomes
  /// of its files.
  func setAside(_ key: String) throws(LogError) {
    try checkPlace(position: 1)
    let (home, name) = (try home(), try directoryName(of: key))
    // Whatever had become of the one that was there: it is to begin anew.
    lost.withLock { $0[key] = nil }
    try onDisk { () throws(Disk.Failure) in
      guard try home.place(of: name) != nil else { return }
      try home.make(FileNames.removed)
      try home.move(name, to: FileNames.removed + "/" + String(UInt64.random(in: .min ... .max), radix: 16))
    }
  }

  /// Returns when it is on the disk that trees were removed, and their files are gone. Not while a snapshot is written.
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
      for name in try removed.names() {
        let tree = try removed.directory(name)
        for file in try tree.names() {
          try fail(.remove, nil, 0)
          try tree.remove(file)
        }
        try removed.removeDirectory(name)
      }
    } catch {
      throw error.logError
    }
  }
}

/// The errors of a listing: the first one, and the number of all.
private struct ListingErrors: Error {
  private var first: LogError?
  private(set) var count = 0

  private var isDamage: Bool { if case .damaged = first { true } else { false } }

  mutating func add(_ error: LogError) { add(ListingErrors(first: error, count: 1)) }

  /// A failure of the disk takes precedence over damage, as the disk may be better later.
  mutating func add(_ errors: ListingErrors) {
    count += errors.count
    if first == nil || (isDamage && errors.count > 0 && !errors.isDamage) { first = errors.first }
  }

  /// One error for all, however many they are.
  var summary: LogError? {
    guard case .damaged(let position, let text) = first, count > 1 else { return first }
    return .damaged(position: position, "\(text) … and \(count - 1) more.")
  }
}

/// Objects by key, for as long as somebody else holds them.
private struct WeakTable<Object: AnyObject & Sendable>: Sendable {
  private struct Entry: Sendable { weak var object: Object? }

  private var entries: [String: Entry] = [:]
  private var sweepCount = 64

  var objects: [Object] { entries.values.compactMap(\.object) }

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
