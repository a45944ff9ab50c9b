@usableFromInline final class Box<Value> {
  @usableFromInline var value: Value?

  @inlinable init() {}
}
