public protocol Simplifiable: Equatable {
  /// Smaller programs, with the largest reductions first; nil if a reduction is impossible.
  var simplifications: [() -> Self?] { get }
}

/// Makes a failing program smaller while it still fails.
public enum Shrinker {
  /// - Parameters:
  ///   - limit: The maximum duration.
  ///   - fails: Runs a program; several times if its failure depends on timing.
  public static func shrink<Shrunk: Simplifiable>(
    _ program: Shrunk, limit: Duration = .seconds(60), fails: (Shrunk) async -> Bool
  ) async -> Shrunk {
    let clock = ContinuousClock()
    let end = clock.now + limit
    var smallest = program
    var isSmaller = true
    while isSmaller, clock.now < end {
      isSmaller = false
      var next = 0
      var candidates = smallest.simplifications
      while next < candidates.count, clock.now < end {
        let candidate = candidates[next]()
        if let candidate, candidate != smallest, await fails(candidate) {
          smallest = candidate
          isSmaller = true
          // Earlier candidates have been tried; later ones have about the same index in the smaller program's list.
          candidates = smallest.simplifications
        } else {
          next += 1
        }
      }
    }
    return smallest
  }
}

extension Program: Simplifiable {
  public var simplifications: [() -> Program?] {
    var all: [() -> Program?] = []
    func add(_ change: @escaping (inout Program) -> Void) {
      all.append {
        var changed = self
        change(&changed)
        return changed
      }
    }
    for task in tasks.indices { add { $0.tasks.remove(at: task) } }
    for task in tasks.indices {
      var length = tasks[task].count / 2
      while length > 0 {
        let size = length
        for start in stride(from: 0, to: tasks[task].count, by: size) {
          add { $0.tasks[task].removeSubrange(start..<min(start + size, $0.tasks[task].count)) }
        }
        length /= 2
      }
    }
    for store in stores.indices.dropFirst().reversed() { all.append { removing(store) } }
    add { $0.interceptor = nil }
    add { $0.executor = .own }
    add { $0.dispatches = 0 }
    add { $0.ending = .shutdown(finishing: false) }
    for store in stores.indices {
      add { $0.stores[store].middleware = [] }
      for place in stores[store].middleware.indices { add { $0.stores[store].middleware.remove(at: place) } }
      add { $0.stores[store].emits = .always }
      add { $0.stores[store].history = nil }
      add { $0.stores[store].isSplit = false }
      add { $0.stores[store].isOfPart = false }
      if !stores[store].isEarly { add { $0.stores[store].isEarly = true } }
    }
    for task in tasks.indices {
      for place in tasks[task].indices {
        for simpler in tasks[task][place].simplifications { add { $0.tasks[task][place] = simpler } }
      }
    }
    return all
  }

  /// The program without a store and its operations; nil if there are stores below it.
  private func removing(_ store: Int) -> Program? {
    guard !stores.contains(where: { $0.parent == store }) else { return nil }
    var smaller = self
    smaller.stores.remove(at: store)
    for number in smaller.stores.indices where smaller.stores[number].parent > store {
      smaller.stores[number].parent -= 1
    }
    smaller.tasks = tasks.map { operations in
      operations.compactMap { operation in
        guard let used = operation.store else { return operation }
        return used == store ? nil : operation.moved(to: used > store ? used - 1 : used)
      }
    }
    return smaller
  }
}

extension Via {
  fileprivate func moved(to store: Int) -> Via { Via(store, isDirect: isDirect, views: views) }

  fileprivate var simplifications: [Via] {
    views.isEmpty
      ? []
      : [Via(store)]
        + views.indices.map { place in
          var simpler = self
          simpler.views.remove(at: place)
          return simpler
        }
  }
}

extension ActionSpec {
  fileprivate var simplifications: [ActionSpec] {
    (echoes.isEmpty ? [] : [ActionSpec(change, rule: rule)])
      + (change == .nothing ? [] : [ActionSpec(.nothing, rule: rule, echoes: echoes)])
      + (rule == 1 ? [] : [ActionSpec(change, rule: 1, echoes: echoes)])
  }
}

