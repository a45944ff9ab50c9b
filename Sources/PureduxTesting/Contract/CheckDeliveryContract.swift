import Puredux
public import Testing

/// Checks that your own kind of store fulfils the delivery contract (`Docs/Reference/Contract.md`). Records an issue
/// with the first violated guarantee.
///
///     @Test func `my store keeps the contract`() async {
///       let actions = [Action.add(1), .double, .add(3)]
///       await checkDeliveryContract(of: { StoreUnderTest(MyStore()) }, given: actions) { state, action in
///         state.reduce(action)
///       }
///     }
///
/// It checks those parts of G1 to G7, G9 and G10 that any `StoreType` shows, and of G8 if there is `intercepted`. A
/// store shows no ancestors, descendants, middleware or priorities, so these guarantees are checked in part:
///
/// - G2: only that each action is reduced once.
/// - G3: only that every state read is that of a commit.
/// - G6 and G7: not the release of states that were read.
/// - G8: no ids and no effects of the state.
/// - G10: no priorities, and no calls from reducers.
///
/// Each part ends its own store. A part that takes longer than the limit counts as violated; the check does not wait
/// for it, even if the store blocks.
///
/// - Parameters:
///   - make: Makes a store in a tree of its own, in its first state. It gets no actions but those of this check.
///   - makeIntercepted: Makes the same store with an interceptor. Without it, G8 is not checked.
///   - actions: At least one action; each changes the state. The more the states differ by the actions and their order,
///     the more faults are found: a reducer that appends its actions to a list shows every fault.
///   - limit: The time that each part may take.
///   - sourceLocation: The place of issues.
///   - reducer: Changes the state as the store does.
public func checkDeliveryContract<State: Sendable & Equatable, Action: Sendable>(
  of make: @escaping @Sendable () async throws -> StoreUnderTest<State, Action>,
  intercepted makeIntercepted:
    (@Sendable (Interceptor<State, Action>) async throws -> StoreUnderTest<State, Action>)? = nil,
  given actions: [Action], within limit: Duration = defaultWaitingLimit,
  sourceLocation: SourceLocation = #_sourceLocation,
  reducer: @escaping @Sendable (inout State, Action) -> Void
) async {
  guard !actions.isEmpty else {
    return Issue.record("The contract cannot be checked without actions.", [], at: sourceLocation)
  }
  let check = ContractCheck(actions: actions, reducer: reducer)
  for part in check.parts {
    let interceptor = part.interceptor
    if interceptor != nil, makeIntercepted == nil { continue }
    let violation = LockedValue<String?>(nil)
    let subject = LockedValue<StoreUnderTest<State, Action>?>(nil)
    let outcome = await wait(within: limit) {
      do {
        let made =
          if let interceptor, let makeIntercepted { try await makeIntercepted(interceptor) } else { try await make() }
        let store = made.endingOnce
        subject.withLock { $0 = store }
        do {
          try await part.check(store)
        } catch let error as Violation {
          violation.withLock { $0 = "\(error.guarantee ?? part.guarantee): \(error.text)" }
        } catch let error as StoreError {
          // The store is open, so it must refuse no action.
          violation.withLock { $0 = "\(Guarantee.nothingLost): it throws \(error)." }
        } catch {
          violation.withLock { $0 = "\(part.guarantee): it throws \(error)." }
        }
        await store.end()
      } catch {
        violation.withLock { $0 = "\(part.guarantee): it throws \(error)." }
      }
    }
    var text = violation.withLock { $0 }
    switch outcome {
    case .done: break
    case .late:
      if let store = subject.withLock({ $0 }) { Task { await store.end() } }
      text = text ?? "\(part.guarantee): \(part.statement) has not come to an end within \(limit)."
    case .cancelled: return
    }
    if let text { return Issue.record(text, [], at: sourceLocation) }
  }
}

private struct Violation: Error {
  /// Nil for the part's own guarantee.
  let guarantee: Guarantee?
  let text: String

  init(_ text: String, of guarantee: Guarantee? = nil) {
    self.text = text
    self.guarantee = guarantee
  }
}

