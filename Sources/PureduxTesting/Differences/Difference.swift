import Puredux

/// Describes how two values differ: one line for each differing member or element, with its path.
///
///     difference(expected: Cart(items: ["tea", "jam"], sum: 3), actual: Cart(items: ["tea"], sum: 2))
///     // items[1]: missing "jam"
///     // sum: expected 3, is 2
///
/// It compares members of structures, tuples and cases, elements of arrays by index, of dictionaries by key, and of
/// sets. It does not descend into equal `Equatable` values, nor further than `depth` levels, and ends after `limit`
/// lines. It follows no reference twice. In arrays of different lengths it finds inserted and removed elements, unless
/// the differing parts are too long.
public func difference<Value>(expected: Value, actual: Value, depth: Int = 16, limit: Int = 32) -> [String] {
  var difference = Difference(depth: max(depth, 1), limit: max(limit, 1))
  difference.compare(expected, actual, at: "", depth: 0)
  return difference.lines
}

private struct Difference {
  let depth: Int
  let limit: Int
  private var found: [String] = []
  private var count = 0
  private var visited: Set<Pair> = []

  private struct Pair: Hashable {
    let expected: ObjectIdentifier
    let actual: ObjectIdentifier
  }

  /// The greatest product of two parts' lengths.
  private static let greatestProduct = 250_000

  init(depth: Int, limit: Int) {
    self.depth = depth
    self.limit = limit
  }

  var lines: [String] { isFull ? found + ["and more"] : found }
  private var isFull: Bool { count > limit }

  private mutating func add(_ path: String, _ text: String) {
    count += 1
    if count <= limit { found.append(path.isEmpty ? text : "\(path): \(text)") }
  }

  private mutating func add(_ expected: Any, _ actual: Any, at path: String) {
    let (expectedText, actualText) = (show(expected), show(actual))
    if let (all, allActual) = (wholeText(expected), wholeText(actual)) as? (String, String), all != allActual,
      case let start = zip(all, allActual).prefix(while: { $0 == $1 }).count, start > shownLength
    {
      let (expected, actual) = (excerpt(of: all, around: start), excerpt(of: allActual, around: start))
      add(path, "expected \(expected), is \(actual), from character \(start) on")
    } else if expectedText != actualText {
      add(path, "expected \(expectedText), is \(actualText)")
    } else {
      add(path, "not equal, although both are \(expectedText)")
    }
  }

  // MARK: Comparing

  mutating func compare(_ expected: Any, _ actual: Any, at path: String, depth level: Int) {
    if isFull { return }
    let isEqual = areEqual(expected, actual)
    if isEqual == true { return }
    guard type(of: expected) == type(of: actual) else { return add(expected, actual, at: path) }
    let (left, right) = (Mirror(reflecting: expected), Mirror(reflecting: actual))
    if left.displayStyle == .class, visit(expected, actual) { return }
    let before = count
    switch left.displayStyle {
    case _ where level >= depth:
      if isEqual == false || !looksEqual(expected, actual) { add(expected, actual, at: path) }
    case .optional:
      guard let expected = left.children.first?.value, let actual = right.children.first?.value else {
        if left.children.count != right.children.count { add(expected, actual, at: path) }
        return
      }
      compare(expected, actual, at: path, depth: level + 1)
    case .enum:
      guard let expectedCase = left.children.first, let actualCase = right.children.first,
        expectedCase.label == actualCase.label
      else {
        if !looksEqual(expected, actual) { add(expected, actual, at: path) }
        break
      }
      // The payload is the tuple of the associated values, or the only one.
      compare(
        expectedCase.value, actualCase.value, at: member(expectedCase.label ?? "", of: path, isCase: true),
        depth: level + 1)
    case .collection: compareElements(left.children, right.children, at: path, level + 1)
    case .set: compareSets(expected, actual, left, right, at: path)
    case .dictionary: compareDictionaries(left, right, at: path, level + 1)
    default:
      if left.children.isEmpty, right.children.isEmpty {
        if !looksEqual(expected, actual) { add(expected, actual, at: path) }
      } else {
        compareMembers(left, right, at: path, level + 1)
      }
    }
    if isEqual == false, count == before { add(expected, actual, at: path) }
  }

  private mutating func visit(_ expected: Any, _ actual: Any) -> Bool {
    let (expected, actual) = (expected as AnyObject, actual as AnyObject)
    return expected === actual
      || !visited.insert(Pair(expected: ObjectIdentifier(expected), actual: ObjectIdentifier(actual))).inserted
  }

  private mutating func compareMembers(_ expected: Mirror, _ actual: Mirror, at path: String, _ level: Int) {
    if let (left, right) = (expected.superclassMirror, actual.superclassMirror) as? (Mirror, Mirror) {
      compareMembers(left, right, at: path, level)
    }
    for (index, (left, right)) in zip(expected.children, actual.children).enumerated() {
      compare(left.value, right.value, at: member(left.label ?? ".\(index)", of: path), depth: level)
    }
  }

