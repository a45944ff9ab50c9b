extension Route {
  /// A route for actions that are mapped to this one's.
  @inlinable
  func map<Mapped: Sendable>(_ transform: @escaping @Sendable (Mapped) -> Action?) -> MappedActions<Mapped> {
    switch target {
    case .direct(let origin):
      MappedActions(place: origin) { action in
        guard let action = transform(action) else { return .unmapped }
        return origin.dispatch(action)
      } send: { action, isolation throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        try await origin.tree.send(action, from: origin, isolation: isolation)
      } prepare: { action throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        return { _ throws(StoreError) in try origin.tree.acceptHere(action, from: origin) }
      }
    case .mapped(let actions):
      map(through: ChainedActions(actions), transform)
    }
  }

  @inlinable
  func map<Mapped: Sendable>(
    through below: ChainedActions<Action>, _ transform: @escaping @Sendable (Mapped) -> Action?
  ) -> MappedActions<Mapped> {
    MappedActions(place: below.actions.place) { action in
      guard let action = transform(action) else { return .unmapped }
      return below.actions.dispatch(action)
    } send: { action, isolation throws(StoreError) in
      guard let action = transform(action) else { throw .unmapped }
      try await below.actions.send(action, isolation)
    } prepare: { action throws(StoreError) in
      guard let action = transform(action) else { throw .unmapped }
      return try below.actions.prepare(action)
    }
  }
}

/// The actions of a projection that another one is made of: handed over when that goes, so that a chain of them is released in a loop.
@usableFromInline
final class ChainedActions<Action: Sendable>: Sendable {
  // SAFETY: changed by the deinitializer alone, when nobody else can look; there until then.
  @usableFromInline
  @exclusivity(unchecked)
  nonisolated(unsafe) var held: MappedActions<Action>?

  @inlinable
  init(_ actions: MappedActions<Action>) { unsafe held = actions }

  @inlinable
  var actions: MappedActions<Action> { unsafe held.unsafelyUnwrapped }

  deinit { ReleaseQueue.deep.release { unsafe held.take() } }
}

/// The actions of a projection. In closures, which are specialized where they are made.
@usableFromInline
final class MappedActions<Action: Sendable>: Sendable {
  @usableFromInline
  typealias Commit = @Sendable (isolated any TreeIsolation) throws(StoreError) -> Void

  @usableFromInline
  let place: any StorePlace
  @usableFromInline
  let dispatch: @Sendable (Action) -> DispatchResult
  @usableFromInline
  let send: @Sendable (Action, isolated (any Actor)?) async throws(StoreError) -> Void
  /// Maps an action at once, and returns what commits it on the executor.
  @usableFromInline
  let prepare: @Sendable (Action) throws(StoreError) -> Commit

  @inlinable
  init(
    place: any StorePlace, dispatch: @escaping @Sendable (Action) -> DispatchResult,
    send: @escaping @Sendable (Action, isolated (any Actor)?) async throws(StoreError) -> Void,
    prepare: @escaping @Sendable (Action) throws(StoreError) -> Commit
  ) {
    self.place = place
    self.dispatch = dispatch
    self.send = send
    self.prepare = prepare
  }
}
