import Foundation
import PureduxTestSupport
import Testing

@testable import Puredux

extension Reentry {
  /// A scenario's surroundings: the user's objects, the calls made, and their outcomes.
  final class Stage: Sendable {
    /// The objects that the user holds. Operations may release them.
    struct Cast: Sendable {
      var root: RootStore<World, Deed>?
      var child: StateStore<Scene, Deed>?
      var grandchild: StateStore<Scene, Deed>?
      var other: RootStore<[Int], Int>?
      /// Proxies of the root, the child and the grandchild.
      var proxies: [Store<Scene, Deed>] = []
      var anchor: Anchor?
      var history: History<World, Deed>?
      /// Sequences that are subscribed, and not read.
      var sequences: [StateSequence<Scene>] = []
      var subscriptions: [Subscription] = []
      var isArmed = false
      var turns = 0
    }

    /// A trace of the root's actions that some reader saw, with the checks that apply to it.
    struct Moment: Sendable {
      let who: String
      let trace: [Int]
      var last: Int?
      var includes: [Int] = []
      var excludes: [Int] = []
    }

    let ground: Ground
    let place: Place
    let operation: Operation
    let manual = ManualExecutor(isStepByStep: false)
    let held = HeldExecutor()
    /// A consumer's executor. It is held until the end, because a task does not retain the executor that it prefers.
    let consumerExecutor = ManualExecutor(forTasks: true)

    let cast = LockedValue(Cast())
    let stateGone = Gate()
    let reducerGone = Gate()
    /// Opens with the first operation.
    let passed = Gate()
    private let turnEnds = [Gate(), Gate()]
    private let performer = LockedValue<ObjectIdentifier?>(nil)
    private let tasks = LockedValue<[Task<Void, Never>]>([])

    /// The accepted actions, and the level of the store that each was given to.
    let accepted = Record<Int>()
    let levels = LockedValue<[Int: Int]>([:])
    /// Lists of actions that must be committed in this order.
    let orders = Record<[Int]>()
    let moments = Record<Moment>()
    let statistics = Record<StoreStatistics>()
    /// The tree's final count of commits.
    let commits = Record<Int>()
    let intercepted = Record<Int>()

    init(_ ground: Ground, _ place: Place, _ operation: Operation) {
      self.ground = ground
      self.place = place
      self.operation = operation
    }

    var executor: StoreExecutor {
      switch ground {
      case .mainActor: .mainActor
      case .own: .own
      case .held: .serial(held)
      case .manual: .serial(manual)
      }
    }

    var keepsHistory: Bool { place == .recordedReducer || place == .historyDeinit || operation == .history }
    /// A limit of one if the history would otherwise keep the released objects.
    var historyLimit: Int { place.isCargoOfState || place == .actionDeinit ? 1 : 100 }
    var turns: Int { cast.withLock { $0.turns } }
    var root: RootStore<World, Deed>? { cast.withLock { $0.root } }
    func arm(_ isArmed: Bool) { cast.withLock { $0.isArmed = isArmed } }
    func proxy(_ level: Int) -> Store<Scene, Deed> { cast.withLock { $0.proxies[level] } }
    func cargo(of place: Place) -> Passenger? { place == self.place ? Passenger(self, place) : nil }

    /// Releases everything except the records that are to be checked.
    func clear() {
      // Returned, so that the contents are released outside the lock.
      _ = cast.withLock { cast -> Cast in
        defer { cast = Cast() }
        return cast
      }
      manual.whenGivenJob(nil)
      consumerExecutor.whenGivenJob(nil)
    }

    // MARK: The place

    /// The user's code, called in a place. It performs the operation if this is the scenario's place, at most twice.
    /// Actions given there come after the action that is being committed.
    func pass(_ place: Place, during id: Int? = nil) {
      guard place == self.place else { return }
      let turn: Int? = cast.withLock { cast in
        guard cast.isArmed, cast.turns < 2 else { return nil }
        cast.turns += 1
        return cast.turns
      }
      guard let turn else { return }
      passed.open()
      if let id { orders.add([id, turn * 1000 + 1, turn * 1000 + 2]) }
      if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) { operate(turn) }
      turnEnds[turn - 1].open()
    }