  private mutating func compareDictionaries(_ expected: Mirror, _ actual: Mirror, at path: String, _ level: Int) {
    let (left, right) = (entries(of: expected), entries(of: actual))
    func values(at key: AnyHashable) -> [String] { [left[key], right[key]].map { $0.map(show) ?? "" } }
    let keys = Set(left.keys).union(right.keys).map { (text: show($0.base), key: $0) }
    let inOrder = keys.sorted { one, other in
      one.text == other.text
        ? values(at: one.key).lexicographicallyPrecedes(values(at: other.key)) : one.text < other.text
    }
    for (text, key) in inOrder {
      let place = "\(path)[\(text)]"
      switch (left[key], right[key]) {
      case (let expected?, let actual?): compare(expected, actual, at: place, depth: level)
      case (let expected?, nil): add(place, "missing \(show(expected))")
      case (nil, let actual?): add(place, "unexpected \(show(actual))")
      case (nil, nil): break
      }
    }
  }

  private func entries(of mirror: Mirror) -> [AnyHashable: Any] {
    var entries: [AnyHashable: Any] = [:]
    for child in mirror.children {
      let entry = Array(Mirror(reflecting: child.value).children)
      if entry.count == 2, let key = entry[0].value as? AnyHashable { entries[key] = entry[1].value }
    }
    return entries
  }

  private mutating func compareSets(
    _ expected: Any, _ actual: Any, _ expectedMirror: Mirror, _ actualMirror: Mirror, at path: String
  ) {
    let left = Set(expectedMirror.children.compactMap { $0.value as? AnyHashable })
    let right = Set(actualMirror.children.compactMap { $0.value as? AnyHashable })
    for text in left.subtracting(right).map({ show($0.base) }).sorted() { add(path, "missing \(text)") }
    for text in right.subtracting(left).map({ show($0.base) }).sorted() { add(path, "unexpected \(text)") }
  }

  /// Compares by index, or, if the lengths differ, by insertions and removals.
  private mutating func compareElements(
    _ expectedElements: Mirror.Children, _ actualElements: Mirror.Children, at path: String, _ level: Int
  ) {
    if expectedElements.count == actualElements.count {
      for (index, (expected, actual)) in zip(expectedElements, actualElements).enumerated() {
        if isFull { return }
        compare(expected.value, actual.value, at: "\(path)[\(index)]", depth: level)
      }
      return
    }
    let (expected, actual) = (expectedElements.map(\.value), actualElements.map(\.value))
    let shorter = min(expected.count, actual.count)
    var start = 0
    while start < shorter, looksEqual(expected[start], actual[start]) { start += 1 }
    var end = 0
    while end < shorter - start, looksEqual(expected[expected.count - 1 - end], actual[actual.count - 1 - end]) {
      end += 1
    }
    let (left, right) = (Array(expected[start..<expected.count - end]), Array(actual[start..<actual.count - end]))
    guard left.count * right.count <= Self.greatestProduct else {
      add("\(path)[\(start)...]", "expected \(left.count) elements here, are \(right.count)")
      return
    }
    var (removed, inserted): ([Int: Any], [Int: Any]) = ([:], [:])
    for change in right.difference(from: left, by: { Self.looksEqual($0, $1, Self.sampleDepth) }) {
      switch change {
      case .remove(let offset, let element, _): removed[offset] = element
      case .insert(let offset, let element, _): inserted[offset] = element
      }
    }
    var (old, new) = (0, 0)
    while old < left.count || new < right.count {
      switch (removed[old], inserted[new]) {
      case (let expected?, let actual?):
        compare(expected, actual, at: "\(path)[\(start + new)]", depth: level)
        (old, new) = (old + 1, new + 1)
      case (let expected?, nil):
        add("\(path)[\(start + old)]", "missing \(show(expected))")
        old += 1
      case (nil, let actual?):
        add("\(path)[\(start + new)]", "unexpected \(show(actual))")
        new += 1
      case (nil, nil): (old, new) = (old + 1, new + 1)
      }
    }
  }

  // MARK: Equality

  private static let sampleDepth = 8

  private func looksEqual(_ expected: Any, _ actual: Any) -> Bool {
    Self.looksEqual(expected, actual, Self.sampleDepth)
  }

  private static func looksEqual(_ expected: Any, _ actual: Any, _ depth: Int) -> Bool {
    if let isEqual = areEqual(expected, actual) { return isEqual }
    let (left, right) = (Mirror(reflecting: expected), Mirror(reflecting: actual))
    if left.displayStyle == .class { return expected as AnyObject === actual as AnyObject }
    if left.children.isEmpty, right.children.isEmpty {
      // Cases without payload, and values that can only be printed.
      return type(of: expected) == type(of: actual) && show(expected) == show(actual)
    }
    guard depth > 0, left.children.count == right.children.count else { return false }
    return zip(left.children, right.children).allSatisfy {
      $0.label == $1.label && looksEqual($0.value, $1.value, depth - 1)
    }
  }
}

