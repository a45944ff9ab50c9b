/// The states of a store, each delivered once: what `states()` returns where a `StateSequence` is expected.
///
///     for await board in store.states() as StateSequence { … }
///
/// It keeps the same contract (G4 to G7) as the `AsyncStream` that `states()` returns otherwise, which is a view of it:
/// the same first element, order, buffering and end, and consumers that share one sequence share its elements. A
/// delivery costs less than a third of what it costs through `AsyncStream`: if a store has many followers, use this
/// one.
public struct StateSequence<State: Sendable>: AsyncSequence, Sendable {
  public typealias Element = State
  public typealias Failure = Never

  @usableFromInline let subscriber: Subscriber

  @inlinable init(_ subscriber: Subscriber) {
    self.subscriber = subscriber
  }

  @inlinable public func makeAsyncIterator() -> Iterator { Iterator(subscriber) }

  /// Takes the states one after the other. Iterators of one sequence share its elements.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline let subscriber: Subscriber
    @usableFromInline var isBehind = true

    @inlinable init(_ subscriber: Subscriber) {
      self.subscriber = subscriber
    }

    /// The next state; nil once the task is cancelled, or after the last state of a store that has ended.
    @inlinable public mutating func next() async -> State? {
      await subscriber.nextUnlessCancelled(isBehind: &isBehind)
    }

    /// Like `next()`, without leaving the caller's actor.
    @inlinable public mutating func next(isolation actor: isolated (any Actor)?) async -> State? {
      await subscriber.nextUnlessCancelled(isBehind: &isBehind)
    }
  }
}

extension AsyncStream where Element: Sendable {
  /// The states as an `AsyncStream`.
  @inlinable public init(_ states: StateSequence<Element>) {
    let subscriber = states.subscriber
    self.init {
      await subscriber.next() as Element?
    } onCancel: {
      subscriber.cancel()
    }
  }
}
