/// A wait for the end of stores by a task that is part of effects.
final class EffectWait: Sendable {
  private let callers: [RunningEffect]
  private let runners: [EffectRunner]

  /// The waits in progress, by the runners that are waited for.
  private static let all = LockedValue<[ObjectIdentifier: [ObjectIdentifier: EffectWait]]>([:])

  private init(of callers: [RunningEffect], for runners: [EffectRunner]) {
    self.callers = callers
    self.runners = runners
  }

  /// Begins a wait. Nil if it would close a cycle of effects that wait for each other, and so would never end.
  static func begin(of callers: [RunningEffect], for runners: [EffectRunner]) -> EffectWait? {
    let wait = EffectWait(of: callers, for: runners)
    let isPossible = all.withLock { all in
      guard !wait.closesRing(of: all) else { return false }
      for runner in runners { all[ObjectIdentifier(runner), default: [:]][ObjectIdentifier(wait)] = wait }
      return true
    }
    return isPossible ? wait : nil
  }

  func end() {
    Self.all.withLock { all in
      for runner in runners {
        let id = ObjectIdentifier(runner)
        all[id]?[ObjectIdentifier(self)] = nil
        if all[id]?.isEmpty == true { all[id] = nil }
      }
    }
  }

  /// Whether an effect that this would wait for itself waits for one of the callers, directly or by way of others.
  private func closesRing(of waits: [ObjectIdentifier: [ObjectIdentifier: EffectWait]]) -> Bool {
    let awaited = Set(runners.map(ObjectIdentifier.init))
    var visited: Set<ObjectIdentifier> = []
    var effects = callers
    while let effect = effects.popLast() {
      for (id, wait) in waits[ObjectIdentifier(effect.runner)] ?? [:] {
        if wait.callers.contains(where: { $0 === effect }) || !visited.insert(id).inserted { continue }
        for waiting in wait.callers where !waiting.hasEnded {
          let isCaller = callers.contains { $0 === waiting }
          if !isCaller, awaited.contains(ObjectIdentifier(waiting.runner)) { return true }
          effects.append(waiting)
        }
      }
    }
    return false
  }
}
