/// A FIFO queue on one array, with operations in amortized constant time.
@usableFromInline struct Queue<Element> {
  @usableFromInline var storage: ContiguousArray<Element?> = []
  @usableFromInline var head = 0

  @inlinable init() {}

  @inlinable var count: Int { storage.count - head }
  @inlinable var isEmpty: Bool { head == storage.count }

  @inlinable mutating func append(_ element: Element) {
    storage.append(element)
  }

  @inlinable mutating func popFirst() -> Element? {
    guard head < storage.count else { return nil }
    let element = storage[head].take()
    head += 1
    if head == storage.count {
      storage.removeAll(keepingCapacity: storage.capacity <= 16)
      head = 0
    } else if head >= 32, head * 2 >= storage.count {
      storage.removeFirst(head)
      head = 0
    }
    return element
  }

  @inlinable var all: [Element] { storage[head...].compactMap { $0 } }

  @inlinable mutating func popAll() -> ContiguousArray<Element> { ContiguousArray(takeAll().all) }

  @inlinable mutating func takeAll() -> Queue {
    defer { self = Queue() }
    return self
  }

  @inlinable mutating func update<Result>(_ offset: Int, _ body: (inout Element?) -> Result) -> Result {
    body(&storage[head + offset])
  }

  @inlinable subscript(offset: Int) -> Element? { storage[head + offset] }
}

extension Queue: Sendable where Element: Sendable {}
