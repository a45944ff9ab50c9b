import Puredux
import Synchronization

/// One run of a program of effects that end each other's stores.
final class EndsRun: Sendable {
  private typealias Root = RootStore<Int, Action>
  private typealias Child = StateStore<Int, Action>

  private struct Action: Sendable {
    var acts: [EndsProgram.Act]
    var store: Int
    var hasID = false
  }

  private struct Place: Sendable {
    var root: Root?
    var child: Child?
    var proxy: Store<Int, Action>?
    /// The same stores, until they are released.
    weak var lastRoot: Root?
    weak var lastChild: Child?
  }

  private let program: EndsProgram
  private let places: Guarded<[Place]>
  private let atWork: Guarded<[Int]>
  private let left = Record<Task<Void, Never>>()
  private let violations = Record<String>()
  private let commits = Counter()
  /// The number of actions that effects may still give, so that the run ends.
  private let actionsLeft = Atomic(300)

  /// The trees' clock, which runs fast, so that the limits of effects that await each other's trees are soon over.
  private let clock = HandClock()
  /// By the continuous clock, far longer than any call may take.
  private static let limit = Duration.seconds(1_000)
  /// By the fast clock, the limit within which an effect lets another tree's effects finish.
  private static let shortLimit = Duration.seconds(10)

  init(_ program: EndsProgram) {
    self.program = program
    places = Guarded(program.stores.map { _ in Place() })
    atWork = Guarded(program.stores.map { _ in 0 })
  }

  func perform() async -> AnyProgram.Verdict {
    for store in program.stores.indices { make(store) }
    let time = Task { [clock] in
      while !Task.isCancelled {
        clock.move(to: clock.now.time + .milliseconds(10))
        await Task.yield()
      }
    }
    defer { time.cancel() }
    let cuts = program.hasFollowersOfOtherTrees
    await withDiscardingTaskGroup { group in
      for task in program.tasks {
        group.addTask { [self] in for step in task { await perform(step) } }
      }
      if cuts {
        // An effect that follows another tree ends only with that tree, which nobody else may end.
        for _ in 0..<200 { await Task.yield() }
        for store in program.stores.indices { group.addTask { [self] in await end(store, .cancelling, isLast: true) } }
      }
    }
    await withDiscardingTaskGroup { group in
      // A released store still exists while a caller awaits its end or holds a store below it.
      for store in program.stores.indices {
        group.addTask { [self] in await end(store, cuts ? .cancelling : .finishing, isLast: true) }
      }
    }
    for task in left.all { await task.value }
    let gone = places.withLock { places in
      defer { places = places.map { _ in Place() } }
      return places
    }
    withExtendedLifetime(gone) {}
    return AnyProgram.Verdict(failures: violations.all, commits: commits.increment() - 1)
  }

  // MARK: Stores

  private func make(_ store: Int) {
    let spec = program.stores[store]
    var place = Place()
    if spec.parent < 0 {
      let root = Root(
        initialState: 0, options: StoreOptions(clock: clock), interceptors: interceptor, stateEffects(of: store)
      ) { [commits] state, _ in
        _ = commits.increment()
        state += 1
      }
      place.root = root
      place.proxy = root.store()
    } else {
      let parent = places.withLock { $0[spec.parent] }
      let child: Child
      if let root = parent.root {
        child = spec.isOfPart ? make(store, of: root.part { $0 / 2 }) : make(store, of: root)
      } else if let parent = parent.child {
        child = spec.isOfPart ? make(store, of: parent.part { $0 / 2 }) : make(store, of: parent)
      } else {
        return
      }
      place.child = child
      place.proxy = child.store()
    }
    (place.lastRoot, place.lastChild) = (place.root, place.child)
    places.withLock { [place] in $0[store] = place }
    guard let acts = spec.observing, let proxy = place.proxy else { return }
    let observer = Observer<Int> { [self] _ in
      await work(acts, of: store, dispatch: nil)
      return .dead
    }
    proxy.subscribe(observer: observer)
  }

  private func make(_ store: Int, of parent: some StoreParent<Int, Action>) -> Child {
    let spec = program.stores[store]
    return parent.childStore(
      initialState: 0, stateMapping: { $0 + $1 }, interceptors: stateEffects(of: store),
      atEnd: spec.atEnd.map { Action(acts: $0, store: store) }
    ) { state, _ in state += 1 }
  }

  private var interceptor: Interceptor<Int, Action> {
    .effects { [self] action, _ in
      if action.acts.isEmpty { return nil }
      let effect = Effect<Action>.run { [self] dispatch in
        await work(action.acts, of: action.store, dispatch: dispatch)
      }
      return action.hasID ? effect.id("id", .concurrent(limit: 100)) : effect
    }
  }

