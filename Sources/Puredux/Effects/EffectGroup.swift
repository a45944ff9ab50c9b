/// What the runner of an effect group is to do next.
enum EffectInstruction<Effect> {
  case start(ContiguousArray<Effect>)
  /// Cancel what runs.
  case cancel
  /// Nothing more will come: leave, when all that runs has ended.
  case leave
}

extension EffectInstruction: Sendable where Effect: Sendable {}

/// The tasks of one store's effects: a pure state machine, run under its runner's lock.
///
/// One task, the runner, starts the effects as its children, in the order in which they were added, by which they are
/// numbered, from zero. It comes into being with the first effect and ends when the group does, after all of them.
struct EffectGroup<Effect, RunnerWaiter, EndWaiter> {
  typealias Instruction = EffectInstruction<Effect>
  /// A runner to be woken, and what it is to do.
  typealias Wake = (runner: RunnerWaiter, instruction: Instruction)

  /// One that does not wait for some effects, of which it is part.
  private typealias PartialWaiter = (waiter: EndWaiter, exempt: Set<Int>)

  private enum Phase: Sendable {
    /// Nothing was added yet, so there is no runner.
    case unused
    case open
    /// Takes nothing more, and lets what runs come to its end.
    case finishing
    case cancelling
    case ended
  }

  private var phase = Phase.unused
  private var isCancelled = false
  private var pending = Queue<Effect>()
  private var runner: RunnerWaiter?
  private var endWaiters: ContiguousArray<EndWaiter> = []
  /// Those who wait for all effects but some that run, of which they are part.
  private var partialWaiters: ContiguousArray<PartialWaiter> = []
  /// Those who wait until nothing works but some that run, of which they are part, whether more may come or not.
  private var idleWaiters: ContiguousArray<PartialWaiter> = []
  /// The effects that have not ended and follow states of their own tree, and what tells whether they wait for the next
  /// one: those may end only when the states do, and do not count as work.
  private var followers: [Int: @Sendable () -> Bool] = [:]
  /// How many have ever been added.
  private(set) var addedCount = 0
  /// How many effects have been started and have not ended.
  private(set) var running = 0
  /// How many have been added and have not ended.
  var unfinishedCount: Int { pending.count + running }

  enum Addition {
    case refused
    case added
    /// Spawn the runner.
    case spawn
    case wake(Wake)
  }

  mutating func add(_ effect: Effect, isFollower: Bool = false) -> Addition {
    switch phase {
    case .finishing, .cancelling, .ended: return .refused
    case .unused, .open:
      if isFollower { followers[addedCount] = { true } }
      addedCount += 1
    }
    switch phase {
    case .unused:
      phase = .open
      pending.append(effect)
      return .spawn
    default:
      pending.append(effect)
      guard let wake = wakeRunner() else { return .added }
      return .wake(wake)
    }
  }

  /// What the runner is to do next; with none it waits to be woken.
  mutating func next(orPark waiter: RunnerWaiter) -> Instruction? {
    if phase == .unused { phase = .open }
    let instruction = nextInstruction()
    if instruction == nil { runner = waiter }
    return instruction
  }

  private mutating func nextInstruction() -> Instruction? {
    if !pending.isEmpty {
      let effects = pending.popAll()
      running += effects.count
      return .start(effects)
    }
    switch phase {
    case .unused, .open: return nil
    case .finishing: return running == 0 ? .leave : nil
    case .cancelling, .ended:
      if isCancelled { return .leave }
      isCancelled = true
      return .cancel
    }
  }

  private mutating func wakeRunner() -> Wake? {
    guard let waiter = runner, let instruction = nextInstruction() else { return nil }
    runner = nil
    return (waiter, instruction)
  }

  /// Returns, beside the runner to be woken, who waited for no more than this.
  mutating func effectEnded(_ number: Int) -> (wake: Wake?, ended: ContiguousArray<EndWaiter>) {
    running -= 1
    followers[number] = nil
    for index in partialWaiters.indices { partialWaiters[index].exempt.remove(number) }
    for index in idleWaiters.indices { idleWaiters[index].exempt.remove(number) }
    return (wakeRunner(), popPartialWaiters() + popIdleWaiters())
  }

