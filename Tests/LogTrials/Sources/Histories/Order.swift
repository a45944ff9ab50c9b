/// The order that a history's replicas came to.
///
/// The replica that came furthest says what it is, from where that one began; behind which it began, the one that came
/// furthest of those that began earlier; and so on. What others applied has to be what this says.
struct Order {
  struct Entry {
    let position: Int
    let hash: UInt64
    /// Those of its actions in `actions` of the order.
    let range: Range<Int>
    /// Whose entry it is.
    let incarnation: Int
  }

  private(set) var entries: [Entry] = []
  private(set) var actions: [Int] = []
  /// Positions that nobody recorded, as lower bounds, which are not among them, and upper ones, in rising order.
  private(set) var gaps: [(after: Int, through: Int)] = []
  /// Where each action is in `actions`, the first time; -1 where it is not.
  private(set) var places: [Int]
  /// The index into `entries` of each of `actions`.
  private(set) var entryOfPlace: [Int] = []

  init(_ history: History) {
    places = Array(repeating: -1, count: history.actions.count)
    let incarnations = history.incarnations
    let furthestFirst = incarnations.indices.sorted {
      let (one, other) = (incarnations[$0], incarnations[$1])
      // Of those that came equally far, the last that began: what it found in the log is what is there.
      return (one.last, one.at, one.entries.count) > (other.last, other.at, other.entries.count)
    }
    // Pieces of incarnations, the last of the order first.
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

  /// The entry that has an action; nil where it is not in the order.
  func entry(of action: Int) -> Entry? {
    places[action] < 0 ? nil : entries[entryOfPlace[places[action]]]
  }

  /// The index of the first entry behind a position.
  func index(behind position: Int) -> Int { entries.partitioningIndex { $0.position > position } }

  /// The entry at a position; nil where there is none.
  func entry(at position: Int) -> Entry? {
    let index = index(behind: position) - 1
    return index >= 0 && entries[index].position == position ? entries[index] : nil
  }

  /// Whether a position is one that nobody recorded.
  func isUnrecorded(_ position: Int) -> Bool {
    let index = gaps.partitioningIndex { $0.through >= position }
    return index < gaps.count && gaps[index].after < position
  }
}

extension Array {
  /// The first index whose element belongs to the second part, where all of the first part come before all of that.
  func partitioningIndex(_ belongsToSecond: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if belongsToSecond(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
