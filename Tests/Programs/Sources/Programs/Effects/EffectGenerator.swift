extension EffectProgram {
  public init(seed: UInt64, features: Features = .all) {
    var maker = EffectProgramMaker(seed: seed, features: features)
    self = maker.make()
  }
}

private struct EffectProgramMaker {
  var random: SeededGenerator
  /// For features added later, so that a seed's program without them stays the same.
  var later: SeededGenerator
  let performs: Bool
  let features: Features
  var program = EffectProgram()
  /// The policy of each id, if policies are not mixed.
  var policies: [EffectProgram.Identity: EffectProgram.Policy] = [:]

  init(seed: UInt64, features: Features) {
    random = SeededGenerator(seed: seed)
    random = SeededGenerator(seed: random.next() ^ 0xEFFE_C701)
    later = SeededGenerator(seed: seed ^ 0x9E4F_04A1)
    performs = Int.random(in: 0..<2, using: &later) == 0 && features.contains(.performs)
    self.features = features
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  /// For programs that use `perform`.
  mutating func belowLater(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &later) }

  mutating func once(in number: Int, _ feature: Features = []) -> Bool {
    let isTrue = below(number) == 0
    return isTrue && features.isSuperset(of: feature)
  }

  /// Some milliseconds, and random nanoseconds, so that equal times are unlikely.
  mutating func time(_ limit: Int = 40) -> Int { (1 + below(limit)) * 1_000_000 + below(1_000_000) }

  mutating func make() -> EffectProgram {
    switch below(8) {
    case 0 where features.contains(.mainActor): program.executor = .main
    case 1 where features.contains(.shuffling): program.executor = .shuffling(random.next())
    default: program.executor = .own
    }
    program.isCarrying = once(in: 3, .carrying)
    for number in 1..<(1 + below(4)) {
      var store = EffectProgram.Place(parent: below(2) == 0 ? 0 : below(number))
      store.isOfPart = once(in: 4, .parts)
      program.stores.append(store)
    }
    let actions = 4 + below(10)
    for number in 0..<actions { program.actions.append(deed(number, of: actions)) }
    if features.contains(.stateEffects) {
      for _ in 0..<below(4) {
        var spec = EffectProgram.StateWork(kind(), work(-1, of: actions))
        spec.looksAtRoot = once(in: 2)
        program.stateEffects.append(spec)
      }
    }
    for store in program.stores.indices {
      program.stores[store].looksAtRoot = once(in: 3)
      if store > 0, once(in: 3, .lastActions) { program.stores[store].atEnd = below(actions) }
      if !program.stateEffects.isEmpty, once(in: 3) {
        program.stores[store].stateEffects = [below(program.stateEffects.count)]
      }
    }
    let count = 4 + below(26)
    for number in 0..<count { program.steps.append(step(isLate: number * 2 > count)) }
    if once(in: 4, .freely) {
      program.tasks = 1 + below(3)
      return program
    }
    // Fewer steps if too much happens, or too much at one time.
    while program.steps.count > 2, EffectModel(program).isAmbiguous {
      program.steps.removeLast(1 + program.steps.count / 4)
    }
    return program
  }

  mutating func step(isLate: Bool) -> EffectProgram.Step {
    if performs, belowLater(5) == 0 {
      let begun = program.steps.indices.filter { if case .perform = program.steps[$0] { true } else { false } }
      if !begun.isEmpty, belowLater(4) == 0 { return .cancelPerforming(begun[belowLater(begun.count)]) }
      // Usually the same action again.
      let gift = gift()
      return .perform([gift] + (0..<belowLater(4)).map { _ in belowLater(3) == 0 ? self.gift() : gift })
    }
    switch below(24) {
    case 0..<11: return .give((0..<(1 + (below(2) == 0 ? below(4) : 0))).map { _ in gift() })
    case 11..<15: return .next
    case 15..<18: return .advance(time(60))
    case 18 where !program.stateEffects.isEmpty:
      return .subscribe(below(program.stateEffects.count), store: below(program.stores.count))
    case 19 where !program.stateEffects.isEmpty: return .unsubscribe(below(6))
    case 20 where once(in: 3): return .intercept
    case 21 where isLate: return .release(below(program.stores.count))
    case 22 where isLate:
      let store = below(program.stores.count)
      return store > 0 || once(in: 4) ? .shutDown(store) : .next
    case 23 where isLate && features.contains(.finishes):
      let store = below(program.stores.count)
      return store > 0 || once(in: 4) ? .finish(store, within: time(once(in: 3) ? 20 : 2_000)) : .next
    default: return .give([gift()])
    }
  }

