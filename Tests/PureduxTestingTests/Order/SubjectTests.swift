import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A sequence that a test feeds.
@Suite(.timeLimit(.minutes(15))) struct SubjectTests {
  enum Line: Sendable, Equatable { case join, leave, heard(String), ended, failed(String) }

  struct Hangup: Error {}

  private func chat<Messages: AsyncSequence & Sendable>(
    _ messages: @escaping @Sendable () -> Messages
  ) -> TestStore<[String], Line> where Messages.Element == String {
    TestStore(
      initialState: [],
      interceptors: .effects { action, _ in
        switch action {
        case .join:
          .run { dispatch in
            for try await message in messages() { dispatch(.heard(message)) }
            dispatch(.ended)
          }
          .id("chat")
          .catching { .failed("\($0)") }
        case .leave: .cancel("chat")
        default: nil
        }
      }
    ) { lines, line in
      if case .heard(let text) = line { lines.append(text) }
    }
  }

  /// An effect receives the sent elements, rests in between, and ends with the subject.
  private func check(_ store: TestStore<[String], Line>, _ send: (String) -> Void, _ finish: () -> Void) async {
    await store.send(.join)
    for text in ["a", "b"] {
      send(text)
      await store.receive(.heard(text)) { $0.append(text) }
    }
    for text in ["c", "d"] { send(text) }
    await store.receive(.heard("c")) { $0.append("c") }
    await store.receive(.heard("d")) { $0.append("d") }
    finish()
    send("late")
    await store.receive(.ended)
    await store.finish()
  }

  @Test func `an effect receives a test's elements, and rests until then`() async {
    let messages = Subject<String, Never>()
    await check(chat { messages }, messages.send, messages.finish)
    let others = Subject<String, any Error>()
    await check(chat { others }, others.send, others.finish)
  }

  @Test func `clients have their streams`() async {
    let messages = Subject<String, Never>()
    await check(chat { messages.stream }, messages.send, messages.finish)
    let others = Subject<String, any Error>()
    await check(chat { others.stream }, others.send, others.finish)
  }

  @Test(arguments: [true, false]) func `an error ends it after the sent elements`(asStream: Bool) async {
    let messages = Subject<String, any Error>()
    let store = asStream ? chat { messages.stream } : chat { messages }
    messages.send("before")
    await store.send(.join)
    await store.receive(.heard("before")) { $0.append("before") }
    messages.send("last")
    messages.finish(throwing: Hangup())
    await store.receive(.heard("last")) { $0.append("last") }
    await store.receive(.failed("Hangup()"))
    await store.finish()
  }

  @Test func `a cancelled reader leaves the remaining elements to the next one`() async {
    let messages = Subject<String, Never>()
    let store = chat { messages.stream }
    await store.send(.join)
    messages.send("a")
    await store.receive(.heard("a")) { $0.append("a") }
    await store.send(.leave)
    messages.send("b")
    messages.send("c")
    await store.settle()
    await store.send(.join)
    await store.receive(.heard("b")) { $0.append("b") }
    await store.receive(.heard("c")) { $0.append("c") }
    await store.send(.leave)
    await store.finish()
  }

  @Test func `a store settles only after its effects have received the sent elements`() async {
    let numbers = Subject<Int, Never>()
    let store = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        guard action == 0 else { return nil }
        return .run { dispatch in for await number in numbers { dispatch(number) } }
      }
    ) { $0 += $1 }
    store.dispatch(0)
    for round in 1...500 {
      for _ in 0..<(1 + round % 3) { numbers.send(1) }
      await store.settled()
      #expect(await store.state == (1...round).reduce(0) { $0 + 1 + $1 % 3 })
    }
    numbers.finish()
    await store.settled()
    #expect(await store.statistics.runningTasks == 0)
    await store.shutdown()
  }

  @Test func `many readers share the elements, each once, even if some are cancelled`() async {
    for _ in 0..<50 {
      let numbers = Subject<Int, Never>()
      let taken = Record<Int>()
      await withTaskGroup { tasks in
        for _ in 0..<4 { tasks.addTask { for await number in numbers { taken.add(number) } } }
        tasks.addTask {
          await withTaskGroup { impatient in
            impatient.addTask { for await number in numbers { taken.add(number) } }
            impatient.cancelAll()
          }
        }
        for number in 0..<100 { numbers.send(number) }
        numbers.finish()
      }
      #expect(taken.all.sorted() == Array(0..<100))
    }
  }

  @Test func `many elements are taken in order, also while more are sent`() async {
    let (numbers, count) = (Subject<Int, Never>(), 200_000)
    for number in 0..<count { numbers.send(number) }
    var (iterator, expected) = (numbers.makeAsyncIterator(), 0)
    while expected < 2 * count, let number = await iterator.next() {
      guard number == expected else { break }
      expected += 1
      if expected <= count { numbers.send(count + number) }
    }
    #expect(expected == 2 * count)
  }
}
