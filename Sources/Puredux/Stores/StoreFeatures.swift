/// A child store's owned and composed states differ.
@usableFromInline struct StoreFeatures<Owned: Sendable, State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline let initialState: Owned
  @usableFromInline let reduce: @Sendable (AnyStateStorage, inout Action) -> Void
  @usableFromInline let publish: (@Sendable (AnyStateStorage, AnySource) -> Void)?
  @usableFromInline let steps: History<Owned, Action>.Steps?
  @usableFromInline private(set) var middleware: [Middleware<State, Action>]
  @usableFromInline let emitting: (@Sendable (Source<State>) -> Source<State>)?
  @usableFromInline let history: History<Owned, Action>?
  @usableFromInline let last: Action?
  @usableFromInline let commit: @Sendable (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void

  @inlinable init(
    _ initialState: Owned, steps: History<Owned, Action>.Steps?, middleware: [Middleware<State, Action>],
    emission: Emission<State>, history: History<Owned, Action>?, last: Action?,
    publish: (@Sendable (AnyStateStorage, AnySource) -> Void)?,
    commit: @escaping @Sendable (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void,
    reduce: @escaping @Sendable (AnyStateStorage, inout Action) -> Void
  ) {
    self.initialState = initialState
    self.reduce = reduce
    self.publish = publish
    self.steps = steps
    self.middleware = middleware
    if let unchanged = emission.unchanged {
      emitting = { .emitting(from: $0, except: unchanged) }
    } else {
      emitting = nil
    }
    self.history = history
    self.last = last
    self.commit = commit
  }

  @inlinable init(
    child initialState: Owned, middleware: [Middleware<State, Action>], emission: Emission<State>,
    history: History<Owned, Action>?, last: Action?, reducer: @escaping @Sendable (inout Owned, Action) -> Void
  ) {
    self.init(
      initialState, steps: nil, middleware: middleware, emission: emission, history: history, last: last,
      publish: nil, commit: CommitStages.committing, reduce: CommitStep.reducing(by: reducer))
  }

  @inlinable init(
    child initialState: Owned, reducers: [Reducer<Owned, Action>], middleware: [Middleware<State, Action>],
    emission: Emission<State>, history: History<Owned, Action>?, last: Action?
  ) {
    let reducer = Reducer(combining: reducers)
    self.init(
      initialState, steps: history.map { _ in reducer.steps.map { ($0.name, $0.changing) } }, middleware: middleware,
      emission: emission, history: history, last: last,
      publish: nil, commit: CommitStages.committing, reduce: reducer.changing)
  }

  @usableFromInline func instrumented(by instrument: TreeInstrument?) -> StoreFeatures {
    guard let instrument else { return self }
    var features = self
    features.middleware.insert(.telling(instrument), at: 0)
    return features
  }

  @inlinable var isPlain: Bool { middleware.isEmpty && history == nil && last == nil }

  @inlinable func step(
    _ own: StateStorage<Owned>, shownBy source: Source<State>, turn: PartTurn? = nil,
    under parent: StoreNode<Action>? = nil, above: CommitStages<Action>? = nil
  ) -> CommitStep<Action> {
    if isPlain, turn == nil, above == nil {
      return CommitStep(own, reduce: reduce, stages: nil, source: source, publish: publish)
    }
    return fullStep(own, shownBy: source, turn: turn, under: parent, above: above)
  }

  @usableFromInline func fullStep(
    _ own: StateStorage<Owned>, shownBy source: Source<State>, turn: PartTurn?, under parent: StoreNode<Action>?,
    above: CommitStages<Action>?
  ) -> CommitStep<Action> {
    let above = above.flatMap { $0.reachesDown ? $0 : nil }
    var stages: CommitStages<Action>?
    var reduce: CommitStep<Action>.Reduce = reduce
    if let turn { reduce = Self.reducing(self.reduce, in: turn) }
    if !isPlain || above != nil {
      var record: CommitStages<Action>.Record?
      if let history {
        let steps = steps ?? [(nil, self.reduce)]
        record = { [own, steps] action, node in
          history.record(action, node, by: steps, in: own)
          turn?.begin()
        }
      }
      let handler = Middleware.handlers(middleware, showing: source, before: above?.handler)
      stages = CommitStages(handler, committing: commit, record: record, last: last, above: above)
    }
    return CommitStep(own, reduce: reduce, stages: stages, source: source, publish: publish)
  }

  private static func reducing(
    _ reduce: @escaping @Sendable (AnyStateStorage, inout Action) -> Void, in turn: PartTurn
  ) -> CommitStep<Action>.Reduce {
    { own, action in
      reduce(own, &action)
      turn.begin()
    }
  }
}

extension StoreFeatures where Owned == State {
  @inlinable init(
    root initialState: State, middleware: [Middleware<State, Action>], emission: Emission<State>,
    history: History<State, Action>?, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState, steps: nil, middleware: middleware, emission: emission, history: history, last: nil,
      publish: Self.publishing, commit: CommitStages.committing, reduce: CommitStep.reducing(by: reducer))
  }

  @inlinable init(
    root initialState: State, reducers: [Reducer<State, Action>], middleware: [Middleware<State, Action>],
    emission: Emission<State>, history: History<State, Action>?
  ) {
    let reducer = Reducer(combining: reducers)
    self.init(
      initialState, steps: history.map { _ in reducer.steps.map { ($0.name, $0.changing) } }, middleware: middleware,
      emission: emission, history: history, last: nil,
      publish: Self.publishing, commit: CommitStages.committing, reduce: reducer.changing)
  }

  /// SAFETY: `step` gives it storage and a source of the features' types, and a root store shows the state that it
  /// owns.
  @inlinable static var publishing: @Sendable (AnyStateStorage, AnySource) -> Void {
    { own, source in
      unsafe source.known(of: State.self).publish(own.known(of: State.self))
      source.endTurns()
    }
  }
}

