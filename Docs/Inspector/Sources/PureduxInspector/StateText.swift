import Puredux

/// A value as text: a line for each member and element, indented by depth; one that fits is in one line.
///
///     Room
///       title: "Tea"
///       guests: 2 elements
///         [0]: Guest(name: "Ann", since: 3)
///         [1]: Guest(name: "Bob", since: 4)
///
/// It looks into structures, tuples, cases, optionals and collections, and asks other values, and structures that say
/// so, to describe themselves. It does not look into objects, whose members others may be changing.
struct StateText: Sendable {
  struct Line: Sendable {
    let depth: Int
    /// Where in the value it is, such as `guests[3].name`.
    let path: String
    /// What the part is called in the whole; nil for the whole.
    let label: String?
    /// Whether that is its place in a collection, which depends on others.
    let isPlace: Bool
    let text: String
    /// Whether the parts are lines of their own.
    let isHead: Bool

    var shown: String { String(repeating: "  ", count: depth) + (label.map { "\($0): " } ?? "") + text }
  }

  /// How many lines there are at most.
  static let lineLimit = 2_000
  /// How many characters a part has at most that is not looked into, and how many those have that are in one line.
  private static let leafLimit = 500
  private static let inlineLimit = 88
  private static let depthLimit = 16
  /// How many elements without an order are sorted; of more, those are shown that come first.
  private static let sortLimit = 1_000

  private(set) var lines: [Line] = []
  /// Whether something is left out.
  private(set) var isCut = false
  private var room: Int

  /// - Parameter limit: How long the text may be, in bytes.
  init(of value: Any, limit: Int) {
    room = limit
    add(value, label: nil, isPlace: false, path: "", depth: 0)
  }

  // MARK: Describing

  private mutating func add(_ value: Any, label: String?, isPlace: Bool, path: String, depth: Int) {
    guard room > 0, lines.count < Self.lineLimit else { return isCut = true }
    let part = Part(value)
    var oneLine = OneLine(limit: Self.inlineLimit)
    // The whole shows its parts, and a collection its elements: they stay the lines that they are, whatever changes.
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

  /// What differs from another text.
  struct Comparison: Sendable {
    struct Change: Sendable, Encodable, Equatable {
      let path: String
      /// Nil if the part was added.
      let before: String?
      /// Nil if it was removed.
      let after: String?
    }

    /// In the order of the lines; what was removed comes last.
    var changes: [Change] = []
    /// The numbers of the lines that are not in the other text.
    var newLines: [Int] = []
  }

  /// How long the parts of two texts that differ may be, multiplied, to look for what was added and removed.
  private static let greatestProduct = 250_000
  /// How many changes are told.
  private static let changeLimit = 100

  /// Lines that were added, removed, or have another text in the same place.
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
      // These come from the last on.
      case .remove(_, let line, _): removed.insert(line, at: 0)
      case .insert(let offset, let line, _):
        added.append(line)
        comparison.newLines.append(start + offset)
      }
    }
    var before = Dictionary(removed.map { ($0.place, $0) }) { first, _ in first }
    for line in added {
      let old = before.removeValue(forKey: line.place)
      // A head only says how many parts there are.
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
  /// A payload has the path of its case.
  fileprivate var place: String { "\(depth) \(path)" }

  fileprivate func isSame(as other: StateText.Line) -> Bool {
    depth == other.depth && text == other.text && isPlace == other.isPlace && (isPlace || label == other.label)
  }
}

/// A value with what reflection tells of it.
private struct Part {
  struct Child {
    let value: Any
    /// Nil for an associated value or a member of a tuple without one.
    let label: String?
    /// Whether it is an element of a collection.
    let isPlace: Bool

    func path(after path: String) -> String {
      guard let label else { return "" }
      return isPlace || path.isEmpty || label.hasPrefix("[") ? label : "." + label
    }
  }

  let value: Any
  let mirror: Mirror

  /// An optional that has a value is that value.
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

  /// Whether it is a list of what is short for sure, or empty.
  var isOfNumbers: Bool {
    mirror.displayStyle != .dictionary && children.prefix(64).allSatisfy { $0.value is any Numeric } || children.isEmpty
  }

  /// Whether it is not looked into.
  var isLeaf: Bool {
    switch mirror.displayStyle {
    case .collection, .set, .dictionary, .tuple, .enum: children.isEmpty
    case .struct: children.isEmpty || value is any CustomStringConvertible
    default: true
    }
  }

  /// What it is, before its parts.
  var head: String {
    switch mirror.displayStyle {
    case .collection, .set, .dictionary: "\(children.count) \(children.count == 1 ? "element" : "elements")"
    case .enum: ".\(children.first?.label ?? "")"
    case .tuple: "(…)"
    default: "\(type(of: value))"
    }
  }

  /// As it is where it is not looked into; nil where it is.
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
  ///   - sortLimit: Elements of sets and dictionaries are sorted if there are no more.
  ///   - limit: No more are needed.
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
      // The payload is the tuple of the associated values, or the only one.
      guard let payload = children.first?.value else { return [] }
      let inner = Mirror(reflecting: payload)
      guard inner.displayStyle == .tuple else { return [Child(value: payload, label: nil, isPlace: false)] }
      return inner.children.map { Child(value: $0.value, label: $0.label?.memberName, isPlace: false) }
    default: return children.map { Child(value: $0.value, label: $0.label?.memberName, isPlace: false) }
    }
  }
}

extension String {
  /// With an escape for each character that would turn round what is beside it.
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

  /// A member of a tuple that has no name is called by its place.
  fileprivate var memberName: String? { hasPrefix(".") ? String(dropFirst()) : self }
}

/// A value in one line, if it fits.
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
    // More would not fit.
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
