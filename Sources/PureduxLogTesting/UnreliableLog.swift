import Puredux
public import PureduxLog

/// A stand-in for a network: a log that fails in every way that `OrderedLog` allows, as a seed determines. It loses,
/// repeats and reorders appends (by at most 0.1 seconds), reports successful ones as failed, redelivers entries, and
/// breaks deliveries off. It keeps every acknowledged entry.
public final class UnreliableLog: OrderedLog {
  /// The percentage of calls with each failure.
  public struct Rates: Sendable {
    /// An append that is lost and reported as failed.
    public var lost = 10
    /// An append that succeeds and is reported as failed.
    public var unacknowledged = 10
    /// An append that takes effect twice.
    public var repeated = 10
    /// An append that a later append overtakes.
    public var overtaken = 10
    /// A delivery that breaks off with an error.
    public var broken = 10
    /// A redelivery of the previous entries.
    public var redelivered = 10

    /// Ten percent of each.
    public init() {}
  }

  private struct Mischief {
    var random: SeededGenerator
    var isReliable = false
    var held: [@Sendable () -> Void] = []
  }

  private enum Fate { case kept, lost, unacknowledged, repeated, overtaken }

  private let log: any OrderedLog
  private let rates: Rates
  private let mischief: LockedValue<Mischief>

  /// - Parameters:
  ///   - log: The underlying, reliable log.
  ///   - seed: Determines the failures: the same for the same calls.
  ///   - rates: The frequency of each failure.
  public init(_ log: any OrderedLog, seed: UInt64, rates: Rates = Rates()) {
    self.log = log
    self.rates = rates
    mischief = LockedValue(Mischief(random: SeededGenerator(seed: seed)))
  }

  public var entryLimit: Int { log.entryLimit }
  public var name: String? { log.name }
  public var snapshots: (any SnapshotStore)? { log.snapshots }
  public var summaries: (any SummaryStore)? { log.summaries }

  /// Ends all failures.
  public func becomeReliable() {
    mischief.withLock { $0.isReliable = true }
    release()
  }

  public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let append: @Sendable () -> Void = { [log] in log.append(entry, outcome: outcome) }
    switch fate() {
    case .kept: append()
    case .lost: Task { outcome(.failure(.unavailable("It was lost."))) }
    case .unacknowledged:
      log.append(entry) { _ in outcome(.failure(.unavailable("The acknowledgement was lost."))) }
    case .repeated:
      append()
      log.append(entry) { _ in }
    case .overtaken:
      mischief.withLock { $0.held.append(append) }
      // A writer that awaits this outcome may append nothing that overtakes it.
      Task {
        try? await Task.sleep(for: .milliseconds(100))
        release()
      }
      return
    }
    release()
  }

  private func release() {
    for append in mischief.withLock({ mischief in
      defer { mischief.held = [] }
      return mischief.held
    }) { append() }
  }

  private func fate() -> Fate {
    mischief.withLock { mischief in
      guard !mischief.isReliable else { return .kept }
      var left = Int.random(in: 0..<100, using: &mischief.random)
      for (rate, fate) in [
        (rates.lost, Fate.lost), (rates.unacknowledged, .unacknowledged), (rates.repeated, .repeated),
        (rates.overtaken, .overtaken),
      ] {
        if left < rate { return fate }
        left -= rate
      }
      return .kept
    }
  }

  private func happens(_ rate: Int) -> Bool {
    mischief.withLock { !$0.isReliable && Int.random(in: 0..<100, using: &$0.random) < rate }
  }

  public func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let task = Task { [self] in
      var last: [LogRecord] = []
      do {
        for try await records in log.records(after: position) {
          if happens(rates.broken) { throw LogError.unavailable("The connection broke.") }
          if happens(rates.redelivered) { continuation.yield(last) }
          continuation.yield(records)
          last = records
        }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream
  }

  public func head() async throws(LogError) -> UInt64 { try await log.head() }

  public func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }

  public func erase(through position: UInt64) async throws(LogError) { try await log.erase(through: position) }
}

/// Random numbers that a seed determines: SplitMix64.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// The seed gives the same numbers in every process.
  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
