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
/// **Descriptors.** A tree that is used has two files open. Where the process has 64 file descriptors left (a quarter,
/// where it may have fewer than 256), no more files are opened: that is `LogError.unavailable`, and the trees that are
/// open go on. A process with many trees raises its limit (`ulimit -n`, `setrlimit`) when it starts.
///
/// A directory is open in one `FileLog` at a time. The disk is waited for on at most 17 threads of Dispatch, and never
/// on those of the cooperative pool.
public final class FileLog: Sendable {
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

  public let directory: String
  let options: Options
  let report: @Sendable (TornTail) -> Void
  let faults: DiskFaults?
  /// Locked for as long as the log is open.
  private let lock: LockedValue<Disk?>
  private let closing = LockedValue<Task<Void, Never>?>(nil)
  private let trees = LockedValue(WeakTable<FileTree>())
  /// The queues on which the disk is waited for: so many, as each may take a thread.
  private let lanes = (0..<16).map { DispatchQueue(label: "puredux.log.\($0)") }
  private let nextLane = Atomic(0)
  let snapshotQueue = DispatchQueue(label: "puredux.log.snapshots")

  /// - Parameters:
  ///   - directory: Made where it is not there.
  ///   - onTornTail: Told of each tail that is set aside. Without it, it is printed on standard error.
  /// - Throws: `LogError.inUse` where it is open in another process, or twice in this one.
  public convenience init(
    directory: String, options: Options = Options(), onTornTail: (@Sendable (TornTail) -> Void)? = nil
  ) throws(LogError) {
    try self.init(directory: directory, options: options, onTornTail: onTornTail, faults: nil)
  }

  init(
    directory: String, options: Options, onTornTail: (@Sendable (TornTail) -> Void)?, faults: DiskFaults?
  ) throws(LogError) {
    self.directory = directory
    self.options = options
    self.faults = faults
    report =
      onTornTail ?? { tail in
        var error = StandardError()
        print("Set aside \(tail.bytes) bytes that nobody was told of, of the log \(tail.key): \(tail.path)", to: &error)
      }
    do {
      try Disk.makeDirectory(directory)
      let file = try Disk(directory + "/" + FileNames.lock, .creating)
      try file.lock()
      lock = LockedValue(file)
    } catch {
      throw error.isLocked ? .inUse("\(directory) is open already.") : error.logError
    }
  }

  /// The log of a tree. Asks nothing of the disk until it is used, and makes its directory with the first entry.
  ///
  /// - Parameter key: Any text: up to 254 bytes, where letters other than a to z, and signs other than digits and
  ///   `-_.`, count as three. A longer one is refused when the log is used (`LogError.refused`).
  public subscript(key: String) -> any OrderedLog {
    trees.withLock { $0.value(of: Array(key.utf8)) { FileTree(of: key, in: self) } }
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

  private func closeOnce() async {
    let file = lock.withLock { $0.take() }
    for tree in trees.withLock({ $0.objects }) { await tree.close() }
    // A snapshot that is being written would take the place of one that is written after this.
    await withCheckedContinuation { continuation in snapshotQueue.async { continuation.resume() } }
    withExtendedLifetime(file) {}
  }

  func checkIsOpen() throws(LogError) {
    if lock.withLock({ $0 == nil }) { throw .unavailable("The log in \(directory) is closed.") }
  }

  /// The keys of the trees that there are, in order.
  public func keys() throws(LogError) -> [String] {
    do {
      return try Disk.names(in: directory).compactMap(FileNames.key(ofDirectory:)).sorted()
    } catch {
      throw error.logError
    }
  }
}

/// Objects by key, for as long as somebody else holds them.
private struct WeakTable<Object: AnyObject & Sendable>: Sendable {
  private struct Entry: Sendable { weak var object: Object? }

  /// By the bytes of the keys: two texts may be equal that are not the same.
  private var entries: [[UInt8]: Entry] = [:]
  private var sweepCount = 64

  var objects: [Object] { entries.values.compactMap(\.object) }

  mutating func value(of key: [UInt8], orMake make: () -> Object) -> Object {
    if let object = entries[key]?.object { return object }
    if entries.count >= sweepCount {
      entries = entries.filter { $0.value.object != nil }
      sweepCount = max(64, entries.count * 2)
    }
    let made = make()
    entries[key] = Entry(object: made)
    return made
  }
}
