/// The record of a run of a program of effects in which several tasks give actions without waiting.
struct EffectRecord: Sendable {
  struct Work: Sendable {
    var key: EffectKey
    var entered: Int
    var left: Int
  }

  /// Each commit, with the moment of its reduction.
  var commits: [(commit: EffectCommit, moment: Int)] = []
  var works: [Work] = []
  var turnedAway = 0
  var ended: Set<Int> = []
  var isReplaced = false
  /// The number of effects counted under ids after everything was quiet; nil if the tree had ended.
  var count: Int?
  var live: Set<EffectKey> = []
}

/// Checks the rules that hold for every interleaving of the tasks.
struct EffectRecordChecker {
  private typealias Slot = EffectModel.SlotKey

  /// An effect that an interceptor returned.
  private struct Returned {
    var key: EffectKey
    var position: Int
    var slot: Slot?
    var owner: EffectModel.Owner?
    var policy: EffectProgram.Policy
    var store: Int
    /// The commit that certainly cancels it.
    var cancelledAt = Int.max
    /// Whether its part or element was absent, while its interceptor may already have been replaced.
    var mayBeCancelled = false
  }

  private let program: EffectProgram
  private let record: EffectRecord
  private var returned: [Returned] = []
  private var failures: [String] = []

  static func failures(of record: EffectRecord, _ program: EffectProgram) -> [String] {
    var checker = EffectRecordChecker(program: program, record: record)
    checker.replay()
    checker.check()
    return checker.failures
  }

  private init(program: EffectProgram, record: EffectRecord) {
    self.program = program
    self.record = record
  }

  // MARK: Effects returned by interceptors

  private mutating func replay() {
    var locals = program.stores.map { _ in EffectLocal() }
    for (index, (commit, _)) in record.commits.enumerated() {
      let position = index + 1
      let path = program.path(to: commit.store)
      let deed = program.actions[commit.action]
      for store in path { locals[store].reduce(deed.change) }
      for interceptor in path.reversed() {
        let seen = locals[program.stores[interceptor].looksAtRoot ? 0 : interceptor]
        func isThere(_ scope: EffectProgram.Scope, _ element: Int) -> Bool {
          switch scope {
          case .whole: true
          case .part: seen.hasPart
          case .keyed, .listed: seen.elements[element] != nil
          }
        }
        for place in returned.indices {
          guard let owner = returned[place].owner, owner.interceptor == interceptor else { continue }
          if !isThere(owner.scope, owner.element) { cancel(place, at: position) }
        }
        for scope in EffectProgram.Scope.allCases where isThere(scope, deed.element) {
          for (place, order) in deed.orders.enumerated() where order.scope == scope {
            guard program.interceptor(of: order, givenTo: commit.store) == interceptor else { continue }
            add(order, at: place, of: commit, position, element: deed.element, by: interceptor)
          }
        }
      }
    }
  }

  private mutating func cancel(_ place: Int, at position: Int) {
    // A replaced interceptor no longer cancels effects of absent parts.
    if record.isReplaced {
      returned[place].mayBeCancelled = true
      return
    }
    returned[place].cancelledAt = min(returned[place].cancelledAt, position)
  }

  private mutating func add(
    _ order: EffectProgram.Order, at place: Int, of commit: EffectCommit, _ position: Int, element: Int,
    by interceptor: Int
  ) {
    let isOfElement = order.scope == .keyed || order.scope == .listed
    func slot(_ id: EffectProgram.Identity) -> Slot {
      Slot(store: commit.store, list: isOfElement ? order.scope : nil, element: isOfElement ? element : 0, id: id)
    }
    func cancelAll(in slot: Slot?) {
      for place in returned.indices where slot != nil && returned[place].slot == slot {
        returned[place].cancelledAt = min(returned[place].cancelledAt, position)
      }
    }
    switch order.what {
    case .cancel(let id): cancelAll(in: slot(id))
    case .begin(_, let id, let policy):
      switch policy {
      case .latest, .debounced: cancelAll(in: id.map(slot))
      case .newest(let limit) where limit <= 1: cancelAll(in: id.map(slot))
      default: break
      }
      returned.append(
        Returned(
          key: .order(position, place), position: position, slot: id.map(slot),
          owner: order.scope == .whole
            ? nil
            : EffectModel.Owner(
              interceptor: interceptor, generation: 0, scope: order.scope, element: isOfElement ? element : 0),
          policy: policy, store: commit.store))
    }
  }

  // MARK: Checks

  /// The moment at which a commit is certainly over, with its cancellations.
  private func end(of position: Int) -> Int {
    position < record.commits.count ? record.commits[position].moment : .max
  }

