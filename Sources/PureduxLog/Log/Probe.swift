import Puredux

/// Polls an engine's servers until they answer, in one task for all waiting stores.
package final class Probe: Sendable {
  private struct State: Sendable {
    var isRunning = false
    var waiting = 0
    var attempts = 0
  }

  private let interval: Duration
  private let ask: @Sendable () async -> Bool
  private let state = LockedValue(State())
  private let answers = Arrivals()

  package init(every interval: Duration = .milliseconds(250), _ ask: @escaping @Sendable () async -> Bool) {
    self.interval = interval
    self.ask = ask
  }

  package var attempts: Int { state.withLock { $0.attempts } }

  package var waiting: Int { state.withLock { $0.waiting } }

  /// Returns when the servers have answered, or the task is cancelled.
  package func untilAnswered() async {
    let count = answers.count
    let begins = state.withLock { state in
      state.waiting += 1
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if begins { Task.detached { await self.run() } }
    await answers.wait(after: count)
    state.withLock { $0.waiting -= 1 }
  }

  private func run() async {
    while true {
      let goesOn = state.withLock { state in
        if state.waiting == 0 { state.isRunning = false } else { state.attempts += 1 }
        return state.isRunning
      }
      guard goesOn else { return }
      if await ask() { break }
      try? await Task.sleep(for: interval)
    }
    state.withLock { $0.isRunning = false }
    answers.notify()
  }
}

/// A log that shares a probe with its engine's other logs. After an outage, a store waits for the probe instead of
/// polling.
package protocol ProbedLog: OrderedLog {
  var probe: Probe { get }
}
