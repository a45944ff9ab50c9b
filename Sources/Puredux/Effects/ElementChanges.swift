/// What has come, gone and changed among the elements of a collection since the last look. If several elements have the
/// same id, the first counts.
///
/// If nothing has changed, this costs one comparison per element; elements that differ are looked up by their ids.
@usableFromInline struct ElementChanges<ID: Hashable, Value: Equatable> {
  @usableFromInline typealias Element = (id: ID, value: Value)

  /// In the collection's order.
  @usableFromInline var last: ContiguousArray<Element> = []
  @usableFromInline var current: [ID: Value] = [:]

  @inlinable init() {}

  /// Reports the ids that have gone, and then, in the collection's order, the elements that have come or whose value
  /// has changed.
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
    if !hadDistinct || !update(from: old, to: new[..<newEnd], gone, begun) { updateAll(gone, begun) }
  }

  /// Looks only at what differs. False, with nothing done, if one of the new elements has the id of another.
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

  @inlinable mutating func updateAll(_ gone: (ID) -> Void, _ begun: (Element) -> Void) {
    var first: [ID: Value] = [:]
    var begins: [Element] = []
    for element in last where first[element.id] == nil {
      first[element.id] = element.value
      if current[element.id] != element.value { begins.append(element) }
    }
    for id in current.keys where first[id] == nil { gone(id) }
    current = first
    for element in begins { begun(element) }
  }
}

/// What has come, gone and changed in a `Keyed`: only values written since the last look are compared.
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
    // One write is what most commits are.
    if let known, known.count == 1, let key = known.first {
      return update(key, in: collection, gone, begun)
    }
    // In the order of the writes, or, where that is not known, all.
    let written = known.map { Array($0) } ?? current.keys + collection.keys
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
