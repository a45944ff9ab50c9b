import Puredux
import PureduxLogTesting
import PureduxTestSupport

@testable import PureduxLog

/// The state of these tests: every action in order.
struct Ledger: Codable, Equatable, Sendable {
  var entries: [String] = []
}

typealias LedgerStore = RootStore<Ledger, String>

func ledger(
  _ log: any OrderedLog, options: LogOptions = .quick, clock: any Clock<Duration> = ContinuousClock(),
  fingerprint: (@Sendable (Ledger) -> UInt64)? = nil, onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil,
  interceptor: (@Sendable (String, Dispatch<String>) async -> Void)? = nil,
  middleware: [Middleware<Ledger, String>] = []
) async throws -> LedgerStore {
  try await RootStore(
    following: log, initialState: Ledger(),
    options: FollowingOptions(
      log: options, store: StoreOptions(clock: clock), fingerprint: fingerprint.map { .hashed($0) } ?? .unchecked,
      onPhase: onPhase),
    interceptor: interceptor, middleware: middleware
  ) { $0.entries.append($1) }
}

extension LogOptions {
  /// However slow the machine is, an opening waits, and entries that have not been acknowledged are never given to the
  /// log again, so that positions are known.
  static var once: LogOptions {
    var options = quick
    options.patience = .seconds(1_000_000)
    options.openingLimit = .seconds(1_000_000)
    return options
  }
}

enum LogPlace: String, CaseIterable, Sendable {
  case memory
  case files

  func withLog(_ body: (any OrderedLog) async throws -> Void) async throws {
    switch self {
    case .memory: try await body(MemoryLogs()["tree"])
    case .files:
      let directory = try TemporaryDirectory()
      let log = try FileLog(directory: directory.path)
      try await body(log["tree"])
      await log.close()
    }
  }
}

extension LogPlace {
  /// Calls the body with a function that opens the logs, also again after they have been closed.
  func withDirectory(_ body: (() async throws -> any LogDirectory) async throws -> Void) async throws {
    switch self {
    case .memory:
      let logs = MemoryLogs()
      try await body { StayingLogs(logs) }
    case .files:
      let directory = try TemporaryDirectory()
      let opened = LockedValue<FileLog?>(nil)
      try await body {
        await opened.withLock { $0 }?.close()
        let log = try FileLog(directory: directory.path)
        opened.withLock { $0 = log }
        return log
      }
      await opened.withLock { $0 }?.close()
    }
  }
}

/// Logs in memory that survive `close`.
private struct StayingLogs: LogDirectory {
  let logs: MemoryLogs

  init(_ logs: MemoryLogs) { self.logs = logs }

  subscript(key: String) -> any OrderedLog { logs[key] }
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { logs.keys(prefix: prefix) }
  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> { logs.summaries(prefix: prefix) }
  func remove(_ key: String) async throws(LogError) { try await logs.remove(key) }
  func close() async {}
}

extension RootStore {
  nonisolated func state(where condition: (State) -> Bool) async -> State {
    for await state in states() where condition(state) { return state }
    return await state
  }
}

/// A list of events, for tests that wait for them.
actor Events<Event: Sendable> {
  private(set) var all: [Event] = []
  private var waiting: [(Int, CheckedContinuation<Void, Never>)] = []

  func add(_ event: Event) {
    all.append(event)
    waiting.removeAll { count, continuation in
      guard all.count >= count else { return false }
      continuation.resume()
      return true
    }
  }

  func first(_ count: Int) async -> [Event] {
    if all.count < count { await withCheckedContinuation { waiting.append((count, $0)) } }
    return Array(all.prefix(count))
  }
}
