/// Why middleware stopped an action: a text, to be shown or compared.
///
///     extension RejectionReason {
///       static let roomClosed: Self = "The room is closed."
///     }
///     context.reject(.roomClosed)
///     context.reject("A bid is at least \(minimum).")
///
/// Reasons are equal if their texts are. A literal costs nothing. Texts made at run time are stored in a table of the
/// process. It retains at least the newest half megabyte, and at most one megabyte, unless a single text is longer.
/// Read the `description` where the error is caught: later it may say that the text is no longer kept. The reason is
/// still equal to those with the same text, and to no others.
///
/// It holds no reference, so that a `StoreError` is a plain value. The compiler (6.3) crashes on code that catches some
/// cases of a typed error if one of them holds a reference-counted value.
public struct RejectionReason: Sendable, Hashable, ExpressibleByStringInterpolation, CustomStringConvertible {
  private enum Text {
    case literal(StaticString)
    case made(Digest)
  }

  /// Identifies a text within this process: two texts have the same digest by chance once in 2^128.
  struct Digest: Hashable {
    private let first: Int
    private let second: Int

    init(of text: String) {
      var hasher = Hasher()
      hasher.combine(text)
      first = hasher.finalize()
      hasher = Hasher()
      hasher.combine(1)
      hasher.combine(text)
      second = hasher.finalize()
    }
  }

  private static let texts = LockedValue(Texts(limit: 1 << 20))

  private let text: Text

  public init(stringLiteral text: StaticString) {
    self.text = .literal(text)
  }

  public init(stringInterpolation text: StringInterpolation) {
    self.init(text.text)
  }

  /// A text that is made at run time.
  public init(_ text: String) {
    let digest = Digest(of: text)
    Self.texts.withLock { $0.keep(text, for: digest) }
    self.text = .made(digest)
  }

  public var description: String {
    switch text {
    case .literal(let text): text.description
    case .made(let digest): Self.texts.withLock { $0[digest] } ?? "(The text of this reason is no longer kept.)"
    }
  }

  private var digest: Digest {
    switch text {
    case .literal(let text): Digest(of: text.description)
    case .made(let digest): digest
    }
  }

  public static func == (lhs: RejectionReason, rhs: RejectionReason) -> Bool {
    if case .literal(let left) = lhs.text, case .literal(let right) = rhs.text {
      return left.description == right.description
    }
    return lhs.digest == rhs.digest
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(digest)
  }

  /// A text with interpolated values. A `String` with custom interpolation must be made first.
  public struct StringInterpolation: StringInterpolationProtocol, Sendable {
    fileprivate var text: String

    public init(literalCapacity: Int, interpolationCount: Int) {
      text = ""
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    /// Not `String`: a literal reason could not be made from one.
    public typealias StringLiteralType = StaticString

    public mutating func appendLiteral(_ literal: StaticString) {
      text += literal.description
    }

    /// Adds the value's description.
    public mutating func appendInterpolation<Value>(_ value: Value) {
      text += String(describing: value)
    }
  }
}

extension RejectionReason {
  /// The newest texts, in two generations. The older one is dropped when the newer one is large enough.
  struct Texts {
    private let limit: Int
    private var young: [Digest: String] = [:]
    private var old: [Digest: String] = [:]
    private var youngBytes = 0

    /// - Parameter limit: The greatest number of bytes of all texts, unless one alone has more than half of that.
    init(limit: Int) {
      self.limit = limit
    }

    var count: Int { young.count + old.count }

    subscript(digest: Digest) -> String? { young[digest] ?? old[digest] }

    mutating func keep(_ text: String, for digest: Digest) {
      if young[digest] != nil { return }
      let bytes = text.utf8.count + 100
      if youngBytes + bytes > limit / 2 {
        old = young
        young = [:]
        youngBytes = 0
      }
      young[digest] = text
      youngBytes += bytes
    }
  }
}
