import Foundation

/// The changes that a process made below a directory, and the flushes it waited for, as `DiskJournalLibrary` logged
/// them: the possible contents of a disk after a power failure.
struct DiskJournal {
  /// A change and its number.
  private enum Change {
    case write(at: Int, [UInt8])
    case truncate(Int)
    case add(String, Int)
    case remove(String)
    case move(String, to: String)
  }

  /// A file or directory: its durable content, and its pending changes.
  private struct Node {
    var isDirectory: Bool
    var bytes: [UInt8] = []
    var names: [String: Int] = [:]
    var pending: [(number: UInt64, change: Change)] = []

    mutating func apply(_ change: Change) {
      switch change {
      case .write(let offset, let new):
        if bytes.count < offset + new.count {
          bytes += [UInt8](repeating: 0, count: offset + new.count - bytes.count)
        }
        bytes.replaceSubrange(offset..<offset + new.count, with: new)
      case .truncate(let size):
        if size <= bytes.count {
          bytes.removeLast(bytes.count - size)
        } else {
          bytes += [UInt8](repeating: 0, count: size - bytes.count)
        }
      case .add(let name, let node): names[name] = node
      case .remove(let name): names[name] = nil
      case .move(let name, let other):
        if let node = names.removeValue(forKey: name) { names[other] = node }
      }
    }

    /// Makes changes up to a number durable.
    mutating func sync(through number: UInt64) {
      let count = pending.firstIndex { $0.number > number } ?? pending.count
      for (_, change) in pending.prefix(count) { apply(change) }
      pending.removeFirst(count)
    }
  }

  private var nodes: [Node] = [Node(isDirectory: true)]
  /// The number of changes without a flush at the power failure.
  var unsyncedChanges: Int { nodes.reduce(0) { $0 + $1.pending.count } }

  struct Problem: Error { let text: String }

  /// - Parameter root: The inode of the directory, which existed and was empty before the process began.
  init(path: String, root: Int) throws {
    let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    // Inodes are reused: the node is that of the latest file with the inode.
    var places = [root: 0]
    var offset = 0
    func number(_ index: Int) -> UInt64 {
      (0..<8).reduce(0) { $0 | UInt64(bytes[offset + index * 8 + $1]) << (8 * UInt64($1)) }
    }
    // The last record may be torn.
    while offset + 64 <= bytes.count {
      let (name, other, count) = (Int(number(1)), Int(number(2)), Int(number(3)))
      guard offset + 64 + name + other + count <= bytes.count else { break }
      let kind = UInt8(truncatingIfNeeded: number(0))
      let (own, file, second, place) = (number(4), Int(number(5)), Int(number(6)), number(7))
      var rest = bytes[(offset + 64)..<(offset + 64 + name + other + count)]
      let first = String(decoding: rest.prefix(name), as: UTF8.self)
      rest = rest.dropFirst(name)
      let next = String(decoding: rest.prefix(other), as: UTF8.self)
      rest = rest.dropFirst(other)
      offset += 64 + name + other + count
      guard let node = places[file] else { throw Problem(text: "the journal has a file that it does not know") }
      switch kind {
      case UInt8(ascii: "W"): nodes[node].pending.append((own, .write(at: Int(place), Array(rest))))
      case UInt8(ascii: "T"): nodes[node].pending.append((own, .truncate(Int(place))))
      case UInt8(ascii: "N"):
        nodes.append(Node(isDirectory: place == 1))
        places[second] = nodes.count - 1
        nodes[node].pending.append((own, .add(first, nodes.count - 1)))
      case UInt8(ascii: "U"): nodes[node].pending.append((own, .remove(first)))
      case UInt8(ascii: "R") where file == second: nodes[node].pending.append((own, .move(first, to: next)))
      case UInt8(ascii: "S"): nodes[node].sync(through: place)
      default: throw Problem(text: "the journal has a record of an unknown kind")
      }
    }
  }

  /// Writes a possible directory after the power failure: all flushed changes; and of the others either none, or any
  /// sectors of each file and the first changes of each directory.
  func write(to path: String, keepsSome: Bool, by chance: inout Chance) throws {
    var nodes = nodes
    for index in nodes.indices where keepsSome {
      let pending = nodes[index].pending
      if nodes[index].isDirectory {
        for (_, change) in pending.prefix(Int.random(in: 0...pending.count, using: &chance)) {
          nodes[index].apply(change)
        }
      } else {
        for (_, change) in pending { Self.keepSome(of: change, in: &nodes[index], by: &chance) }
      }
    }
    try Self.write(0, of: nodes, to: path)
  }

  private static func keepSome(of change: Change, in node: inout Node, by chance: inout Chance) {
    guard case .write(let offset, let bytes) = change else {
      if Bool.random(using: &chance) { node.apply(change) }
      return
    }
    var start = offset
    while start < offset + bytes.count {
      let end = min((start / 512 + 1) * 512, offset + bytes.count)
      if Bool.random(using: &chance) {
        node.apply(.write(at: start, Array(bytes[(start - offset)..<(end - offset)])))
      }
      start = end
    }
  }

  private static func write(_ index: Int, of nodes: [Node], to path: String) throws {
    guard nodes[index].isDirectory else {
      return try Data(nodes[index].bytes).write(to: URL(fileURLWithPath: path))
    }
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    for (name, node) in nodes[index].names { try write(node, of: nodes, to: path + "/" + name) }
  }
}