  mutating func gift() -> EffectProgram.Gift {
    // Early actions do more.
    let count = program.actions.count
    var gift = EffectProgram.Gift(min(below(count), below(count)), to: below(program.stores.count))
    gift.isSent = once(in: 4)
    return gift
  }

  mutating func deed(_ number: Int, of count: Int) -> EffectProgram.Deed {
    var deed = EffectProgram.Deed()
    switch below(6) {
    case 0: deed.change = .nothing
    case 1...2: deed.change = .number(below(6))
    case 3: deed.change = .part(below(3) > 0)
    default: deed.change = .element(below(2), below(3) == 0 ? nil : below(4))
    }
    deed.element = below(2)
    let orders = [0, 1, 1, 1, 1, 2, 2, 3][below(8)]
    for _ in 0..<orders { deed.orders.append(order(number, of: count)) }
    // Cancels effects of the same commit, or the effect that performs the action.
    if performs, belowLater(4) == 0 {
      let cancellation = EffectProgram.Order(.cancel(belowLater(4) == 0 ? .one : .zero))
      if belowLater(2) == 0 { deed.orders.append(cancellation) } else { deed.orders.insert(cancellation, at: 0) }
    }
    return deed
  }

  mutating func order(_ number: Int, of count: Int) -> EffectProgram.Order {
    let what: EffectProgram.What =
      once(in: 8) ? .cancel(identity()) : begin(number, of: count)
    var order = EffectProgram.Order(what)
    order.up = once(in: 3) ? 1 + below(2) : 0
    if once(in: 3, .lifts) { order.scope = EffectProgram.Scope(rawValue: 1 + below(3)) ?? .whole }
    return order
  }

  mutating func begin(_ number: Int, of count: Int) -> EffectProgram.What {
    let (work, id, policy) = (work(number, of: count), once(in: 8) ? nil : identity(), policy())
    guard let id, !features.contains(.mixedPolicies) else { return .begin(work, id: id, policy) }
    let first = policies[id] ?? policy
    policies[id] = first
    return .begin(work, id: id, first)
  }

  mutating func identity() -> EffectProgram.Identity {
    if once(in: 6, .idTypes) { return below(2) == 0 ? .real : .text }
    return once(in: 4) ? .one : .zero
  }

  mutating func policy() -> EffectProgram.Policy {
    let time = once(in: 12) ? -below(2) * 1_000 : time()
    switch below(12) {
    case 0...1: return .latest
    case 2: return .first
    case 3...4: return .inTurn(below(4) == 0 ? below(3) : 100)
    case 5...6: return .concurrent(below(4))
    case 7...8: return .debounced(time)
    case 9...10: return .throttled(time, latest: !once(in: 3))
    default: return .newest(below(4))
    }
  }

  mutating func kind() -> EffectProgram.StateWork.Kind {
    switch below(5) {
    case 0: .whileAtLeast(1 + below(4))
    case 1: .onChange(modulus: 2 + below(3))
    case 2: .keyed
    case 3: .listed
    default: .part
    }
  }

  mutating func work(_ number: Int, of count: Int) -> EffectProgram.Work {
    var work = EffectProgram.Work([])
    if once(in: 6) { work.after = time() }
    for _ in 0..<(1 + below(3)) {
      if once(in: 8, .follows) { work.parts.append(.follow(1 + below(12))) }
      work.parts.append(.sleep(once(in: 20) ? time(100_000) : time()))
      guard number >= 0 ? number + 1 < count : once(in: 2) else { continue }
      func later(_ maker: inout Self) -> Int { number + 1 + maker.below(count - number - 1) }
      if once(in: 6) { work.parts.append(.send(later(&self), to: below(program.stores.count))) }
      if performs, belowLater(6) == 0 {
        let store = belowLater(3) == 0 ? belowLater(program.stores.count) : 0
        work.parts.append(.perform(later(&self), to: store))
      }
      if once(in: 10) {
        work.parts.append(.fail)
        break
      }
      // An effect of the state that dispatched actions with effects could change its own input, and never end.
      for _ in 0..<below(3) { work.parts.append(.dispatch(later(&self))) }
      if once(in: 10) { work.parts.append(.linger(below(20))) }
    }
    if once(in: 4) {
      work.attempts = 1 + below(3)
      work.pause = once(in: 4) ? 0 : time()
    }
    if once(in: 3), number + 1 < count { work.catching = number + 1 + below(count - number - 1) }
    work.ignoresCancellation = once(in: 4)
    return work
  }
}

