import Foundation

/// What the processes of a trial have recorded, merged.
public struct History: Sendable {
  /// A call of a writer, and what it was told.
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

  /// What a replica applied from when it began until it ended.
  struct Incarnation: Sendable {
    struct Entry: Sendable {
      let position: Int
      let hash: UInt64
      /// Those of its actions in `actions` of the incarnation.
      let range: Range<Int>
    }

    let file: Int
    let replica: String
    let after: Int
    let hash: UInt64
    let at: Int
    var entries: [Entry] = []
    var actions: [Int] = []

    /// The last position that it came to.
    var last: Int { entries.last?.position ?? after }
  }

  struct File: Sendable {
    let name: String
    var process = ""
    /// An index into `clocks`; those of files that do not name one are their own.
    var clock = 0
    var lines = 0
  }

  /// A line that says nothing, or something that cannot be.
  struct Unreadable: Sendable {
    let file: Int
    let line: Int
    let why: String
  }

  var files: [File] = []
  var clocks = Names()
  var writers = Names()
  var actions = Names()
  /// Those of each file in the order in which they were made.
  var calls: [Call] = []
  var incarnations: [Incarnation] = []
  /// The files whose last lines are not whole: their processes were ended while they wrote them.
  var torn: [Int] = []
  var unreadable: [Unreadable] = []

  /// A history of no files.
  public init() {}

  /// Reads files.
  public init(paths: [String]) throws {
    for path in paths { add(try Data(contentsOf: URL(fileURLWithPath: path)), named: path) }
  }

  /// Adds a file.
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

/// Texts that are numbered, as many are met again and again.
struct Names: Sendable {
  /// By their bytes: texts that are equal only as people read them are two.
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
