/// Which unread states are stored for a subscriber (G6).
@usableFromInline enum Buffering: Equatable, Sendable {
  case unbounded
  case newest(Int32)
  case oldest(Int32)

  /// A limit below one counts as one, so the last state is never dropped.
  @usableFromInline init<Element>(_ policy: AsyncStream<Element>.Continuation.BufferingPolicy) {
    switch policy {
    case .unbounded: self = .unbounded
    case .bufferingNewest(let limit): self = .newest(Int32(clamping: max(limit, 1)))
    case .bufferingOldest(let limit): self = .oldest(Int32(clamping: max(limit, 1)))
    @unknown default: self = .unbounded
    }
  }
}
