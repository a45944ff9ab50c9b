import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct StatisticsTests {
  @Test func `they count commits, child stores, subscriptions and backlogs`() async throws {
    let root = RootStore<Snapshot, Int>(initialState: Snapshot()) { $0.root.enter($1) }
    #expect(await root.statistics == StoreStatistics())
    let child = root.ledgerChild()
    var grandchild: StateStore<Snapshot, Int>? = child.ledgerChild()
    var all: AsyncStream<Snapshot>? = root.states()
    let filtered = child.scope { $0.root }.states(removeStateDuplicates: .equal { $0.count / 4 })
    let newest = grandchild?.states(bufferingPolicy: .bufferingNewest(2))
    let oldest = root.projection(action: { $0 }, state: { $0 }).states(bufferingPolicy: .bufferingOldest(3))
    for action in 1...10 { child.dispatch(action) }
    _ = await root.state
    var statistics = await root.statistics
    #expect(
      statistics
        == StoreStatistics(commits: 10, childStores: 2, subscriptions: 4, longestBacklog: 11, runningTasks: 0))
    #expect(await all?.collect(11).count == 11)
    all = nil
    statistics = await root.statistics
    #expect(statistics.subscriptions == 3)
    #expect(
      statistics.longestBacklog == 3, "the oldest three; of those that the filter let through there are three, too")
    withExtendedLifetime((filtered, newest, oldest)) {}
    grandchild = nil
    _ = await root.state
    #expect(await root.statistics.childStores == 1)
    await root.shutdown()
    #expect(
      await root.statistics == StoreStatistics(commits: 10, childStores: 1), "of the end, when nobody is subscribed")
  }

  @Test func `they count waiting requests, without performing them first, and running tasks`() async throws {
    let executor = HeldExecutor()
    let (started, goOn) = (Gate(), Gate())
    let root = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(executor: .serial(executor)),
      interceptors: Interceptor(where: { $0 == 1 }) { _, _ in
        started.open()
        await goOn.wait()
      }
    ) { $0 += $1 }
    root.dispatch(1)
    await started.wait()
    #expect(await root.statistics.runningTasks == 1)
    executor.waitForRunningJob()
    let enqueued = executor.enqueued
    executor.hold()
    // The drain of these actions is enqueued after the read, as both wait for the executor.
    let asked = Task { await root.statistics }
    await executor.untilEnqueued(enqueued + 1)
    for _ in 0..<5 { root.dispatch(2) }
    executor.letGo()
    let statistics = await asked.value
    #expect(statistics.waiting == 5)
    #expect(statistics.commits == 1)
    #expect(await root.state == 11)
    goOn.open()
    await root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(await root.statistics.runningTasks == 0)
  }
}
