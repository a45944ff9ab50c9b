/// The rules under which an entry is reduced. With them, a changed reducer keeps its earlier decisions for earlier
/// entries: acknowledged results do not change.
///
///     var options = LogOptions()
///     options.rules = 2
///     let auction = try await RootStore(
///       following: log["auctions/7"], initialState: Auction(), options: FollowingOptions(log: options)
///     ) { auction, bid in
///       let step = LogRules.current < 2 ? 1 : 10
///       if bid.amount >= auction.highest + step { auction.take(bid) }
///     }
public enum LogRules {
  /// In reducers and the root's middleware: the rules of the entry being committed, set by its writer
  /// (`LogOptions.rules`). In admission and child stores' middleware: the rules that the entry will be written under.
  /// Other code that the tree runs during a commit, such as interceptors and filters, may see the rules of its entry.
  /// Effects, and all other code, see `UInt32.max`.
  @TaskLocal public static var current: UInt32 = .max
}
