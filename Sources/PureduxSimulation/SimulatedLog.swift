#if Simulation && compiler(>=6.3) && os(Linux)
  public import PureduxLog
  import PureduxLogTesting

  /// A log of a simulated world, in memory. It outlives every process.
  public final class SimulatedLog: OrderedLog {
    /// How often a log fails.
    public enum Reliability: Sendable {
      /// It never fails.
      case reliable
      /// It loses and repeats appends, loses acknowledgements, and breaks deliveries off (`UnreliableLog`).
      case unreliable
    }

    /// The same log, without failures: for conditions.
    public let reliable: any OrderedLog
    private let unreliable: UnreliableLog?
    private let world: World

    init(_ reliability: Reliability, seed: UInt64, in world: World) {
      let log = MemoryLog()
      reliable = log
      unreliable = reliability == .unreliable ? UnreliableLog(log, seed: seed) : nil
      self.world = world
    }

    private var log: any OrderedLog { unreliable ?? reliable }

    /// Whether the calling process reaches the log.
    private var isReached: Bool {
      let current = Engine.shared.current
      return !world.processes.contains { $0.incarnation == current && $0.isDisconnected }
    }

    func becomeReliable() { unreliable?.becomeReliable() }

    public var entryLimit: Int { log.entryLimit }
    public var name: String? { log.name }
    public var snapshots: (any SnapshotStore)? { log.snapshots }
    public var summaries: (any SummaryStore)? { log.summaries }

    public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      let caller = Engine.shared.current
      // The log may tell the outcome in a step of another process, or after the caller's crash.
      let tell: @Sendable (Result<UInt64, LogError>) -> Void = { result in
        if Engine.shared.isAlive(caller) { Engine.shared.within(caller) { outcome(result) } }
      }
      let isReached = isReached
      Engine.shared.within(Engine.outside) {
        if isReached { return log.append(entry, outcome: tell) }
        _ = Task {
          try? await Task.sleep(for: .seconds(1))
          tell(.failure(Self.away))
        }
      }
    }

    public func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let records = log.records(after: position)
      return AsyncThrowingStream { [self] continuation in
        let reading = Task {
          do {
            guard isReached else { throw Self.away }
            for try await records in records {
              guard isReached else { throw Self.away }
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
      if !isReached { throw Self.away }
      return try await log.head()
    }

    public func truncate(through position: UInt64) async throws(LogError) {
      if !isReached { throw Self.away }
      try await log.truncate(through: position)
    }

    public func erase(through position: UInt64) async throws(LogError) {
      if !isReached { throw Self.away }
      try await log.erase(through: position)
    }

    private static let away = LogError.unavailable("The process is cut off from the log.")
  }
#endif
