/// Work that lasts while a condition holds for the state, as a value, for a store that is made with it
/// (`Interceptor.effects(ofState:)`), or for a live store (`subscribe(effect:)`).
///
///     .while(\.isPolling) { .run { dispatch in … }.retried(…) }
///     .onChange(of: \.query) { query in .run { … }.after(.milliseconds(300)) }
///     .forEach(\.downloads) { download in .run { dispatch in … } }
///
/// The state at the beginning counts, too. Work begins and is cancelled in commit order (G8). Work that has returned,
/// or failed its last attempt, is not begun again for the same value.
///
/// Work for one element never overlaps: new work waits until the replaced work has returned. If several wait, the last
/// begins. Work that ignores its cancellation delays its successor, and nothing else.
///
/// The effect lasts until another interceptor is set for its store, or until its subscription is cancelled. A commit
/// begins or cancels work when it is published, before interceptors are asked about it.
///
/// The closures are called on the tree's executor, once for each commit that the store publishes: they should be cheap.
/// Values and elements are retained between commits, so reducers that change them copy them: prefer a number. Ids are
/// only names, for reports and `statistics`. Policies are ignored: to wait, use a delay (`.after`).
///
/// Work that the state does not end delays `shutdown(interceptors: .finish(within:))` up to its limit.
public struct StateEffect<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline let makeFollowing: @Sendable (StateEffectSink<Action>) -> StateFollowing<State>
  @usableFromInline let atEnd: (@Sendable (State) -> [Action])?

  @inlinable init(_ makeFollowing: @escaping @Sendable (StateEffectSink<Action>) -> StateFollowing<State>) {
    self.init(makeFollowing: makeFollowing, atEnd: nil)
  }

  @usableFromInline init(
    makeFollowing: @escaping @Sendable (StateEffectSink<Action>) -> StateFollowing<State>,
    atEnd: (@Sendable (State) -> [Action])?
  ) {
    self.makeFollowing = makeFollowing
    self.atEnd = atEnd
  }

  /// The same effect, with last actions at the store's close. The store's stop ends it for good. Only for a store that
  /// follows a log.
  package func atEnd(_ actions: @escaping @Sendable (State) -> [Action]) -> StateEffect {
    StateEffect(makeFollowing: makeFollowing, atEnd: actions)
  }

  /// The same effect, ended by the store's stop.
  package var endedByStop: StateEffect { atEnd == nil ? atEnd { _ in [] } : self }

  /// Runs while a condition holds.
  @inlinable public static func `while`(
    _ condition: @escaping @Sendable (State) -> Bool, _ effect: @escaping @Sendable () -> Effect<Action>?
  ) -> StateEffect {
    .onChange(of: condition) { $0 ? effect() : nil }
  }

  /// Begins again with each new value, replacing the earlier work. If the closure returns nil, there is no work.
  @inlinable public static func onChange<Value: Equatable & Sendable>(
    of value: @escaping @Sendable (State) -> Value, _ effect: @escaping @Sendable (Value) -> Effect<Action>?
  ) -> StateEffect {
    StateEffect { sink in
      let last = Box<Value>()
      return StateFollowing { state in
        let new = value(state)
        if let last = last.value, last == new { return }
        last.value = new
        sink.begin(effect(new), for: .only)
      } vanish: {
        if last.value.take() != nil { sink.end(.only) }
      }
    }
  }

  /// For each element of a collection, by its id: begins when the element is added, begins again when its value
  /// changes, and is cancelled when it is removed. Of several elements with the same id, one counts.
  ///
  /// Work that changes its own element begins again: let the elements have only the work's inputs. A commit compares
  /// each element, and a copy of each is retained.
  @inlinable public static func forEach<Element: Identifiable & Equatable & Sendable>(
    _ elements: @escaping @Sendable (State) -> [Element], _ effect: @escaping @Sendable (Element) -> Effect<Action>?
  ) -> StateEffect where Element.ID: Sendable {
    .forEach {
      elements($0).lazy.map { (id: $0.id, value: $0) }
    } effect: { _, element in
      effect(element)
    }
  }

  /// For each element of a dictionary, by its key. Elements of one commit are begun and cancelled in the order of their
  /// keys, if these are `Comparable`, and otherwise in that of the keys' descriptions.
  @inlinable public static func forEach<Key: Hashable & Sendable, Value: Equatable & Sendable>(
    _ elements: @escaping @Sendable (State) -> [Key: Value],
    _ effect: @escaping @Sendable (Key, Value) -> Effect<Action>?
  ) -> StateEffect {
    .forEach({ elements($0).lazy.map { (id: $0.key, value: $0.value) } }, isOrdered: false) {
      effect($0, $1)
    }
  }

  /// For each value of a `Keyed`, by its key. A copy of each value is retained. A commit compares only the values that
  /// it writes, unless all count as written (G4).
  @inlinable public static func forEach<Key: Hashable & Sendable, Value: Equatable & Sendable>(
    _ elements: @escaping @Sendable (State) -> Keyed<Key, Value>,
    _ effect: @escaping @Sendable (Key, Value) -> Effect<Action>?
  ) -> StateEffect {
    StateEffect { sink in
      let changes = Box<KeyedChanges<Key, Value>>()
      func update(with elements: Keyed<Key, Value>) {
        var current = changes.value.take() ?? KeyedChanges()
        current.update(with: elements) {
          sink.end(EffectID($0))
        } begun: {
          sink.begin(effect($0, $1), for: EffectID($0))
        }
        changes.value = current
      }
      return StateFollowing {
        update(with: elements($0))
      } vanish: {
        update(with: [:])
      }
    }
  }

  @inlinable static func forEach<ID: Hashable & Sendable, Value: Equatable & Sendable, Elements: Sequence>(
    _ elements: @escaping @Sendable (State) -> Elements, isOrdered: Bool = true,
    effect: @escaping @Sendable (ID, Value) -> Effect<Action>?
  ) -> StateEffect where Elements.Element == (id: ID, value: Value) {
    StateEffect { sink in
      let changes = Box<ElementChanges<ID, Value>>()
      func update(with elements: some Sequence<(id: ID, value: Value)>) {
        var current = changes.value.take() ?? ElementChanges()
        var gone: [ID] = []
        var begun: [(id: ID, value: Value)] = []
        current.update(with: elements) {
          gone.append($0)
        } begun: {
          begun.append($0)
        }
        changes.value = current
        if !isOrdered { (gone, begun) = (gone.inOrder { $0 }, begun.inOrder { $0.id }) }
        for id in gone { sink.end(EffectID(id)) }
        for (id, value) in begun { sink.begin(effect(id, value), for: EffectID(id)) }
      }
      return StateFollowing {
        update(with: elements($0))
      } vanish: {
        update(with: [])
      }
    }
  }
}

extension AnyStoreNode {
  @usableFromInline func whileAlive(
    isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    if refuses(nil) { throw errorWhenClosed }
    let (end, continuation) = AsyncStream<Never>.makeStream()
    let ending = effects.atEnd(of: self) { continuation.finish() }
    defer { effects.forget(ending) }
    try await withThrowingTaskGroup { group in
      group.addTask {
        try await body()
        return true
      }
      group.addTask {
        for await _ in end {}
        return false
      }
      let isFinished = try await group.next() == true
      group.cancelAll()
      // The body knows the outcome of an action that waits for the log.
      if !isFinished, case .failure(let error as StoreError)? = await group.nextResult() { throw error }
      try Task.checkCancellation()
      if !isFinished { throw StoreError.terminated }
    }
  }
}