    /// Called once the stage is disarmed: returns when no other thread is still in an operation.
    func untilTurnsEnded() async {
      for end in turnEnds.prefix(turns) { await end.wait() }
    }

    /// Records the committing thread, for code that is also called on other threads.
    func committing(_ body: () -> Void) {
      let before = performer.withLock { performer in
        defer { performer = ObjectIdentifier(Thread.current) }
        return performer
      }
      body()
      performer.withLock { $0 = before }
    }

    var isCommitting: Bool { performer.withLock { $0 } == ObjectIdentifier(Thread.current) }

    // MARK: Calls

    func dispatch(_ id: Int, to level: Int, with cargo: Passenger? = nil) {
      levels.withLock { $0[id] = level }
      if proxy(level).dispatch(Deed(id: id, cargo: cargo)) == .enqueued { accepted.add(id) }
    }

    nonisolated(nonsending) func send(_ id: Int, to level: Int) async {
      levels.withLock { $0[id] = level }
      do throws(StoreError) {
        try await proxy(level).send(Deed(id: id))
        accepted.add(id)
      } catch {
        #expect(error == .terminated)
      }
    }

    nonisolated(nonsending) func sendReading(_ id: Int, to level: Int) async {
      levels.withLock { $0[id] = level }
      do throws(StoreError) {
        let trace = try await proxy(level).send(Deed(id: id)) { [self] scene in
          pass(.reading)
          return scene.root
        }
        accepted.add(id)
        moments.add(Moment(who: "send reading \(id)", trace: trace, last: id))
      } catch {
        #expect(error == .terminated)
      }
    }

    func isAccepted(_ id: Int) -> Bool { accepted.all.contains(id) }

    /// Runs a task as far as possible before this returns; isolated to the tree's executor if the place is on it.
    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    func immediately(_ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) {
      let anchor = cast.withLock { $0.anchor }
      let task: Task<Void, Never>
      switch (place.isOnExecutor, ground) {
      case (false, _): task = Task.immediate { await body(nil) }
      case (true, .mainActor):
        task = MainActor.assumeIsolated { Task.immediate { @MainActor in await body(MainActor.shared) } }
      case (true, _): task = anchor?.immediately(body) ?? Task.immediate { await body(nil) }
      }
      tasks.withLock { $0.append(task) }
    }

    /// Waits for all tasks of the operations, and for the tasks that these have started.
    func untilOperationsEnded() async {
      while true {
        let running = tasks.withLock { tasks in
          defer { tasks = [] }
          return tasks
        }
        if running.isEmpty { return }
        for task in running { await task.value }
      }
    }

    func add(_ task: Task<Void, Never>) { tasks.withLock { $0.append(task) } }

