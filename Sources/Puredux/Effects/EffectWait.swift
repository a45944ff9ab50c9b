/// A wait for the end of stores by a task that is part of effects.
final class EffectWait: Sendable {
  private static let all = LockedValue(EffectWaits<Effect, ObjectIdentifier>())

  private let number: Int
  /// Kept, as their addresses identify them.
  private let runners: [EffectRunner]

  private init(number: Int, for runners: [EffectRunner]) {
    self.number = number
    self.runners = runners
  }

  /// Begins a wait. Nil if it would close a cycle of effects that wait for each other, and so would never end.
  static func begin(of callers: [RunningEffect], for runners: [EffectRunner]) -> EffectWait? {
    let callers = callers.map { (effect: Effect($0), runner: ObjectIdentifier($0.runner)) }
    let number = all.withLock { all in
      all.begin(of: callers, for: runners.map { ObjectIdentifier($0) }) { $0.effect.hasEnded }
    }
    return number.map { EffectWait(number: $0, for: runners) }
  }

  func end() {
    // What it returns is released outside the lock.
    _ = Self.all.withLock { $0.end(number) }
  }
}

extension EffectWait {
  /// An effect, by its identity.
  fileprivate struct Effect: Hashable, Sendable {
    let effect: RunningEffect

    init(_ effect: RunningEffect) { self.effect = effect }

    static func == (lhs: Effect, rhs: Effect) -> Bool { lhs.effect === rhs.effect }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(effect)) }
  }
}

/// The waits of effects for the end of other effects, by the runners of the awaited: a pure state machine, run under a
/// lock.
struct EffectWaits<Effect: Hashable, Runner: Hashable> {
  /// An effect that waits, or an outer effect of the same task; and its runner.
  typealias Caller = (effect: Effect, runner: Runner)

  struct Wait {
    let callers: [Caller]
    fileprivate let runners: [Runner]
  }

  private var waits: [Int: Wait] = [:]
  /// The numbers of the waits for each runner.
  private var numbers: [Runner: Set<Int>] = [:]
  private var lastNumber = 0

  var isEmpty: Bool { waits.isEmpty && numbers.isEmpty }

  /// Begins a wait, and returns its number; nil if it would close a cycle.
  mutating func begin(of callers: [Caller], for runners: [Runner], hasEnded: (Effect) -> Bool) -> Int? {
    if closesCycle(of: callers, for: Set(runners), hasEnded) { return nil }
    lastNumber += 1
    waits[lastNumber] = Wait(callers: callers, runners: runners)
    for runner in runners { numbers[runner, default: []].insert(lastNumber) }
    return lastNumber
  }

  mutating func end(_ number: Int) -> Wait? {
    let wait = waits.removeValue(forKey: number)
    for runner in wait?.runners ?? [] {
      numbers[runner]?.remove(number)
      if numbers[runner]?.isEmpty == true { numbers[runner] = nil }
    }
    return wait
  }

  /// Whether an effect that this would wait for itself waits for one of the callers, directly or by way of others.
  private func closesCycle(of callers: [Caller], for awaited: Set<Runner>, _ hasEnded: (Effect) -> Bool) -> Bool {
    let own = Set(callers.map(\.effect))
    var visited: Set<Int> = []
    var effects = callers
    while let (effect, runner) = effects.popLast() {
      for number in numbers[runner] ?? [] {
        guard let wait = waits[number], !wait.callers.contains(where: { $0.effect == effect }),
          visited.insert(number).inserted
        else { continue }
        for waiting in wait.callers where !hasEnded(waiting.effect) {
          if !own.contains(waiting.effect), awaited.contains(waiting.runner) { return true }
          effects.append(waiting)
        }
      }
    }
    return false
  }
}

extension EffectWaits: Sendable where Effect: Sendable, Runner: Sendable {}
extension EffectWaits.Wait: Sendable where Effect: Sendable, Runner: Sendable {}
