extension Reducer {
  /// Turns the reducer of a part into one of the whole, for a feature that knows only its own state and actions.
  ///
  ///     let app = Reducer(combining: [
  ///       search.lifted(to: \App.search) { if case .search(let action) = $0 { action } else { nil } },
  ///       profile.lifted(to: \App.profile) { if case .profile(let action) = $0 { action } else { nil } },
  ///     ])
  ///
  /// The part is changed in place, without copies. In a release build, a key path of a stored property, written at the
  /// call, costs as much as a hand-written switch; one in a variable costs about 11 ns. A computed property is read and
  /// written back.
  ///
  /// - Parameters:
  ///   - part: The key path of the part.
  ///   - toPart: Extracts the part's action; nil if the action is not for this part.
  @inlinable public func lifted<Whole: Sendable, WholeAction: Sendable>(
    to part: any WritableKeyPath<Whole, State> & Sendable,
    action toPart: @escaping @Sendable (WholeAction) -> Action?
  ) -> Reducer<Whole, WholeAction> {
    return Reducer<Whole, WholeAction>(name: name, parts: nil) { [change] whole, action in
      guard var action = toPart(action) else { return }
      change(&whole[keyPath: part], &action)
    }
  }

  /// Like `lifted(to:action:)`, for a part that may be absent. Even then, a computed property is written back, and an
  /// observed one is reported as set.
  ///
  /// - Parameters:
  ///   - part: The key path of the optional part.
  ///   - toPart: Extracts the part's action; nil if the action is not for this part.
  ///   - absent: Called with each action ignored because the part is absent. By default it is printed on standard
  ///     error.
  @inlinable public func lifted<Whole: Sendable, WholeAction: Sendable>(
    toOptional part: any WritableKeyPath<Whole, State?> & Sendable,
    action toPart: @escaping @Sendable (WholeAction) -> Action?,
    absent: (@Sendable (Action) -> Void)? = nil
  ) -> Reducer<Whole, WholeAction> {
    return Reducer<Whole, WholeAction>(name: name, parts: nil) { [change] whole, action in
      guard var action = toPart(action) else { return }
      // One access without a later branch, for the optimizer.
      withPart(&whole[keyPath: part]) { part in
        if part != nil { change(&part!, &action) } else { Self.report(action, absent) }
      }
    }
  }

  /// Like `lifted(to:action:)`, for the elements of a dictionary. The element is looked up once, and changed in place.
  ///
  ///     message.lifted(toElements: \Room.messages) { action in
  ///       if case .message(let id, let action) = action { (id, action) } else { nil }
  ///     }
  ///
  /// - Parameters:
  ///   - elements: The key path of the dictionary.
  ///   - toElement: Extracts an element's key and action; nil if the action is for no element.
  ///   - absent: Called with each action ignored because its element is absent. By default it is printed on standard
  ///     error.
  @inlinable public func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable>(
    toElements elements: any WritableKeyPath<Whole, [ID: State]> & Sendable,
    action toElement: @escaping @Sendable (WholeAction) -> (id: ID, action: Action)?,
    absent: (@Sendable (ID, Action) -> Void)? = nil
  ) -> Reducer<Whole, WholeAction> {
    return Reducer<Whole, WholeAction>(name: name, parts: nil) { [change] whole, action in
      guard let (id, given) = toElement(action) else { return }
      var action = given
      let isThere = withPart(&whole[keyPath: elements]) { elements in
        guard let index = elements.index(forKey: id) else { return false }
        change(&elements.values[index], &action)
        return true
      }
      if !isThere { Self.report(action, absent.map { absent in { absent(id, $0) } }) }
    }
  }

  /// Like the version for a dictionary, for a `Keyed`.
  @inlinable public func lifted<Whole: Sendable, WholeAction: Sendable, ID: Hashable & Sendable>(
    toElements elements: any WritableKeyPath<Whole, Keyed<ID, State>> & Sendable,
    action toElement: @escaping @Sendable (WholeAction) -> (id: ID, action: Action)?,
    absent: (@Sendable (ID, Action) -> Void)? = nil
  ) -> Reducer<Whole, WholeAction> {
    return Reducer<Whole, WholeAction>(name: name, parts: nil) { [change] whole, action in
      guard let (id, given) = toElement(action) else { return }
      var action = given
      let isThere = withPart(&whole[keyPath: elements]) { $0.change(id) { change(&$0, &action) } }
      if !isThere { Self.report(action, absent.map { absent in { absent(id, $0) } }) }
    }
  }

  /// Like the version for a dictionary, for an array. Takes the first element with the `id`, by linear search.
  @inlinable public func lifted<Whole: Sendable, WholeAction: Sendable>(
    toElements elements: any WritableKeyPath<Whole, [State]> & Sendable,
    action toElement: @escaping @Sendable (WholeAction) -> (id: State.ID, action: Action)?,
    absent: (@Sendable (State.ID, Action) -> Void)? = nil
  ) -> Reducer<Whole, WholeAction> where State: Identifiable, State.ID: Sendable {
    return Reducer<Whole, WholeAction>(name: name, parts: nil) { [change] whole, action in
      guard let (id, given) = toElement(action) else { return }
      var action = given
      let isThere = withPart(&whole[keyPath: elements]) { elements in
        guard let index = elements.firstIndex(where: { $0.id == id }) else { return false }
        change(&elements[index], &action)
        return true
      }
      if !isThere { Self.report(action, absent.map { absent in { absent(id, $0) } }) }
    }
  }

  @usableFromInline static func report(_ action: Action, _ absent: ((Action) -> Void)?) {
    if let absent { return absent(action) }
    var errors = StandardError()
    print("Puredux: ignored an action, as its target is absent: \(action)", to: &errors)
  }
}

@inline(__always) @inlinable func withPart<Part, Result>(
  _ part: inout Part, _ body: (inout Part) -> Result
) -> Result {
  body(&part)
}
