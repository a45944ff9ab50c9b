import Puredux
import PureduxTestSupport
import PureduxUI

// Calls from functions of the main actor. Four files make the same calls: the compiler treats them differently by their
// caller.

@MainActor func useOnMain<State: Sendable>(
  _ store: some StoreType<State, Int>, _ scene: Scene<some Sendable>, _ sheet: SheetOf
) async {
  sheet.note("called")
  sheet.enter("state", try? await store.state)
  await elsewhere()
  sheet.enter("send", try? await store.send(1))
  await elsewhere()
  sheet.enter("send reading all", try? await store.send(1) { $0 })
  await elsewhere()
  sheet.enter("send reading a word", try? await store.send(1) { _ in 1 })
  await elsewhere()
  sheet.enter("send reading eight", try? await store.send(1) { _ in Words8() })
  await elsewhere()
  sheet.enter("send contents", try? await store.send(contentsOf: scene.actions))
  await elsewhere()
  let entries = await scene.entries()
  await elsewhere()
  sheet.enter("replay", try? await entries.replay(into: store))
  await elsewhere()
  var stream = (store.states() as AsyncStream).makeAsyncIterator()
  sheet.enter("AsyncStream", await stream.next())
  await elsewhere()
  Task { store.dispatch(1) }
  sheet.enter("AsyncStream, isolated", await stream.next(isolation: #isolation))
  await elsewhere()
  var sequence = (store.states() as StateSequence).makeAsyncIterator()
  sheet.enter("StateSequence", await sequence.next())
  await elsewhere()
  Task { store.dispatch(1) }
  sheet.enter("StateSequence, isolated", await sequence.next(isolation: #isolation))
  await elsewhere()
  for await state in store.states() as StateSequence {
    sheet.enter("for await", state)
    break
  }
  await elsewhere()
}

/// Makes calls that this store must refuse.
@MainActor func refuseOnMain<State: Sendable>(
  _ store: some StoreType<State, Int>, _ scene: Scene<some Sendable>, sending action: Int, _ sheet: SheetOf
) async {
  sheet.refuse("send", try? await store.send(action))
  await elsewhere()
  do throws(StoreError) {
    try await store.send(action)
  } catch .terminated {
    sheet.note("catch .terminated")
  } catch {
    sheet.note("catch")
  }
  await elsewhere()
  do {
    sheet.refuse("send reading all", try await store.send(action) { $0 })
  } catch {
    sheet.note("send reading all, catch")
  }
  await elsewhere()
  sheet.refuse("send reading eight", try? await store.send(action) { _ in Words8() })
  await elsewhere()
  let entries = await scene.entries()
  await elsewhere()
  if action == 1 {
    sheet.refuse("send contents", try? await store.send(contentsOf: scene.actions))
    await elsewhere()
    sheet.refuse("replay", try? await entries.replay(into: store))
    await elsewhere()
    do {
      sheet.refuse("state", try await store.state)
    } catch {
      sheet.note("state, catch")
    }
    await elsewhere()
  }
}

@MainActor func visitOnMain<State: Sendable>(
  _ scene: Scene<State>, _ sheet: Sheet
) async {
  sheet.note("called")
  sheet.enter("RootStore.state", await scene.root.state)
  await elsewhere()
  sheet.enter("StateStore.state", await scene.child.state)
  await elsewhere()
  sheet.enter("StateStore.state, deeper", await scene.grandchild.state)
  await elsewhere()
  sheet.enter("StateStore.state, a pair", await scene.pair.state)
  await elsewhere()
  sheet.enter("statistics", await scene.root.statistics)
  await elsewhere()
  await useOnMain(scene.root, scene, sheet.of("RootStore"))
  await elsewhere()
  await useOnMain(scene.child, scene, sheet.of("StateStore"))
  await elsewhere()
  await useOnMain(scene.child.store(), scene, sheet.of("proxy"))
  await elsewhere()
  await useOnMain(scene.scope, scene, sheet.of("scope"))
  await elsewhere()
  await useOnMain(scene.part, scene, sheet.of("part"))
  await elsewhere()
  await useOnMain(scene.optional, scene, sheet.of("optional scope"))
  await elsewhere()
  await useOnMain(scene.selected, scene, sheet.of("selector"))
  await elsewhere()
  await useOnMain(scene.projection, scene, sheet.of("projection"))
  await elsewhere()
  await useOnMain(scene.attendedChild, scene, sheet.of("attended StateStore"))
  await elsewhere()
  for store in [scene.root, scene.child, scene.scope, scene.projection] as [any StoreType<State, Int>] {
    sheet.enter("any.state", try? await store.state)
    await elsewhere()
    sheet.enter("any.send", try? await store.send(1))
    await elsewhere()
    sheet.enter("any.send reading all", try? await store.send(1) { $0 })
    await elsewhere()
    await useOnMain(store, scene, sheet.of("any"))
    await elsewhere()
  }
  await refuseOnMain(scene.projection, scene, sending: 0, sheet.of("unmapped"))
  await elsewhere()
  await refuseOnMain(scene.attended, scene, sending: -1, sheet.of("rejected"))
  await elsewhere()
  await refuseOnMain(scene.attendedChild.store(), scene, sending: -1, sheet.of("rejected by proxy"))
  await elsewhere()
  sheet.refuse("no state.state", try? await scene.absent.state)
  await elsewhere()
  sheet.refuse("no state.send reading all", try? await scene.absent.send(1) { $0 })
  await elsewhere()
  var commits = scene.history.commits().makeAsyncIterator()
  sheet.enter("commits", await commits.next())
  await elsewhere()
  let observable = try? await ObservableStore(scene.child)
  sheet.enter("ObservableStore.init", observable)
  await elsewhere()
  sheet.enter("ObservableStore.send", try? await observable?.send(1))
  await elsewhere()
  let result = await withStore(initialState: scene.state, options: StoreOptions(executor: scene.executor)) {
    (_: inout State, _: Int) in
  } _: { (store: RootStore<State, Int>) async -> State in
    sheet.note("withStore, body")
    sheet.enter("withStore, state", await store.state)
    await elsewhere()
    return scene.state
  }
  sheet.enter("withStore", result)
  await elsewhere()
  do throws(LargeRefusal) {
    let result = try await withStore(initialState: scene.state, options: StoreOptions(executor: scene.executor)) {
      (_: inout State, _: Int) in
    } _: { (store: RootStore<State, Int>) async throws(LargeRefusal) -> State in
      _ = try? await store.send(1)
      sheet.note("withStore, body that throws")
      throw LargeRefusal()
    }
    sheet.refuse("withStore, throwing", result)
  } catch {
    sheet.note("withStore, catch")
  }
  await elsewhere()
  let child: Void = await scene.attendedChild.shutdown()
  sheet.enter("StateStore.shutdown", child)
  await elsewhere()
  let other: Void = await scene.grandchild.shutdown(interceptors: .finish(within: .seconds(60)))
  sheet.enter("StateStore.shutdown, finishing", other)
  await elsewhere()
  let root: Void = await scene.root.shutdown(interceptors: .finish(within: .seconds(60)))
  sheet.enter("RootStore.shutdown, finishing", root)
  await elsewhere()
  sheet.enter("ended RootStore.state", await scene.root.state)
  await elsewhere()
  sheet.enter("ended StateStore.state", await scene.child.state)
  await elsewhere()
  sheet.refuse("ended.ObservableStore.init", try? await ObservableStore(scene.child.store()))
  await elsewhere()
  await refuseOnMain(scene.child.store(), scene, sending: 1, sheet.of("ended"))
  await elsewhere()
  await refuseOnMain(scene.scope, scene, sending: 1, sheet.of("ended scope"))
  await elsewhere()
  await refuseOnMain(scene.projection, scene, sending: 1, sheet.of("ended projection"))
  await elsewhere()
  let settled: Void = await scene.attended.settled()
  sheet.enter("RootStore.settled", settled)
  await elsewhere()
  let last: Void = await scene.attended.shutdown()
  sheet.enter("RootStore.shutdown", last)
  await elsewhere()
}
