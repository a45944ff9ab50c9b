/// Why a store refused or failed a request.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released, or the sending effect was cancelled by its id or the state: the request
  /// changed nothing (G8, G9).
  case terminated
  /// An optional scope has no state at present.
  case stateUnavailable
  /// A projection maps the action to nil: no store gets it.
  case unmapped
  /// Nested deeper than 100 levels: no actions, no states.
  case tooDeep
  /// Middleware stopped the action, with this reason: it changed nothing.
  case rejected(reason: RejectionReason?)
  /// The action may or may not be committed by the store's log. A time limit was over, the task was cancelled, or the
  /// store ended or stopped before the log answered. Also thrown if the entry is behind a seal for newer rules, or
  /// skipped by decision: a later decision can restore it.
  case outcomeUnknown
  /// The task was cancelled, or a time limit was over, before the action's turn, or before the log received it: the
  /// action changes nothing.
  case withdrawn
  /// The store follows a log and cannot go on. The request changed nothing; the state can be read.
  case stopped(LogStop)
}

/// Why a store that follows a log neither takes nor commits further actions. Positions are those of the entry.
public enum LogStop: Sendable, Hashable, Codable {
  /// The state or the order differs from another replica's, or an earlier process's. A reducer is not deterministic,
  /// the engine changed a confirmed order, or an entry applied here is skipped by decision.
  case diverged(position: UInt64)
  /// The entry has a newer schema than this program knows.
  case newerSchema(position: UInt64)
  /// This program cannot decode the entry, or the snapshot, and neither skips nor overwrites it. The log continues with
  /// a program that can, or a decision to skip the entry (`OrderedLog.skip`).
  case undecodable(position: UInt64)
  /// The entry has newer rules than this program knows (`LogOptions.rules`), or is a seal for newer rules.
  case newerRules(position: UInt64)
  /// The entry has older rules than this program knows (`LogOptions.oldestRules`), and no later snapshot exists.
  case olderRules(position: UInt64)
  /// Two processes of this program, one after the other, died while they replayed the entry: it traps the reducer, or
  /// never ends. No later entry is applied until a decision skips this one, or another version of the program starts.
  case poisoned(position: UInt64)
  /// The entry carries this store's writer number, but this store did not write it there: the machine was copied while
  /// it ran, or the engine repeated the store's first entry when its number had been forgotten (G11). Actions on their
  /// way to the log are `StoreError.outcomeUnknown`. When opened again, the store has another number. A store without
  /// actions on their way takes another number, and does not stop.
  case cloned(position: UInt64)
  /// The log is damaged, or has lost the entry that this replica needs next.
  case unreadable(position: UInt64)
  /// The tree was removed (`LogDirectory.remove`).
  case removed
}

/// Why middleware stopped an action: a text, to be shown or compared.
///
///     extension RejectionReason {
///       static let roomClosed: Self = "The room is closed."
///     }
///     context.reject(.roomClosed)
///     context.reject("A bid is at least \(minimum).")
///
/// Reasons are equal if their texts are. A literal costs nothing. A table of the process retains at least the newest
/// half megabyte of the texts made at run time, and at most one, unless a single text is longer. Read the `description`
/// where the error is caught: later the text may be gone, but equality still holds.
///
/// Holds no reference: the compiler (6.3) crashes on code that catches some cases of a typed error with a
/// reference-counted value.
public struct RejectionReason: Sendable, Hashable, ExpressibleByStringInterpolation, CustomStringConvertible {
  private enum Text {
    case literal(StaticString)
    case made(Digest)
  }

  /// Equal by chance once in 2^128.
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

  /// A text made at run time.
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

    /// A literal reason cannot be made from a `String`.
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
  /// A full young generation replaces the older one.
  struct Texts {
    private let limit: Int
    private var young: [Digest: String] = [:]
    private var old: [Digest: String] = [:]
    private var youngBytes = 0

    /// - Parameter limit: The maximum bytes of all texts, unless one alone has more than half of that.
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
