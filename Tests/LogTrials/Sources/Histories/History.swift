import Foundation

/// The merged records of a trial's processes.
public struct History: Sendable {
  /// A writer's call and its result.
  struct Call: Sendable {
    let file: Int
    let number: Int
    /// An index into `writers`.
    let writer: Int
    /// An index into `actions`; nil for a read.
    let action: Int?
    let claim: Claim
    let invoked: Int
    var returned: Int?
    var outcome = Outcome.unknown
    var position: Int?
    var hash: UInt64?
  }

  /// The entries that a replica applied between its beginning and its end.
  struct Incarnation: Sendable {
    struct Entry: Sendable {
      let position: Int
      let hash: UInt64
      /// The range of the entry's actions in the incarnation's `actions`.
      let range: Range<Int>
    }

    let file: Int
    let replica: String
    let after: Int
    let hash: UInt64
    let at: Int
    var entries: [Entry] = []
    var actions: [Int] = []

    var last: Int { entries.last?.position ?? after }
  }

  struct File: Sendable {
    let name: String
    var process = ""
    /// An index into `clocks`. A file that names no clock has its own.
    var clock = 0
    var lines = 0
  }

  /// A line that is no event, or an impossible one.
  struct Unreadable: Sendable {
    let file: Int
    let line: Int
    let why: String
  }

  var files: [File] = []
  var clocks = Names()
  var writers = Names()
  var actions = Names()
  /// The calls, which are in call order within each file.
  var calls: [Call] = []
  var incarnations: [Incarnation] = []
  /// The files with an incomplete last line: their processes were killed during a write.
  var torn: [Int] = []
  var unreadable: [Unreadable] = []

  /// Creates an empty history.
  public init() {}

  /// Reads a history from files.
  public init(paths: [String]) throws {
    for path in paths { add(try Data(contentsOf: URL(fileURLWithPath: path)), named: path) }
  }

  /// Adds a file's content.
  public mutating func add(_ bytes: some Sequence<UInt8>, named name: String) {
    files.append(File(name: name, clock: clocks.index(of: "that of \(name)")))
    var reader = FileReader(file: files.count - 1)
    let bytes = Array(bytes)
    var first = 0
    while let end = bytes[first...].firstIndex(of: UInt8(ascii: "\n")) {
      reader.read(bytes[first..<end], into: &self)
      first = end + 1
    }
    if first < bytes.count { torn.append(files.count - 1) }
  }
}

/// Numbers texts, as many of them recur.
struct Names: Sendable {
  /// Compares texts by their bytes: canonically equivalent texts are distinct.
  private struct Key: Hashable {
    let text: String

    static func == (one: Key, other: Key) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    func hash(into hasher: inout Hasher) {
      for byte in text.utf8 { hasher.combine(byte) }
      hasher.combine(UInt8(0xFF))
    }
  }

  private var indices: [Key: Int] = [:]
  private(set) var all: [String] = []

  var count: Int { all.count }

  subscript(index: Int) -> String { all[index] }

  mutating func index(of name: String) -> Int {
    if let index = indices[Key(text: name)] { return index }
    indices[Key(text: name)] = all.count
    all.append(name)
    return all.count - 1
  }
}
