/// A value that closures of one store share, on the tree's executor.
@usableFromInline final class Box<Value> {
  @usableFromInline var value: Value?

  @inlinable init() {}
}
