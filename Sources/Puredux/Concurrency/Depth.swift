#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Glibc
#endif

/// What keeps chains of stores, sources and closures of any length from being traversed or released recursively.
@usableFromInline enum Depth {
  /// How many links may be traversed recursively.
  @inlinable static var reach: Int { 64 }

  /// Whether a chain is broken at a depth: from there it is traversed in a loop, and what a link holds is released by
  /// `releaseInTurn`.
  @inlinable static func isBreak(_ depth: Int) -> Bool { depth % reach == 0 && depth > 0 }

  /// What waits to be released, by the releasing thread: an object is not released by another thread, which may hold a
  /// lock of the user's. Shared by all trees, as chains are broken only every so many links.
  private static let waiting = LockedValue<[UInt: [any Sendable]]>([:])

  /// Releases an object whose release leads to another's, as a child store's leads to its parent's: hands it over, so
  /// that the release in progress on this thread picks it up when it is done with the one before.
  ///
  /// - Parameter take: Takes the object from its holder. Called under the lock, so that from then on only the table
  ///   holds it.
  @usableFromInline static func releaseInTurn(_ take: () -> any Sendable) {
    let thread = currentThread
    let isFirst = waiting.withLock { waiting in
      let isFirst = waiting[thread] == nil
      waiting[thread, default: []].append(take())
      return isFirst
    }
    guard isFirst else { return }
    while let next = next(on: thread) { _ = next }
  }

  private static func next(on thread: UInt) -> (any Sendable)? {
    waiting.withLock { waiting in
      let next = waiting[thread]?.popLast()
      if next == nil { waiting[thread] = nil }
      return next
    }
  }

  private static var currentThread: UInt {
    #if canImport(Darwin) || canImport(Musl)
      UInt(bitPattern: pthread_self())
    #else
      UInt(pthread_self())
    #endif
  }
}

extension Depth {
  /// Holds the next object in a chain, and hands it over to be released in a loop.
  @usableFromInline final class Link<Next> {
    // SAFETY: changed only by the deinitializer, so there are no accesses to check.
    @usableFromInline @exclusivity(unchecked) var next: Next?

    @inlinable init(_ next: Next) { unsafe self.next = next }

    /// The next object. The caller holds `self`, so it is there.
    @inlinable var held: Next { unsafe next.unsafelyUnwrapped }

    deinit { Depth.releaseInTurn { unsafe Confined(storing: next.take()) } }
  }
}

/// SAFETY: its only variable is changed only by the deinitializer, when nothing else can access it.
extension Depth.Link: @unchecked Sendable where Next: Sendable {}
