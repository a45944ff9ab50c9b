/// Identifies a store within its tree: the root store, and its child stores in the order of their creation. A proxy has
/// the identity of the store that its actions are given to. Identities are never reused in a tree.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
  @usableFromInline let number: Int

  @inlinable init(number: Int) {
    self.number = number
  }

  /// The root store, in any tree.
  @inlinable public static var root: StoreID { StoreID(number: 0) }

  public var description: String { number == 0 ? "root" : "child \(number)" }
}
