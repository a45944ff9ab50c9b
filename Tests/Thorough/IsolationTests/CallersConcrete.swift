import Puredux

// Callers without generics, written out for some states: they take other paths through the optimizer than generic
// callers.

@MainActor func askSix(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<Words6, Int>(initialState: Words6(), options: StoreOptions(executor: executor)) { state, _ in
    state = Words6()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Words6() as Words6, options: StoreOptions(executor: executor)) {
    (_: inout Words6, _: Int) in
  } _: { (store: RootStore<Words6, Int>) async -> Words6 in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

@MainActor func askEight(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<Words8, Int>(initialState: Words8(), options: StoreOptions(executor: executor)) { state, _ in
    state = Words8()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Words8() as Words8, options: StoreOptions(executor: executor)) {
    (_: inout Words8, _: Int) in
  } _: { (store: RootStore<Words8, Int>) async -> Words8 in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

@MainActor func askSixteen(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<Words16, Int>(initialState: Words16(), options: StoreOptions(executor: executor)) { state, _ in
    state = Words16()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Words16() as Words16, options: StoreOptions(executor: executor)) {
    (_: inout Words16, _: Int) in
  } _: { (store: RootStore<Words16, Int>) async -> Words16 in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

@MainActor func askText(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<String, Int>(initialState: "a text", options: StoreOptions(executor: executor)) { state, _ in
    state = "a text"
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: "a text" as String, options: StoreOptions(executor: executor)) {
    (_: inout String, _: Int) in
  } _: { (store: RootStore<String, Int>) async -> String in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

@MainActor func askExistential(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<any Shape, Int>(initialState: Large(), options: StoreOptions(executor: executor)) { state, _ in
    state = Large()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Large() as any Shape, options: StoreOptions(executor: executor)) {
    (_: inout any Shape, _: Int) in
  } _: { (store: RootStore<any Shape, Int>) async -> any Shape in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

@MainActor func askOptional(on executor: StoreExecutor, _ sheet: Sheet) async {
  let root = RootStore<Words8?, Int>(initialState: Words8(), options: StoreOptions(executor: executor)) { state, _ in
    state = Words8()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Words8() as Words8?, options: StoreOptions(executor: executor)) {
    (_: inout Words8?, _: Int) in
  } _: { (store: RootStore<Words8?, Int>) async -> Words8? in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

extension Resident {
  func askEight(on executor: StoreExecutor, _ sheet: Sheet) async {
    let root = RootStore<Words8, Int>(initialState: Words8(), options: StoreOptions(executor: executor)) { state, _ in
      state = Words8()
    }
    let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
    let proxy = child.store()
    sheet.enter("RootStore.state", await root.state)
    await elsewhere()
    sheet.enter("StateStore.state", await child.state)
    await elsewhere()
    sheet.enter("proxy.state", try? await proxy.state)
    await elsewhere()
    sheet.enter("scope.state", try? await root.scope { $0 }.state)
    await elsewhere()
    sheet.enter("RootStore.send", try? await root.send(1))
    await elsewhere()
    sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
    await elsewhere()
    sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
    await elsewhere()
    sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
    let result = await withStore(initialState: Words8() as Words8, options: StoreOptions(executor: executor)) {
      (_: inout Words8, _: Int) in
    } _: { (store: RootStore<Words8, Int>) async -> Words8 in
      sheet.enter("withStore, state", await store.state)
      return await store.state
    }
    sheet.enter("withStore", result)
    await elsewhere()
    await root.shutdown()
    sheet.note("shutdown")
    await elsewhere()
    sheet.refuse("ended.state", try? await proxy.state)
    await elsewhere()
    sheet.refuse("ended.send", try? await proxy.send(1))
    await elsewhere()
    sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
  }

  func askSixteen(on executor: StoreExecutor, _ sheet: Sheet) async {
    let root = RootStore<Words16, Int>(initialState: Words16(), options: StoreOptions(executor: executor)) { state, _ in
      state = Words16()
    }
    let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
    let proxy = child.store()
    sheet.enter("RootStore.state", await root.state)
    await elsewhere()
    sheet.enter("StateStore.state", await child.state)
    await elsewhere()
    sheet.enter("proxy.state", try? await proxy.state)
    await elsewhere()
    sheet.enter("scope.state", try? await root.scope { $0 }.state)
    await elsewhere()
    sheet.enter("RootStore.send", try? await root.send(1))
    await elsewhere()
    sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
    await elsewhere()
    sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
    await elsewhere()
    sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
    let result = await withStore(initialState: Words16() as Words16, options: StoreOptions(executor: executor)) {
      (_: inout Words16, _: Int) in
    } _: { (store: RootStore<Words16, Int>) async -> Words16 in
      sheet.enter("withStore, state", await store.state)
      return await store.state
    }
    sheet.enter("withStore", result)
    await elsewhere()
    await root.shutdown()
    sheet.note("shutdown")
    await elsewhere()
    sheet.refuse("ended.state", try? await proxy.state)
    await elsewhere()
    sheet.refuse("ended.send", try? await proxy.send(1))
    await elsewhere()
    sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
  }

  func askExistential(on executor: StoreExecutor, _ sheet: Sheet) async {
    let root = RootStore<any Shape, Int>(initialState: Large(), options: StoreOptions(executor: executor)) { state, _ in
      state = Large()
    }
    let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
    let proxy = child.store()
    sheet.enter("RootStore.state", await root.state)
    await elsewhere()
    sheet.enter("StateStore.state", await child.state)
    await elsewhere()
    sheet.enter("proxy.state", try? await proxy.state)
    await elsewhere()
    sheet.enter("scope.state", try? await root.scope { $0 }.state)
    await elsewhere()
    sheet.enter("RootStore.send", try? await root.send(1))
    await elsewhere()
    sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
    await elsewhere()
    sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
    await elsewhere()
    sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
    let result = await withStore(initialState: Large() as any Shape, options: StoreOptions(executor: executor)) {
      (_: inout any Shape, _: Int) in
    } _: { (store: RootStore<any Shape, Int>) async -> any Shape in
      sheet.enter("withStore, state", await store.state)
      return await store.state
    }
    sheet.enter("withStore", result)
    await elsewhere()
    await root.shutdown()
    sheet.note("shutdown")
    await elsewhere()
    sheet.refuse("ended.state", try? await proxy.state)
    await elsewhere()
    sheet.refuse("ended.send", try? await proxy.send(1))
    await elsewhere()
    sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
    await elsewhere()
  }
}

/// In a closure.
let askEightInClosure: @MainActor @Sendable (StoreExecutor, Sheet) async -> Void = { executor, sheet in
  let root = RootStore<Words8, Int>(initialState: Words8(), options: StoreOptions(executor: executor)) { state, _ in
    state = Words8()
  }
  let child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  let proxy = child.store()
  sheet.enter("RootStore.state", await root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await proxy.state)
  await elsewhere()
  sheet.enter("scope.state", try? await root.scope { $0 }.state)
  await elsewhere()
  sheet.enter("RootStore.send", try? await root.send(1))
  await elsewhere()
  sheet.enter("RootStore.send reading", try? await root.send(1) { $0 })
  await elsewhere()
  sheet.enter("StateStore.send reading", try? await child.send(1) { $0 })
  await elsewhere()
  sheet.enter("proxy.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
  let result = await withStore(initialState: Words8() as Words8, options: StoreOptions(executor: executor)) {
    (_: inout Words8, _: Int) in
  } _: { (store: RootStore<Words8, Int>) async -> Words8 in
    sheet.enter("withStore, state", await store.state)
    return await store.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  await root.shutdown()
  sheet.note("shutdown")
  await elsewhere()
  sheet.refuse("ended.state", try? await proxy.state)
  await elsewhere()
  sheet.refuse("ended.send", try? await proxy.send(1))
  await elsewhere()
  sheet.refuse("ended.send reading", try? await proxy.send(1) { $0 })
  await elsewhere()
}

/// Small and generic, so that it is inlined into its caller, or specialized.
@MainActor func ask<State: Sendable>(_ scene: Scene<State>, _ sheet: Sheet) async {
  sheet.enter("RootStore.state", await scene.root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await scene.child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await scene.child.store().state)
  await elsewhere()
  sheet.enter("StateStore.state, a pair", await scene.pair.state)
  await elsewhere()
  sheet.enter("scope.send reading", try? await scene.scope.send(1) { $0 })
  await elsewhere()
  sheet.refuse("no state.state", try? await scene.absent.state)
  await elsewhere()
  sheet.refuse("no state.send reading", try? await scene.absent.send(1) { $0 })
  await elsewhere()
}

@inline(never) @MainActor func askOutOfLine<State: Sendable>(_ scene: Scene<State>, _ sheet: Sheet) async {
  sheet.enter("RootStore.state", await scene.root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await scene.child.state)
  await elsewhere()
  sheet.enter("proxy.state", try? await scene.child.store().state)
  await elsewhere()
  sheet.enter("StateStore.state, a pair", await scene.pair.state)
  await elsewhere()
  sheet.enter("scope.send reading", try? await scene.scope.send(1) { $0 })
  await elsewhere()
  sheet.refuse("no state.state", try? await scene.absent.state)
  await elsewhere()
  sheet.refuse("no state.send reading", try? await scene.absent.send(1) { $0 })
  await elsewhere()
}
