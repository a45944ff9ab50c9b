struct LineFields {
  var process: String?
  var clock: String?
  var invoke: Int?
  var writer: String?
  var action: String?
  var read: String?
  var returned: Int?
  var outcome: String?
  var begin: String?
  var after: Int?
  var apply: String?
  var position: Int?
  var actions: [String]?
  var hash: UInt64?
  var at: Int?
}

/// Parses a flat JSON object of strings, integers and arrays of strings. A general parser would take a minute for the
/// millions of lines of a long trial.
struct LineParser {
  private let bytes: ArraySlice<UInt8>
  private var index: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    index = bytes.startIndex
  }

  /// The line's fields. Nil if it is not one complete object of this kind.
  mutating func fields() -> LineFields? {
    var fields = LineFields()
    guard take("{") else { return nil }
    if !take("}") {
      repeat {
        guard let name = text(), take(":"), value(of: name, in: &fields) else { return nil }
      } while take(",")
      guard take("}") else { return nil }
    }
    skipSpaces()
    return index == bytes.endIndex ? fields : nil
  }

  private mutating func value(of name: String, in fields: inout LineFields) -> Bool {
    switch name {
    case "process": set(&fields.process, text())
    case "clock": set(&fields.clock, text())
    case "invoke": set(&fields.invoke, number())
    case "writer": set(&fields.writer, text())
    case "action": set(&fields.action, text())
    case "read": set(&fields.read, text())
    case "return": set(&fields.returned, number())
    case "outcome": set(&fields.outcome, text())
    case "begin": set(&fields.begin, text())
    case "after": set(&fields.after, number())
    case "apply": set(&fields.apply, text())
    case "position": set(&fields.position, number())
    case "actions": set(&fields.actions, texts())
    case "hash": set(&fields.hash, text().flatMap { UInt64($0, radix: 16) })
    case "at": set(&fields.at, number())
    default: text() != nil || number() != nil || texts() != nil
    }
  }

  private func set<Value>(_ field: inout Value?, _ value: Value?) -> Bool {
    field = value
    return value != nil
  }

  // MARK: Pieces

  private mutating func skipSpaces() {
    while index < bytes.endIndex, [0x20, 0x09, 0x0D].contains(bytes[index]) { index += 1 }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    skipSpaces()
    guard index < bytes.endIndex, bytes[index] == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func number() -> Int? {
    let isNegative = take("-")
    let first = index
    var value = 0
    while index < bytes.endIndex, case let digit = bytes[index] &- UInt8(ascii: "0"), digit < 10 {
      let (shifted, hasOverflowed) = value.multipliedReportingOverflow(by: 10)
      let (sum, hasOverflowedToo) = shifted.addingReportingOverflow(Int(digit))
      if hasOverflowed || hasOverflowedToo { return nil }
      value = sum
      index += 1
    }
    return index > first ? (isNegative ? -value : value) : nil
  }

  private mutating func texts() -> [String]? {
    guard take("[") else { return nil }
    var texts: [String] = []
    if take("]") { return texts }
    repeat {
      guard let text = text() else { return nil }
      texts.append(text)
    } while take(",")
    return take("]") ? texts : nil
  }

  private mutating func text() -> String? {
    guard take("\"") else { return nil }
    let first = index
    while index < bytes.endIndex, bytes[index] != UInt8(ascii: "\""), bytes[index] != UInt8(ascii: "\\") { index += 1 }
    guard index < bytes.endIndex else { return nil }
    if bytes[index] == UInt8(ascii: "\"") {
      defer { index += 1 }
      return String(validating: bytes[first..<index], as: UTF8.self)
    }
    return escapedText(from: first)
  }

  private mutating func escapedText(from first: Int) -> String? {
    var text = Array(bytes[first..<index])
    while index < bytes.endIndex {
      let byte = bytes[index]
      index += 1
      if byte == UInt8(ascii: "\"") { return String(validating: text, as: UTF8.self) }
      guard byte == UInt8(ascii: "\\") else {
        text.append(byte)
        continue
      }
      guard index < bytes.endIndex else { return nil }
      let escape = bytes[index]
      index += 1
      switch escape {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(escape)
      case UInt8(ascii: "n"): text.append(0x0A)
      case UInt8(ascii: "t"): text.append(0x09)
      case UInt8(ascii: "r"): text.append(0x0D)
      case UInt8(ascii: "b"): text.append(0x08)
      case UInt8(ascii: "f"): text.append(0x0C)
      case UInt8(ascii: "u"):
        guard let scalar = escapedScalar() else { return nil }
        text += String(scalar).utf8
      default: return nil
      }
    }
    return nil
  }

  /// Parses an escape of four hexadecimal digits, or a surrogate pair.
  private mutating func escapedScalar() -> Unicode.Scalar? {
    guard let first = fourDigits() else { return nil }
    guard 0xD800..<0xDC00 ~= first else { return Unicode.Scalar(first) }
    guard index + 1 < bytes.endIndex, bytes[index] == UInt8(ascii: "\\"), bytes[index + 1] == UInt8(ascii: "u")
    else { return nil }
    index += 2
    guard let second = fourDigits(), 0xDC00..<0xE000 ~= second else { return nil }
    return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
  }

  private mutating func fourDigits() -> UInt32? {
    guard index + 4 <= bytes.endIndex else { return nil }
    defer { index += 4 }
    return UInt32(String(decoding: bytes[index..<index + 4], as: UTF8.self), radix: 16)
  }
}
