/// Tells the stores of one tree apart: the root store, and its child stores by the order in which they were made.
///
/// Proxies have the identity of the store that their actions are given to. It is never given to a second store of the
/// same tree.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
  @usableFromInline let number: Int

  @inlinable init(number: Int) {
    self.number = number
  }

  /// The root store, in any tree.
  @inlinable public static var root: StoreID { StoreID(number: 0) }

  public var description: String { number == 0 ? "root" : "child \(number)" }
}
