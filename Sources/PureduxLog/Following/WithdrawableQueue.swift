/// A queue of elements with ascending ids, any of which can be removed by its id.
///
/// Cost: amortized constant, besides the binary search for an id. A removed element is released at once, its empty slot
/// later.
struct WithdrawableQueue<Element> {
  fileprivate struct Slot {
    let id: UInt64
    var element: Element?
  }

  private static var toleratedCount: Int { 32 }

  private var slots: [Slot] = []
  private var head = 0
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  var firstID: UInt64? { isEmpty ? nil : slots[head].id }
  var first: Element? { isEmpty ? nil : slots[head].element }
  var lastID: UInt64? { slots.last?.id }

  var slotCount: Int { slots.count }

  mutating func append(_ element: Element, id: UInt64) {
    slots.append(Slot(id: id, element: element))
    count += 1
  }

  mutating func popFirst() -> Element? {
    guard let id = firstID else { return nil }
    return remove(id)
  }

  mutating func remove(_ id: UInt64) -> Element? {
    guard let place = place(of: id), let element = slots[place].element.take() else { return nil }
    count -= 1
    if count == 0 {
      slots.removeAll(keepingCapacity: slots.capacity <= 16)
      head = 0
    } else {
      while slots[head].element == nil { head += 1 }
      while slots[slots.count - 1].element == nil { slots.removeLast() }
      dropEmptySlots()
    }
    return element
  }

  private mutating func dropEmptySlots() {
    let emptyCount = slots.count - count
    guard emptyCount > Self.toleratedCount, emptyCount > count else { return }
    // A new array: a flood's capacity must not outlive it.
    var kept: [Slot] = []
    kept.reserveCapacity(2 * count)
    for place in head..<slots.count where slots[place].element != nil { kept.append(slots[place]) }
    slots = kept
    head = 0
  }

  mutating func update<Result>(_ id: UInt64, _ change: (inout Element) -> Result) -> Result? {
    guard let place = place(of: id), slots[place].element != nil else { return nil }
    return change(&slots[place].element!)
  }

  mutating func update(after id: UInt64, _ change: (UInt64, inout Element) -> Bool) {
    var place = firstPlace(after: id)
    while place < slots.count {
      if slots[place].element != nil, !change(slots[place].id, &slots[place].element!) { return }
      place += 1
    }
  }

  private func place(of id: UInt64) -> Int? {
    guard id > 0 else { return nil }
    let place = firstPlace(after: id - 1)
    return place < slots.count && slots[place].id == id ? place : nil
  }

  private func firstPlace(after id: UInt64) -> Int {
    var (low, high) = (head, slots.count)
    while low < high {
      let middle = (low + high) / 2
      if slots[middle].id <= id { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension WithdrawableQueue.Slot: Sendable where Element: Sendable {}
extension WithdrawableQueue: Sendable where Element: Sendable {}