extension Operation {
  fileprivate func moved(to store: Int) -> Operation {
    switch self {
    case .dispatch(let via, let action): .dispatch(via.moved(to: store), action)
    case .burst(let via, let count): .burst(via.moved(to: store), count)
    case .send(let via, let action): .send(via.moved(to: store), action)
    case .sendReading(let via, let action): .sendReading(via.moved(to: store), action)
    case .sendContents(let via, let actions): .sendContents(via.moved(to: store), actions)
    case .state(let via): .state(via.moved(to: store))
    case .poll(let via, let count): .poll(via.moved(to: store), count)
    case .moveObserver(let key, let via): .moveObserver(key, via.moved(to: store))
    case .subscribe(var subscribing):
      {
        subscribing.via = subscribing.via.moved(to: store)
        return .subscribe(subscribing)
      }()
    case .observe(var observing):
      {
        observing.via = observing.via.moved(to: store)
        return .observe(observing)
      }()
    case .make: .make(store)
    case .release: .release(store)
    case .shutDown(_, let finishing): .shutDown(store, finishing: finishing)
    case .history: .history(store)
    case .cancelReader, .drop, .cancelObserver, .intercept, .statistics, .yield: self
    }
  }

  fileprivate var simplifications: [Operation] {
    switch self {
    case .dispatch(let via, let action):
      return via.simplifications.map { .dispatch($0, action) } + action.simplifications.map { .dispatch(via, $0) }
    case .burst(let via, let count):
      return via.simplifications.map { .burst($0, count) } + (count > 1 ? [.burst(via, count / 2)] : [])
    case .send(let via, let action):
      return via.simplifications.map { .send($0, action) } + action.simplifications.map { .send(via, $0) }
    case .sendReading(let via, let action):
      return [.send(via, action)] + via.simplifications.map { .sendReading($0, action) }
        + action.simplifications.map { .sendReading(via, $0) }
    case .sendContents(let via, let actions):
      return via.simplifications.map { .sendContents($0, actions) }
        + (actions.isEmpty ? [] : [.sendContents(via, Array(actions.dropLast()))])
    case .state(let via): return via.simplifications.map { .state($0) }
    case .poll(let via, let count):
      return [.state(via)] + via.simplifications.map { .poll($0, count) } + [.poll(via, count / 2)]
    case .moveObserver(let key, let via): return via.simplifications.map { .moveObserver(key, $0) }
    case .subscribe(let subscribing):
      var simpler: [Subscribing] = subscribing.via.simplifications.map { via in
        var simpler = subscribing
        simpler.via = via
        return simpler
      }
      func add(_ change: (inout Subscribing) -> Void) {
        var changed = subscribing
        change(&changed)
        if changed != subscribing { simpler.append(changed) }
      }
      add { $0.buffering = .unbounded }
      add { $0.filter = .none }
      add { $0.filterDispatches = false }
      add { $0.consumption = .toEnd }
      add { $0.isStream = false }
      return simpler.map { .subscribe($0) }
    case .observe(let observing):
      var simpler: [Observing] = observing.via.simplifications.map { via in
        var simpler = observing
        simpler.via = via
        return simpler
      }
      func add(_ change: (inout Observing) -> Void) {
        var changed = observing
        change(&changed)
        if changed != observing { simpler.append(changed) }
      }
      add { $0.buffering = .unbounded }
      add { $0.filter = .none }
      add { $0.deadAfter = nil }
      add { $0.yields = 0 }
      add { $0.dispatches = false }
      return simpler.map { .observe($0) }
    case .shutDown(let store, let finishing): return finishing ? [.shutDown(store, finishing: false)] : []
    case .make, .release, .history, .cancelReader, .drop, .cancelObserver, .intercept, .statistics, .yield: return []
    }
  }
}
