import Puredux

/// A sequence that a test feeds: for effects that wait for messages, a socket's or a server's.
///
///     let messages = Subject<String, Never>()
///     let client = ChatClient(messages: { messages.stream })
///     …
///     await store.send(.joined)      // The effect waits for a message.
///     messages.send("hello")
///     await store.receive(.heard("hello")) { $0.lines = ["hello"] }
///     messages.finish()
///
/// What is sent is kept until it is taken, and taken once: a sequence that begins later, as of an effect that connects
/// again, goes on where the last one ended, and several at a time share the elements. An effect that waits for the next
/// one in its own task is at rest for `settled()`, until one is sent, the subject is finished, or the effect cancelled.
/// It is not for `shutdown(interceptors: .finish(within:))`: there it is work that is to be completed.
///
/// The end of a task that iterates is not the subject's: only `finish` is. A task that is cancelled gets nil, and
/// leaves what it has not taken.
public final class Subject<Element: Sendable, Failure: Error>: AsyncSequence, Sendable {
  private typealias Waiter = (number: Int, continuation: CheckedContinuation<Result<Element?, Failure>, Never>)

  private struct Contents {
    var elements = Line<Element>()
    var end: Result<Void, Failure>?
    /// Those who wait, in the order in which they came.
    var waiting = Line<Waiter>()
    /// Those that were cancelled, and do not wait.
    var cancelled: Set<Int> = []
    var count = 0
  }

  private let contents = LockedValue(Contents())

  /// A sequence that nothing has been sent to.
  public init() {}

  /// Gives the next element to who waits, or keeps it. After `finish` it changes nothing.
  public func send(_ element: Element) {
    let waiting = contents.withLock { contents -> CheckedContinuation<Result<Element?, Failure>, Never>? in
      guard contents.end == nil else { return nil }
      if let first = contents.waiting.popFirst() { return first.continuation }
      contents.elements.append(element)
      return nil
    }
    waiting?.resume(returning: .success(element))
  }

  /// Ends every sequence behind what has been sent.
  public func finish() { end(.success(())) }

  /// Ends every sequence behind what has been sent, with an error.
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

  /// Takes elements. Several, of whatever tasks, share what is sent.
  public struct Iterator: AsyncIteratorProtocol {
    let subject: Subject

    /// The next element; nil at the end, and where the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws(Failure) -> Element? {
      try await subject.next(isolation: actor).get()
    }

    /// The same, by way of the thread pool.
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
        // Not before it waits: until then it is not at rest.
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
  /// The same, for clients that have an `AsyncStream`. It holds the subject.
  public var stream: AsyncStream<Element> {
    AsyncStream { [self] in
      var iterator = makeAsyncIterator()
      return await iterator.next(isolation: nil)
    }
  }
}

extension Subject where Failure == any Error {
  /// The same, for clients that have an `AsyncThrowingStream`. It holds the subject.
  public var stream: AsyncThrowingStream<Element, any Error> {
    AsyncThrowingStream { [self] in
      var iterator = makeAsyncIterator()
      return try await iterator.next(isolation: nil)
    }
  }
}

/// First in, first out, in amortized constant time, on one array.
private struct Line<Item> {
  private var items: [Item?] = []
  private var taken = 0

  /// In order.
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

  /// The first one that satisfies a condition.
  mutating func remove(where condition: (Item) -> Bool) -> Item? {
    guard let index = items[taken...].firstIndex(where: { $0.map(condition) ?? false }) else { return nil }
    return items.remove(at: index)
  }
}

extension Line: Sendable where Item: Sendable {}
