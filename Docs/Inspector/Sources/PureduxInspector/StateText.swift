import Puredux

/// A value as text: a line for each member and element, indented by depth. A short value takes a single line.
///
///     Room
///       title: "Tea"
///       guests: 2 elements
///         [0]: Guest(name: "Ann", since: 3)
///         [1]: Guest(name: "Bob", since: 4)
///
/// Structures, tuples, enumerations, optionals and collections are broken down. Other values, and structures that
/// conform to `CustomStringConvertible`, describe themselves. Objects are not inspected, because their members may
/// change concurrently.
struct StateText: Sendable {
  struct Line: Sendable {
    let depth: Int
    /// The path within the value, such as `guests[3].name`.
    let path: String
    /// The name of the member or element; nil for the whole value.
    let label: String?
    /// Whether the label is an index in a collection.
    let isPlace: Bool
    let text: String
    /// Whether the parts follow on lines of their own.
    let isHead: Bool

    var shown: String { String(repeating: "  ", count: depth) + (label.map { "\($0): " } ?? "") + text }
  }

  /// The maximum number of lines.
  static let lineLimit = 2_000
  /// The maximum lengths of a part that is not broken down, and of a value on a single line.
  private static let leafLimit = 500
  private static let inlineLimit = 88
  private static let depthLimit = 16
  /// Sets and dictionaries with up to this number of elements are sorted.
  private static let sortLimit = 1_000

  private(set) var lines: [Line] = []
  /// Whether the text is truncated.
  private(set) var isCut = false
  private var room: Int

  /// - Parameter limit: The maximum length of the text, in bytes.
  init(of value: Any, limit: Int) {
    room = limit
    add(value, label: nil, isPlace: false, path: "", depth: 0)
  }

  // MARK: Describing

  private mutating func add(_ value: Any, label: String?, isPlace: Bool, path: String, depth: Int) {
    guard room > 0, lines.count < Self.lineLimit else { return isCut = true }
    let part = Part(value)
    var oneLine = OneLine(limit: Self.inlineLimit)
    // The whole value and collections are always broken down, so that their lines stay the same when they change.
    let isLong = part.isCollection ? !part.isOfNumbers : depth == 0 && part.isMembers
    let isShort = !isLong && oneLine.add(part)
    let text = isShort ? oneLine.text : part.leaf(limit: Self.leafLimit) ?? part.head
    let isHead = !isShort && !part.isLeaf
    let line = Line(
      depth: depth, path: path.withoutTurns, label: label?.withoutTurns, isPlace: isPlace, text: text.withoutTurns,
      isHead: isHead)
    room -= line.shown.utf8.count + 1
    lines.append(line)
    guard isHead else { return }
    guard depth < Self.depthLimit else { return isCut = true }
    for child in part.children(sortedUpTo: Self.sortLimit, limit: Self.lineLimit) {
      if isCut { return }
      add(
        child.value, label: child.label, isPlace: child.isPlace, path: path + child.path(after: path),
        depth: depth + 1)
    }
  }

  // MARK: Comparing

  /// The difference between two texts.
  struct Comparison: Sendable {
    struct Change: Sendable, Encodable, Equatable {
      let path: String
      /// Nil if the part was added.
      let before: String?
      /// Nil if the part was removed.
      let after: String?
    }

    /// In the order of the lines; removals come last.
    var changes: [Change] = []
    /// The numbers of lines that are missing in the other text.
    var newLines: [Int] = []
  }

  /// The limit for a line-by-line comparison: the product of the numbers of different lines.
  private static let greatestProduct = 250_000
  /// The maximum number of changes.
  private static let changeLimit = 100