    // MARK: The operation

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    private func operate(_ turn: Int) {
      let id = turn * 1000
      switch operation {
      case .dispatch:
        dispatch(id + 1, to: 1)
        dispatch(id + 2, to: 0)
        orders.add([id + 1, id + 2])
      case .send:
        dispatch(id + 1, to: 1)
        immediately { [self] _ in
          await send(id + 2, to: 1)
          dispatch(id + 3, to: 0)
          await send(id + 4, to: 2)
        }
        dispatch(id + 5, to: 0)
        orders.add([id + 1, id + 2, id + 3, id + 4])
        // This belongs to another task, so it is only ordered after the earlier request.
        orders.add([id + 1, id + 5])
      case .sendReading:
        dispatch(id + 1, to: 0)
        immediately { [self] _ in
          await sendReading(id + 2, to: 0)
          await sendReading(id + 3, to: 1)
        }
        orders.add([id + 1, id + 2, id + 3])
      case .state:
        dispatch(id + 1, to: 1)
        let isDispatched = isAccepted(id + 1)
        immediately { [self] _ in
          guard let scene = try? await proxy(1).state else { return }
          moments.add(
            Moment(who: "state", trace: scene.root, includes: isDispatched ? [id + 1] : []))
        }
        dispatch(id + 2, to: 0)
        orders.add([id + 1, id + 2])
      case .statistics:
        guard let root else { return }
        immediately { [self] _ in statistics.add(await root.statistics) }
        dispatch(id + 1, to: 0)
      case .subscribe:
        let new: StateSequence<Scene> = proxy(2).states()
        // The earlier sequences are released here, outside the lock.
        _ = cast.withLock { cast in
          defer { cast.sequences = [new] }
          return cast.sequences
        }
        _ = proxy(0).states() as AsyncStream
        _ = proxy(1).states(removeStateDuplicates: .equal) as StateSequence
        dispatch(id + 1, to: 0)
      case .next: next(id)
      case .observe:
        let observer = Observer<Scene> { [moments] scene in
          moments.add(Moment(who: "observer", trace: scene.root))
          return .active
        }
        let subscription = proxy(0).subscribe(observer: observer)
        proxy(1).subscribe(observer: Observer { _ in .dead }).cancel()
        let before = cast.withLock { cast in
          defer { cast.subscriptions = [subscription] }
          return cast.subscriptions
        }
        for subscription in before { subscription.cancel() }
        dispatch(id + 1, to: 0)
      case .intercept:
        root?.interceptActions(
          with: Interceptor(where: { [intercepted] in
            intercepted.add($0.id)
            return false
          }) { _, _ in })
        dispatch(id + 1, to: 0)
      case .scopes: makeScopes(id)
      case .history:
        let history = cast.withLock { $0.history }
        let trace = history?.entries.map(\.action.id) ?? []
        if history?.limit != 1 { moments.add(Moment(who: "history", trace: trace)) }
        _ = history?.commits()
        dispatch(id + 1, to: 0)
      case .makeChild: makeChild(id)
      case .makeAndDropChild:
        var child = root?.lightChild()
        let stream = child?.states()
        levels.withLock { $0[id + 1] = 0 }
        if child?.dispatch(Deed(id: id + 1)) == .enqueued { accepted.add(id + 1) }
        child = nil
        _ = stream
      case .dropChild:
        dispatch(id + 1, to: 2)
        _ = cast.withLock { cast in
          defer { (cast.child, cast.grandchild) = (nil, nil) }
          return (cast.child, cast.grandchild)
        }
        dispatch(id + 2, to: 0)
        orders.add([id + 1, id + 2])
      case .shutDownChild:
        guard let child = cast.withLock({ $0.child }) else { return }
        dispatch(id + 1, to: 2)
        immediately { _ in await child.shutdown() }
        dispatch(id + 2, to: 0)
        orders.add([id + 1, id + 2])
      case .shutDown:
        guard let root else { return }
        dispatch(id + 1, to: 1)
        immediately { _ in await root.shutdown() }
        #expect(proxy(0).dispatch(Deed(id: id + 2)) == .terminated)
      case .shutDownInTask:
        guard let root else { return }
        add(Task { await root.shutdown() })
        dispatch(id + 1, to: 1)
      case .dropRoot:
        dispatch(id + 1, to: 2)
        _ = cast.withLock { cast in
          defer { (cast.root, cast.child, cast.grandchild) = (nil, nil, nil) }
          return (cast.root, cast.child, cast.grandchild)
        }
        dispatch(id + 2, to: 0)
        orders.add([id + 1, id + 2])
      case .otherTree:
        guard let other = cast.withLock({ $0.other }) else { return }
        dispatch(id + 1, to: 1)
        immediately { [self] _ in
          let seen = try? await other.send(id) { $0 }
          #expect(seen?.last == id)
          await send(id + 3, to: 0)
        }
        orders.add([id + 1, id + 3])
      case .runJobs:
        dispatch(id + 1, to: 0)
        immediately { [self] _ in await send(id + 2, to: 1) }
        if manual.isCurrent { manual.run() }
        orders.add([id + 1, id + 2])
      }
    }

