import Dispatch
import Puredux

/// Processes items on a serial queue, in order. Items that are added meanwhile form the next batch.
package final class BatchQueue<Item: Sendable>: Sendable {
  private struct Waiting: Sendable {
    var items: [Item] = []
    var isScheduled = false
  }

  private let queue: DispatchQueue
  private let waiting = LockedValue(Waiting())

  package init(_ queue: DispatchQueue) { self.queue = queue }

  /// Returns at once.
  ///
  /// - Parameter perform: The same closure in each call.
  package func add(_ item: Item, perform: @escaping @Sendable ([Item]) -> Void) {
    let schedules = waiting.withLock { waiting in
      waiting.items.append(item)
      defer { waiting.isScheduled = true }
      return !waiting.isScheduled
    }
    if schedules { schedule(perform) }
  }

  /// One batch for each turn of the queue: other users of the queue do not wait for the end of a flood.
  private func schedule(_ perform: @escaping @Sendable ([Item]) -> Void) {
    queue.async { [self] in
      performAll(perform)
      let goesOn = waiting.withLock { waiting in
        waiting.isScheduled = !waiting.items.isEmpty
        return waiting.isScheduled
      }
      if goesOn { schedule(perform) }
    }
  }

  /// Processes the waiting items ahead of their turn. Call it only on the queue.
  package func performAll(_ perform: ([Item]) -> Void) {
    let items = waiting.withLock { waiting in
      defer { waiting.items = [] }
      return waiting.items
    }
    if !items.isEmpty { perform(items) }
  }
}
