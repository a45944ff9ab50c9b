/// The subscription of an observer, or of an effect of the state. Releasing it does not end it.
public struct Subscription: Sendable {
  let end: @Sendable () -> Void

  /// Ends the subscription. Can be called from anywhere, even by the observer or the effect itself, and more than once.
  ///
  /// An observer gets no more states, its task is cancelled, and no further call is made. A call that is in progress,
  /// or that another thread is just making, is completed. An effect's tasks are cancelled. From now on none of their
  /// actions is committed, except by a commit already in progress.
  public func cancel() { end() }
}
