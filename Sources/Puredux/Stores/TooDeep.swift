// Stores, parts, scopes and projections below `AnySource.greatestLevel` are closed from the start.

extension StoreNode {
  /// The source of a value that is computed from a state once, in the tree's order, for a store or part that is too
  /// deep to follow the state.
  @usableFromInline func constant<State: Sendable, Value: Sendable>(
    of source: Confined<Source<State>>, _ make: @escaping @Sendable (State) -> Value
  ) -> Confined<Source<Value>> {
    let own = Confined(storing: StateStorage<Value>())
    tree.place(
      .closure { tree in
        var value: Value?
        source(on: tree).withState { value = make($0) }
        if let value { own(on: tree).set(value) }
      })
    return own.map { own in
      Source(own: own, level: AnySource.greatestLevel + 1) { body in
        if let value = own.value { body(value) }
      }
    }
  }

}

extension AnyStoreNode {
  /// A view of this store that is too deep.
  @usableFromInline func makeTooDeepView() -> any AnyStoreNode {
    reportTooDeep()
    return makeClosedView()
  }

  fileprivate func reportTooDeep() { effects.settings.report(EffectReport(.tooDeep, store: id)) }
}

extension StoreCore {
  /// A child that is too deep: its state is the mapping's result at its place in the order, and never changes.
  @usableFromInline func tooDeepChild<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    history: History<Local, Action>?
  ) -> StoreCore<Composed, Action> {
    if !node.isTooDeep { node.reportTooDeep() }
    let source = node.constant(of: source) { stateMapping($0, initialState) }
    let child = StoreNode(tooDeepUnder: node, isView: false, showing: source.map { $0 })
    // The history's sequences end, unless other stores share the history.
    history?.attach(child)
    history?.detach(child)
    return StoreCore<Composed, Action>(node: child, part: source)
  }
}
