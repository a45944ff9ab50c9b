/// Identifies a store within its tree: the root store, and its child stores by the order in which they were made.
///
/// A proxy has the identity of the store that its actions are given to. No two stores of one tree ever have the same
/// identity.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
  @usableFromInline let number: Int

  @inlinable init(number: Int) {
    self.number = number
  }

  /// The root store, in any tree.
  @inlinable public static var root: StoreID { StoreID(number: 0) }

  public var description: String { number == 0 ? "root" : "child \(number)" }
}
