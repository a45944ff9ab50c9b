/// Decides which work runs for which element of a state, never two for one element at a time: a pure state machine,
/// under its runner's lock.
///
/// Each mutating method returns the steps to carry out, in order. The caller releases them outside the lock.
struct StateEffectScheduler<ID: Hashable, Work: AnyObject> {
  enum Step {
    case start(Work, ID)
    /// The work runs or is never begun.
    case cancel(Work)
  }

  fileprivate struct Slot {
    /// By identity, because there may be many. May be cancelled, but is not over.
    var running: [ObjectIdentifier: Work]
    var next: [Work] = []
  }

  private var slots: [ID: Slot] = [:]
  private(set) var isClosed = false

  mutating func begin(_ work: [Work], for id: ID) -> [Step] {
    if isClosed { return work.map { .cancel($0) } }
    let steps = end(id)
    if slots[id] == nil { return steps + start(work, for: id) }
    slots[id]?.next = work
    return steps
  }

  mutating func end(_ id: ID) -> [Step] {
    guard let slot = slots[id] else { return [] }
    slots[id]?.next = []
    return (slot.running.values + slot.next).map { .cancel($0) }
  }

  mutating func endAll() -> [Step] {
    isClosed = true
    return slots.keys.flatMap { end($0) }
  }

  mutating func close() -> [Step] {
    isClosed = true
    defer { for id in slots.keys { slots[id]?.next = [] } }
    return slots.values.flatMap(\.next).map { .cancel($0) }
  }

  func isOver(_ id: ID) -> Bool { slots[id] == nil }

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
