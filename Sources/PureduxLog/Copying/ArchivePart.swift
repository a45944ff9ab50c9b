/// A part of a file of exported logs: a record, whose position is the part's number.
enum ArchivePart: Equatable {
  case tree(String)
  case entry([UInt8])
  case snapshot(LogSnapshot)
  case endOfTree(entries: UInt64)
  case end(trees: UInt64, entries: UInt64)

  /// `PDXCOPY`, and the version of the format.
  static let magic: [UInt8] = [0x50, 0x44, 0x58, 0x43, 0x4F, 0x50, 0x59, 1]

  private enum Sort: UInt8 { case tree = 1, entry, snapshot, endOfTree, end }

  var bytes: [UInt8] {
    var bytes = ByteWriter()
    switch self {
    case .tree(let key):
      bytes.put(Sort.tree.rawValue)
      bytes.put(Array(key.composed.utf8))
    case .entry(let entry): return [Sort.entry.rawValue] + entry
    case .snapshot(let snapshot):
      bytes.put(Sort.snapshot.rawValue)
      bytes.put(snapshot.position)
      return bytes.bytes + snapshot.bytes
    case .endOfTree(let entries):
      bytes.put(Sort.endOfTree.rawValue)
      bytes.put(entries)
    case .end(let trees, let entries):
      bytes.put(Sort.end.rawValue)
      bytes.put(trees)
      bytes.put(entries)
    }
    return bytes.bytes
  }

  init?(_ bytes: [UInt8]) {
    var reader = ByteReader(bytes)
    guard let byte = reader.take(UInt8.self), let sort = Sort(rawValue: byte) else { return nil }
    switch sort {
    case .tree:
      guard let key = reader.takeString(), reader.isAtEnd else { return nil }
      self = .tree(String(decoding: key, as: UTF8.self))
    case .entry: self = .entry(Array(bytes[1...]))
    case .snapshot:
      guard let position = reader.take(UInt64.self) else { return nil }
      self = .snapshot(LogSnapshot(position: position, bytes: Array(bytes[9...])))
    case .endOfTree:
      guard let entries = reader.take(UInt64.self), reader.isAtEnd else { return nil }
      self = .endOfTree(entries: entries)
    case .end:
      guard let trees = reader.take(UInt64.self), let entries = reader.take(UInt64.self), reader.isAtEnd else {
        return nil
      }
      self = .end(trees: trees, entries: entries)
    }
  }
}
