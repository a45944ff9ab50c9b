/// Why middleware stopped an action: a text, to be shown or compared.
///
///     extension RejectionReason {
///       static let roomClosed: Self = "The room is closed."
///     }
///     context.reject(.roomClosed)
///     context.reject("A bid is at least \(minimum).")
///
/// Reasons are equal if their texts are. A literal costs nothing. A text that is made at run time is put into a table
/// of the process, which keeps the newest texts: those of the last half a megabyte, and at most one megabyte, unless a
/// single text is longer. So read the `description` where the error is caught. Later it may say that the text is no
/// longer kept; the reason is still equal to those with the same text, and to no others.
///
/// It holds no reference, so that a `StoreError` is a plain value: the compiler (6.3) crashes on code that catches some
/// of a typed error's cases if one of them holds something reference-counted.
public struct RejectionReason: Sendable, Hashable, ExpressibleByStringInterpolation, CustomStringConvertible {
  private enum Text {
    case literal(StaticString)
    case made(Digest)
  }

  /// Stands for a text within this process: two texts have the same digest by chance once in 2^128.
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

  /// A text with values in it. What a `String` can interpolate in a way of its own is put into a `String` first.
  public struct StringInterpolation: StringInterpolationProtocol, Sendable {
    fileprivate var text: String

    public init(literalCapacity: Int, interpolationCount: Int) {
      text = ""
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    /// Not `String`: a reason that is a literal could not be made from one.
    public typealias StringLiteralType = StaticString

    public mutating func appendLiteral(_ literal: StaticString) {
      text += literal.description
    }

    /// Adds a value, as it describes itself.
    public mutating func appendInterpolation<Value>(_ value: Value) {
      text += String(describing: value)
    }
  }
}

extension RejectionReason {
  /// The newest texts, in two generations, of which the older one is dropped when the newer one is large enough.
  struct Texts {
    private let limit: Int
    private var young: [Digest: String] = [:]
    private var old: [Digest: String] = [:]
    private var youngBytes = 0

    /// - Parameter limit: How many bytes all texts have at most, unless one alone has more than half of that.
    init(limit: Int) {
      self.limit = limit
    }

    var count: Int { young.count + old.count }

    subscript(digest: Digest) -> String? { young[digest] ?? old[digest] }

    mutating func keep(_ text: String, for digest: Digest) {
      if young[digest] != nil { return }
      // About what an entry takes besides its text.
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