private enum Guarantee: String, CustomStringConvertible {
  case oneOrder = "G1 One order"
  case thePath = "G2 The path"
  case allOrNothing = "G3 All or nothing"
  case everyCommitOnce = "G4 Every commit once"
  case theFirstElement = "G5 The first element"
  case nobodyWaits = "G6 Nobody waits for a subscriber"
  case theEnd = "G7 The end"
  case effects = "G8 Interceptors and effects"
  case nothingLost = "G9 Nothing lost in silence"
  case liveness = "G10 Liveness"

  var description: String { rawValue }
}

private struct ContractCheck<State: Sendable & Equatable, Action: Sendable>: Sendable {
  typealias Subject = StoreUnderTest<State, Action>

  struct Part: Sendable {
    let guarantee: Guarantee
    let statement: String
    let interceptor: Interceptor<State, Action>?
    let check: @Sendable (Subject) async throws -> Void

    init(
      _ guarantee: Guarantee, _ statement: String, with interceptor: Interceptor<State, Action>? = nil,
      _ check: @escaping @Sendable (Subject) async throws -> Void
    ) {
      self.guarantee = guarantee
      self.statement = statement
      self.interceptor = interceptor
      self.check = check
    }
  }

  let actions: [Action]
  let reducer: @Sendable (inout State, Action) -> Void

  /// Each part may rely on those before it.
  var parts: [Part] {
    [
      Part(.liveness, "a `send`, or reading the state,", checkAnswers),
      Part(.nothingLost, "a dispatched action", checkActions),
      Part(.theFirstElement, "the first element", checkFirstElement),
      Part(.allOrNothing, "reading the state among commits", checkReads),
      Part(.oneOrder, "a `send` that returns", checkReturns),
      Part(.everyCommitOnce, "the delivery of states", checkDeliveries),
      Part(.oneOrder, "the order of several tasks", checkTasks),
      Part(.oneOrder, "reading among the commits of another task", checkReadsInOrder),
      Part(.nobodyWaits, "a subscriber beside others that do not read", checkSubscribers),
      asking, waitingEffect, lastingEffect,
      Part(.theEnd, "a sequence whose consumer is cancelled", checkCancellation),
      Part(.theEnd, "a sequence of a store that has ended", checkEnd),
      Part(.everyCommitOnce, "a sequence with a duplicate filter", checkDuplicates),
      Part(.nothingLost, "a call on a store that has ended", checkAfterEnd),
      Part(.liveness, "a `send` among many dispatches", checkFlood),
    ]
  }

  // MARK: The model

  private func script(_ count: Int) -> [Action] { (0..<count).map { actions[$0 % actions.count] } }

  private func state(after script: some Sequence<Action>, from initial: State) -> State {
    script.reduce(into: initial) { reducer(&$0, $1) }
  }

  private func states(during script: [Action], from initial: State) -> [State] {
    var states = [initial]
    for action in script { states.append(state(after: [action], from: states[states.count - 1])) }
    return states
  }

  /// The violation names the fault of one action, if possible.
  private func compare(_ actual: State, after script: [Action], from initial: State) throws {
    let expected = state(after: script, from: initial)
    if actual == expected { return }
    let lines = difference(expected: expected, actual: actual, limit: 4).joined(separator: "; ")
    func isAfter(_ change: (inout [Action]) -> Void) -> Bool {
      var changed = script
      change(&changed)
      return state(after: changed, from: initial) == actual
    }
    for index in script.indices {
      if isAfter({ $0.remove(at: index) }) {
        throw Violation("\(show(script[index])) was accepted and not committed: \(lines)", of: .nothingLost)
      }
      if isAfter({ $0.insert(script[index], at: index) }) {
        throw Violation("\(show(script[index])) was reduced twice: \(lines)", of: .thePath)
      }
      if index > 0, isAfter({ $0.swapAt(index - 1, index) }) {
        throw Violation("\(show(script[index])) came before \(show(script[index - 1])): \(lines)", of: .oneOrder)
      }
    }
    if isAfter({ script in script = script.flatMap { [$0, $0] } }) {
      throw Violation("Each action was reduced twice: \(lines)", of: .thePath)
    }
    if isAfter({ $0.removeAll() }) {
      throw Violation("No accepted action was committed: \(lines)", of: .nothingLost)
    }
    throw Violation("The state is not that after the actions in their order: \(lines)", of: .oneOrder)
  }

