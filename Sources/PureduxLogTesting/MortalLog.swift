public import Puredux
public import PureduxLog

/// One process's view of a shared log. A test can kill the process, and then check the state that the next one finds.
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
/// Each process needs its own `MortalLog` around the shared log.
public final class MortalLog: OrderedLog {
  /// A direction that `cut` blocks.
  public enum Part: Sendable, Hashable {
    /// Entries to the log. They wait, and are lost when the process dies.
    case appends
    /// Entries from the log. This process neither commits them nor begins their effects.
    case deliveries
  }

  private struct Life: Sendable {
    var isDead = false
    var cut: Set<Part> = []
    var untold: [@Sendable (Result<UInt64, LogError>) -> Void] = []
    /// Two for each append in progress: its call, and its outcome.
    var appending = 0
    var nextReader = 0
    var readers: [Int: AsyncThrowingStream<[LogRecord], any Error>.Continuation] = [:]
  }

  private let log: any OrderedLog
  private let life = LockedValue(Life())
  private let appends = Arrivals()
  private static let death = LogError.deathOfProcess

  /// - Parameter log: The shared log, which outlives each process.
  public init(_ log: any OrderedLog) { self.log = log }

  /// Blocks a direction for later actions, and for entries in flight that reach this log after the call.
  public func cut(_ part: Part) { life.withLock { _ = $0.cut.insert(part) } }

  /// Simulates the death of the process. No further action of the store, accepted already or not, enters the log or is
  /// committed in the process. Effects are cancelled, and their actions to any store on this log are refused. Pending
  /// calls of `send` throw `.outcomeUnknown` or `.stopped`.
  ///
  /// Returns when the store has ended and the shared log has reported the outcomes of its appends, even in a cancelled
  /// task. Does not wait for effects that ignore cancellation, for instance at a `Gate`.
  public func kill<State, Action>(_ store: RootStore<State, Action>) async {
    let states = store.states(bufferingPolicy: .bufferingNewest(1)) as StateSequence
    let (untold, readers) = life.withLock { life in
      life.isDead = true
      defer { (life.untold, life.readers) = ([], [:]) }
      return (life.untold, life.readers)
    }
    for (_, reader) in readers.sorted(by: { $0.key < $1.key }) { reader.finish(throwing: Self.death) }
    for outcome in untold { outcome(.failure(Self.death)) }
    Task.detached { await store.shutdown() }
    // A task of its own, which is not cancelled with the caller.
    await Task { [self] in
      for await _ in states {}
      while true {
        let count = appends.count
        if life.withLock({ $0.appending == 0 }) { return }
        await appends.wait(after: count)
      }
    }.value
  }

  // MARK: The log

  public var entryLimit: Int { log.entryLimit }
  public var name: String? { log.name }
  public var snapshots: (any SnapshotStore)? { log.snapshots.map { MortalSnapshots(of: $0, in: self) } }
  public var summaries: (any SummaryStore)? { log.summaries.map { MortalSummaries(of: $0, in: self) } }

  public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let (isDead, isHeld) = life.withLock { life in
      let isHeld = life.cut.contains(.appends)
      if !life.isDead { if isHeld { life.untold.append(outcome) } else { life.appending += 2 } }
      return (life.isDead, isHeld)
    }
    if isDead { return _ = Task.detached { outcome(.failure(Self.death)) } }
    guard !isHeld else { return }
    log.append(entry) { [self] result in
      outcome(result)
      endPartOfAppend()
    }
    endPartOfAppend()
  }

  private func endPartOfAppend() {
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
          // Dropped for good: a later delivery would leave a gap.
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
      _ = self?.life.withLock { $0.readers.removeValue(forKey: id) }
    }
    return AsyncThrowingStream { [self] in
      var iterator = stream.makeAsyncIterator()
      let records = try await iterator.next()
      // Buffered entries die with the process.
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

  fileprivate func check() throws(LogError) { if life.withLock({ $0.isDead }) { throw Self.death } }
}

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
