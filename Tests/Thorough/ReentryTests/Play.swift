import PureduxTestSupport
import Testing

@testable import Puredux

extension Reentry {
  /// The states that one subscriber saw until its store's end.
  struct Watch {
    let who: String
    let scenes: Task<[Scene], Never>

    init(_ who: String, _ states: some AsyncSequence<Scene, Never> & Sendable) {
      self.who = who
      scenes = Task { await states.collect() }
    }

    init(_ who: String, _ scenes: Task<[Scene], Never>) {
      self.who = who
      self.scenes = scenes
    }
  }

  static func play(_ ground: Ground, _ place: Place, _ operation: Operation) async {
    let stage = Stage(ground, place, operation)
    var seen: [(who: String, scenes: [Scene])] = []
    for watch in await act(on: stage) { seen.append((watch.who, await watch.scenes.value)) }
    check(seen, on: stage)
    // The state is released with the store although proxies are held, unless a history keeps it. The rest is released
    // with the proxies.
    if !stage.keepsHistory { await stage.stateGone.wait() }
    stage.clear()
    await stage.stateGone.wait()
    await stage.reducerGone.wait()
  }

  // MARK: The tree

  private static func build(on stage: Stage) {
    let witness = Witness(stage.reducerGone)
    let place = stage.place
    var middleware: [Middleware<World, Deed>] = []
    if [.middlewareBefore, .middlewareAfter, .consumerExecutor].contains(place) {
      middleware.append(
        Middleware { deed, _, next in
          stage.pass(.middlewareBefore, during: deed.id)
          stage.committing { next(deed) }
          stage.pass(.middlewareAfter, during: deed.id)
        })
    }
    let history: History<World, Deed>? = stage.keepsHistory ? History(limit: stage.historyLimit) : nil
    let emission = Emission<World>.when { _, world in
      stage.pass(.emission, during: world.trace.last)
      return true
    }
    let root = RootStore<World, Deed>(
      initialState: World(witness: Witness(stage.stateGone), stage: stage),
      reducers: [
        Reducer("first") { world, deed in
          var trace = world.trace
          stage.pass(.rootReducer, during: deed.id)
          stage.pass(.recordedReducer, during: deed.id)
          trace.append(deed.id)
          world.trace = trace
          witness.look()
        },
        Reducer("second") { world, deed in
          let trace = world.trace
          stage.pass(.secondReducer, during: deed.id)
          if stage.place.isCargoOfState { world.cargo = stage.cargo(of: stage.place) }
          world.trace = trace
        },
      ],
      options: StoreOptions(executor: stage.executor),
      interceptors: stage.interceptor(), middleware: middleware, emits: place == .emission ? emission : .always,
      history: history)
    let childMiddleware = Middleware<Scene, Deed> { deed, _, next in
      next(deed)
      stage.pass(.childMiddleware, during: deed.id)
    }
    let child = root.childStore(
      initialState: [Int](),
      stateMapping: { world, local in
        stage.pass(.stateMapping, during: world.trace.last)
        return Scene(root: world.trace, locals: [local])
      },
      middleware: place == .childMiddleware ? [childMiddleware] : [],
      reducer: { local, deed in
        let before = local
        stage.pass(.childReducer, during: deed.id)
        local = before + [deed.id]
      })
    let grandchild = child.childStore(
      initialState: [Int](), stateMapping: { Scene(root: $0.root, locals: $0.locals + [$1]) },
      reducer: { $0.append($1.id) })
    let other = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: stage.executor)) { ids, id in
      ids.append(id)
      if id > 0 { stage.reduceOther(id) }
    }
    stage.cast.withLock { cast in
      (cast.root, cast.child, cast.grandchild, cast.other) = (root, child, grandchild, other)
      cast.proxies = [root.scope { $0.scene }, child.store(), grandchild.store()]
      cast.anchor = Anchor(of: root)
      cast.history = history
      cast.sequences = [cast.proxies[0].states(), cast.proxies[1].states()]
      cast.subscriptions = [cast.proxies[1].subscribe(observer: Observer { _ in .active })]
    }
  }

  /// Subscribers that see every commit of the tree, each in a different way.
  private static func follow(on stage: Stage) -> [Watch] {
    guard let world = stage.root?.store() else { return [] }
    var watches = [
      Watch("scope of root", stage.proxy(0).states()),
      Watch("child", stage.proxy(1).states()),
      Watch("grandchild", stage.proxy(2).states() as StateSequence),
      Watch(
        "scope",
        world.scope { world in
          stage.pass(.scope, during: world.trace.last)
          return world.scene
        }.states() as StateSequence),
      Watch(
        "optional scope",
        world.scope(toOptional: { world -> Scene? in
          stage.pass(.optionalScope, during: world.trace.last)
          return world.scene
        }).states()),
      Watch("projection", stage.projection(of: world).states()),
      Watch(
        "selector",
        world.states(
          StateSelector<World, Scene>("selector") { world in
            stage.pass(.selector, during: world.trace.last)
            return world.scene
          })),
      Watch(
        "remembering selector",
        world.states(StateSelector<World, Scene>("remembering", whenDifferent: \.askedInput) { $0.scene })),
      Watch("key path", world.states(\.askedScene) as StateSequence),
      Watch(
        "filter",
        stage.proxy(0).states(
          removeStateDuplicates: Equating { _, scene in
            stage.pass(.filter, during: scene.root.last)
            return false
          })),
      Watch(
        "equatable filter",
        world.scope { ComparedScene(scene: $0.scene, stage: stage, place: .filterEquatable) }
          .states(removeStateDuplicates: .equal).map { $0.scene }),
      Watch(
        "filter by value",
        stage.proxy(0).states(
          removeStateDuplicates: .equal { scene in
            stage.pass(.filterValue, during: scene.root.last)
            return Memo(count: scene.root.count, cargo: stage.cargo(of: .memoryDeinit))
          }) as StateSequence),
    ]
    // The states would be released where this subscriber reads them.
    if !stage.place.isCargoOfState { watches.append(Watch("root", world.states().map { $0.scene })) }
    return watches
  }

  // MARK: The acts

  private static func act(on stage: Stage) async -> [Watch] {
    build(on: stage)
    var watches = follow(on: stage)
    let world = stage.root?.store()
    let stalled = stage.place == .bufferDeinit ? world?.states(bufferingPolicy: .bufferingNewest(1)) : nil
    let observing = observe(on: stage)
    if stage.place == .consumerExecutor { watches.append(await consume(on: stage)) }
    _ = try? await stage.proxy(0).state
    await stage.root?.core.node.tree.untilIdle()

    if stage.operation == .runJobs { await giveJobs(to: stage) }
    stage.arm(true)
    if stage.place == .treeExecutor { stage.manual.whenGivenJob { stage.pass(.treeExecutor) } }
    let anchor = stage.cast.withLock { $0.anchor }
    await anchor?.perform {
      giveActions(to: stage)
      replaceInterceptor(of: stage)
      letGoOfChild(of: stage)
      lookUp(on: stage)
    }
    await stage.send(11, to: 1)
    await stage.sendReading(12, to: 0)
    stage.dispatch(13, to: 2)
    _ = try? await stage.proxy(0).state
    await anchor?.perform { for id in 14...16 { stage.dispatch(id, to: id % 3, with: stage.cargo(of: .actionDeinit)) } }
    await stage.send(17, to: 2)
    stage.orders.add(Array(1...17))
    await end(stage, observing)
    withExtendedLifetime(stalled) {}
    return watches
  }

  private static func observe(on stage: Stage) -> Subscription {
    let held = stage.cargo(of: .observerCaptureDeinit)
    return stage.proxy(0).subscribe(
      observer: Observer { _ in
        stage.pass(.observer)
        held?.ride()
        return .active
      })
  }

  /// Enqueues a drain, a send and a read on the held executor.
  private static func giveJobs(to stage: Stage) async {
    stage.manual.hold()
    stage.arm(true)
    stage.dispatch(18, to: 0)
    let send = Task { await stage.send(19, to: 1) }
    let read = Task { _ = try? await stage.proxy(2).state }
    await stage.manual.untilWaiting(3)
    stage.manual.letGo()
    await send.value
    await read.value
  }

  private static func giveActions(to stage: Stage) {
    for id in 1...3 { stage.dispatch(id, to: id - 1, with: stage.cargo(of: .actionDeinit)) }
    guard let world = stage.root?.store() else { return }
    for id in 4...5 {
      stage.levels.withLock { $0[id] = 0 }
      if stage.projection(of: world).dispatch(id) == .enqueued { stage.accepted.add(id) }
    }
  }

  private static func replaceInterceptor(of stage: Stage) {
    stage.root?.interceptActions(with: stage.interceptor(holding: stage.cargo(of: .interceptorCaptureDeinit)))
    stage.dispatch(6, to: 0)
    stage.root?.interceptActions(with: stage.interceptor())
    stage.dispatch(7, to: 1)
  }

  private static func letGoOfChild(of stage: Stage) {
    let held = stage.cargo(of: .reducerCaptureDeinit)
    let child = stage.root?.childStore(initialState: 0) { _, _ in held?.ride() }
    stage.levels.withLock { $0[8] = 0 }
    if child?.dispatch(Deed(id: 8)) == .enqueued { stage.accepted.add(8) }
  }

  private static func lookUp(on stage: Stage) {
    var scopes: [Store<Scene, Deed>] = []
    for id in 9...10 {
      if let world = stage.root?.store() { scopes.append(world.scope(to: \.[Index(stage: stage)])) }
      stage.dispatch(id, to: 0)
    }
  }

  /// Ends the tree, unless an operation has. Afterwards nobody holds a store of it.
  private static func end(_ stage: Stage, _ observing: Subscription) async {
    if stage.place == .observer { await stage.passed.wait() }
    observing.cancel()
    if !stage.place.isOnExecutor { await stage.passed.wait() }
    await stage.untilOperationsEnded()
    stage.arm(false)
    await stage.untilTurnsEnded()
    await stage.untilOperationsEnded()
    stage.manual.whenGivenJob(nil)
    // The contents are released outside the lock.
    let cast = stage.cast.withLock { cast in
      defer {
        (cast.root, cast.child, cast.grandchild, cast.other) = (nil, nil, nil, nil)
        (cast.sequences, cast.subscriptions) = ([], [])
      }
      return cast
    }
    await cast.root?.shutdown()
    if let root = cast.root { stage.commits.add(await root.statistics.commits) }
    await cast.other?.shutdown()
  }

  // MARK: Checks

  private static func check(_ seen: [(who: String, scenes: [Scene])], on stage: Stage) {
    // A key path must be compared, but need not be hashed.
    #expect(stage.turns > 0 || stage.place == .indexHash, "the place was never reached")
    let all = seen[0].scenes.last?.root ?? []
    #expect(Set(all).count == all.count, "twice in \(all)")
    #expect(Set(all) == Set(stage.accepted.all), "committed \(all), accepted \(stage.accepted.all)")
    #expect(stage.intercepted.all == all, "the interceptor's order")
    for order in stage.orders.all {
      let places = order.compactMap { all.firstIndex(of: $0) }
      #expect(places == places.sorted(), "asked in the order \(order), committed \(all)")
    }
    for moment in stage.moments.all {
      let (who, trace) = (moment.who, moment.trace)
      #expect(all.starts(with: trace), "\(who) saw \(trace) of \(all)")
      if let last = moment.last { #expect(trace.last == last, "\(who) saw \(trace)") }
      #expect(moment.includes.allSatisfy(trace.contains), "\(who) saw \(trace) without \(moment.includes)")
      #expect(!moment.excludes.contains(where: trace.contains), "\(who) saw \(trace) with \(moment.excludes)")
    }
    #expect(stage.commits.all.allSatisfy { $0 == all.count }, "committed \(all)")
    for statistics in stage.statistics.all { #expect(statistics.commits <= all.count) }
    let levels = stage.levels.withLock { $0 }
    for (who, scenes) in seen {
      let traces = scenes.map(\.root)
      #expect(zip(traces, traces.dropFirst()).allSatisfy { $0 == $1.dropLast() }, "\(who) saw \(traces)")
      #expect(all.starts(with: traces.last ?? []), "\(who) ended with \(traces.last ?? []) of \(all)")
      if !stage.operation.endsChild || !who.hasSuffix("child") { #expect(traces.last == all, "\(who) lost the end") }
      let torn = scenes.first { scene in
        scene.locals.enumerated().contains { depth, local in
          local != scene.root.filter { levels[$0, default: 0] > depth }
        }
      }
      #expect(torn == nil, "\(who) saw parts of different commits")
    }
    if let history = stage.cast.withLock({ $0.history }) {
      let kept = history.entries
      #expect(kept.map(\.action.id) == all.suffix(history.limit))
      #expect(kept.map(\.position) == Array(1...max(all.count, 1)).suffix(kept.count))
    }
  }

  /// Follows a store in a task on the user's own executor. The tree hands each state to the waiting task.
  private static func consume(on stage: Stage) async -> Watch {
    let executor = stage.consumerExecutor
    executor.whenGivenJob { if stage.isCommitting { stage.pass(.consumerExecutor) } }
    let states: StateSequence<Scene> = stage.proxy(0).states()
    let isFollowing = Gate()
    let scenes = Task(executorPreference: executor) {
      isFollowing.open()
      return await states.collect()
    }
    await isFollowing.wait()
    // Once it has its first element, it waits for the next.
    _ = try? await stage.proxy(0).state
    await executor.untilIdle()
    return Watch("consumer", scenes)
  }
}

extension Reentry.Stage {
  func interceptor(holding held: Reentry.Passenger? = nil) -> Interceptor<Reentry.World, Reentry.Deed> {
    if place == .interceptorPattern {
      return Interceptor(matching: { [self] deed -> Int? in
        pass(.interceptorPattern, during: deed.id)
        intercepted.add(deed.id)
        return nil
      }) { _, _ in }
    }
    return Interceptor(where: { [self] deed in
      held?.ride()
      pass(.interceptorCondition, during: deed.id)
      intercepted.add(deed.id)
      return place == .interceptorBody
    }) { [self] _, _ in pass(.interceptorBody) }
  }

  func projection(of world: Store<Reentry.World, Reentry.Deed>) -> Store<Reentry.Scene, Int> {
    world.projection { [self] id in
      pass(.projectionAction)
      return Reentry.Deed(id: id)
    } state: { [self] world in
      pass(.projectionState, during: world.trace.last)
      return world.scene
    }
  }
}
