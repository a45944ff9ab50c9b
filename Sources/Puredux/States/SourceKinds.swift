extension Source {
  @inlinable static func root(_ own: StateStorage<State>) -> Source {
    Source(own: own, level: 0) { body in
      if let state = own.value { body(state) }
    }
  }

  /// - Parameter turn: Given if the parent is a part, with which the child counts as one level.
  @inlinable static func child<Parent: Sendable, Local: Sendable>(
    of parent: Source<Parent>, owning own: StateStorage<Local>, turn: PartTurn? = nil,
    stateMapping: @escaping @Sendable (Parent, Local) -> State
  ) -> Source {
    let edge = Edge<Parent>(to: parent) { follower in
      guard let source = follower as? Source else { return nil }
      return { parentState in
        turn?.isPublished()
        if let local = own.value { source.publish(stateMapping(parentState, local)) }
      }
    }
    return Source(edge: edge, own: own, level: turn == nil ? parent.level + 1 : parent.level) { body in
      guard let local = own.value else { return }
      edge.withState { body(stateMapping($0, local)) }
    }
  }

  /// Not inlined: commits run only its closures.
  @inline(never) @inlinable static func scope<Input: Sendable>(
    of upstream: Source<Input>, transform: @escaping @Sendable (Input) -> State?
  ) -> Source {
    let edge = Edge<Input>(to: upstream) { follower in
      guard let source = follower as? Source else { return nil }
      return { input in
        if let state = transform(input) {
          source.publish(state)
        } else if source.hasChannel {
          source.vanish()
        }
      }
    }
    return Source(edge: edge, level: upstream.level + 1) { body in
      edge.withState { input in
        if let state = transform(input) { body(state) }
      }
    }
  }

  @inlinable static func part<Input: Sendable>(
    of upstream: Source<Input>, _ toPart: @escaping @Sendable (Input) -> State
  ) -> Source where State: Equatable {
    let memory = RememberedValue<State>()
    let edge = Edge<Input>(to: upstream) { [unowned upstream] follower in
      guard let source = follower as? Source else { return nil }
      upstream.withState { unsafe memory.last = toPart($0) }
      return { input in
        let part = toPart(input)
        if unsafe memory.last == part { return }
        unsafe memory.last = part
        source.publish(part)
      }
    }
    return Source.Detaching(edge: edge, level: upstream.level + 1) {
      unsafe memory.last = nil
    } withState: { body in
      edge.withState { body(toPart($0)) }
    }
  }

  @inlinable static func emitting(from upstream: Source, except unchanged: Equating<State>) -> Source {
    let memory = unchanged.makeMemory()
    let edge = Edge<State>(to: upstream) { [unowned upstream] follower in
      guard let source = follower as? Source else { return nil }
      memory.forget()
      upstream.withState { memory.remember($0) }
      return { state in
        let isUnchanged = memory.equals(state)
        memory.remember(state)
        if !isUnchanged { source.publish(state) }
      }
    }
    return Source.Detaching(edge: edge, level: upstream.level, onDetach: memory.forget) { body in
      edge.withState(body)
    }
  }

  @inlinable static func selecting<Input: Sendable>(
    _ selector: StateSelector<Input, State>, of upstream: Source<Input>
  ) -> Source {
    let selection = selector.makeSelection()
    let memory = selection.forget.map { SelectorCache.Memory(forget: $0) }
    let edge = Edge<Input>(to: upstream) { follower in
      guard let source = follower as? Source else { return nil }
      return { input in
        if let memory { source.makeKnown(memory) }
        source.publish(selection.select(input))
      }
    }
    return Source(edge: edge, level: upstream.level + 1) { body in
      edge.withState { input in
        if let memory { edge.source.makeKnown(memory) }
        body(selection.select(input))
      }
    }
  }

  @inlinable static func removingDuplicates(of upstream: Source, equating: Equating<State>) -> Source {
    let memory = equating.makeMemory()
    let edge = Edge<State>(to: upstream) { follower in
      guard let source = follower as? Source else { return nil }
      return { state in
        if memory.equals(state) { return }
        memory.remember(state)
        source.publish(state)
      }
    }
    return Source.Detaching(edge: edge, level: upstream.level, onDetach: memory.forget) { body in
      edge.withState { state in
        memory.remember(state)
        body(state)
      }
    }
  }
}

extension Confined where Value: AnySource {
  /// From any thread.
  ///
  /// SAFETY: the channel is created once, by atomics. Its members that are accessed off the tree's executor are behind
  /// its lock.
  @inlinable var channelOfSource: AnyChannel { unsafe unconfined.anyChannel }
}

extension Confined {
  @inlinable func scope<State: Sendable, Other: Sendable>(
    _ transform: @escaping @Sendable (State) -> Other?
  ) -> Confined<Source<Other>> where Value == Source<State> {
    map { .scope(of: $0, transform: transform) }
  }

  @inlinable func select<State: Sendable, Selected: Sendable>(
    _ selector: StateSelector<State, Selected>
  ) -> Confined<Source<Selected>> where Value == Source<State> {
    channelOfSource.selectors { SelectorCache() }.source(of: selector.identity) {
      map { Source<Selected>.selecting(selector, of: $0) }
    }
  }

  @inlinable func part<State: Sendable, Part: Equatable & Sendable>(
    at keyPath: any KeyPath<State, Part> & Sendable
  ) -> Confined<Source<Part>> where Value == Source<State> {
    channelOfSource.selectors { SelectorCache() }.source(of: SelectorIdentity(part: keyPath)) {
      map { .part(of: $0) { $0[keyPath: keyPath] } }
    }
  }

  @inlinable func removingDuplicates<State: Sendable>(
    _ equating: Equating<State>
  ) -> Confined where Value == Source<State> {
    equating.isNeverEqual ? self : map { .removingDuplicates(of: $0, equating: equating) }
  }

  @inlinable func read<State: Sendable, Result>(
    on tree: isolated any TreeIsolation, _ body: (State) -> Result
  ) -> Result? where Value == Source<State> {
    var result: Result?
    withValue(on: tree) { $0.withState { result = body($0) } }
    return result
  }
}

extension Confined where Value: AnySource {
  /// Whether a source made of it would be too deep.
  ///
  /// SAFETY: reads a constant.
  @inlinable var isLowest: Bool { unsafe unconfined.level >= AnySource.greatestLevel }

  /// SAFETY: reads a constant.
  @inlinable var isTooDeep: Bool { unsafe unconfined.level > AnySource.greatestLevel }
}

extension Confined {
  @usableFromInline static func absent<State: Sendable>() -> Confined where Value == Source<State> {
    Confined(storing: Source(level: AnySource.greatestLevel + 1) { _ in })
  }
}