  private mutating func check() {
    let places = Dictionary(uniqueKeysWithValues: returned.enumerated().map { ($1.key, $0) })
    for (index, (commit, _)) in record.commits.enumerated() {
      // An action given to a store that the work did not get from its effect is not withdrawn.
      guard case .effect(let key, _, let place) = commit.cause, let effect = places[key].map({ returned[$0] }) else {
        continue
      }
      guard case .dispatch? = work(of: key)?.parts[place] else { continue }
      if effect.cancelledAt < index + 1 {
        failures.append("G8 \(commit) is commit \(index + 1), and its effect was cancelled by \(effect.cancelledAt)")
      }
    }
    var entries: [EffectKey: [EffectRecord.Work]] = [:]
    for work in record.works { entries[work.key, default: []].append(work) }
    for work in record.works {
      if case .order = work.key, places[work.key] == nil {
        failures.append("G8 \(work.key) was entered and never begun")
      }
    }
    for effect in returned where effect.cancelledAt == effect.position && entries[effect.key] != nil {
      failures.append("G8 \(effect.key) was entered, and its own commit cancels it")
    }
    checkSlots(entries)
    checkElements()
    guard record.count != nil, record.ended.isEmpty, !record.isReplaced else { return }
    for effect in returned where effect.cancelledAt == .max && entries[effect.key] == nil {
      switch effect.policy {
      case .first, .throttled, .newest: if effect.slot != nil { continue }
      case .inTurn: if effect.slot != nil, record.turnedAway > 0 { continue }
      case .latest, .concurrent, .debounced: break
      }
      if effect.slot != nil, mayBeReplaced(effect, in: returned) { continue }
      failures.append("G8 \(effect.key), \(effect.policy), was never entered")
    }
  }

  private func work(of key: EffectKey) -> EffectProgram.Work? {
    guard case .order(let position, let place) = key, position <= record.commits.count else { return nil }
    let orders = program.actions[record.commits[position - 1].commit.action].orders
    if place < orders.count, case .begin(let work, _, _) = orders[place].what { return work }
    return nil
  }

  private mutating func checkSlots(_ entries: [EffectKey: [EffectRecord.Work]]) {
    for (_, effects) in Dictionary(grouping: returned.filter { $0.slot != nil }, by: \.slot) {
      for (place, effect) in effects.enumerated() {
        guard let entered = entries[effect.key]?.map(\.entered).min() else { continue }
        /// The number of earlier effects that were at work at a moment, and not cancelled by then.
        func atWork(at moment: Int) -> Int {
          effects[..<place].count { other in
            let isCancelled =
              other.cancelledAt < Int.max && record.commits[other.cancelledAt - 1].moment < moment
              || mayBeReplaced(other, in: effects)
            return !isCancelled && (entries[other.key] ?? []).contains { $0.entered < moment && moment < $0.left }
          }
        }
        switch effect.policy {
        case .inTurn:
          if atWork(at: entered) > 0 { failures.append("G8 \(effect.key) was entered beside one before it") }
        case .concurrent(let limit):
          let count = atWork(at: entered)
          if count >= max(1, limit) {
            failures.append("G8 \(effect.key), \(effect.policy), was entered beside \(count) before it")
          }
        case .first:
          let moment = end(of: effect.position)
          let isBeside = effects[..<place].contains { other in
            other.cancelledAt > effect.position && !mayBeReplaced(other, in: effects)
              && (entries[other.key] ?? []).contains { $0.entered < moment && moment < $0.left && moment < .max }
          }
          if isBeside { failures.append("G8 \(effect.key), first, was entered beside another") }
        case .latest, .debounced, .throttled, .newest: break
        }
      }
    }
  }

  /// Whether an effect with `.newest` may have cancelled it, which depends on how many others had ended by then.
  private func mayBeReplaced(_ effect: Returned, in effects: [Returned]) -> Bool {
    effect.mayBeCancelled
      || effects.contains { other in
        if case .newest = other.policy { other.slot == effect.slot && other.position >= effect.position } else { false }
      }
  }

  /// No two effects of one element of a state run at a time.
  private mutating func checkElements() {
    var elements: [[Int]: [EffectRecord.Work]] = [:]
    for work in record.works {
      if case .state(let instance, let element, _) = work.key {
        elements[[instance, element], default: []].append(work)
      }
    }
    for works in elements.values {
      let works = works.sorted { $0.entered < $1.entered }
      for (first, second) in zip(works, works.dropFirst()) where second.entered < first.left {
        failures.append("G8 \(second.key) was entered beside \(first.key)")
      }
    }
  }
}
