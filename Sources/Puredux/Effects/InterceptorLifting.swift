extension Interceptor {
  /// Turns the interceptor of a part into one of the whole.
  ///
  ///     search.lifted(state: { $0.search }, action: { if case .search(let action) = $0 { action } else { nil } }) {
  ///       .search($0)
  ///     }
  ///
  /// The first commit after which the part is absent cancels the part's effects, as by `.cancel(id)`. Every commit that
  /// the store's interceptor is asked about counts, whatever its action is for. From that commit on, none of these
  /// effects' actions is committed, and waiting effects do not begin. Neither these effects, nor a throttle that they
  /// began, keep another effect of their ids from beginning.
  ///
  /// Two parts of one state share their ids.
  ///
  /// - Parameters:
  ///   - toPart: The part's state; if it is absent, the interceptor is not asked.
  ///   - toPartAction: The part's action; nil if the action is not for this part.
  ///   - toWholeAction: Maps the actions that the part dispatches to actions of the whole.
  public func lifted<Whole: Sendable, WholeAction: Sendable>(
    state toPart: @escaping @Sendable (Whole) -> State?,
    action toPartAction: @escaping @Sendable (WholeAction) -> Action?,
    into toWholeAction: @escaping @Sendable (Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction> {
    var lifted: (@Sendable () -> Interceptor<Whole, WholeAction>.Asked)?
    if let makeAsked {
      lifted = {
        Self.lifted(
          makeAsked, part: { whole, _ in toPart(whole) }, action: { toPartAction($0).map { (0, $0) } },
          into: { toWholeAction($1) }, effect: { $1 },
          findAll: { whole, parts in
            if let part = parts[0], let state = toPart(whole) { parts.found(part, state) }
          })
      }
    }
    return Interceptor<Whole, WholeAction>(
      asked: lifted, stateEffects: stateEffects.map { $0.lifted(state: toPart, into: toWholeAction) })
  }
}

extension Interceptor {
  /// Turns the interceptor of a dictionary's elements into one of the whole. The action determines the element.
  ///
  ///     room.lifted(elements: { $0.rooms }) { action in
  ///       if case .room(let id, let action) = action { (id, action) } else { nil }
  ///     } into: { .room($0, $1) }
  ///
  /// Ids of effects belong to the element: those of two elements never meet, nor do those of the elements' parts, if
  /// this interceptor was itself lifted. The effects of an absent element are cancelled like those of an absent part.
  ///
  /// Cost: each commit that the interceptor is asked about checks the elements with effects in progress. Effects of the
  /// state check every element at each commit that the store publishes.
  ///
  /// - Parameters:
  ///   - elements: The elements; if one is absent, the interceptor is not asked about its actions.
  ///   - toElement: The element's id and action; nil if the action is for no element.
  ///   - toWholeAction: Maps the actions that the element dispatches.
  public func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable>(
    elements: @escaping @Sendable (Whole) -> [ID: State],
    action toElement: @escaping @Sendable (WholeAction) -> (id: ID, action: Action)?,
    into toWholeAction: @escaping @Sendable (ID, Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction> {
    lifted(
      element: { elements($0)[$1] }, all: { elements($0).lazy.map { ($0.key, $0.value) } }, isOrdered: false,
      action: toElement, into: toWholeAction
    ) { whole, parts in
      let elements = elements(whole)
      for (id, part) in parts.all {
        if let place = elements.index(forKey: id) { parts.found(part, elements[place].value) }
      }
    }
  }

  /// The same for the values of a `Keyed`.
  public func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable>(
    elements: @escaping @Sendable (Whole) -> Keyed<ID, State>,
    action toElement: @escaping @Sendable (WholeAction) -> (id: ID, action: Action)?,
    into toWholeAction: @escaping @Sendable (ID, Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction> {
    lifted(
      element: { elements($0)[$1] }, all: { elements($0).lazy.map { ($0.key, $0.value) } }, action: toElement,
      into: toWholeAction
    ) { whole, parts in
      let elements = elements(whole)
      for (id, part) in parts.all where elements.has(id) { parts.found(part, elements[id]) }
    }
  }

  /// The same for the elements of an array, by their `id`; the first with that id counts.
  public func lifted<Whole: Sendable, WholeAction: Sendable>(
    elements: @escaping @Sendable (Whole) -> [State],
    action toElement: @escaping @Sendable (WholeAction) -> (id: State.ID, action: Action)?,
    into toWholeAction: @escaping @Sendable (State.ID, Action) -> WholeAction
  ) -> Interceptor<Whole, WholeAction> where State: Identifiable, State.ID: Sendable {
    lifted(
      element: { whole, id in elements(whole).first { $0.id == id } },
      all: { elements($0).lazy.map { ($0.id, $0) } }, action: toElement, into: toWholeAction
    ) { whole, parts in
      for element in elements(whole) {
        if parts.areAllFound { break }
        if let part = parts[element.id] { parts.found(part, element) }
      }
    }
  }

  private func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable, All: Sequence>(
    element: @escaping @Sendable (Whole, ID) -> State?, all: @escaping @Sendable (Whole) -> All,
    isOrdered: Bool = true, action toElement: @escaping @Sendable (WholeAction) -> (id: ID, action: Action)?,
    into toWholeAction: @escaping @Sendable (ID, Action) -> WholeAction,
    findAll: @escaping @Sendable (Whole, LiftedParts<ID>) -> Void
  ) -> Interceptor<Whole, WholeAction> where All: SendableMetatype, All.Element == (ID, State) {
    var lifted: (@Sendable () -> Interceptor<Whole, WholeAction>.Asked)?
    if let makeAsked {
      lifted = {
        Self.lifted(
          makeAsked, part: element, action: { toElement($0).map { ($0, $1) } }, into: toWholeAction,
          effect: { $1.of(element: $0) }, findAll: findAll)
      }
    }
    return Interceptor<Whole, WholeAction>(
      asked: lifted, stateEffects: stateEffects.map { $0.lifted(all: all, isOrdered: isOrdered, into: toWholeAction) })
  }
}

extension Interceptor {
  fileprivate static func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable>(
    _ makeAsked: @escaping () -> Asked, part toPart: @escaping @Sendable (Whole, ID) -> State?,
    action toPartAction: @escaping @Sendable (WholeAction) -> (ID, Action)?,
    into toWholeAction: @escaping @Sendable (ID, Action) -> WholeAction,
    effect toWhole: @escaping (ID, Effect<WholeAction>) -> Effect<WholeAction>,
    findAll: @escaping (Whole, LiftedParts<ID>) -> Void
  ) -> Interceptor<Whole, WholeAction>.Asked {
    let part = PartSource<Whole, State, ID>(toPart)
    let parts = LiftedParts<ID>(makeAsked)
    var liftedPrepare: ((inout WholeAction, Source<Whole>?) -> Void)?
    if parts.shared.prepare != nil {
      liftedPrepare = { action, whole in
        guard let (id, given) = toPartAction(action) else { return }
        var action = given
        parts.asked(about: id).prepare?(&action, whole.map { part.source(in: $0, of: id) })
      }
    }
    return Interceptor<Whole, WholeAction>.Asked(
      prepare: liftedPrepare,
      decide: { [decide = parts.shared.decide] action, context in
        guard let (id, given) = toPartAction(action) else { return nil }
        var action = given
        let partContext = EffectContext<State, Action>(
          source: part.source(in: context.source, of: id), publishing: part.publishing(in: context.commit),
          store: context.store, position: context.position, dispatch: context.dispatch.map { toWholeAction(id, $0) })
        guard partContext.current != nil else {
          if liftedPrepare != nil { parts.asked(about: id).prepare?(&action, nil) }
          return nil
        }
        let effect =
          parts.areNested ? parts.asked(about: id).decide(&action, partContext) : decide(&action, partContext)
        return effect.map { effect in
          toWhole(id, effect.map { toWholeAction(id, $0) }).owned(by: parts.part(id).owner)
        }
      },
      gone: Interceptor<Whole, WholeAction>.Asked.Gone {
        !parts.isEmpty
      } collect: { whole, gone in
        parts.collectGone(&gone) { findAll(whole, parts) }
      }, makeTell: { Interceptor<Whole, WholeAction>.Asked.telling($0) })
  }

  fileprivate final class LiftedPart {
    let owner = EffectOwner()
    /// The part's own if its parts are lifted in turn: effects of two elements never meet.
    let asked: Asked
    var search = 0

    init(asked: Asked) { self.asked = asked }
  }

  /// Lives on its tree's executor.
  fileprivate final class LiftedParts<ID: Hashable> {
    private let makeAsked: () -> Asked
    let shared: Asked
    let areNested: Bool
    private var parts = SweptTable<ID, LiftedPart>()
    private var spare: LiftedPart?

    private var search = 0
    private var foundCount = 0
    private var gone: [EffectOwner] = []

    init(_ makeAsked: @escaping () -> Asked) {
      self.makeAsked = makeAsked
      shared = makeAsked()
      areNested = shared.gone != nil
    }

    var isEmpty: Bool { parts.keys.isEmpty }

    func part(_ id: ID) -> LiftedPart {
      parts.value(
        of: id, orMake: { areNested ? spare(isTaken: true) : LiftedPart(asked: shared) }, isOver: \.owner.isOver)
    }

    func asked(about id: ID) -> Asked { areNested ? (parts[id] ?? spare(isTaken: false)).asked : shared }

    /// Serves all parts without effects, until one of them starts an effect.
    private func spare(isTaken: Bool) -> LiftedPart {
      let spare = spare ?? LiftedPart(asked: makeAsked())
      self.spare = isTaken ? nil : spare
      return spare
    }

    // MARK: Absent parts

    var all: [ID: LiftedPart] { parts.entries }

    subscript(id: ID) -> LiftedPart? { parts[id] }

    var areAllFound: Bool { foundCount == parts.keys.count }

    /// - Parameter state: Evaluated only if the part has lifted parts.
    func found(_ part: LiftedPart, _ state: @autoclosure () -> State?) {
      if part.search == search { return }
      part.search = search
      foundCount += 1
      if areNested, let inner = part.asked.gone, inner.mayBe(), let state = state() { inner.collect(state, &gone) }
    }

    func collectGone(_ gone: inout [EffectOwner], findingBy findAll: () -> Void) {
      if isEmpty { return }
      search += 1
      foundCount = 0
      findAll()
      if !areAllFound {
        for (id, part) in parts.entries where part.search != search {
          self.gone.append(part.owner)
          _ = parts.remove(id)
        }
      }
      gone += self.gone
      self.gone = []
    }
  }
}

extension StateEffect {
  /// Turns an effect of a part's state into one of the whole's. While the part is absent, there is no effect.
  public func lifted<Whole: Sendable, WholeAction: Sendable>(
    state toPart: @escaping @Sendable (Whole) -> State?,
    into toWholeAction: @escaping @Sendable (Action) -> WholeAction
  ) -> StateEffect<Whole, WholeAction> {
    let lifted = StateEffect<Whole, WholeAction> { [makeFollowing] sink in
      let part = makeFollowing(sink.map(toWholeAction))
      return StateFollowing { whole in
        if let state = toPart(whole) { part.tell(state) } else { part.vanish() }
      } vanish: {
        part.vanish()
      }
    }
    guard let atEnd else { return lifted }
    return lifted.atEnd { (toPart($0).map(atEnd) ?? []).map(toWholeAction) }
  }
}

extension StateEffect {
  fileprivate func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable, All: Sequence>(
    all: @escaping @Sendable (Whole) -> All, isOrdered: Bool,
    into toWholeAction: @escaping @Sendable (ID, Action) -> WholeAction
  ) -> StateEffect<Whole, WholeAction> where All: SendableMetatype, All.Element == (ID, State) {
    let lifted = StateEffect<Whole, WholeAction> { [makeFollowing] sink in
      let current = Box<[ID: StateFollowing<State>]>()
      // The steps of one commit, for elements in no order.
      let steps = Box<[(id: ID, carryOut: () -> Void)]>()
      return StateFollowing { whole in
        let last = current.value.take() ?? [:]
        var new: [ID: StateFollowing<State>] = [:]
        if !isOrdered { steps.value = [] }
        for (id, state) in all(whole) where new[id] == nil {
          let following =
            last[id]
            ?? makeFollowing(
              (isOrdered ? sink : sink.collecting(in: steps, of: id)).map(of: id) { toWholeAction(id, $0) })
          new[id] = following
          following.tell(state)
        }
        for step in (steps.value.take() ?? []).inOrder(of: \.id) { step.carryOut() }
        for (_, following) in last.filter({ new[$0.key] == nil }).inOrder(of: \.key) { following.vanish() }
        current.value = new
      } vanish: {
        for (_, following) in (current.value.take() ?? [:]).inOrder(of: \.key) { following.vanish() }
      }
    }
    guard let atEnd else { return lifted }
    return lifted.atEnd { whole in
      var ended: Set<ID> = []
      return (isOrdered ? Array(all(whole)) : all(whole).inOrder(of: \.0)).flatMap { id, state in
        ended.insert(id).inserted ? atEnd(state).map { toWholeAction(id, $0) } : []
      }
    }
  }
}

/// The states of the part that was asked for last. Cannot be followed.
private final class PartSource<Whole: Sendable, Part: Sendable, ID: Sendable> {
  private let toPart: @Sendable (Whole, ID) -> Part?
  private let current = Box<ID>()
  private var source: Source<Part>?
  private var publishing: (() -> Confined<Source<Part>>)?

  init(_ toPart: @escaping @Sendable (Whole, ID) -> Part?) { self.toPart = toPart }

  /// A source of these states that can be followed.
  func publishing<Action>(in whole: EffectContext<Whole, Action>.CommitContext) -> () -> Confined<Source<Part>> {
    if let publishing { return publishing }
    let made = { [toPart, current, whole = whole.publishing] in
      let id = current.value
      return whole().scope { state in id.flatMap { toPart(state, $0) } }
    }
    publishing = made
    return made
  }

  func source(in whole: Source<Whole>, of id: ID) -> Source<Part> {
    current.value = id
    if let source { return source }
    let edge = Edge<Whole>(to: whole) { _ in nil }
    let made = Source<Part>(edge: edge, level: whole.level) { [toPart, current] body in
      edge.withState { whole in
        if let id = current.value, let part = toPart(whole, id) { body(part) }
      }
    }
    source = made
    return made
  }
}

@usableFromInline final class Box<Value> {
  @usableFromInline var value: Value?

  @inlinable init() {}
}
