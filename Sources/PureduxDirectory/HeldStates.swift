public import Puredux

/// The states of a store that its directory keeps open: the result of `StoreDirectory.states(of:)`.
///
/// The store stays open while the sequence or an iterator of it is held, up to the store's end (G7) or the consumer's
/// cancellation: then the idle time begins. Elements, buffering, cancellation and cost are those of a `StateSequence`.
public struct HeldStates<State: Sendable>: AsyncSequence, Sendable {
  public typealias Element = State
  public typealias Failure = Never

  @usableFromInline let states: StateSequence<State>
  @usableFromInline let hold: Hold

  init<Action>(_ states: StateSequence<State>, of handle: StoreHandle<State, Action>) {
    self.states = states
    hold = Hold(handle)
  }

  @inlinable public func makeAsyncIterator() -> Iterator { Iterator(states.makeAsyncIterator(), hold) }

  /// Iterators of one sequence share its elements.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline var states: StateSequence<State>.Iterator
    @usableFromInline let hold: Hold

    @inlinable init(_ states: StateSequence<State>.Iterator, _ hold: Hold) {
      self.states = states
      self.hold = hold
    }

    /// The next state; nil once the task is cancelled, or after the last state of a store that has ended.
    @inlinable public mutating func next() async -> State? {
      let state = await states.next()
      if state == nil { hold.end() }
      return state
    }

    /// Like `next()`, without leaving the caller's actor.
    @inlinable public mutating func next(isolation actor: isolated (any Actor)?) async -> State? {
      let state = await states.next(isolation: actor)
      if state == nil { hold.end() }
      return state
    }
  }

  @usableFromInline final class Hold: Sendable {
    private let handle: LockedValue<(any Sendable)?>

    init(_ handle: any Sendable) { self.handle = LockedValue(handle) }

    @usableFromInline func end() { handle.releasingOutside { $0.take() } }
  }
}