    /// Called by the other tree's reducer: sends this tree an action.
    func reduceOther(_ id: Int) {
      guard #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) else { return }
      if ground == .own {
        add(Task.immediate { [self] in await send(id + 2, to: 1) })
      } else if ground == .mainActor {
        add(MainActor.assumeIsolated { Task.immediate { @MainActor [self] in await send(id + 2, to: 1) } })
      } else if let anchor = cast.withLock({ $0.anchor }) {
        add(anchor.immediately { [self] _ in await send(id + 2, to: 1) })
      }
    }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    private func next(_ id: Int) {
      let old = cast.withLock { $0.sequences.first }
      dispatch(id + 1, to: 1)
      let isDispatched = isAccepted(id + 1)
      let new: StateSequence<Scene> = proxy(0).states()
      dispatch(id + 2, to: 0)
      immediately { [self] _ in
        var iterator = new.makeAsyncIterator()
        if let scene = await iterator.next(isolation: #isolation) {
          let includes = isDispatched ? [id + 1] : []
          moments.add(Moment(who: "first element", trace: scene.root, includes: includes, excludes: [id + 2]))
        }
        if let scene = await iterator.next(isolation: #isolation) {
          moments.add(Moment(who: "second element", trace: scene.root))
        }
        var old = old?.makeAsyncIterator()
        if let scene = await old?.next(isolation: #isolation) {
          moments.add(Moment(who: "first element of old", trace: scene.root))
        }
      }
      orders.add([id + 1, id + 2])
    }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    private func makeScopes(_ id: Int) {
      guard let world = root?.store() else { return }
      let scoped: StateSequence<Int> = world.scope { $0.trace.count }.states()
      _ = world.scope(toOptional: { $0.trace.last }).states() as StateSequence
      _ = world.states(StateSelector("count", whenDifferent: \.trace) { $0.trace.count }) as StateSequence
      let keyed = world.scope(to: \.scene)
      _ = keyed.states() as AsyncStream
      _ = world.scope(to: \.scene).scope(to: \.root).states() as StateSequence
      dispatch(id + 1, to: 0)
      let isDispatched = isAccepted(id + 1)
      immediately { [self] _ in
        var iterator = scoped.makeAsyncIterator()
        _ = await iterator.next(isolation: #isolation)
        if let scene = try? await keyed.state {
          moments.add(Moment(who: "key path", trace: scene.root, includes: isDispatched ? [id + 1] : []))
        }
      }
    }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    private func makeChild(_ id: Int) {
      guard let child = root?.lightChild() else { return }
      let sequence: StateSequence<Scene> = child.states()
      levels.withLock { levels in (levels[id + 1], levels[id + 2]) = (0, 0) }
      if child.dispatch(Deed(id: id + 1)) == .enqueued { accepted.add(id + 1) }
      let isDispatched = isAccepted(id + 1)
      immediately { [self] _ in
        do throws(StoreError) {
          let scene = try await child.send(Deed(id: id + 2)) { $0 }
          accepted.add(id + 2)
          moments.add(Moment(who: "new child", trace: scene.root, last: id + 2))
          #expect(scene.locals == [(isDispatched ? [id + 1] : []) + [id + 2]])
        } catch {
          #expect(error == .terminated)
        }
        var iterator = sequence.makeAsyncIterator()
        if let scene = await iterator.next(isolation: #isolation) {
          moments.add(Moment(who: "new child's first", trace: scene.root, excludes: [id + 1]))
        }
      }
      orders.add([id + 1, id + 2])
    }
  }
}

extension RootStore<Reentry.World, Reentry.Deed> {
  nonisolated func lightChild() -> StateStore<Reentry.Scene, Reentry.Deed> {
    childStore(
      initialState: [Int](), stateMapping: { world, local in Reentry.Scene(root: world.trace, locals: [local]) },
      reducer: { $0.append($1.id) })
  }
}
