/// Proves to the compiler that code runs on a tree's executor.
@usableFromInline package protocol TreeIsolation: Actor {}

/// A value confined to a tree's executor. Any code may hold and pass it; only code on that executor can access the
/// value.
///
/// SAFETY: `callAsFunction` and `withValue` give access to the value, and the compiler allows their calls only in a
/// tree's isolation. `map` gives access as well, and its closures store the value in another confined value. Values of
/// one tree never reach another tree: a store makes them from its parent's. Each use of `unconfined` states why it is
/// sound.
@usableFromInline struct Confined<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  @unsafe @usableFromInline let unconfined: Value

  @inlinable init(storing value: consuming Value) {
    unsafe unconfined = value
  }

  /// Always inlined: an unspecialized call would look up types.
  @inline(__always) @inlinable func withValue<Result: ~Copyable, Failure: Error>(
    on tree: isolated any TreeIsolation, _ body: (borrowing Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe body(unconfined)
  }

  @inlinable func map<Second, Other: ~Copyable>(
    with second: Confined<Second>, _ make: (borrowing Value, Second) -> Other
  ) -> Confined<Other> {
    unsafe Confined<Other>(storing: make(unconfined, second.unconfined))
  }
}

extension Confined: Copyable where Value: Copyable {}

extension Confined {
  @inlinable init(_ value: sending Value) {
    self.init(storing: value)
  }

  @inlinable func callAsFunction(on tree: isolated any TreeIsolation) -> Value { unsafe unconfined }

  @inlinable func map<Other: ~Copyable>(_ make: (Value) -> Other) -> Confined<Other> {
    unsafe Confined<Other>(storing: make(unconfined))
  }
}