  /// Finds lines that were added, removed, or changed in place.
  func compared(with other: StateText) -> Comparison {
    let (old, new) = (other.lines, lines)
    let shorter = min(old.count, new.count)
    let start = (0..<shorter).first { !old[$0].isSame(as: new[$0]) } ?? shorter
    let end =
      (0..<shorter - start).first { !old[old.count - 1 - $0].isSame(as: new[new.count - 1 - $0]) } ?? shorter - start
    let (left, right) = (Array(old[start..<old.count - end]), Array(new[start..<new.count - end]))
    var comparison = Comparison()
    guard left.count * right.count <= Self.greatestProduct else {
      comparison.changes = [.init(path: "", before: "\(left.count) lines", after: "\(right.count) others")]
      comparison.newLines = Array(start..<new.count - end)
      return comparison
    }
    var (removed, added): ([Line], [Line]) = ([], [])
    for change in right.difference(from: left, by: { $0.isSame(as: $1) }) {
      switch change {
      // Removals come in descending order.
      case .remove(_, let line, _): removed.insert(line, at: 0)
      case .insert(let offset, let line, _):
        added.append(line)
        comparison.newLines.append(start + offset)
      }
    }
    var before = Dictionary(removed.map { ($0.place, $0) }) { first, _ in first }
    for line in added {
      let old = before.removeValue(forKey: line.place)
      // A head shows only the number of parts.
      if line.isHead, old?.isHead ?? true { continue }
      comparison.changes.append(.init(path: line.path, before: old?.text, after: line.text))
    }
    for line in removed where !line.isHead && before[line.place] != nil {
      comparison.changes.append(.init(path: line.path, before: line.text, after: nil))
    }
    comparison.changes = Array(comparison.changes.prefix(Self.changeLimit))
    return comparison
  }
}

extension StateText.Line {
  /// Includes the depth, because a payload has the same path as its case.
  fileprivate var place: String { "\(depth) \(path)" }

  fileprivate func isSame(as other: StateText.Line) -> Bool {
    depth == other.depth && text == other.text && isPlace == other.isPlace && (isPlace || label == other.label)
  }
}

/// A value and its mirror.
private struct Part {
  struct Child {
    let value: Any
    /// Nil for an associated value or tuple member without a label.
    let label: String?
    /// Whether the label is an index in a collection.
    let isPlace: Bool

    func path(after path: String) -> String {
      guard let label else { return "" }
      return isPlace || path.isEmpty || label.hasPrefix("[") ? label : "." + label
    }
  }

  let value: Any
  let mirror: Mirror

  /// Unwraps optionals.
  init(_ value: Any) {
    var (value, mirror) = (value, Mirror(reflecting: value))
    while mirror.displayStyle == .optional, let inner = mirror.children.first?.value {
      (value, mirror) = (inner, Mirror(reflecting: inner))
    }
    (self.value, self.mirror) = (value, mirror)
  }

  var children: Mirror.Children { mirror.children }
  var isMembers: Bool { mirror.displayStyle == .struct && !isLeaf }

  var isCollection: Bool {
    switch mirror.displayStyle {
    case .collection, .set, .dictionary: true
    default: false
    }
  }

  /// Whether it is an array or a set of numbers, or empty.
  var isOfNumbers: Bool {
    mirror.displayStyle != .dictionary && children.prefix(64).allSatisfy { $0.value is any Numeric } || children.isEmpty
  }

  /// Whether it is not broken down.
  var isLeaf: Bool {
    switch mirror.displayStyle {
    case .collection, .set, .dictionary, .tuple, .enum: children.isEmpty
    case .struct: children.isEmpty || value is any CustomStringConvertible
    default: true
    }
  }

  /// The text before its parts.
  var head: String {
    switch mirror.displayStyle {
    case .collection, .set, .dictionary: "\(children.count) \(children.count == 1 ? "element" : "elements")"
    case .enum: ".\(children.first?.label ?? "")"
    case .tuple: "(…)"
    default: "\(type(of: value))"
    }
  }