  /// An effect that runs waits for a state. Returns who waited for no more than this.
  mutating func effect(_ number: Int, waitsWhile isWaiting: @escaping @Sendable () -> Bool) -> ContiguousArray<
    EndWaiter
  > {
    followers[number] = isWaiting
    return popIdleWaiters()
  }

  /// Whether nothing works but what is exempt; where something does, the waiter is told when that is so.
  mutating func isIdle(except exempt: Set<Int> = [], orTells waiter: EndWaiter) -> Bool {
    if isIdle(except: exempt) { return true }
    idleWaiters.append((waiter, exempt))
    return false
  }

  /// Whether nothing works but what is exempt.
  func isIdle(except exempt: Set<Int>) -> Bool {
    unfinishedCount - exempt.count <= followers.count { number, isWaiting in !exempt.contains(number) && isWaiting() }
  }

  private mutating func popIdleWaiters() -> ContiguousArray<EndWaiter> {
    var left = idleWaiters
    let told = Self.pop(from: &left) { isIdle(except: $0) }
    idleWaiters = left
    return told
  }

  /// Takes nothing more. Returns, beside the runner to be woken, who waited for no more than this: where nothing was
  /// ever added, all.
  mutating func end(cancelling: Bool) -> (wake: Wake?, ended: ContiguousArray<EndWaiter>) {
    switch phase {
    case .unused: return (nil, runnerEnded())
    case .open: phase = cancelling ? .cancelling : .finishing
    case .finishing where cancelling: phase = .cancelling
    case .finishing, .cancelling, .ended: return (nil, [])
    }
    return (wakeRunner(), popPartialWaiters())
  }

  /// The runner and all effects have ended. Returns who waited for that.
  mutating func runnerEnded() -> ContiguousArray<EndWaiter> {
    phase = .ended
    defer {
      endWaiters = []
      partialWaiters = []
      idleWaiters = []
    }
    return endWaiters + partialWaiters.map(\.waiter) + idleWaiters.map(\.waiter)
  }

  /// Whether all is over; where it is not, the end tells the waiter.
  ///
  /// - Parameter exempt: Effects that run and are not waited for, nor is then the runner.
  mutating func hasEnded(except exempt: Set<Int> = [], orTells waiter: EndWaiter) -> Bool {
    if phase == .ended || isOver(except: exempt) { return true }
    if exempt.isEmpty { endWaiters.append(waiter) } else { partialWaiters.append((waiter, exempt)) }
    return false
  }

  /// Whether nothing will run any more but these, which do.
  private func isOver(except exempt: Set<Int>) -> Bool {
    switch phase {
    case .finishing, .cancelling: !exempt.isEmpty && unfinishedCount == exempt.count
    case .unused, .open, .ended: false
    }
  }

  private mutating func popPartialWaiters() -> ContiguousArray<EndWaiter> {
    var left = partialWaiters
    let told = Self.pop(from: &left) { isOver(except: $0) }
    partialWaiters = left
    return told
  }

  /// Takes out those whose exemptions a condition holds for: asked once for each, as an effect that waits for a state
  /// may be handed one at any time.
  private static func pop(
    from waiters: inout ContiguousArray<PartialWaiter>, where isTold: (Set<Int>) -> Bool
  ) -> ContiguousArray<EndWaiter> {
    if waiters.isEmpty { return [] }
    var (told, left): (ContiguousArray<EndWaiter>, ContiguousArray<PartialWaiter>) = ([], [])
    for waiting in waiters {
      if isTold(waiting.exempt) { told.append(waiting.waiter) } else { left.append(waiting) }
    }
    waiters = left
    return told
  }
}

extension EffectGroup: Sendable where Effect: Sendable, RunnerWaiter: Sendable, EndWaiter: Sendable {}
