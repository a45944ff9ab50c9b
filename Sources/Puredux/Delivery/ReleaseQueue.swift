/// Releases objects one after the other, so that a long chain of them is not released recursively.
///
/// An object whose release leads to another's, as a child store's leads to its parent's, hands that one over here, and does not hold it any more: the
/// release that is under way picks it up when it is done with the first.
@usableFromInline
final class ReleaseQueue: Sendable {
  private struct Waiting {
    var objects: [any Sendable] = []
    var isReleasing = false
  }

  private let waiting = Guarded(Waiting())

  /// Of all trees: chains are handed over here only every so many levels (`Depth`).
  @usableFromInline
  static let deep = ReleaseQueue()

  /// - Parameter take: Takes the object from who hands it over. Called under the lock, so that nobody but the queue holds it from then on.
  @usableFromInline
  func release(_ take: () -> any Sendable) {
    let isFirst = waiting.withLock { waiting in
      waiting.objects.append(take())
      defer { waiting.isReleasing = true }
      return !waiting.isReleasing
    }
    guard isFirst else { return }
    while let next = next() { _ = next }
  }

  private func next() -> (any Sendable)? {
    waiting.withLock { waiting in
      let next = waiting.objects.popLast()
      waiting.isReleasing = next != nil
      return next
    }
  }
}
