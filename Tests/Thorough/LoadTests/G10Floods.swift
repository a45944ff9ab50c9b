import Foundation
import Puredux
import PureduxTestSupport
import Testing

/// Reads and sends complete during a flood of dispatches.
@Suite(.timeLimit(.minutes(15)), .serialized) struct G10Floods {
  @Test(arguments: Kind.allCases)
  func `a flood is committed without further calls, also after earlier sends and reads`(kind: Kind) async throws {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    try await subject.store.send(1)
    _ = try await subject.store.state
    let states = subject.states(bufferingPolicy: .bufferingNewest(1))
    executor.hold()
    for action in 2...5000 { subject.store.dispatch(action) }
    executor.letGo()
    #expect(await states.collect { $0.root.last == 5000 }.last?.root.count == 5000)
  }

  @Test(arguments: Kind.allCases, [TaskPriority.background, .medium, .high])
  func `sends and reads of any priority complete during a flood`(kind: Kind, priority: TaskPriority) async throws {
    let reduced = Counter()
    let isDone = Flag()
    let subject = Subject(kind, reducing: { _ in reduced.increment() })
    // On separate threads: this test is about the tree's fairness, not that of the thread pool. The producers keep up
    // to a thousand actions in the inbox, which bounds the test's size.
    let producers = (0..<2).map { DispatchQueue(label: "producer \($0)") }
    let given = Counter()
    for producer in producers {
      producer.async {
        while !isDone.isRaised {
          if given.count - reduced.count < 1000 {
            given.increment()
            subject.store.dispatch(1)
          } else {
            sched_yield()
          }
        }
      }
    }
    await Task(priority: priority) {
      for _ in 0..<5 {
        _ = try? await subject.store.send(1) { $0.root.count }
        _ = try? await subject.store.state
      }
    }.value
    isDone.raise()
    for producer in producers { producer.sync {} }
  }

  /// Every action dispatches the next, so the inbox is never empty.
  @Test(arguments: Kind.allCases)
  func `sends and reads complete in a tree that never stops by itself`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let isDone = Flag()
    let subject = Subject(
      kind,
      reducing: { action in
        if action == 1, !isDone.isRaised { proxies.all[0].dispatch(1) }
      })
    proxies.add(subject.store.store())
    subject.store.dispatch(1)
    for _ in 0..<20 {
      #expect(try await subject.store.send(2) { $0.root.last } == 2)
      _ = try await subject.store.state
    }
    isDone.raise()
  }
}
