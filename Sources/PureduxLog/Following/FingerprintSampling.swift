/// Decides after which entries a state is hashed. All replicas decide alike, by the number of committed actions and the
/// size of the state. Intervals are powers of two: each sample of a longer interval is one of a shorter interval, too.
struct FingerprintSampling {
  /// How many values may be hashed for each action, on average.
  static let sizePerAction = 32

  private var commits: UInt64
  private var interval: UInt64 = 1

  enum Verdict {
    /// No action has been committed: the hash stays.
    case unchanged
    case due
    case passed
  }

  init(commits: UInt64) { self.commits = commits }

  /// Notes that an entry has been applied, and how many actions have been committed in all.
  mutating func advance(to commits: UInt64) -> Verdict {
    let before = self.commits
    self.commits = commits
    if commits == before { return .unchanged }
    let isPower = commits.leadingZeroBitCount != before.leadingZeroBitCount
    return isPower || commits / interval != before / interval ? .due : .passed
  }

  /// Notes that the state has been hashed, and its size.
  mutating func hashed(size: Int) {
    let actions = UInt64(max(0, size - 1) / Self.sizePerAction)
    interval = 1 << UInt64(UInt64.bitWidth - actions.leadingZeroBitCount)
  }
}
