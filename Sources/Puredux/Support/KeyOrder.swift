extension Sequence {
  /// The elements in the order of their keys: by `<`, or by the descriptions of keys that are not comparable. For
  /// elements of a dictionary, whose own order differs from process to process.
  @usableFromInline func inOrder<Key>(of key: (Element) -> Key) -> [Element] {
    let elements = Array(self)
    if elements.count < 2 { return elements }
    let keys = elements.map(key)
    let places =
      if let type = Key.self as? any Comparable.Type {
        placesInOrder(of: keys, as: type)
      } else {
        placesInOrder(of: keys.map { String(describing: $0) })
      }
    return places.map { elements[$0] }
  }
}

private func placesInOrder<Known: Comparable>(of keys: Any, as type: Known.Type) -> [Int] {
  placesInOrder(of: keys as! [Known])
}

private func placesInOrder<Key: Comparable>(of keys: [Key]) -> [Int] {
  keys.indices.sorted { keys[$0] < keys[$1] }
}
