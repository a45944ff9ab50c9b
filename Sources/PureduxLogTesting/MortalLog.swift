public import Puredux
public import PureduxLog

/// A log as one process has it, which a test lets die: for what the next process finds.
///
///     let memory = MemoryLog()
///     let log = MortalLog(memory)
///     let shop = try await RootStore(following: log, initialState: Shop()) { $0.apply($1) }
///     try await shop.send(.order(1))
///     log.cut(.appends)
///     shop.dispatch(.order(2))     // Accepted, and not in the log.
///     await log.kill(shop)
///     let next = try await RootStore(following: memory, initialState: Shop()) { $0.apply($1) }
///     // `next` has the first order, and not the second.
///
/// Each process has one of its own around the log that all of them share.
public final class MortalLog: OrderedLog {
  /// What no longer gets through.
  public enum Part: Sendable, Hashable {
    /// What the process gives the log: it waits there, and is lost when the process dies.
    case appends
    /// What the log has: it is in the log, and is not committed in this process, whose effects for it do not begin.
    case deliveries
  }

  private struct Life: Sendable {
    var isDead = false
    var cut: Set<Part> = []
    /// What became of entries that were held back, or never got an answer.
    var untold: [@Sendable (Result<UInt64, LogError>) -> Void] = []
    /// How many entries are just being given to the log.
    var appending = 0
    var nextReader = 0
    var readers: [Int: AsyncThrowingStream<[LogRecord], any Error>.Continuation] = [:]
  }

  private let log: any OrderedLog
  private let life = LockedValue(Life())
  private let appends = Arrivals()
  /// One for which nothing is tried again.
  private static let death = LogError.deathOfProcess

  /// - Parameter log: The log that the processes share, which outlives each of them.
  public init(_ log: any OrderedLog) { self.log = log }

  /// From now on that does not get through. What is on its way is decided by when it gets here: give the store an
  /// action behind this call, and it is cut off.
  public func cut(_ part: Part) { life.withLock { _ = $0.cut.insert(part) } }

  /// The process dies: nothing more that the store accepts, or has accepted, gets into the log, and nothing more is
  /// committed in it. Its effects are cancelled, and what they give it, or another store on this log, is refused. Who
  /// waits in `send` is told `.outcomeUnknown`, or that the store has stopped.
  ///
  /// Returns when the store has ended, and does not wait for effects that ignore their cancellation, as at a `Gate`.
  public func kill<State, Action>(_ store: RootStore<State, Action>) async {
    let states = store.states(bufferingPolicy: .bufferingNewest(1)) as StateSequence
    let (untold, readers) = life.withLock { life in
      life.isDead = true
      defer { (life.untold, life.readers) = ([], [:]) }
      return (life.untold, life.readers)
    }
    for reader in readers.values { reader.finish(throwing: Self.death) }
    for outcome in untold { outcome(.failure(Self.death)) }
    Task.detached { await store.shutdown() }
    for await _ in states {}
    while true {
      let count = appends.count
      if life.withLock({ $0.appending == 0 }) { return }
      await appends.wait(after: count)
    }
  }

  // MARK: The log

  public var entryLimit: Int { log.entryLimit }
  public var name: String? { log.name }
  public var snapshots: (any SnapshotStore)? { log.snapshots.map { MortalSnapshots(of: $0, in: self) } }
  public var summaries: (any SummaryStore)? { log.summaries.map { MortalSummaries(of: $0, in: self) } }

  public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let (isDead, isHeld) = life.withLock { life in
      let isHeld = life.cut.contains(.appends)
      if !life.isDead { if isHeld { life.untold.append(outcome) } else { life.appending += 1 } }
      return (life.isDead, isHeld)
    }
    if isDead { return _ = Task.detached { outcome(.failure(Self.death)) } }
    guard !isHeld else { return }
    log.append(entry, outcome: outcome)
    life.withLock { $0.appending -= 1 }
    appends.notify()
  }

  public func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let id = life.withLock { life -> Int? in
      if life.isDead { return nil }
      life.nextReader += 1
      life.readers[life.nextReader] = continuation
      return life.nextReader
    }
    guard let id else {
      continuation.finish(throwing: Self.death)
      return stream
    }
    let task = Task { [self] in
      do {
        for try await records in log.records(after: position) {
          // What has been cut off once does not come later: it would leave a gap.
          guard life.withLock({ !$0.cut.contains(.deliveries) }) else { continue }
          continuation.yield(records)
        }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { [weak self] _ in
      task.cancel()
      // What is removed is released outside the lock.
      _ = self?.life.withLock { $0.readers.removeValue(forKey: id) }
    }
    return AsyncThrowingStream { [self] in
      var iterator = stream.makeAsyncIterator()
      let records = try await iterator.next()
      // What had come and was not read dies with the process.
      try check()
      return records
    }
  }

  public func head() async throws(LogError) -> UInt64 {
    try check()
    return try await log.head()
  }

  public func truncate(through position: UInt64) async throws(LogError) {
    try check()
    try await log.truncate(through: position)
  }

  public func erase(through position: UInt64) async throws(LogError) {
    try check()
    try await log.erase(through: position)
  }

  /// Throws where the process has died.
  fileprivate func check() throws(LogError) { if life.withLock({ $0.isDead }) { throw Self.death } }
}

/// The snapshots as that process has them.
private struct MortalSnapshots: SnapshotStore {
  private let snapshots: any SnapshotStore
  private let owner: MortalLog

  init(of snapshots: any SnapshotStore, in owner: MortalLog) {
    self.snapshots = snapshots
    self.owner = owner
  }

  func newest() async throws(LogError) -> LogSnapshot? {
    try owner.check()
    return try await snapshots.newest()
  }

  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    try owner.check()
    try await snapshots.save(snapshot)
  }

  func replace(with snapshot: LogSnapshot) async throws(LogError) {
    try owner.check()
    try await snapshots.replace(with: snapshot)
  }
}

/// The summary as that process has it.
private struct MortalSummaries: SummaryStore {
  private let summaries: any SummaryStore
  private let owner: MortalLog

  init(of summaries: any SummaryStore, in owner: MortalLog) {
    self.summaries = summaries
    self.owner = owner
  }

  func kept() async throws(LogError) -> LogSummary? {
    try owner.check()
    return try await summaries.kept()
  }

  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
    do throws(LogError) {
      try owner.check()
    } catch {
      return _ = Task.detached { outcome(.failure(error)) }
    }
    summaries.save(bytes, at: position, outcome: outcome)
  }
}
