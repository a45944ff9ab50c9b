// Stores, parts, scopes and projections below `AnySource.greatestLevel` are closed from the start.

extension StoreNode {
  /// A value computed from a state once, at its place in the order.
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
  @usableFromInline func makeTooDeepView() -> any AnyStoreNode {
    reportTooDeep()
    return makeClosedView()
  }

  fileprivate func reportTooDeep() { effects.settings.report(EffectReport(.tooDeep, store: id)) }
}

extension StoreCore {
  @usableFromInline func tooDeepChild<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    history: History<Local, Action>?
  ) -> StoreCore<Composed, Action> {
    if !node.isTooDeep { node.reportTooDeep() }
    let source = node.constant(of: source) { stateMapping($0, initialState) }
    let child = StoreNode(tooDeepUnder: node, isView: false, showing: source.map { $0 })
    // Ends the history's sequences, unless other stores share it.
    history?.attach(child)
    history?.detach(child)
    return StoreCore<Composed, Action>(node: child, part: source)
  }
}
