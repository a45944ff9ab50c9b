/// The order of a history's entries.
///
/// The incarnation that reached the last position defines the order from its beginning on. The part before that is
/// defined by the one that reached furthest among those that began earlier, and so on. All others must agree.
struct Order {
  struct Entry {
    let position: Int
    let hash: UInt64
    /// The range of the entry's actions in the order's `actions`.
    let range: Range<Int>
    /// The incarnation that defines the entry.
    let incarnation: Int
  }

  private(set) var entries: [Entry] = []
  private(set) var actions: [Int] = []
  /// Positions that nobody recorded, in rising order: after the lower bound, through the upper one.
  private(set) var gaps: [(after: Int, through: Int)] = []
  /// Each action's first index in `actions`, or -1.
  private(set) var places: [Int]
  /// For each of `actions`, the index of its entry.
  private(set) var entryOfPlace: [Int] = []

  init(_ history: History) {
    places = Array(repeating: -1, count: history.actions.count)
    let incarnations = history.incarnations
    let furthestFirst = incarnations.indices.sorted {
      let (one, other) = (incarnations[$0], incarnations[$1])
      // Of several that reached equally far, the latest decides: it read the log's present content.
      return (one.last, one.at, one.entries.count) > (other.last, other.at, other.entries.count)
    }
    // Pieces of incarnations, from the order's end to its beginning.
    var pieces: [(incarnation: Int, range: Range<Int>)] = []
    var covered = Int.max
    for index in furthestFirst {
      let incarnation = incarnations[index]
      guard incarnation.after < covered else { continue }
      if covered < Int.max, incarnation.last < covered { gaps.append((incarnation.last, covered)) }
      let end = incarnation.entries.partitioningIndex { $0.position > covered }
      pieces.append((index, 0..<end))
      covered = incarnation.after
    }
    if covered < Int.max, covered > 0 { gaps.append((0, covered)) }
    gaps.reverse()
    for (index, range) in pieces.reversed() {
      let incarnation = incarnations[index]
      for entry in incarnation.entries[range] where entry.position > entries.last?.position ?? 0 {
        let first = actions.count
        for action in incarnation.actions[entry.range] {
          if places[action] < 0 { places[action] = actions.count }
          actions.append(action)
          entryOfPlace.append(entries.count)
        }
        entries.append(
          Entry(position: entry.position, hash: entry.hash, range: first..<actions.count, incarnation: index))
      }
    }
  }

  /// The entry with an action. Nil if the action is not in the order.
  func entry(of action: Int) -> Entry? {
    places[action] < 0 ? nil : entries[entryOfPlace[places[action]]]
  }

  func index(behind position: Int) -> Int { entries.partitioningIndex { $0.position > position } }

  func entry(at position: Int) -> Entry? {
    let index = index(behind: position) - 1
    return index >= 0 && entries[index].position == position ? entries[index] : nil
  }

  func isUnrecorded(_ position: Int) -> Bool {
    let index = gaps.partitioningIndex { $0.through >= position }
    return index < gaps.count && gaps[index].after < position
  }
}

extension Array {
  /// The first index whose element satisfies a condition, in an array in which all such elements follow the others.
  func partitioningIndex(_ belongsToSecond: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if belongsToSecond(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
