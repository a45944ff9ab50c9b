/// A value that closures of one store share, on the tree's executor.
@usableFromInline final class Kept<Value> {
  @usableFromInline var value: Value?

  @inlinable init() {}
}
