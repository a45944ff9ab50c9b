/// Decides after which entries a state is hashed, by the number of commits and the state's size, alike on all replicas.
/// As intervals are powers of two, samples of a longer one are also samples of a shorter one.
struct FingerprintSampling {
  static let sizePerAction = 32

  private var commits: UInt64
  private var interval: UInt64 = 1

  enum Verdict {
    /// No action was committed: the hash is still valid.
    case unchanged
    case due
    case passed
  }

  init(commits: UInt64) { self.commits = commits }

  mutating func advance(to commits: UInt64) -> Verdict {
    let before = self.commits
    self.commits = commits
    if commits == before { return .unchanged }
    let isPower = commits.leadingZeroBitCount != before.leadingZeroBitCount
    return isPower || commits / interval != before / interval ? .due : .passed
  }

  mutating func hashed(size: Int) {
    let actions = UInt64(max(0, size - 1) / Self.sizePerAction)
    interval = 1 << UInt64(UInt64.bitWidth - actions.leadingZeroBitCount)
  }
}