  private func prefix(_ count: Int, of states: AsyncStream<State>) async -> [State] {
    var read: [State] = []
    if count == 0 { return read }
    for await state in states {
      read.append(state)
      if read.count == count { break }
    }
    return read
  }

  private func rest(of states: AsyncStream<State>) async -> [State] { await prefix(.max, of: states) }

  private func expect(_ expected: [State], _ actual: [State], _ text: String, of guarantee: Guarantee? = nil) throws {
    guard expected != actual else { return }
    let lines = difference(expected: expected, actual: actual, limit: 4).joined(separator: "; ")
    throw Violation("\(text): \(lines)", of: guarantee)
  }

  private func isAccepted(_ result: DispatchResult) throws {
    if result != .enqueued { throw Violation("`dispatch` returned .\(result).", of: .nothingLost) }
  }

  // MARK: The parts

  @Sendable private func checkAnswers(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    try await subject.store.send(actions[0])
    let read = try await subject.store.send(actions[0]) { $0 }
    try compare(try await subject.store.state, after: [actions[0], actions[0]], from: initial)
    guard read == state(after: [actions[0], actions[0]], from: initial) else { throw readsElsewhere(read) }
  }

  private func readsElsewhere(_ state: State) -> Violation {
    Violation("`send(_:reading:)` did not read the state right after its commit: \(show(state))", of: .oneOrder)
  }

  @Sendable private func checkFirstElement(_ subject: Subject) async throws {
    let kept = subject.states()
    let initial = try await subject.store.state
    let first = subject.states()
    let script = script(5)
    for action in script { try isAccepted(subject.store.dispatch(action)) }
    let later = subject.states()
    try isAccepted(subject.store.dispatch(actions[0]))
    try compare(try await subject.store.state, after: script + [actions[0]], from: initial)
    let firsts = await prefix(1, of: first)
    let isNewest = firsts == [state(after: script + [actions[0]], from: initial)]
    if isNewest, firsts != [initial] { try await checkIsKept(subject, for: kept) }
    try expect([initial], firsts, "The first element is not the state at its subscription")
    try expect(
      [state(after: script, from: initial)], await prefix(1, of: later),
      "The first element is not the state after the actions dispatched before")
  }

  /// A late first element means a late subscription, unless a subscriber that has read one loses states, too: then the
  /// buffer is too small.
  private func checkIsKept(_ subject: Subject, for states: AsyncStream<State>) async throws {
    let before = await prefix(1, of: states)
    let script = script(5)
    for action in script { try isAccepted(subject.store.dispatch(action)) }
    _ = try await subject.store.state
    guard let before = before.first else { return }
    await subject.end()
    let expected = Array(self.states(during: script, from: before).dropFirst())
    try expect(
      expected, await prefix(expected.count, of: states), "`.unbounded` did not keep every state", of: .nobodyWaits)
  }

  /// A scope holds the tree within a commit: a `send` that does not wait returns before it.
  @Sendable private func checkReturns(_ subject: Subject) async throws {
    var expected = try await subject.store.state
    let last = LockedValue(expected)
    let heldUntil = LockedValue<ContinuousClock.Instant?>(nil)
    let followed = subject.store.store().scope { state in
      while heldUntil.withLock({ $0.map { .now < $0 } ?? false }) {}
      last.withLock { $0 = state }
      return 0
    }
    let (states, script) = (followed.states(), script(10))
    defer { withExtendedLifetime(states) {} }
    for _ in 1...5 {
      for action in script { try isAccepted(subject.store.dispatch(action)) }
      heldUntil.withLock { $0 = .now + .milliseconds(20) }
      try await subject.store.send(actions[0])
      let seen = last.withLock { $0 }
      heldUntil.withLock { $0 = nil }
      for action in script + [actions[0]] { reducer(&expected, action) }
      if seen != expected { throw Violation("`send` returned before the commit of its action.") }
    }
  }

