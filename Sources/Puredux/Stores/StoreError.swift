/// Why a store could not do what it was asked.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released. What it was given changed nothing (G9).
  case terminated
  /// An optional scope has no state now.
  case stateUnavailable
}
