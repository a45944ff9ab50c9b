/// Where the entries of a log are in its copy: runs of entries whose positions follow one another in both.
struct PositionMap {
  private struct Run {
    var source: UInt64
    var target: UInt64
    var count: UInt64
  }

  private var runs: [Run] = []
  /// Where the last entry was placed.
  private(set) var last: UInt64 = 0

  /// Behind all those before.
  mutating func place(_ source: UInt64, at target: UInt64) {
    last = target
    if let run = runs.last, source == run.source + run.count, target == run.target + run.count {
      runs[runs.count - 1].count += 1
    } else {
      runs.append(Run(source: source, target: target, count: 1))
    }
  }

  /// Where an entry is; nil where there is none.
  subscript(source: UInt64) -> UInt64? {
    guard let run = run(of: source), source - run.source < run.count else { return nil }
    return run.target + (source - run.source)
  }

  /// Where the last entry is that does not lie behind a position; 0 where there is none.
  func atMost(_ source: UInt64) -> UInt64 {
    guard let run = run(of: source) else { return 0 }
    return run.target + min(source - run.source, run.count - 1)
  }

  /// The last run that begins at a position, or before.
  private func run(of source: UInt64) -> Run? {
    var (low, high) = (0, runs.count)
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].source <= source { low = middle + 1 } else { high = middle }
    }
    return low > 0 ? runs[low - 1] : nil
  }
}