  @Sendable private func checkDuplicates(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let (filtered, same) = (
      subject.store.states(bufferingPolicy: .unbounded, removeStateDuplicates: .alwaysEqual),
      subject.store.states(bufferingPolicy: .unbounded, removeStateDuplicates: .equal)
    )
    let script = script(20)
    for action in script { try await subject.store.send(action) }
    await subject.end()
    try expect([initial], await rest(of: filtered), "A duplicate filter does not leave out duplicates")
    let expected = states(during: script, from: initial)
    let changes = expected.indices.filter { $0 == 0 || expected[$0] != expected[$0 - 1] }.map { expected[$0] }
    try expect(changes, await rest(of: same), "A duplicate filter does not leave out exactly the duplicates")
  }

  @Sendable private func checkActions(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let proxy = subject.store.store()
    var done: [Action] = []
    // One at a time, so that the issue can name the missing action.
    for action in script(max(4, actions.count)) {
      done.append(action)
      try isAccepted(subject.store.dispatch(action))
      try compare(try await subject.store.state, after: done, from: initial)
    }
    for (index, action) in script(24).enumerated() {
      done.append(action)
      switch index % 4 {
      case 0: try await subject.store.send(action)
      case 1: try isAccepted(proxy.dispatch(action))
      default: try isAccepted(subject.store.dispatch(action))
      }
    }
    try compare(try await subject.store.state, after: done, from: initial)
  }

  @Sendable private func checkReads(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let script = script(200)
    let known = states(during: script, from: initial)
    try await withThrowingTaskGroup { tasks in
      tasks.addTask {
        for action in script { try isAccepted(subject.store.dispatch(action)) }
      }
      for _ in 1...2 {
        tasks.addTask {
          for _ in 1...50 {
            let read = try await subject.store.state
            if !known.contains(read) { throw Violation("A state was read that no commit has made: \(show(read))") }
          }
        }
      }
      try await tasks.waitForAll()
    }
  }

  @Sendable private func checkDeliveries(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let script = script(100)
    let expected = states(during: script, from: initial)
    let sequences = [subject.states(), subject.store.store().states(), subject.states()]
    for action in script { try isAccepted(subject.store.dispatch(action)) }
    try compare(try await subject.store.state, after: script, from: initial)
    // The end follows the last state: a missing state is not awaited.
    async let firstElements = prefix(expected.count, of: sequences[0])
    await subject.end()
    var delivered = [await firstElements]
    for sequence in sequences.dropFirst() { delivered.append(await prefix(expected.count, of: sequence)) }
    for states in delivered {
      let isCut = states.count < expected.count && expected.starts(with: states)
      if isCut { try expect(expected, states, "Before the end there are not exactly the earlier states", of: .theEnd) }
      try expect(expected, states, "There is not one state for each commit")
    }
  }

  @Sendable private func checkTasks(_ subject: Subject) async throws {
    let (ours, others) = (subject.states(), subject.states())
    let (taskCount, script) = (3, script(40))
    try await withThrowingTaskGroup { tasks in
      for _ in 1...taskCount {
        tasks.addTask {
          for (index, action) in script.enumerated() {
            if index % 10 == 9 {
              try await subject.store.send(action)
            } else {
              try isAccepted(subject.store.dispatch(action))
            }
          }
        }
      }
      try await tasks.waitForAll()
    }
    let count = taskCount * script.count + 1
    let seen = await prefix(count, of: ours)
    try expect(seen, await prefix(count, of: others), "Two subscribers do not see the same order")
    // The possible progress of the interchangeable tasks, ascending.
    var progress: Set<[Int]> = [Array(repeating: 0, count: taskCount)]
    for (before, after) in zip(seen, seen.dropFirst()) {
      let fits = actions.map { state(after: [$0], from: before) == after }
      if !fits.contains(true) {
        throw Violation(
          "A state does not come from the one before it by an action: \(show(after)) after \(show(before))")
      }
      var next: Set<[Int]> = []
      for places in progress {
        for (task, place) in places.enumerated() where place < script.count && fits[place % actions.count] {
          var places = places
          places[task] += 1
          next.insert(places.sorted())
        }
      }
      if next.isEmpty {
        throw Violation(
          "No task can have given the action that comes next in its order: \(show(after)) after \(show(before))")
      }
      progress = next
    }
  }

