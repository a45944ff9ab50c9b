extension Interceptor {
  /// An interceptor of a part, as one of the whole: the side effects of a feature that knows its own state and actions
  /// only. What it dispatches become actions of the whole.
  ///
  ///     search.lifted(state: { $0.search }, action: { if case .search(let action) = $0 { action } else { nil } }) {
  ///       .search($0)
  ///     }
  ///
  /// - Parameters:
  ///   - toPart: The part's state; where it is absent the interceptor is not asked.
  ///   - toPartAction: The part's action in one of the whole; none where it is not for this part.
  ///   - toWholeAction: Makes an action of the whole.
  public func lifted<Whole: Sendable, WholeAction: Sendable>(
    state toPart: @escaping @Sendable (Whole) -> State?,
    action toPartAction: @escaping @Sendable (WholeAction) -> Action?,
    into toWholeAction: @escaping @Sendable (Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction> {
    var lifted: (@Sendable () -> Interceptor<Whole, WholeAction>.Asked)?
    if let makeAsked {
      lifted = { makeAsked().lifted(state: toPart, action: toPartAction, into: toWholeAction) }
    }
    return Interceptor<Whole, WholeAction>(
      asked: lifted, stateEffects: stateEffects.map { $0.lifted(state: toPart, into: toWholeAction) })
  }
}

extension Interceptor.Asked {
  fileprivate func lifted<Whole: Sendable, WholeAction: Sendable>(
    state toPart: @escaping @Sendable (Whole) -> State?,
    action toPartAction: @escaping @Sendable (WholeAction) -> Action?,
    into toWholeAction: @escaping @Sendable (Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction>.Asked {
    let part = PartSource(toPart)
    return Interceptor<Whole, WholeAction>.Asked(
      prepare: prepare.map { prepare in { whole in prepare(whole.map { part.source(in: $0) }) } },
      decide: { [prepare, decide] action, context in
        guard var action = toPartAction(action) else {
          prepare?(nil)
          return nil
        }
        let partContext = EffectContext<State, Action>(
          source: part.source(in: context.source), store: context.store, position: context.position,
          dispatch: context.dispatch.map(toWholeAction))
        guard partContext.current != nil else {
          prepare?(nil)
          return nil
        }
        return decide(&action, partContext)?.map(toWholeAction)
      })
  }
}

extension StateEffect {
  /// An effect of a part's state, as one of the whole's. While the part is absent there is none.
  public func lifted<Whole: Sendable, WholeAction: Sendable>(
    state toPart: @escaping @Sendable (Whole) -> State?,
    into toWholeAction: @escaping @Sendable (Action) -> WholeAction
  ) -> StateEffect<Whole, WholeAction> {
    StateEffect<Whole, WholeAction> { [makeFollowing] sink in
      let part = makeFollowing(sink.map(toWholeAction))
      return StateFollowing { whole in
        if let state = toPart(whole) { part.tell(state) } else { part.vanish() }
      } vanish: {
        part.vanish()
      }
    }
  }
}

/// The source of a part's states, for one store.
private final class PartSource<Whole: Sendable, Part: Sendable> {
  private let toPart: @Sendable (Whole) -> Part?
  private var source: Source<Part>?

  init(_ toPart: @escaping @Sendable (Whole) -> Part?) { self.toPart = toPart }

  func source(in whole: Source<Whole>) -> Source<Part> {
    if let source { return source }
    let made = Source<Part>.scope(of: whole, transform: toPart)
    source = made
    return made
  }
}
