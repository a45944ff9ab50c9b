/// How deep a chain of sources or stores may be traversed recursively.
@usableFromInline enum Depth {
  @inlinable static var reach: Int { 64 }

  /// Whether a chain is broken at a depth: from there it is traversed in a loop.
  @inlinable static func isBreak(_ depth: Int) -> Bool { depth % reach == 0 && depth > 0 }
}

/// Holds the next object in a chain, and hands it over to be released in a loop.
@usableFromInline final class Chained<Next> {
  // SAFETY: changed only by the deinitializer, so there are no accesses to check.
  @usableFromInline @exclusivity(unchecked) var next: Next?

  @inlinable init(_ next: Next) { unsafe self.next = next }

  /// The next object. The caller holds `self`, so it is there.
  @inlinable var held: Next { unsafe next.unsafelyUnwrapped }

  deinit { ReleaseQueue.deep.release { unsafe Confined(storing: next.take()) } }
}

/// SAFETY: its only variable is changed only by the deinitializer, when nothing else can access it.
extension Chained: @unchecked Sendable where Next: Sendable {}