private func areEqual(_ expected: Any, _ actual: Any) -> Bool? {
  func isEqual<Value: Equatable>(_ expected: Value) -> Bool? { (actual as? Value).map { $0 == expected } }
  return (expected as? any Equatable).flatMap { isEqual($0) }
}

private func member(_ label: String, of path: String, isCase: Bool = false) -> String {
  if path.isEmpty { return isCase ? ".\(label)" : label.hasPrefix(".") ? String(label.dropFirst()) : label }
  return label.hasPrefix(".") ? path + label : "\(path).\(label)"
}

private let printedLength = 200

/// A later difference in a text is shown as an excerpt.
private let shownLength = 100

/// A string, or the value's own description.
private func wholeText(_ value: Any) -> String? {
  switch Mirror(reflecting: value).displayStyle {
  case .struct, .enum, .class: (value as? any CustomStringConvertible)?.description
  default: value as? String
  }
}

private func excerpt(of text: String, around place: Int) -> String {
  let (start, end) = (place - 20, place + 60)
  let middle = text.dropFirst(start).prefix(end - start)
  return "\"…\(middle)\(middle.count == end - start ? "…" : "")\""
}

func show(_ value: Any) -> String {
  var printed = PrintedValue()
  printed.add(value, depth: 0)
  return printed.isLong ? printed.text + "…" : printed.text
}

private struct PrintedValue {
  private(set) var text = ""
  private static let greatestDepth = 6
  /// Of larger sets and dictionaries, only the count is printed: finding the first texts would take long.
  private static let greatestCount = 10_000

  var isLong: Bool { text.utf8.count > printedLength }

  mutating func add(_ value: Any, depth: Int) {
    if isLong { return }
    guard depth < Self.greatestDepth else { return text += "…" }
    if let value = value as? String {
      return text += value.count > printedLength ? "\"\(value.prefix(printedLength))…\"" : "\"\(value)\""
    }
    let mirror = Mirror(reflecting: value)
    switch mirror.displayStyle {
    case .optional:
      if let value = mirror.children.first?.value { add(value, depth: depth) } else { text += "nil" }
    case .collection, .set: addElements(mirror, "[", "]", isSorted: mirror.displayStyle == .set, depth)
    case .dictionary:
      if mirror.children.isEmpty { return text += "[:]" }
      addElements(mirror, "[", "]", isSorted: !(value is any OrderedByKeys), depth)
    case .tuple: addMembers(mirror, depth)
    case .enum:
      guard let payload = mirror.children.first else {
        let isCustom = value is any CustomStringConvertible
        return text += isCustom ? "\(type(of: value))(\(value))" : ".\(value)"
      }
      text += ".\(payload.label ?? "")"
      let inner = Mirror(reflecting: payload.value)
      if inner.displayStyle == .tuple { return addMembers(inner, depth) }
      text += "("
      add(payload.value, depth: depth + 1)
      text += ")"
    case .class: text += "\(type(of: value))"
    case .struct where value is any CustomStringConvertible || mirror.children.isEmpty:
      text += value is any CustomStringConvertible ? String("\(value)".prefix(printedLength)) : "\(type(of: value))()"
    case .struct:
      text += "\(type(of: value))"
      addMembers(mirror, depth)
    default: text += String("\(value)".prefix(printedLength))
    }
  }

  private mutating func addElements(_ mirror: Mirror, _ start: String, _ end: String, isSorted: Bool, _ depth: Int) {
    text += start
    if isSorted, mirror.children.count > Self.greatestCount {
      text += "\(mirror.children.count) elements"
    } else if isSorted {
      let elements = mirror.children.map { child in
        var printed = PrintedValue()
        printed.addElement(child.value, depth: depth + 1)
        return printed.text
      }
      for (index, element) in elements.sorted().enumerated() where !isLong { text += (index > 0 ? ", " : "") + element }
    } else {
      for (index, child) in mirror.children.enumerated() {
        if isLong { break }
        if index > 0 { text += ", " }
        addElement(child.value, depth: depth + 1)
      }
    }
    text += end
  }

  private mutating func addElement(_ value: Any, depth: Int) {
    let mirror = Mirror(reflecting: value)
    let entry = Array(mirror.children)
    guard mirror.displayStyle == .tuple, entry.map(\.label) == ["key", "value"] else { return add(value, depth: depth) }
    add(entry[0].value, depth: depth)
    text += ": "
    add(entry[1].value, depth: depth)
  }

  private mutating func addMembers(_ mirror: Mirror, _ depth: Int) {
    text += "("
    for (index, child) in mirror.children.enumerated() {
      if isLong { break }
      if index > 0 { text += ", " }
      if let label = child.label, !label.hasPrefix(".") { text += "\(label): " }
      add(child.value, depth: depth + 1)
    }
    text += ")"
  }
}
