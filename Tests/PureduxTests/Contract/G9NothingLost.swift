import Puredux
import PureduxTestSupport
import Testing

/// An action given to an ended store changes nothing, and its caller is told. Accepted actions are committed.
@Suite(.timeLimit(.minutes(15))) struct G9NothingLost {
  @Test(arguments: Kind.allCases)
  func `a store that is shut down refuses actions, reports that, and changes nothing`(kind: Kind) async throws {
    let reduced = Record<Int>()
    let subject = Subject(kind, reducing: { reduced.add($0) })
    subject.store.dispatch(1)
    await subject.root.shutdown()
    #expect(subject.store.dispatch(2) == .terminated)
    await #expect(throws: StoreError.terminated) { try await subject.store.send(3) }
    await #expect(throws: StoreError.terminated) { try await subject.store.send(4) { $0 } }
    #expect(await subject.states().collect().isEmpty)
    #expect(await subject.states(removeStateDuplicates: .equal).collect().isEmpty)
    await #expect(throws: StoreError.terminated) { try await subject.store.store().state }
    #expect(reduced.all == [1])
    #expect(await subject.root.state.root.last == 1, "the root store itself still tells its last state")
    for child in subject.children { #expect(await child.state.isWhole) }
  }

  @Test(arguments: Kind.allCases)
  func `a proxy of a released store refuses actions, and reports that`(kind: Kind) async throws {
    let proxy: Store<Snapshot, Int>
    do {
      let subject = Subject(kind)
      proxy = subject.store.store()
      #expect(proxy.dispatch(1) == .enqueued)
    }
    let scope = proxy.scope { $0.root }
    #expect(proxy.dispatch(2) == .terminated)
    #expect(scope.dispatch(2) == .terminated)
    await #expect(throws: StoreError.terminated) { try await proxy.send(3) }
    await #expect(throws: StoreError.terminated) { try await scope.state }
    #expect(await scope.states().collect().isEmpty)
  }

  @Test(arguments: Kind.children)
  func `actions accepted by a child are committed, even if it is released right after`(kind: Kind) async throws {
    let executor = HeldExecutor()
    var subject: Subject? = Subject(kind, executor: .serial(executor))
    let root = try #require(subject?.root)
    executor.hold()
    for action in 1...10 { #expect(subject?.store.dispatch(action) == .enqueued) }
    subject = nil
    executor.letGo()
    #expect(await root.state.root == Ledger(count: 10, last: 10))
  }

  @Test(arguments: Kind.allCases)
  func `actions accepted by a root store are committed, even if it is released right after`(kind: Kind) async throws {
    let executor = HeldExecutor()
    let reduced = Record<Int>()
    var subject: Subject? = Subject(kind, executor: .serial(executor), reducing: { reduced.add($0) })
    let states = try #require(subject?.states())
    executor.hold()
    for action in 1...10 { #expect(subject?.store.dispatch(action) == .enqueued) }
    subject = nil
    executor.letGo()
    #expect(await states.collect().count == 11)
    #expect(reduced.all == Array(1...10))
  }

  @Test(arguments: Kind.allCases)
  func `during a shutdown from another task, accepted actions are committed, and the rest refused`(
    kind: Kind
  ) async throws {
    let reduced = Record<Int>()
    let accepted = Record<Int>()
    let subject = Subject(kind, reducing: { reduced.add($0) })
    await withTaskGroup { group in
      for producer in 0..<4 {
        group.addTask {
          for number in 1... {
            let action = producer * 1_000_000 + number
            if number.isMultiple(of: 5) {
              do { try await subject.store.send(action) } catch { return }
            } else if subject.store.dispatch(action) == .terminated {
              return
            }
            accepted.add(action)
            // A send to an idle tree occupies its thread; this yields to the other tasks.
            await Task.yield()
          }
        }
      }
      group.addTask {
        await accepted.untilCount(500)
        await subject.root.shutdown()
      }
    }
    #expect(reduced.all.sorted() == accepted.all.sorted())
  }

  @Test(arguments: Kind.allCases)
  func `during a release from another task, accepted actions are committed, and the rest refused`(
    kind: Kind
  ) async throws {
    for round in 0..<20 {
      let reduced = Record<Int>()
      let accepted = Record<Int>()
      var subject: Subject? = Subject(kind, reducing: { reduced.add($0) })
      let proxy = try #require(subject?.store.store())
      // In half of the rounds, nobody follows the store.
      let states = round.isMultiple(of: 2) ? subject?.states() : nil
      await withTaskGroup { group in
        for producer in 0..<2 {
          group.addTask {
            for number in 1... {
              let action = producer * 1_000_000 + number
              // A send to an idle tree occupies its thread; this yields to the other tasks.
              await Task.yield()
              do {
                switch number % 4 {
                case 0: try await proxy.send(action)
                case 1: _ = try await proxy.send(action) { $0.root.last }
                case 2: if proxy.dispatch(action) == .terminated { return }
                default:
                  _ = try await proxy.state
                  continue
                }
              } catch { return }
              accepted.add(action)
            }
          }
        }
        await accepted.untilCount(round)
        subject = nil
      }
      _ = await states?.collect()
      // A running drain may still have to commit accepted actions.
      await reduced.untilCount(accepted.all.count)
      #expect(reduced.all.sorted() == accepted.all.sorted())
    }
  }

  @Test(arguments: Kind.allCases)
  func `a store released while an action of a sender is reduced commits it, and the sender is told`(kind: Kind)
    async throws
  {
    let (began, goOn) = (Gate(), Latch())
    let blocks: @Sendable (Int) -> Void = { _ in
      began.open()
      goOn.wait()
    }
    // The executor has a thread of its own, because the reducer blocks it.
    var subject: Subject? = Subject(kind, executor: .serial(HeldExecutor()), reducing: blocks)
    let proxy = try #require(subject?.store.store())
    let sender = Task { try await proxy.send(1) { $0.root } }
    await began.wait()
    subject = nil
    goOn.open()
    #expect(try await sender.value == Ledger(count: 1, last: 1))
  }

  @Test func `a child keeps its root alive, and a factory's proxies do not`() async throws {
    var factory: StoreFactory<Int, Int>? = StoreFactory(initialState: 0) { $0 += $1 }
    let proxy = try #require(factory?.rootStore())
    let scope = try #require(factory?.scopeStore { $0 * 2 })
    var child = factory?.childStore(initialState: 0) { $0 += $1 }
    factory = nil
    #expect(proxy.dispatch(1) == .enqueued)
    #expect(try await child?.send(2) { $0 == (3, 2) } == true)
    #expect(try await scope.state == 6)
    child = nil
    #expect(proxy.dispatch(1) == .terminated)
    #expect(scope.dispatch(1) == .terminated)
  }
}
