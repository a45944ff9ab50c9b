/// Why a store could not do what it was asked.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released. What it was given changed nothing (G9).
  case terminated
  /// An optional scope has no state now.
  case stateUnavailable
  /// A projection maps the action to nothing: it was given to no store.
  case unmapped
  /// Middleware stopped the action: it changed nothing. The reason is what the middleware gave.
  case rejected(reason: String?)
}