  @Sendable private func checkReadsInOrder(_ subject: Subject) async throws {
    let (ours, others) = (actions[0], actions[actions.count - 1])
    let states = subject.states()
    let (begun, isDone) = (Gate(), Gate())
    let (reads, otherCount) = try await withThrowingTaskGroup(of: Int.self) { tasks in
      tasks.addTask {
        var count = 0
        // Bounded, as actions pile up if `send` does not wait for its commit.
        while !isDone.isOpen, !Task.isCancelled, count < 4_000 {
          count += 4
          for _ in 1...3 { try isAccepted(subject.store.dispatch(others)) }
          begun.open()
          try await subject.store.send(others)
        }
        return count
      }
      defer { isDone.open() }
      await begun.wait()
      var reads: [(state: State, isSent: Bool)] = []
      for index in 0..<20 {
        let isSent = index % 2 == 0
        reads.append((isSent ? try await subject.store.send(ours) { $0 } : try await subject.store.state, isSent))
      }
      isDone.open()
      return (reads, try await tasks.next() ?? 0)
    }
    let seen = await prefix(1 + otherCount + reads.count { $0.isSent }, of: states)
    var place = 0
    for (state, isSent) in reads {
      if isSent { place += 1 }
      let found = seen.indices.dropFirst(place).first { index in
        seen[index] == state && (!isSent || self.state(after: [ours], from: seen[index - 1]) == state)
      }
      guard let found else {
        if isSent { throw readsElsewhere(state) }
        throw Violation("The state was not read in the order of the commits: \(show(state))")
      }
      place = found
    }
  }

  // MARK: Interceptors

  private var asking: Part {
    let asked = LockedValue<[(action: Action, state: State)]>([])
    return Part(
      .effects, "a commit that an interceptor is asked about",
      with: .effects { action, context in
        let state = context.state
        asked.withLock { $0.append((action, state)) }
        return nil
      }
    ) { subject in
      let initial = try await subject.store.state
      let script = script(40)
      for (index, action) in script.enumerated() {
        if index % 4 == 0 {
          try await subject.store.send(action)
        } else {
          try isAccepted(subject.store.dispatch(action))
        }
      }
      try compare(try await subject.store.state, after: script, from: initial)
      let asked = asked.withLock { $0 }
      try expect(
        Array(states(during: script, from: initial).dropFirst()), asked.map(\.state),
        "An interceptor is not asked once about each commit, in order, with the state after it")
      try expect(
        asked.map(\.state), Array(states(during: asked.map(\.action), from: initial).dropFirst()),
        "An interceptor is asked about another action than that of the commit")
    }
  }

  private func first(_ work: @escaping @Sendable (Dispatch<Action>) async -> Void) -> Interceptor<State, Action> {
    let hasBegun = LockedValue(false)
    return .effects { _, _ in
      let isFirst = hasBegun.withLock { hasBegun in
        defer { hasBegun = true }
        return !hasBegun
      }
      return isFirst ? .run { await work($0) } : nil
    }
  }

  private var waitingEffect: Part {
    let (begun, goesOn, ended) = (Gate(isWork: true), Gate(isWork: true), Gate(isWork: true))
    return Part(
      .effects, "a commit during a long effect, or of its action,",
      with: first { dispatch in
        begun.open()
        await goesOn.wait()
        dispatch(actions[0])
        ended.open()
      }
    ) { subject in
      defer { goesOn.open() }
      let initial = try await subject.store.state
      let script = script(20)
      for action in script { try await subject.store.send(action) }
      await begun.wait()
      try compare(try await subject.store.state, after: script, from: initial)
      goesOn.open()
      await ended.wait()
      try compare(try await subject.store.state, after: script + [actions[0]], from: initial)
    }
  }

