import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ShutdownTests {
  /// A clock whose sleeps end when the test says so.
  struct HandClock: Clock {
    struct Instant: InstantProtocol {
      var offset: Duration
      func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
      func duration(to other: Instant) -> Duration { other.offset - offset }
      static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }
    let rings = Gate()
    let asked = Record<Duration>()
    let isAsked = Gate()
    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
      asked.add(deadline.offset)
      isAsked.open()
      await withTaskCancellationHandler {
        await rings.wait()
      } onCancel: {
        rings.open()
      }
    }
  }

  @Test func `shutdown commits accepted actions before it ends anything`() async throws {
    let executor = HeldExecutor()
    let subject = Subject(.grandchild, executor: .serial(executor))
    let states = subject.store.states()
    executor.hold()
    for action in 1...20 { subject.store.dispatch(action) }
    async let end: Void = subject.root.shutdown()
    executor.letGo()
    await end
    #expect(await states.collect() == subject.expectedStates(during: Array(1...20)))
  }

  @Test func `finishing waits for the interceptors and does not cancel them`() async throws {
    let started = Gate()
    let goOn = Gate()
    let ends = Record<String>()
    let clock = HandClock()
    let subject = Subject(
      .child,
      interceptors: Interceptor(where: { $0 == 1 }) { _, dispatch in
        started.open()
        await goOn.wait()
        ends.add(Task.isCancelled ? "cancelled" : "finished")
        #expect(dispatch(2) == .enqueued)
      })
    subject.store.dispatch(1)
    await started.wait()
    let end = Task {
      await subject.root.shutdown(interceptors: .finish(within: .seconds(30)), clock: clock)
      ends.add("shut down")
    }
    await clock.isAsked.wait()
    #expect(clock.asked.all == [.seconds(30)])
    #expect(subject.store.dispatch(3) == .terminated)
    goOn.open()
    await end.value
    #expect(ends.all == ["finished", "shut down"])
  }

  @Test func `after the deadline the interceptors are cancelled, and awaited`() async throws {
    let started = Gate()
    let ends = Record<String>()
    let clock = HandClock()
    let subject = Subject(
      .child,
      interceptors: Interceptor { _, _ in
        started.open()
        await untilCancelled()
        ends.add("cancelled")
      })
    subject.store.dispatch(1)
    await started.wait()
    clock.rings.open()
    await subject.root.shutdown(interceptors: .finish(within: .seconds(30)), clock: clock)
    ends.add("shut down")
    #expect(ends.all == ["cancelled", "shut down"])
  }

  @Test func `the cancellation of a finishing shutdown, or another shutdown, cancels the interceptors`() async throws {
    for isCalledTwice in [false, true] {
      let started = Gate()
      let clock = HandClock()
      let subject = Subject(
        .rootActor,
        interceptors: Interceptor { _, _ in
          started.open()
          await untilCancelled()
        })
      subject.store.dispatch(1)
      await started.wait()
      let end = Task { await subject.root.shutdown(interceptors: .finish(within: .seconds(30)), clock: clock) }
      await clock.isAsked.wait()
      if isCalledTwice { await subject.root.shutdown() } else { end.cancel() }
      await end.value
    }
  }

  @Test func `shutting down twice, at once or one after the other, is the same as once`() async throws {
    let subject = Subject(.grandchild)
    subject.store.dispatch(1)
    await withTaskGroup { group in
      for _ in 0..<8 { group.addTask { await subject.root.shutdown() } }
      for child in subject.children { group.addTask { await child.shutdown() } }
    }
    await subject.root.shutdown()
    #expect(await subject.root.state.root.count == 1)
  }

  @Test func `an interceptor may shut its own tree down`() async throws {
    let roots = Record<RootStore<Snapshot, Int>>()
    let done = Gate()
    let subject = Subject(
      .child,
      interceptors: Interceptor { _, _ in
        await roots.all[0].shutdown()
        done.open()
      })
    roots.add(subject.root)
    subject.store.dispatch(1)
    await done.wait()
    #expect(subject.store.dispatch(2) == .terminated)
  }

  @Test func `an interceptor of another tree, caused by one of this tree, waits for this tree's end`() async throws {
    let ends = Record<String>()
    let others = Record<RootStore<Int, Int>>()
    let done = Gate()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: Interceptor { action, _ in
        try? await others.all[0].send(action)
        await untilCancelled()
        ends.add("this tree's interceptor")
      }, reducer: { $0 += $1 })
    others.add(
      RootStore(
        initialState: 0,
        interceptors: Interceptor { _, _ in
          await root.shutdown()
          ends.add("its shutdown")
          done.open()
        }, reducer: { $0 += $1 }))
    root.dispatch(1)
    await done.wait()
    #expect(ends.all == ["this tree's interceptor", "its shutdown"])
  }

  @Test func `an interceptor that follows its store sees the end, so that finishing ends`() async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let follows = Gate()
    let seen = Record<[Int]>()
    let subject = Subject(
      .child,
      interceptors: Interceptor(where: { $0 == 1 }) { _, _ in
        let states = proxies.all[0].states()
        follows.open()
        seen.add(await states.collect().map(\.root.last))
      })
    proxies.add(subject.store.store())
    subject.store.dispatch(1)
    await follows.wait()
    subject.store.dispatch(2)
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(seen.all == [[1, 2]])
  }

  struct BrokenClock: Clock {
    struct Failure: Error {}
    typealias Instant = HandClock.Instant
    let asked = Gate()
    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
      asked.open()
      throw Failure()
    }
  }

  /// Shuts down a tree whose interceptor waits for its cancellation, or for `finish` if that is given.
  ///
  /// - Returns: Whether the interceptor was cancelled.
  private func isCancelled(
    within limit: Duration, by clock: some Clock<Duration>, before finish: (@Sendable () async -> Void)? = nil
  ) async -> Bool {
    let (started, goOn) = (Gate(), Gate())
    let ends = Record<Bool>()
    let subject = Subject(
      .child,
      interceptors: Interceptor { _, _ in
        started.open()
        await withTaskCancellationHandler {
          await goOn.wait()
        } onCancel: {
          goOn.open()
        }
        ends.add(Task.isCancelled)
      })
    subject.store.dispatch(1)
    await started.wait()
    async let end: Void = subject.root.shutdown(interceptors: .finish(within: limit), clock: clock)
    if let finish {
      await finish()
      goOn.open()
    }
    await end
    return ends.all == [true]
  }

  @Test(arguments: [Duration.seconds(Int64.max), .seconds(Int64.max / 1000), .seconds(4_000_000_000)])
  func `a limit may be longer than any clock can tell`(limit: Duration) async {
    #expect(await !isCancelled(within: limit, by: ContinuousClock()) {})
    #expect(await !isCancelled(within: limit, by: SuspendingClock()) {})
  }

  @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min)])
  func `a limit that is over before it begins cancels at once`(limit: Duration) async {
    #expect(await isCancelled(within: limit, by: ContinuousClock()))
    #expect(await isCancelled(within: limit, by: SuspendingClock()))
    #expect(await isCancelled(within: limit, by: HandClock()))
  }

  @Test func `if a clock cannot sleep, another one keeps the limit`() async {
    let clock = BrokenClock()
    #expect(await !isCancelled(within: .seconds(3600), by: clock) { await clock.asked.wait() })
    #expect(await isCancelled(within: .milliseconds(1), by: clock))
  }

  /// The clock does not advance: a shutdown that takes its whole limit never returns.
  @Test(arguments: [true, false], [true, false])
  func `a finishing child does not wait for effects that follow states above it, whichever task ends it`(
    isOfSameTree: Bool, isInChildTask: Bool
  ) async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let following = Gate()
    let child = root.childStore(
      initialState: 0, stateMapping: { $0 + $1 },
      interceptor: { action, _ in
        guard action == 1 else { return }
        let states = root.states()
        following.open()
        for await _ in states {}
      }, reducer: { $0 += $1 })
    try await child.send(1)
    await following.wait()
    let other = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let isOver = Gate()
    (isOfSameTree ? root : other).subscribe(
      effect: .while({ _ in true }) {
        .run { _ in
          let finish = { @Sendable in
            await child.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
          }
          if isInChildTask { await withTaskGroup { $0.addTask { await finish() } } } else { await finish() }
          isOver.open()
        }
      })
    await isOver.wait()
    #expect(child.dispatch(1) == .terminated)
    await other.shutdown()
    await root.shutdown()
  }

  @Test func `the end of a child does not affect the rest of the tree`() async throws {
    let subject = Subject(.grandchild)
    await subject.children[0].shutdown()
    #expect(subject.store.dispatch(1) == .terminated)
    #expect(subject.children[0].dispatch(1) == .terminated)
    #expect(try await subject.root.send(1) { $0.root.count } == 1)
    #expect(await subject.store.states().collect().isEmpty)
  }
}
