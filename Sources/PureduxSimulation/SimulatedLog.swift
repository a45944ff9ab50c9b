#if Simulation && compiler(>=6.3) && canImport(Glibc)
  public import PureduxLog
  import PureduxLogTesting

  /// A log of a simulated world, in memory. It outlives every process.
  public final class SimulatedLog: OrderedLog {
    /// How often a log fails.
    public enum Reliability: Sendable {
      /// It never fails.
      case reliable
      /// It loses, delays and repeats appends, loses acknowledgements, and breaks off and repeats deliveries
      /// (`UnreliableLog`).
      case unreliable
    }

    /// The same log, without failures: for conditions. It stores no snapshot and no summary, ignores truncation and
    /// refuses erasure, so that only the service does these. `saveSnapshot()` of a store on it has no effect.
    public let reliable: any OrderedLog
    private let log: any OrderedLog
    private let unreliable: UnreliableLog?
    private let world: World

    init(_ reliability: Reliability, seed: UInt64, in world: World) {
      let memory = MemoryLog()
      reliable = ObservedLog(log: memory)
      unreliable = reliability == .unreliable ? UnreliableLog(memory, seed: seed) : nil
      log = unreliable ?? memory
      self.world = world
    }

    /// Whether the calling process is connected to the log.
    private var isConnected: Bool {
      let current = Engine.shared.current
      return !world.processes.contains { $0.incarnation == current && $0.isDisconnected }
    }

    private func checkConnection() throws(LogError) {
      if !isConnected { throw Self.disconnected }
    }

    func becomeReliable() { unreliable?.becomeReliable() }

    public var entryLimit: Int { log.entryLimit }
    public var name: String? { log.name }
    public var snapshots: (any SnapshotStore)? { log.snapshots.map { Snapshots(store: $0, log: self) } }
    public var summaries: (any SummaryStore)? { log.summaries.map { Summaries(store: $0, log: self) } }

    public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      perform(outcome: outcome) { log.append(entry, outcome: $0) }
    }

    private func perform<Value: Sendable>(
      outcome: @escaping @Sendable (Result<Value, LogError>) -> Void,
      _ request: (@escaping @Sendable (Result<Value, LogError>) -> Void) -> Void
    ) {
      let caller = Engine.shared.current
      // A task of the caller: the log may report the outcome in a step of another process, and the caller may have
      // crashed or be paused.
      let report: @Sendable (Result<Value, LogError>) -> Void = { result in
        Engine.shared.within(caller) { _ = Task { outcome(result) } }
      }
      let isConnected = isConnected
      Engine.shared.within(Engine.outside) {
        if isConnected { return request(report) }
        _ = Task {
          try? await Task.sleep(for: .seconds(1))
          report(.failure(Self.disconnected))
        }
      }
    }

    public func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let records = log.records(after: position)
      return AsyncThrowingStream { [self] continuation in
        let reading = Task {
          do {
            try checkConnection()
            for try await records in records {
              try checkConnection()
              continuation.yield(records)
            }
            continuation.finish()
          } catch {
            continuation.finish(throwing: error)
          }
        }
        continuation.onTermination = { _ in reading.cancel() }
      }
    }

    public func head() async throws(LogError) -> UInt64 {
      try checkConnection()
      return try await log.head()
    }

    public func truncate(through position: UInt64) async throws(LogError) {
      try checkConnection()
      try await log.truncate(through: position)
    }

    public func erase(through position: UInt64) async throws(LogError) {
      try checkConnection()
      try await log.erase(through: position)
    }

    private struct Snapshots: SnapshotStore {
      let store: any SnapshotStore
      let log: SimulatedLog

      func newest() async throws(LogError) -> LogSnapshot? {
        try log.checkConnection()
        return try await store.newest()
      }

      func save(_ snapshot: LogSnapshot) async throws(LogError) {
        try log.checkConnection()
        try await store.save(snapshot)
      }

      func replace(with snapshot: LogSnapshot) async throws(LogError) {
        try log.checkConnection()
        try await store.replace(with: snapshot)
      }
    }

    private struct Summaries: SummaryStore {
      let store: any SummaryStore
      let log: SimulatedLog

      func kept() async throws(LogError) -> LogSummary? {
        try log.checkConnection()
        return try await store.kept()
      }

      func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
        log.perform(outcome: outcome) { store.save(bytes, at: position, outcome: $0) }
      }
    }

    private static let disconnected = LogError.unavailable("The process is cut off from the log.")
  }

  /// A log without the requests that follow from a store's own decisions.
  private struct ObservedLog: OrderedLog {
    let log: any OrderedLog

    var entryLimit: Int { log.entryLimit }
    var name: String? { log.name }
    var snapshots: (any SnapshotStore)? { log.snapshots.map { Snapshots(store: $0) } }
    var summaries: (any SummaryStore)? { log.summaries.map { Summaries(store: $0) } }

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      log.append(entry, outcome: outcome)
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      log.records(after: position)
    }

    func head() async throws(LogError) -> UInt64 { try await log.head() }
    func truncate(through position: UInt64) async throws(LogError) {}

    private struct Snapshots: SnapshotStore {
      let store: any SnapshotStore

      func newest() async throws(LogError) -> LogSnapshot? { try await store.newest() }
      func save(_ snapshot: LogSnapshot) async throws(LogError) {}
      func replace(with snapshot: LogSnapshot) async throws(LogError) {}
    }

    private struct Summaries: SummaryStore {
      let store: any SummaryStore

      func kept() async throws(LogError) -> LogSummary? { try await store.kept() }

      func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
        _ = Task { outcome(.success(false)) }
      }
    }
  }
#endif