  private var lastingEffect: Part {
    let (begun, ended) = (Gate(isWork: true), Gate(isWork: true))
    return Part(
      .effects, "the end of a store with an effect",
      with: first { _ in
        begun.open()
        await untilCancelled(isWork: true)
        ended.open()
      }
    ) { subject in
      try await subject.store.send(actions[0])
      await begun.wait()
      await subject.end()
      if !ended.isOpen { throw Violation("The store has ended, and its effect has not.") }
    }
  }

  @Sendable private func checkSubscribers(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let stalled = subject.states()
    let (newest, oldest) = (subject.states(.bufferingNewest(3)), subject.states(.bufferingOldest(3)))
    let script = script(100)
    let expected = states(during: script, from: initial)
    for action in script { try await subject.store.send(action) }
    try expect(
      Array(expected.suffix(3)), await prefix(3, of: newest), "`.bufferingNewest(3)` did not keep the newest three")
    try expect(
      Array(expected.prefix(3)), await prefix(3, of: oldest), "`.bufferingOldest(3)` did not keep the oldest three")
    try expect(expected, await prefix(101, of: stalled), "A subscriber that did not read did not get every state")
  }

  @Sendable private func checkCancellation(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let (states, others) = (subject.states(), subject.states())
    let begun = Gate()
    let consumer = Task {
      var count = 0
      for await _ in states {
        count += 1
        begun.open()
      }
      return count
    }
    await begun.wait()
    consumer.cancel()
    if await consumer.value > 1 { throw Violation("A consumer that was cancelled got more states.") }
    try isAccepted(subject.store.dispatch(actions[0]))
    try expect(
      self.states(during: [actions[0]], from: initial), await prefix(2, of: others),
      "When a consumer is cancelled, others do not get every state")
  }

  @Sendable private func checkEnd(_ subject: Subject) async throws {
    let initial = try await subject.store.state
    let script = script(20)
    let expected = states(during: script, from: initial)
    let (read, waiting) = (subject.states(), subject.states())
    async let waited = rest(of: waiting)
    for action in script { try isAccepted(subject.store.dispatch(action)) }
    await subject.end()
    try expect(expected, await rest(of: read), "Before the end there are not exactly the earlier states")
    try expect(expected, await waited, "A consumer that waits does not get exactly the earlier states before the end")
  }

  @Sendable private func checkAfterEnd(_ subject: Subject) async throws {
    let states = subject.states()
    await subject.end()
    let result = subject.store.dispatch(actions[0])
    if result != .terminated { throw Violation("After the end `dispatch` returns .\(result), and not .terminated.") }
    do {
      try await subject.store.send(actions[0])
      throw Violation("After the end `send` does not throw.")
    } catch let error as StoreError {
      if error != .terminated { throw Violation("After the end `send` throws .\(error), and not .terminated.") }
    }
    let late = await rest(of: subject.states())
    if !late.isEmpty { throw Violation("After the end `states()` is not empty: \(show(late))") }
    let count = await rest(of: states).count
    if count > 1 { throw Violation("After the end, actions still changed the state.", of: .theEnd) }
  }

  @Sendable private func checkFlood(_ subject: Subject) async throws {
    let isDone = Gate()
    try await withThrowingTaskGroup { tasks in
      for _ in 1...2 {
        tasks.addTask {
          // More than a tree handles in one turn.
          for _ in 1...5_000 where !isDone.isOpen { try isAccepted(subject.store.dispatch(actions[0])) }
        }
      }
      tasks.addTask {
        for _ in 1...5 {
          _ = try await subject.store.send(actions[0]) { _ in subject.store.dispatch(actions[0]) }
          _ = try await subject.store.state
        }
        isDone.open()
      }
      try await tasks.waitForAll()
    }
  }
}
