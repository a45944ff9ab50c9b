import Puredux

/// A waiting task reads `count`, checks its condition, and waits after that count, so it misses no arrival in between.
package final class Arrivals: Sendable {
  private struct Waiting: Sendable {
    var count = 0
    var nextID = 0
    var continuations: [Int: CheckedContinuation<Void, Never>] = [:]
  }

  private let waiting = LockedValue(Waiting())

  package init() {}

  package var count: Int { waiting.withLock { $0.count } }

  package func notify() {
    let continuations = waiting.withLock { waiting in
      waiting.count += 1
      defer { waiting.continuations = [:] }
      return waiting.continuations
    }
    for (_, continuation) in continuations.sorted(by: { $0.key < $1.key }) { continuation.resume() }
  }

  /// Returns when the count has changed, or the task is cancelled.
  package func wait(after count: Int) async {
    let id = waiting.withLock { waiting in
      waiting.nextID += 1
      return waiting.nextID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = waiting.withLock { waiting in
          if waiting.count != count || Task.isCancelled { return true }
          waiting.continuations[id] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      waiting.withLock { $0.continuations.removeValue(forKey: id) }?.resume()
    }
  }
}
