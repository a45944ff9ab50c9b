import Puredux
import PureduxLog

/// A log's server restarts three times. One store sends before and after each outage; the other dispatches during it.
///
/// - Returns: The final states, with nine texts each if nothing is lost, and whether all dispatches were accepted.
package func statesAfterOutages(
  of log: any OrderedLog, stopping stop: () throws -> Void, starting start: () throws -> Void
) async throws -> (states: [[String]], isAccepted: Bool) {
  let phases = AsyncStream.makeStream(of: LogStatistics.Phase.self)
  var options = LogOptions()
  options.reporting = { _ in }
  func list(onPhase: (@Sendable (LogStatistics.Phase) -> Void)?) async throws -> RootStore<[String], String> {
    try await RootStore(
      following: log, initialState: [],
      options: FollowingOptions(log: options, fingerprint: .unchecked, onPhase: onPhase)
    ) { $0.append($1) }
  }
  let stores = [try await list { phases.continuation.yield($0) }, try await list(onPhase: nil)]
  var isAccepted = true
  for round in 0..<3 {
    try await stores[0].send("before \(round)")
    try stop()
    if stores[1].dispatch("during \(round)") != .enqueued { isAccepted = false }
    for await phase in phases.stream { if case .waiting = phase { break } }
    try start()
    try await stores[0].send("after \(round)")
    for await phase in phases.stream where phase == .following { break }
  }
  var states: [[String]] = []
  for store in stores {
    for await list in store.states() where list.count == 9 { break }
    states.append(await store.state)
    await store.shutdown()
  }
  return (states, isAccepted)
}

/// The server stops, and starts again after several requests of the engine's probe.
///
/// - Parameter isBusy: Whether each store has an action on its way to the log.
/// - Returns: The attempts per store during the outage, and the number of stores with all their actions in the end.
package func attemptsWhileAway(
  of engine: (String) -> any OrderedLog, stores count: Int, isBusy: Bool = false, stopping stop: () throws -> Void,
  starting start: () throws -> Void
) async throws -> (perStore: Double, haveAll: Int) {
  var options = LogOptions()
  options.reporting = { _ in }
  let logs = (0..<count).map { CountedLog(engine("idle \($0)")) }
  var stores: [RootStore<[String], String>] = []
  for log in logs {
    let store = try await RootStore<[String], String>(
      following: log, initialState: [], options: FollowingOptions(log: options)
    ) { $0.append($1) }
    try await store.send("before")
    stores.append(store)
  }
  try stop()
  if isBusy { for store in stores { _ = store.dispatch("during") } }
  for store in stores { for await phase in store.logPhases() { if case .waiting = phase { break } } }
  let before = logs.reduce(0) { $0 + $1.attempts }
  var attempts: Int { logs.reduce(0) { $0 + $1.attempts } - before }
  // Stores that poll need not wait for the probe.
  let questions = logs[0].probe.attempts
  while logs[0].probe.attempts < questions + 16, attempts < 100 * count { await Task.yield() }
  let attemptsAway = attempts
  try start()
  for store in stores { for await phase in store.logPhases() where phase == .following { break } }
  var haveAll = 0
  for store in stores {
    try await store.send("after")
    if await store.state == ["before"] + (isBusy ? ["during"] : []) + ["after"] { haveAll += 1 }
    await store.shutdown()
  }
  return (Double(attemptsAway) / Double(count), haveAll)
}

/// Counts appends, new readings, and requests for the head.
package final class CountedLog: ProbedLog {
  private let log: any OrderedLog
  private let count = LockedValue(0)
  package let probe: Probe

  package init(_ log: any OrderedLog) {
    self.log = log
    probe = (log as? any ProbedLog)?.probe ?? Probe { true }
  }

  package var attempts: Int { count.withLock { $0 } }
  package var entryLimit: Int { log.entryLimit }
  package var snapshots: (any SnapshotStore)? { log.snapshots }
  package var summaries: (any SummaryStore)? { log.summaries }
  package var name: String? { log.name }

  package func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    count.withLock { $0 += 1 }
    log.append(entry, outcome: outcome)
  }

  package func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    count.withLock { $0 += 1 }
    return log.records(after: position)
  }

  package func head() async throws(LogError) -> UInt64 {
    count.withLock { $0 += 1 }
    return try await log.head()
  }

  package func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}
