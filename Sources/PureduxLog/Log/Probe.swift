import Puredux

/// Asks an engine's servers until they answer: one task on behalf of all stores that wait for them.
package final class Probe: Sendable {
  private struct State: Sendable {
    var isRunning = false
    /// How many stores wait for an answer.
    var waiting = 0
    var attempts = 0
  }

  private let interval: Duration
  private let ask: @Sendable () async -> Bool
  private let state = LockedValue(State())
  private let answers = Arrivals()

  /// - Parameters:
  ///   - interval: The time between two questions.
  ///   - ask: Returns whether the servers answer. Called by one task at a time.
  package init(every interval: Duration = .milliseconds(250), _ ask: @escaping @Sendable () async -> Bool) {
    self.interval = interval
    self.ask = ask
  }

  /// How often the servers have been asked.
  package var attempts: Int { state.withLock { $0.attempts } }

  /// How many stores wait for an answer.
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

/// A log that shares a probe with all other logs of its engine. If the log was unavailable, an open store waits for the
/// probe before it tries the log again, and so does not poll.
package protocol ProbedLog: OrderedLog {
  var probe: Probe { get }
}