  private func stateEffects(of store: Int) -> Interceptor<Int, Action> {
    guard let acts = program.stores[store].whileOdd else { return Interceptor(combining: []) }
    return .effects(
      ofState: .while({ $0 % 2 == 1 }) {
        .run { [self] dispatch in await work(acts, of: store, dispatch: dispatch) }
      })
  }

  // MARK: Steps

  private func perform(_ step: EndsProgram.Step) async {
    switch step {
    case .give(let acts, let store, let hasID):
      let proxy = places.withLock { $0[store].proxy }
      proxy?.dispatch(Action(acts: acts, store: store, hasID: hasID))
    case .end(let store, let way):
      guard await end(store, way) else { return }
      let busy = atWork.withLock { atWork in
        atWork.indices.filter { program.isStore($0, atOrBelow: store) && atWork[$0] > 0 }
      }
      if !busy.isEmpty { violations.add("G8 effects of \(busy) are at work after the shutdown of \(store)") }
    case .release(let store): release(store)
    case .yield(let count): for _ in 0..<count { await Task.yield() }
    }
  }

  private func release(_ store: Int) {
    if store == 0 { return }
    let gone = places.withLock { places in
      let place = places[store]
      places[store].root = nil
      places[store].child = nil
      return place
    }
    withExtendedLifetime(gone) {}
  }

  /// - Returns: Whether the store still existed.
  @discardableResult private func end(
    _ store: Int, _ way: EndsProgram.Way, isLast: Bool = false, fromOtherTree: Bool = false
  ) async -> Bool {
    let place = places.withLock { $0[store] }
    let (root, child) = isLast ? (place.lastRoot, place.lastChild) : (place.root, place.child)
    let clock: any Clock<Duration> = fromOtherTree ? clock : ContinuousClock()
    let shutdown =
      way == .finishing
      ? InterceptorShutdown.finish(within: fromOtherTree ? Self.shortLimit : Self.limit) : .cancel
    if let root {
      await root.shutdown(interceptors: shutdown, clock: clock)
    } else if let child {
      await child.shutdown(interceptors: shutdown, clock: clock)
    } else {
      return false
    }
    return true
  }

  // MARK: Effects

  private func work(_ acts: [EndsProgram.Act], of store: Int, dispatch: Dispatch<Action>?) async {
    atWork.withLock { $0[store] += 1 }
    await perform(acts, of: store)
    atWork.withLock { $0[store] -= 1 }
  }

  private func perform(_ acts: [EndsProgram.Act], of store: Int) async {
    for act in acts { await perform(act, of: store) }
  }

  private func perform(_ act: EndsProgram.Act, of store: Int) async {
    switch act {
    case .yield(let count): for _ in 0..<count { await Task.yield() }
    case .follow(let other): await follow(other, count: .max)
    case .await(let other, let count): await follow(other, count: count)
    case .dispatch(let acts, let other):
      guard actionsLeft.subtract(1, ordering: .relaxed).newValue > 0 else { return }
      let proxy = places.withLock { $0[other].proxy }
      proxy?.dispatch(Action(acts: acts, store: other))
    case .send(let other):
      guard actionsLeft.subtract(1, ordering: .relaxed).newValue > 0 else { return }
      let proxy = places.withLock { $0[other].proxy }
      try? await proxy?.send(Action(acts: [], store: other))
    case .end(let other, let way, let position):
      let isElsewhere = program.root(of: other) != program.root(of: store)
      let end = { @Sendable [self] () async -> Void in _ = await self.end(other, way, fromOtherTree: isElsewhere) }
      switch position {
      case .itself: await end()
      case .childTask: await withDiscardingTaskGroup { $0.addTask(operation: end) }
      case .task: await Task(operation: end).value
      case .left: left.add(Task(operation: end))
      }
    case .release(let other): release(other)
    case .within(let acts, let inEffect):
      let done = Gate()
      let inner = Interceptor<Int, Action>(where: { _ in inEffect }) { [self] action, _ in
        await perform(action.acts, of: store)
        done.open()
      }
      await withStore(initialState: 0, interceptors: inner, reducer: { state, _ in state += 1 }) { made in
        if inEffect, made.dispatch(Action(acts: acts, store: store)) == .enqueued {
          // An effect that is cancelled before it begins never begins.
          await withTaskCancellationHandler {
            await done.wait()
          } onCancel: {
            done.open()
          }
        } else {
          await perform(acts, of: store)
        }
      }
    }
  }

  private func follow(_ store: Int, count: Int) async {
    guard let proxy = places.withLock({ $0[store].proxy }) else { return }
    var left = count
    let states: StateSequence<Int> = proxy.states()
    for await _ in states {
      left -= 1
      if left == 0 { break }
    }
  }
}
