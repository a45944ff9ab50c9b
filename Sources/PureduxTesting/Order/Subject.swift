import Puredux

/// A sequence that a test feeds, for effects that wait for messages.
///
///     let messages = Subject<String, Never>()
///     let client = ChatClient(messages: { messages.stream })
///     …
///     await store.send(.joined)      // The effect waits for a message.
///     messages.send("hello")
///     await store.receive(.heard("hello")) { $0.lines = ["hello"] }
///     messages.finish()
///
/// Each element is buffered until an iterator takes it, and is delivered once. All iterators share the elements: one
/// that begins later, for instance after a reconnect, continues where the last one ended.
///
/// An effect that waits for an element in its own task is at rest for `settled()`, but unfinished for
/// `shutdown(interceptors: .finish(within:))`.
///
/// Only `finish` ends the subject. An iterator in a cancelled task returns nil, and leaves the remaining elements.
public final class Subject<Element: Sendable, Failure: Error>: AsyncSequence, Sendable {
  private typealias Waiter = (number: Int, continuation: CheckedContinuation<Result<Element?, Failure>, Never>)

  private struct Contents {
    var elements = Line<Element>()
    var end: Result<Void, Failure>?
    var waiting = Line<Waiter>()
    var cancelled: Set<Int> = []
    var count = 0
  }

  private let contents = LockedValue(Contents())

  /// Makes an empty subject.
  public init() {}

  /// Delivers an element to the first waiting iterator, or buffers it. After `finish` it does nothing.
  public func send(_ element: Element) {
    let waiting = contents.withLock { contents -> CheckedContinuation<Result<Element?, Failure>, Never>? in
      guard contents.end == nil else { return nil }
      if let first = contents.waiting.popFirst() { return first.continuation }
      contents.elements.append(element)
      return nil
    }
    waiting?.resume(returning: .success(element))
  }

  /// Ends every iterator after the buffered elements.
  public func finish() { end(.success(())) }

  /// Ends every iterator with an error after the buffered elements.
  public func finish(throwing error: Failure) { end(.failure(error)) }

  private func end(_ end: Result<Void, Failure>) {
    let waiting = contents.withLock { contents -> [Waiter] in
      guard contents.end == nil else { return [] }
      contents.end = end
      defer { contents.waiting = Line() }
      return contents.waiting.all
    }
    for waiter in waiting { waiter.continuation.resume(returning: end.map { nil }) }
  }

  // MARK: Taking

  public func makeAsyncIterator() -> Iterator { Iterator(subject: self) }

  /// An iterator, which shares the elements with all others.
  public struct Iterator: AsyncIteratorProtocol {
    let subject: Subject

    /// The next element; nil at the end, and if the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws(Failure) -> Element? {
      try await subject.next(isolation: actor).get()
    }

    /// Like `next(isolation:)`, by way of the thread pool.
    public mutating func next() async throws(Failure) -> Element? { try await subject.next(isolation: nil).get() }
  }

  private func next(isolation actor: isolated (any Actor)?) async -> Result<Element?, Failure> {
    let number = contents.withLock { contents in
      contents.count += 1
      return contents.count
    }
    let rest = EffectRest { [self] in contents.withLock { $0.waiting.all.contains { $0.number == number } } }
    defer {
      rest?.end()
      _ = contents.withLock { $0.cancelled.remove(number) }
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation(isolation: actor) { continuation in
        let outcome = contents.withLock { contents -> Result<Element?, Failure>? in
          if contents.cancelled.contains(number) { return .success(nil) }
          if let element = contents.elements.popFirst() { return .success(element) }
          if let end = contents.end { return end.map { nil } }
          contents.waiting.append((number, continuation))
          return nil
        }
        // Not earlier: it waits from here on.
        if let outcome { continuation.resume(returning: outcome) } else { rest?.begin() }
      }
    } onCancel: {
      rest?.end()
      let waiting = contents.withLock { contents -> CheckedContinuation<Result<Element?, Failure>, Never>? in
        if let waiter = contents.waiting.remove(where: { $0.number == number }) { return waiter.continuation }
        contents.cancelled.insert(number)
        return nil
      }
      waiting?.resume(returning: .success(nil))
    }
  }
}

extension Subject where Failure == Never {
  /// The same elements as an `AsyncStream`, which holds the subject.
  public var stream: AsyncStream<Element> {
    AsyncStream { [self] in
      var iterator = makeAsyncIterator()
      return await iterator.next(isolation: nil)
    }
  }
}

extension Subject where Failure == any Error {
  /// The same elements as an `AsyncThrowingStream`, which holds the subject.
  public var stream: AsyncThrowingStream<Element, any Error> {
    AsyncThrowingStream { [self] in
      var iterator = makeAsyncIterator()
      return try await iterator.next(isolation: nil)
    }
  }
}

/// A queue with operations in amortized constant time.
private struct Line<Item> {
  private var items: [Item?] = []
  private var taken = 0

  var all: [Item] { items[taken...].compactMap { $0 } }

  mutating func append(_ item: Item) { items.append(item) }

  mutating func popFirst() -> Item? {
    guard taken < items.count else { return nil }
    let item = items[taken].take()
    taken += 1
    if taken * 2 >= items.count {
      items.removeFirst(taken)
      taken = 0
    }
    return item
  }

  mutating func remove(where condition: (Item) -> Bool) -> Item? {
    guard let index = items[taken...].firstIndex(where: { $0.map(condition) ?? false }) else { return nil }
    return items.remove(at: index)
  }
}

extension Line: Sendable where Item: Sendable {}
