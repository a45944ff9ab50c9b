/// What has come, gone and changed among the elements of a collection since it was last looked at.
///
/// Where nothing has, that costs a comparison of each element; what differs is looked up by its id.
@usableFromInline struct ElementChanges<ID: Hashable, Value: Equatable> {
  @usableFromInline typealias Element = (id: ID, value: Value)

  /// In the collection's order.
  @usableFromInline var last: ContiguousArray<Element> = []
  /// The value that an id counts with, and how many elements have that id.
  @usableFromInline var current: [ID: (value: Value, count: Int)] = [:]

  @inlinable init() {}

  /// Tells of the ids that have gone, and then, in the collection's order, of those that have come or whose value has
  /// changed. Of several elements with one id the first to come counts, and then the first to change.
  @inlinable mutating func update(
    with elements: some Sequence<Element>, gone: (ID) -> Void, begun: (Element) -> Void
  ) {
    var start = 0
    var new: ContiguousArray<Element> = []
    for element in elements {
      if new.isEmpty, start < last.count, last[start] == element { start += 1 } else { new.append(element) }
    }
    var end = last.count
    var newEnd = new.count
    while end > start, newEnd > 0, last[end - 1] == new[newEnd - 1] {
      end -= 1
      newEnd -= 1
    }
    if end == start, newEnd == 0 { return }
    let old = last[start..<end]
    for element in old { current[element.id]?.count -= 1 }
    var begins: ContiguousArray<Element> = []
    for element in new[..<newEnd] {
      let known = current[element.id]
      current[element.id] = (element.value, (known?.count ?? 0) + 1)
      if known?.value != element.value { begins.append(element) }
    }
    let goes = old.filter { current[$0.id]?.count == 0 }
    for element in goes { current[element.id] = nil }
    last.replaceSubrange(start..., with: new)
    for element in goes { gone(element.id) }
    for element in begins { begun(element) }
  }
}
