#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Glibc
#endif

/// Releases objects one after the other, so that a long chain of them is not released recursively.
///
/// An object whose release leads to another's, as a child store's leads to its parent's, hands that one over to the
/// queue and no longer holds it: the release in progress picks it up when it is done with the first.
@usableFromInline final class ReleaseQueue: Sendable {
  /// Keyed by the releasing thread: an object is not released by another thread, which may hold a lock of the user's.
  private let waiting = LockedValue<[UInt: [any Sendable]]>([:])

  /// Shared by all trees: chains hand objects over here only every so many levels (`Depth`).
  @usableFromInline static let deep = ReleaseQueue()

  /// - Parameter take: Takes the object from its holder. Called under the lock, so that from then on only the queue
  ///   holds it.
  @usableFromInline func release(_ take: () -> any Sendable) {
    let thread = currentThread
    let isFirst = waiting.withLock { waiting in
      let isFirst = waiting[thread] == nil
      waiting[thread, default: []].append(take())
      return isFirst
    }
    guard isFirst else { return }
    while let next = next(on: thread) { _ = next }
  }

  private func next(on thread: UInt) -> (any Sendable)? {
    waiting.withLock { waiting in
      let next = waiting[thread]?.popLast()
      if next == nil { waiting[thread] = nil }
      return next
    }
  }
}

private var currentThread: UInt {
  #if canImport(Darwin) || canImport(Musl)
    UInt(bitPattern: pthread_self())
  #else
    UInt(pthread_self())
  #endif
}
