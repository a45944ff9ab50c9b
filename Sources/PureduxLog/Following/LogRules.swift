/// The rules under which an entry is reduced. A changed reducer reads them to keep its earlier decisions for earlier
/// entries, so that acknowledged results do not change.
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
  /// The rules of the entry being committed, set by its writer (`LogOptions.rules`), for reducers and the root's
  /// middleware. Admission and the middleware of child stores, which decide before the log, see the rules that the
  /// entry will be written under. Everywhere else it is `UInt32.max`.
  @TaskLocal public static var current: UInt32 = .max
}
