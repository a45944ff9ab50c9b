/// Elements added, removed or changed since the last update. The first of several with the same id counts. An update
/// compares each element, and looks up only differing elements by id.
@usableFromInline struct ElementChanges<ID: Hashable, Value: Equatable> {
  @usableFromInline typealias Element = (id: ID, value: Value)

  @usableFromInline var last: ContiguousArray<Element> = []
  @usableFromInline var current: [ID: Value] = [:]

  @inlinable init() {}

  /// Reports removed ids, and then added and changed elements, in the collection's order.
  @inlinable mutating func update(
    with elements: some Sequence<Element>, gone: (ID) -> Void, begun: (Element) -> Void
  ) {
    var start = 0
    var new: ContiguousArray<Element> = []
    for element in elements {
      if new.isEmpty, start < last.count, last[start] == element { start += 1 } else { new.append(element) }
    }
    var (end, newEnd) = (last.count, new.count)
    while end > start, newEnd > 0, last[end - 1] == new[newEnd - 1] {
      end -= 1
      newEnd -= 1
    }
    if end == start, newEnd == 0 { return }
    let old = ContiguousArray(last[start..<end])
    let hadDistinct = current.count == last.count
    last.replaceSubrange(start..., with: new)
    if !hadDistinct || !update(from: old, to: new[..<newEnd], gone, begun) { updateAll(from: old, gone, begun) }
  }

  /// False, with nothing done, if two elements have the same id.
  @inlinable mutating func update(
    from old: some Sequence<Element>, to new: some Sequence<Element>, _ gone: (ID) -> Void, _ begun: (Element) -> Void
  ) -> Bool {
    let removed = Dictionary(old.map { ($0.id, $0.value) }, uniquingKeysWith: { first, _ in first })
    var added: Set<ID> = []
    for element in new {
      let isTaken = current[element.id] != nil && removed[element.id] == nil
      if isTaken || !added.insert(element.id).inserted { return false }
    }
    for element in old where !added.contains(element.id) {
      current[element.id] = nil
      gone(element.id)
    }
    for element in new where removed[element.id] != element.value {
      current[element.id] = element.value
      begun(element)
    }
    return true
  }

  @inlinable mutating func updateAll(
    from old: some Sequence<Element>, _ gone: (ID) -> Void, _ begun: (Element) -> Void
  ) {
    var first: [ID: Value] = [:]
    var begins: [Element] = []
    for element in last where first[element.id] == nil {
      first[element.id] = element.value
      if current[element.id] != element.value { begins.append(element) }
    }
    for element in old where first[element.id] == nil && current.removeValue(forKey: element.id) != nil {
      gone(element.id)
    }
    current = first
    for element in begins { begun(element) }
  }
}

/// Like `ElementChanges`, but compares only values written since the last update.
@usableFromInline struct KeyedChanges<Key: Hashable & Sendable, Value: Equatable & Sendable> {
  @usableFromInline var mark = KeyedWrites<Key>.Mark()
  @usableFromInline var current: [Key: Value] = [:]

  @inlinable init() {}

  @inlinable mutating func update(
    with collection: Keyed<Key, Value>, gone: (Key) -> Void, begun: (Key, Value) -> Void
  ) {
    if collection.writes.mark == mark { return }
    let known = collection.writes.keys(since: mark)
    mark = collection.writes.mark
    if let known, known.count == 1, let key = known.first {
      return update(key, in: collection, gone, begun)
    }
    // In the order of the writes, or, if that is not known, all keys, the removed ones first.
    let written =
      known.map { Array($0) } ?? current.keys.filter { !collection.has($0) }.inOrder { $0 } + collection.keys
    for key in written where !collection.has(key) { update(key, in: collection, gone, begun) }
    for key in collection.inOrder(Set(written)) { update(key, in: collection, gone, begun) }
  }

  @inlinable mutating func update(
    _ key: Key, in collection: Keyed<Key, Value>, _ gone: (Key) -> Void, _ begun: (Key, Value) -> Void
  ) {
    if let value = collection[key] {
      guard current[key] != value else { return }
      current[key] = value
      begun(key, value)
    } else if current.removeValue(forKey: key) != nil {
      gone(key)
    }
  }
}
