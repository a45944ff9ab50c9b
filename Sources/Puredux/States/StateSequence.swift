/// The states of a store as a sequence. `states()` returns it if the context expects a `StateSequence`.
///
///     for await board in store.states() as StateSequence { … }
///
/// It has the guarantees of the `AsyncStream` that `states()` otherwise returns, which is a view of it (G4 to G7): the
/// first element, order, buffering and end. Consumers of one sequence share its elements. A delivery costs less than a
/// third of one through `AsyncStream`, so use it if a store has many followers. In both forms, a subscriber that is
/// behind reads up to 4 KB of states ahead, at most 31.
public struct StateSequence<State: Sendable>: AsyncSequence, Sendable {
  public typealias Element = State
  public typealias Failure = Never

  @usableFromInline let subscriber: Subscriber

  @inlinable init(_ subscriber: Subscriber) {
    self.subscriber = subscriber
  }

  @inlinable public func makeAsyncIterator() -> Iterator { Iterator(subscriber) }

  /// An iterator. All iterators of one sequence share its elements.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline let subscriber: Subscriber
    @usableFromInline var isBehind = true

    @inlinable init(_ subscriber: Subscriber) {
      self.subscriber = subscriber
    }

    /// The next state; nil if the task is cancelled, and after the last state of a store that has ended.
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
  /// Makes a stream of the states.
  @inlinable public init(_ states: StateSequence<Element>) {
    let subscriber = states.subscriber
    self.init {
      await subscriber.next() as Element?
    } onCancel: {
      subscriber.cancel()
    }
  }
}