extension EffectProgram {
  /// Smaller programs, with the largest reductions first.
  var simplifications: [() -> EffectProgram?] {
    var all: [() -> EffectProgram?] = []
    func add(_ change: @escaping (inout EffectProgram) -> Void) {
      all.append {
        var changed = self
        change(&changed)
        return changed.tasks == 0 && EffectModel(changed).isAmbiguous ? nil : changed
      }
    }
    var length = steps.count / 2
    while length > 0 {
      let size = length
      for start in stride(from: 0, to: steps.count, by: size) {
        add { program in
          let removed = start..<min(start + size, program.steps.count)
          program.steps.removeSubrange(removed)
          for place in program.steps.indices {
            guard case .cancelPerforming(let step) = program.steps[place], step >= removed.upperBound else { continue }
            program.steps[place] = .cancelPerforming(step - removed.count)
          }
        }
      }
      length /= 2
    }
    add { $0.executor = .own }
    add { $0.isCarrying = false }
    for store in stores.indices {
      add { $0.stores[store].stateEffects = [] }
      add { $0.stores[store].atEnd = nil }
      add { $0.stores[store].isOfPart = false }
      add { $0.stores[store].looksAtRoot = false }
    }
    if stores.count > 1 {
      let last = stores.count - 1
      add { program in
        program.stores.removeLast()
        for step in program.steps.indices { program.steps[step].move(from: last, to: 0) }
        for action in program.actions.indices {
          for order in program.actions[action].orders.indices {
            program.actions[action].orders[order].change { $0.moveSends(from: last) }
          }
        }
        for place in program.stateEffects.indices { program.stateEffects[place].work.moveSends(from: last) }
      }
    }
    for action in actions.indices {
      add { $0.actions[action] = Deed() }
      add { $0.actions[action].orders = [] }
      add { $0.actions[action].change = .nothing }
      for order in actions[action].orders.indices {
        add { $0.actions[action].orders.remove(at: order) }
        add { $0.actions[action].orders[order].up = 0 }
        add { $0.actions[action].orders[order].scope = .whole }
        guard case .begin(let work, let id, let policy) = actions[action].orders[order].what else { continue }
        for simpler in work.simplifications {
          add { $0.actions[action].orders[order].what = .begin(simpler, id: id, policy) }
        }
      }
    }
    for place in stateEffects.indices {
      for simpler in stateEffects[place].work.simplifications { add { $0.stateEffects[place].work = simpler } }
    }
    for step in steps.indices {
      if case .perform(let gifts) = steps[step], gifts.count > 1 {
        for place in gifts.indices {
          add { program in
            var fewer = gifts
            fewer.remove(at: place)
            program.steps[step] = .perform(fewer)
          }
        }
      }
      if case .give(let gifts) = steps[step] {
        for place in gifts.indices {
          var fewer = gifts
          fewer.remove(at: place)
          if !fewer.isEmpty { add { $0.steps[step] = .give(fewer) } }
          if gifts[place].isSent {
            var plain = gifts
            plain[place].isSent = false
            add { $0.steps[step] = .give(plain) }
          }
        }
      }
    }
    return all
  }
}

extension EffectProgram.Order {
  fileprivate mutating func change(_ change: (inout EffectProgram.Work) -> Void) {
    if case .begin(var work, let id, let policy) = what {
      change(&work)
      what = .begin(work, id: id, policy)
    }
  }
}

extension EffectProgram.Step {
  fileprivate mutating func move(from store: Int, to other: Int) {
    switch self {
    case .give(var gifts):
      for place in gifts.indices where gifts[place].store == store { gifts[place].store = other }
      self = .give(gifts)
    case .perform(var gifts):
      for place in gifts.indices where gifts[place].store == store { gifts[place].store = other }
      self = .perform(gifts)
    case .shutDown(store), .release(store), .finish(store, _): self = .next
    case .subscribe(let spec, store: store): self = .subscribe(spec, store: other)
    default: break
    }
  }
}

extension EffectProgram.Work {
  fileprivate mutating func moveSends(from store: Int) {
    for place in parts.indices {
      if case .send(let action, to: store) = parts[place] { parts[place] = .send(action, to: 0) }
      if case .perform(let action, to: store) = parts[place] { parts[place] = .perform(action, to: 0) }
    }
  }

  fileprivate var simplifications: [EffectProgram.Work] {
    var all: [EffectProgram.Work] = []
    func add(_ change: (inout EffectProgram.Work) -> Void) {
      var changed = self
      change(&changed)
      let begins =
        switch changed.parts.first {
        case .sleep, .follow: true
        default: false
        }
      if begins, changed != self { all.append(changed) }
    }
    for place in parts.indices { add { $0.parts.remove(at: place) } }
    add { $0.after = 0 }
    add { $0.attempts = 1 }
    add { $0.pause = 0 }
    add { $0.catching = nil }
    add { $0.ignoresCancellation = false }
    return all
  }
}
