import Puredux
public import PureduxLog

/// A log that misbehaves in all the ways that `OrderedLog` allows, by a seed: it says that appends failed that took
/// place, loses some, repeats some, lets later ones overtake earlier ones (which are late by a tenth of a second at
/// most), delivers entries again, and breaks off. What it has acknowledged it keeps. Stands in for a network in tests.
public final class UnreliableLog: OrderedLog {
  /// How often something happens, of a hundred.
  public struct Rates: Sendable {
    /// An append that does not take place, and is said to have failed.
    public var lost = 10
    /// An append that takes place, and is said to have failed.
    public var unacknowledged = 10
    /// An append that takes place twice.
    public var repeated = 10
    /// An append that a later one overtakes.
    public var overtaken = 10
    /// A delivery that breaks off.
    public var broken = 10
    /// A delivery of entries that have been delivered.
    public var redelivered = 10

    /// Ten of a hundred of each.
    public init() {}
  }

  private struct Mischief {
    var random: SeededGenerator
    var isReliable = false
    /// What others overtake.
    var held: [@Sendable () -> Void] = []
  }

  private enum Fate { case kept, lost, unacknowledged, repeated, overtaken }

  private let log: any OrderedLog
  private let rates: Rates
  private let mischief: LockedValue<Mischief>

  /// - Parameters:
  ///   - log: What it stands before, and is reliable itself.
  ///   - seed: Decides what happens when: the same with the same calls.
  ///   - rates: How often each thing happens.
  public init(_ log: any OrderedLog, seed: UInt64, rates: Rates = Rates()) {
    self.log = log
    self.rates = rates
    mischief = LockedValue(Mischief(random: SeededGenerator(seed: seed)))
  }

  public var entryLimit: Int { log.entryLimit }
  public var name: String? { log.name }
  public var snapshots: (any SnapshotStore)? { log.snapshots }
  public var summaries: (any SummaryStore)? { log.summaries }

  /// From now on it does nothing wrong.
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
      // Who waits for its outcome may append nothing else.
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

  /// The same numbers for the same seed, in every process.
  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
