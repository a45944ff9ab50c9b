import Dispatch
import Puredux

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

  /// One batch per turn, so that a flood does not starve other users of the queue.
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

  /// Processes the waiting items ahead of their turn. Only on the queue.
  package func performAll(_ perform: ([Item]) -> Void) {
    let items = waiting.withLock { waiting in
      defer { waiting.items = [] }
      return waiting.items
    }
    if !items.isEmpty { perform(items) }
  }
}
