/// The positions of a log's entries in its copy, as runs of consecutive positions in both.
struct PositionMap {
  private struct Run {
    var source: UInt64
    var target: UInt64
    var count: UInt64
  }

  private var runs: [Run] = []
  private(set) var last: UInt64 = 0

  mutating func place(_ source: UInt64, at target: UInt64) {
    last = target
    if let run = runs.last, source == run.source + run.count, target == run.target + run.count {
      runs[runs.count - 1].count += 1
    } else {
      runs.append(Run(source: source, target: target, count: 1))
    }
  }

  subscript(source: UInt64) -> UInt64? {
    guard let run = run(of: source), source - run.source < run.count else { return nil }
    return run.target + (source - run.source)
  }

  /// The copy's position of the last entry up to a position; 0 if there is none.
  func atMost(_ source: UInt64) -> UInt64 {
    guard let run = run(of: source) else { return 0 }
    return run.target + min(source - run.source, run.count - 1)
  }

  private func run(of source: UInt64) -> Run? {
    var (low, high) = (0, runs.count)
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].source <= source { low = middle + 1 } else { high = middle }
    }
    return low > 0 ? runs[low - 1] : nil
  }
}
