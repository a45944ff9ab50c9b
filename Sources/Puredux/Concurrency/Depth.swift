/// How deep a chain of sources or stores may be gone through by recursion.
@usableFromInline enum Depth {
  @inlinable static var reach: Int { 64 }

  /// Whether a chain is broken at a depth: what goes on from there goes on in a loop.
  @inlinable static func isBreak(_ depth: Int) -> Bool { depth % reach == 0 && depth > 0 }
}

/// Holds what is next in a chain, and hands it over to be released in a loop.
@usableFromInline final class Chained<Next> {
  // SAFETY: changed by the deinitializer alone, so that there is nothing to check about accesses.
  @usableFromInline @exclusivity(unchecked) var next: Next?

  @inlinable init(_ next: Next) { unsafe self.next = next }

  /// What is next. Who asks holds this, so that it is there.
  @inlinable var held: Next { unsafe next.unsafelyUnwrapped }

  deinit { ReleaseQueue.deep.release { unsafe Confined(storing: next.take()) } }
}

/// SAFETY: its one variable is changed by the deinitializer alone, when nobody else can look.
extension Chained: @unchecked Sendable where Next: Sendable {}
