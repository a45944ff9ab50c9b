/// The states of a store as a sequence, returned by `states()` if the context expects it.
///
///     for await board in store.states() as StateSequence { … }
///
/// It has the guarantees of the `AsyncStream` that `states()` otherwise returns, which is a view of it (G4 to G7).
/// Consumers of one sequence share its elements. A delivery costs less than a third of one through `AsyncStream`. In
/// both forms, a subscriber that is behind reads up to 4 KB of states ahead, at most 31.
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

/// A FIFO queue of states of one type. An object holds them, so that `Backlog` is independent of the type, and compiled
/// once.
///
/// SAFETY: each queue is used for one type of state only. Only a `Backlog` has queues, and only a `Channel<State>` has
/// a backlog. The channel and its subscribers use it for `State`.
@usableFromInline struct StateQueue {
  @usableFromInline var states: AnyStates?
  @usableFromInline var count = 0

  @inlinable init() {}

  @inlinable var isEmpty: Bool { count == 0 }

  @inlinable mutating func append<State>(_ state: State) {
    unique(of: State.self).append(state)
    count += 1
  }

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard count > 0 else { return nil }
    count -= 1
    return unique(of: type).popFirst()
  }

  @inlinable mutating func replaceFirst<State>(appending state: State) -> State? {
    if count == 0 { count = 1 }
    return unique(of: State.self).replaceFirst(appending: state)
  }

  @inlinable func state<State>(at offset: Int, as type: State.Type = State.self) -> State? {
    guard let states, offset < count else { return nil }
    return unsafe unsafeDowncast(states, to: States<State>.self).queue[offset]
  }

  /// All of these states must exist.
  @inlinable mutating func take<State>(
    _ first: Int, copying more: Int, from offset: Int, into taken: inout ContiguousArray<State>
  ) {
    let states = unique(of: State.self)
    for _ in 0..<first { taken.append(states.popFirst()!) }
    count -= first
    for offset in offset..<offset + more { taken.append(states.queue[offset]!) }
  }

  mutating func move(_ number: Int, to other: inout StateQueue) {
    let number = min(number, count)
    guard number > 0 else { return }
    if number == count, other.isEmpty { return swap(&self, &other) }
    if !isKnownUniquelyReferenced(&states) { states = states?.copied() }
    if !isKnownUniquelyReferenced(&other.states) { other.states = other.states?.copied() ?? states?.another() }
    guard let states, let target = other.states else { return }
    states.move(number, to: target)
    count -= number
    other.count += number
  }

  mutating func removeAll() {
    if count > 0 { self = StateQueue() }
  }

  @inlinable mutating func unique<State>(of type: State.Type) -> States<State> {
    guard isKnownUniquelyReferenced(&states), let states else { return makeUnique(of: type) }
    return unsafe unsafeDowncast(states, to: States<State>.self)
  }

  @inline(never) @inlinable mutating func makeUnique<State>(of type: State.Type) -> States<State> {
    let made = States<State>()
    if let states { made.queue = unsafe unsafeDowncast(states, to: States<State>.self).queue }
    states = made
    return made
  }

  func all<State>(as type: State.Type = State.self) -> [State] { (0..<count).compactMap { state(at: $0, as: type) } }
}

extension StateQueue {
  @usableFromInline class AnyStates {
    @usableFromInline init() {}

    func another() -> AnyStates { AnyStates() }
    func copied() -> AnyStates { AnyStates() }
    func move(_ number: Int, to other: AnyStates) {}
  }

  @usableFromInline final class States<State>: AnyStates {
    /// In segments of about 4 KB.
    @usableFromInline var queue = SegmentedQueue<State>(
      segmentLength: min(256, max(1, 4_096 / max(1, MemoryLayout<State?>.stride))))

    @inlinable override init() { super.init() }

    // Not inlined: a client has one copy per type of state, not one per call.
    @inline(never) @inlinable func append(_ state: State) { queue.append(state) }

    @inline(never) @inlinable func popFirst() -> State? { queue.popFirst() }

    @inline(never) @inlinable func replaceFirst(appending state: State) -> State? {
      queue.replaceFirst(appending: state)
    }

    override func another() -> AnyStates { States() }

    override func copied() -> AnyStates {
      let copied = States()
      copied.queue = queue
      return copied
    }

    /// SAFETY: the other object has the same type, as states are moved only between queues of one backlog.
    override func move(_ number: Int, to other: AnyStates) {
      let other = unsafe unsafeDowncast(other, to: States.self)
      queue.move(number, to: &other.queue)
    }
  }
}

/// States that a consumer has taken from its backlog at once. An object holds them, so that `Subscriber` is independent
/// of the type.
///
/// SAFETY: it is used for one `Sendable` type of state only, as a `Subscriber` asks only for states of its source's
/// type. It owns its object: a copy is made only when an empty one takes its place.
@usableFromInline struct StatesAhead: @unchecked Sendable {
  @usableFromInline var states: AnyObject?
  @usableFromInline var count = 0

  @usableFromInline init() {}

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard count > 0, let states else { return nil }
    count -= 1
    return unsafe unsafeDowncast(states, to: States<State>.self).reversed.popLast()
  }

  /// As many states as fit into 4 KB, at most 31.
  @inlinable static func limit<State>(of type: State.Type) -> Int {
    min(31, 4_096 / max(1, MemoryLayout<State>.stride))
  }

  /// Adds states behind those that it has.
  @inlinable mutating func fill<State>(of type: State.Type, with add: (inout ContiguousArray<State>) -> Void) {
    let states = made(for: State.self)
    if count > 0 { states.reversed.reverse() }
    add(&states.reversed)
    states.reversed.reverse()
    count = states.reversed.count
  }

  @inline(never) @inlinable mutating func made<State>(for type: State.Type) -> States<State> {
    if let states { return unsafe unsafeDowncast(states, to: States<State>.self) }
    let made = States<State>()
    made.reversed.reserveCapacity(Self.limit(of: type))
    states = made
    return made
  }

  /// Reading a state moves no other.
  @usableFromInline final class States<State> {
    @usableFromInline var reversed: ContiguousArray<State> = []

    @inlinable init() {}
  }
}
