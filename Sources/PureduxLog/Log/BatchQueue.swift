import Dispatch
import Puredux

/// Has what is added done on a serial queue, in order: all together that comes while something is being done.
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
  /// - Parameter perform: The same with each call.
  package func add(_ item: Item, perform: @escaping @Sendable ([Item]) -> Void) {
    let schedules = waiting.withLock { waiting in
      waiting.items.append(item)
      defer { waiting.isScheduled = true }
      return !waiting.isScheduled
    }
    if schedules { schedule(perform) }
  }

  /// One batch for each turn of the queue, which serves others, too: they do not wait for the end of a flood.
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

  /// Does what waits now, ahead of its turn. Only on the queue.
  package func performAll(_ perform: ([Item]) -> Void) {
    let items = waiting.withLock { waiting in
      defer { waiting.items = [] }
      return waiting.items
    }
    if !items.isEmpty { perform(items) }
  }
}
