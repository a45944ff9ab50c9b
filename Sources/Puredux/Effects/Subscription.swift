/// Ends what follows a store: an observer, or an effect of its state. Releasing it ends nothing.
public struct Subscription: Sendable {
  let end: @Sendable () -> Void

  /// An observer gets no more states, and its task is cancelled: no further call is made. A call that is in progress,
  /// or that another thread is just making, is completed. The tasks of an effect are cancelled, and nothing that they
  /// dispatch is committed from now on, except what is just being committed.
  ///
  /// Can be called from anywhere, even by the observer or the effect itself, and more than once.
  public func cancel() { end() }
}
