/// The rules that an entry is reduced by, where a program has several: its reducer decided otherwise once, and what was
/// acknowledged then stays what it was.
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
  /// The rules of the program that wrote the entry which is being committed (`LogOptions.rules`), for reducers and the
  /// middleware of the root store. For admission and the middleware of child stores, which decide before the log, it is
  /// the rules that the entry will be written under. `UInt32.max` everywhere else.
  @TaskLocal public static var current: UInt32 = .max
}