extension Reducer {
  /// SAFETY: `StoreFeatures.step` gives it the storage of the state that it reduces, and a history is of the same
  /// state.
  @inlinable var changing: @Sendable (AnyStateStorage, inout Action) -> Void {
    { [change] own, action in unsafe own.known(of: State.self).change { change(&$0, &action) } }
  }
}

extension Source {
  @inlinable func publish(_ own: StateStorage<State>) {
    guard hasSubscribers, let state = own.value else { return }
    publish(state)
  }
}

extension CommitStep {
  /// One function for root and child stores: the compiler would merge two equal ones, and each call would be two jumps.
  /// SAFETY: as for `Reducer.changing`.
  @inlinable static func reducing<Owned: Sendable>(
    by reducer: @escaping @Sendable (inout Owned, Action) -> Void
  ) -> @Sendable (AnyStateStorage, inout Action) -> Void {
    { own, action in unsafe own.known(of: Owned.self).change { reducer(&$0, action) } }
  }

  /// The root's middleware runs at the commit; its admission, and the middleware of the stores below, before the
  /// submission.
  @usableFromInline init<State>(
    _ step: consuming CommitStep, in order: any Order<Action>, admission: [Middleware<State, Action>],
    showing source: Source<State>, quiet: CommitHandler<Action>
  ) {
    let submitting = CommitHandler<Action>(
      { _, action, node, stages in order.submit(action, Passage(node: node, stages: stages)) }, showing: source,
      before: nil)
    self.init(
      step.own, reduce: step.reduce,
      stages: CommitStages(
        Middleware.handlers(admission, showing: source, before: submitting), committing: CommitStages.committing,
        record: step.stages?.record, ordered: CommitStages.Ordered(order, step.stages?.handler), quiet: quiet),
      source: step.source, publish: step.publish)
  }
}