  /// The text of a leaf; nil for other values.
  func leaf(limit: Int) -> String? {
    guard isLeaf else { return nil }
    switch mirror.displayStyle {
    case .collection, .set: return "[]"
    case .dictionary: return "[:]"
    case .optional: return "nil"
    case .enum: return value is any CustomStringConvertible ? "\(value)".cut(to: limit) : ".\(value)"
    case .tuple: return "()"
    case .class where !(value is any CustomStringConvertible): return "\(type(of: value)) (an object)"
    case .struct where !(value is any CustomStringConvertible): return "\(type(of: value))()"
    default:
      if let text = value as? String {
        return text.utf8.count <= limit ? text.debugDescription : text.cut(to: limit).debugDescription
      }
      if let text = value as? Substring { return String(text).cut(to: limit).debugDescription }
      return "\(value)".cut(to: limit)
    }
  }

  /// - Parameters:
  ///   - sortLimit: Sets and dictionaries are sorted if they have no more elements.
  ///   - limit: The maximum number of children.
  func children(sortedUpTo sortLimit: Int, limit: Int) -> [Child] {
    switch mirror.displayStyle {
    case .collection:
      return children.prefix(limit).enumerated().map { Child(value: $1.value, label: "[\($0)]", isPlace: true) }
    case .set:
      let texts = children.prefix(limit).map { ($0.value, OneLine.text(of: $0.value)) }
      return (children.count <= sortLimit ? texts.sorted { $0.1 < $1.1 } : texts).enumerated().map {
        Child(value: $1.0, label: "[\($0)]", isPlace: true)
      }
    case .dictionary:
      let pairs = children.prefix(limit).map { pair in
        let pair = Array(Mirror(reflecting: pair.value).children)
        return (OneLine.text(of: pair.first?.value ?? ""), pair.last?.value ?? "")
      }
      return (children.count <= sortLimit ? pairs.sorted { $0.0 < $1.0 } : pairs).map {
        Child(value: $0.1, label: "[\($0.0)]", isPlace: false)
      }
    case .enum:
      // The payload is a tuple of the associated values, or the only value.
      guard let payload = children.first?.value else { return [] }
      let inner = Mirror(reflecting: payload)
      guard inner.displayStyle == .tuple else { return [Child(value: payload, label: nil, isPlace: false)] }
      return inner.children.map { Child(value: $0.value, label: $0.label?.memberName, isPlace: false) }
    default: return children.map { Child(value: $0.value, label: $0.label?.memberName, isPlace: false) }
    }
  }
}

extension String {
  /// Escapes bidirectional control characters, which would affect the surrounding text.
  fileprivate var withoutTurns: String {
    guard unicodeScalars.contains(where: \.properties.isBidiControl) else { return self }
    return unicodeScalars.reduce(into: "") { text, scalar in
      if scalar.properties.isBidiControl {
        text += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
  }

  /// A tuple member without a name has its index as label.
  fileprivate var memberName: String? { hasPrefix(".") ? String(dropFirst()) : self }
}

private struct OneLine {
  private let limit: Int
  private(set) var text = ""

  init(limit: Int) { self.limit = limit }

  static func text(of value: Any) -> String {
    var line = OneLine(limit: 80)
    let part = Part(value)
    return line.add(part) ? line.text : part.leaf(limit: 80) ?? part.head
  }

  private var isTooLong: Bool { text.utf8.count > limit }

  /// - Returns: Whether it fits.
  mutating func add(_ part: Part, depth: Int = 0) -> Bool {
    if let leaf = part.leaf(limit: limit) {
      text += leaf
      return !isTooLong
    }
    guard depth < 6 else { return false }
    let (start, end): (String, String) =
      switch part.mirror.displayStyle {
      case .collection, .set, .dictionary: ("[", "]")
      case .tuple: ("(", ")")
      default: (part.head + "(", ")")
      }
    text += start
    // More elements would not fit.
    for (index, child) in part.children(sortedUpTo: limit, limit: limit).enumerated() {
      if index > 0 { text += ", " }
      if let label = child.label, part.mirror.displayStyle == .dictionary {
        text += "\(label.dropFirst().dropLast()): "
      } else if let label = child.label, !child.isPlace, Int(label) == nil {
        text += "\(label): "
      }
      guard !isTooLong, add(Part(child.value), depth: depth + 1) else { return false }
    }
    text += end
    return !isTooLong
  }
}
