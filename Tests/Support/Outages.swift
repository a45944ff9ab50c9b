import Puredux
import PureduxLog

/// Has two stores follow a log whose server goes away and comes back, three times: one sends before and after, and the
/// other is given something meanwhile.
///
/// - Returns: What each of the two has in the end, which is nine texts where nothing is lost, and whether all that was
///   given meanwhile was accepted.
package func statesAfterOutages(
  of log: any OrderedLog, stopping stop: () throws -> Void, starting start: () throws -> Void
) async throws -> (states: [[String]], isAccepted: Bool) {
  let phases = AsyncStream.makeStream(of: LogStatistics.Phase.self)
  var options = LogOptions()
  options.reporting = { _ in }
  func list(onPhase: (@Sendable (LogStatistics.Phase) -> Void)?) async throws -> RootStore<[String], String> {
    try await RootStore(
      following: log, initialState: [], options: FollowingOptions(log: options, onPhase: onPhase)
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
