/// Which work runs for which element of a state, never two for one element at a time: a pure state machine, run under
/// its runner's lock.
///
/// Each mutating method returns what is to be done, in order. What it hands out is released outside the lock.
struct StateEffectScheduler<ID: Hashable, Work: AnyObject> {
  enum Step {
    case start(Work, ID)
    /// The work runs or is never begun: nothing of it is wanted any more.
    case cancel(Work)
  }

  fileprivate struct Slot {
    /// Work that has begun and is not over, by its identity, as there may be much of it. It may be cancelled.
    var running: [ObjectIdentifier: Work]
    /// Begins when all of that is over.
    var next: [Work] = []
  }

  private var slots: [ID: Slot] = [:]
  /// Whether no more work begins.
  private(set) var isClosed = false

  /// Begins work, replacing any before for the same element.
  mutating func begin(_ work: [Work], for id: ID) -> [Step] {
    if isClosed { return work.map { .cancel($0) } }
    let steps = end(id)
    if slots[id] == nil { return steps + start(work, for: id) }
    slots[id]?.next = work
    return steps
  }

  /// An element is gone.
  mutating func end(_ id: ID) -> [Step] {
    guard let slot = slots[id] else { return [] }
    slots[id]?.next = []
    return (slot.running.values + slot.next).map { .cancel($0) }
  }

  /// All elements are gone, and none will come.
  mutating func endAll() -> [Step] {
    isClosed = true
    return slots.keys.flatMap { end($0) }
  }

  /// No more will come: running work goes on.
  mutating func close() -> [Step] {
    isClosed = true
    defer { for id in slots.keys { slots[id]?.next = [] } }
    return slots.values.flatMap(\.next).map { .cancel($0) }
  }

  /// Whether there is no work for an element.
  func isOver(_ id: ID) -> Bool { slots[id] == nil }

  /// Work is over.
  mutating func ended(_ work: Work, for id: ID) -> [Step] {
    slots[id]?.running[ObjectIdentifier(work)] = nil
    guard let slot = slots[id], slot.running.isEmpty else { return [] }
    return start(slot.next, for: id)
  }

  private mutating func start(_ work: [Work], for id: ID) -> [Step] {
    let running = work.map { (ObjectIdentifier($0), $0) }
    slots[id] = work.isEmpty ? nil : Slot(running: Dictionary(uniqueKeysWithValues: running))
    return work.map { .start($0, id) }
  }
}

extension StateEffectScheduler: Sendable where ID: Sendable, Work: Sendable {}
extension StateEffectScheduler.Slot: Sendable where Work: Sendable {}
