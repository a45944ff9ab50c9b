import PureduxTestSupport
import Testing

@testable import Puredux

/// The inbox with what `Tree` does around it.
private struct InboxSystem: Interleaved {
  /// What a client asks of a tree, one after the other.
  enum Call: Hashable {
    /// `Tree.enqueue`.
    case dispatch(Int)
    /// `Tree.release` of a child store, which is ordered after the tree's end, too.
    case release(Int)
    /// `Tree.run` for no store, as a read of a root store is.
    case visit
    /// `Tree.send`, a visit that is refused where the root store is closed, and that runs the user's code.
    case send(Int)
    /// `Tree.close` of the root store.
    case end(Int)
    /// `Tree.untilIdle`.
    case untilIdle
    /// As `StoreCore.shutdown` and `RootStore.shutdown` together.
    static func shutdown(_ entry: Int) -> [Call] { [.end(entry), .visit, .untilIdle] }
  }

  enum Entry: Hashable {
    case action(Int)
    /// What a visitor asks for who is not let in.
    case pending(PendingRequest)

    /// The action whose code is called.
    var code: Int? {
      switch self {
      case .action(let action): action
      case .pending(let request): request.visit.action
      }
    }
  }

  struct PendingRequest: Hashable {
    let place: Int
    let visit: Visit
  }

  typealias Machine = Inbox<IdleWaiter>

  struct Visit: Hashable {
    /// How many entries had been ordered when it set out.
    let asked: Int
    /// What is sent, if anything.
    let action: Int?
    let rest: [Call]
    /// Whether its caller reaches the executor only when all others are through.
    var standsStill = false
  }

  /// What `Tree.performRest` has taken out of the batch.
  struct Run: Hashable {
    let entries: [Entry]
    var position: Int
    let end: Int
    /// Who is told when the code that was called returns.
    var told: PendingRequest?
  }

  enum Step: AtomicStep {
    /// The first step of a call.
    case call(Call, [Call])
    case schedule([Call])
    // Tree.drain
    case drain
    case drainLooks
    case drainEnds(visitorExpected: Bool)
    // Tree.run, runNow, PendingRequest.value
    case visit(Visit)
    case postpone(Visit)
    case awaitPending(PendingRequest)
    case act(Visit)
    case acted(Visit)
    case endVisit(Visit)
    // Tree.performRest and leave
    case perform(Run)
    case setIdle([IdleWaiter])
    case tell([IdleWaiter])
    case leave(Visit?)

    var place: StepPlace {
      switch self {
      case .call, .schedule, .awaitPending: .anywhere
      case .drain, .visit: .entersExecutor
      default: .onExecutor
      }
    }
  }

  struct IdleWaiter: Hashable {
    let wait: Wait
    let asked: Int
    let rest: [Call]
  }

  enum Mistake: CaseIterable {
    case dispatchForgetsToSchedule
    case drainForgetsToTell
    case drainTellsTwice
    case drainForgetsTheRest
    case idleIsSetOutsideTheLock
    case visitForgetsToSchedule
    case refusedVisitForgetsToSchedule
    case visitEntersABusyTree
    case visitEntersFromWithin
    case owedDrainIsForgotten
    case pendingRequestForgetsWhoWaits
    case pendingRequestWaitsForWhatIsKnown
  }

  struct Record: Hashable {
    var isClosed = false
    var isBusy = false
    var departed = 0
    var ended = 0
    var reentrancyGuard = Tree<Int>.ReentrancyGuard()
    /// What came of pending requests: known before somebody waits, or awaited before it is known.
    var known: Set<PendingRequest> = []
    var awaited: [PendingRequest: Wait] = [:]
    /// The user's code has been called for an entry and has not returned.
    var isPerforming = false
    /// `Requests`: what waits.
    var waiting: [Entry] = []
    var batch: [Entry] = []
    var batchPosition = 0
    /// How many entries have got a place in the order, and those of them that are not done.
    var ordered = 0
    var pending: [Entry] = []
    /// How many drains have been scheduled and have not ended.
    var drains = 0
  }

  var printed = Printed(Machine())
  var record = Record()
  var crowd = Crowd<Step>()
  let quantum: Int
  /// What the user's code asks of the tree from within the performing of an entry.
  let within: [Int: [Call]]
  /// Whether the executor runs a job inside the one that enqueues it: a drain, and who is resumed.
  let runsJobsInside: Bool
  /// Whether who comes from within waits elsewhere for what came of it, as one whose caller is isolated to nothing, so
  /// that it may be known before.
  let waitsOutside: Bool
  /// Whether a visitor calls `leave` before `endVisit`, and not after it, as `Tree.leaveFromVisit` does.
  let leavesBeforeItsVisitEnds: Bool
  /// The clients that stand still between their call of `send`, or of a read, and their arrival on the executor, until
  /// all others are through.
  let standing: Set<Int>
  let mistake: Mistake?

  init(
    _ clients: [[Call]], quantum: Int = 1, within: [Int: [Call]] = [:], runsJobsInside: Bool = false,
    waitsOutside: Bool = true,
    leavesBeforeItsVisitEnds: Bool = false, standing: Set<Int> = [], mistake: Mistake? = nil
  ) {
    self.standing = standing
    self.leavesBeforeItsVisitEnds = leavesBeforeItsVisitEnds
    self.runsJobsInside = runsJobsInside
    self.waitsOutside = waitsOutside
    self.quantum = quantum
    self.within = within
    self.mistake = mistake
    for (number, client) in clients.enumerated() {
      crowd.join(standing.contains(number) ? Self.nameOfStanding : "client", next(client))
    }
  }

  private static let nameOfStanding = "one that stands still"

  func isReady(_ step: Step) -> Bool {
    guard case .visit(let visit) = step, visit.standsStill else { return true }
    return crowd.unfinished.allSatisfy { $0 == Self.nameOfStanding }
  }

  private func next(_ calls: [Call]) -> Next<Step> {
    calls.first.map { .step(.call($0, Array(calls.dropFirst()))) } ?? .end
  }

  mutating func perform(_ step: Step, by me: Int) throws(Violation) -> Next<Step> {
    switch step {
    case .call(let call, let rest): return try begin(call, rest, by: me)
    case .schedule(let rest):
      if mistake != .dispatchForgetsToSchedule { try scheduleDrain(by: me) }
      return next(rest)

    case .drain:
      guard record.reentrancyGuard == [] else {
        record.reentrancyGuard.insert(.owesDrain)
        return .end
      }
      record.reentrancyGuard = .entered
      if record.batch.isEmpty { takeBatch() }
      return try performRest(by: me)
    case .drainLooks: return .step(.drainEnds(visitorExpected: record.departed != record.ended))
    case .drainEnds(let visitorExpected):
      record.drains -= 1
      let rest = mistake != .drainForgetsTheRest && !record.batch.isEmpty
      let end = machine.drainEnded(withRest: rest || !record.waiting.isEmpty, visitorExpected: visitorExpected)
      if mistake == .idleIsSetOutsideTheLock, case .idle(let waiters) = end { return .step(.setIdle(Array(waiters))) }
      if machine.phase == .idle { record.isBusy = false }
      return try finish(end, by: me)

    case .visit(let visit):
      let isWithin = record.reentrancyGuard != [] && mistake != .visitEntersFromWithin
      let isBusy = record.isBusy && mistake != .visitEntersABusyTree && mistake != .visitEntersFromWithin
      guard !isWithin, !isBusy else {
        record.ended += 1
        return .step(.postpone(visit))
      }
      record.reentrancyGuard = .entered
      return .step(.act(visit))
    case .postpone(let visit):
      // It is still on the executor, so that no drain that this schedules can come too early.
      let isRefused = visit.action != nil && record.isClosed
      let forgets = mistake == (isRefused ? .refusedVisitForgetsToSchedule : .visitForgetsToSchedule)
      let takesUp = machine.visitorCame() && !forgets
      if isRefused {
        if takesUp { try scheduleDrain(by: me) }
        return next(visit.rest)
      }
      let request = PendingRequest(place: record.ordered, visit: visit)
      if append(.pending(request)) || takesUp { try scheduleDrain(by: me) }
      return waitsOutside ? .stepOutside(.awaitPending(request)) : .step(.awaitPending(request))
    case .awaitPending(let request):
      if record.known.remove(request) != nil, mistake != .pendingRequestWaitsForWhatIsKnown {
        return next(request.visit.rest)
      }
      record.awaited[request] = crowd.makeWait(of: me)
      return .wait
    case .act(let visit):
      guard !record.isPerforming else { throw Violation("something is done in the middle of an entry") }
      guard done >= visit.asked else { throw Violation("a visitor does not see what was asked before") }
      guard let calls = visit.action.flatMap({ within[$0] }) else { return .step(.acted(visit)) }
      record.isPerforming = true
      crowd.join("code within \(visit.action ?? 0)", next(calls), within: true)
      return .step(.acted(visit))
    case .acted(let visit):
      record.isPerforming = false
      return .step(leavesBeforeItsVisitEnds ? .leave(visit) : .endVisit(visit))
    case .endVisit(let visit):
      record.ended += 1
      return leavesBeforeItsVisitEnds ? next(visit.rest) : .step(.leave(visit))

    case .perform(let run):
      record.isPerforming = false
      var run = run
      if let request = run.told.take() { try perform(request, by: me) }
      return try perform(run, by: me)
    case .setIdle(let waiters):
      record.isBusy = false
      return try finish(.idle(ContiguousArray(waiters)), by: me)
    case .tell(let waiters):
      try tell(waiters[0], by: me)
      if mistake == .drainTellsTwice { try tell(waiters[0], by: me) }
      return try finish(.idle(ContiguousArray(waiters.dropFirst())), by: me)
    case .leave(let visit):
      let owesDrain = record.reentrancyGuard.contains(.owesDrain) && mistake != .owedDrainIsForgotten
      record.reentrancyGuard = []
      if owesDrain {
        record.drains -= 1
        try scheduleDrain(by: me)
      }
      guard let visit else { return .end }
      return leavesBeforeItsVisitEnds ? .step(.endVisit(visit)) : next(visit.rest)
    }
  }

  /// What a drain goes on with.
  private mutating func finish(_ end: Machine.DrainEnd, by me: Int) throws(Violation) -> Next<Step> {
    switch end {
    case .again: try scheduleDrain(by: me)
    case .leftToVisitor: break
    case .idle(let waiters):
      if !waiters.isEmpty, mistake != .drainForgetsToTell { return .step(.tell(Array(waiters))) }
    }
    return .step(.leave(nil))
  }

  private mutating func begin(_ call: Call, _ rest: [Call], by me: Int) throws(Violation) -> Next<Step> {
    switch call {
    case .dispatch(let entry): return record.isClosed ? next(rest) : order(entry, rest)
    case .end(let entry):
      guard !record.isClosed else { return next(rest) }
      record.isClosed = true
      return order(entry, rest)
    case .release(let entry): return record.isClosed && machine.phase == .idle ? next(rest) : order(entry, rest)
    case .visit:
      record.departed += 1
      return .step(.visit(Visit(asked: record.ordered, action: nil, rest: rest, standsStill: standing.contains(me))))
    case .send(let action):
      record.departed += 1
      return .step(.visit(Visit(asked: record.ordered, action: action, rest: rest, standsStill: standing.contains(me))))
    case .untilIdle:
      let waiter = IdleWaiter(wait: crowd.makeWait(of: me), asked: record.ordered, rest: rest)
      guard machine.isIdle(orTells: waiter) else { return .wait }
      try checkIdle(since: waiter.asked)
      return next(rest)
    }
  }

  private mutating func order(_ entry: Int, _ rest: [Call]) -> Next<Step> {
    append(.action(entry)) ? .step(.schedule(rest)) : next(rest)
  }

  private mutating func append(_ entry: Entry) -> Bool {
    record.ordered += 1
    record.pending.append(entry)
    record.waiting.append(entry)
    let schedules = machine.request()
    if schedules { record.isBusy = true }
    return schedules
  }

  private mutating func scheduleDrain(by me: Int) throws(Violation) {
    record.drains += 1
    guard record.drains == 1 else { throw Violation("two drains at a time") }
    crowd.join("drain", .step(.drain), within: runsJobsInside && crowd.isOnExecutor(me))
  }

  private mutating func tell(_ waiter: IdleWaiter, by me: Int) throws(Violation) {
    try checkIdle(since: waiter.asked)
    try crowd.resume(waiter.wait, with: next(waiter.rest), within: runsJobsInside && crowd.isOnExecutor(me))
  }

  /// `PendingRequest.perform`.
  private mutating func perform(_ request: PendingRequest, by me: Int) throws(Violation) {
    guard done > request.visit.asked else { throw Violation("a visitor does not see what was asked before") }
    guard let wait = record.awaited.removeValue(forKey: request), mistake != .pendingRequestForgetsWhoWaits else {
      record.known.insert(request)
      return
    }
    try crowd.resume(wait, with: next(request.visit.rest), within: runsJobsInside && crowd.isOnExecutor(me))
  }

  private var done: Int { record.ordered - record.pending.count }

  private func checkIdle(since asked: Int) throws(Violation) {
    guard done >= asked else { throw Violation("who waits until all is done is told while something is left") }
  }

  private mutating func takeBatch() {
    if !record.waiting.isEmpty { swap(&record.waiting, &record.batch) }
  }

  private mutating func performRest(by me: Int) throws(Violation) -> Next<Step> {
    guard !record.batch.isEmpty else { return .step(.drainLooks) }
    let entries = record.batch
    record.batch = []
    let position = record.batchPosition
    let end = position + min(quantum, entries.count - position)
    return try perform(Run(entries: entries, position: position, end: end), by: me)
  }

  /// Nobody else looks at what this changes: a step of its own only where the user's code asks for something.
  private mutating func perform(_ run: Run, by me: Int) throws(Violation) -> Next<Step> {
    var run = run
    while run.position < run.end {
      let entry = run.entries[run.position]
      guard !record.isPerforming else { throw Violation("something is done in the middle of an entry") }
      guard record.pending.first == entry else { throw Violation("an entry is not done in its turn") }
      record.pending.removeFirst()
      run.position += 1
      if case .pending(let request) = entry { run.told = request }
      guard let action = entry.code, let calls = within[action] else {
        if let request = run.told.take() { try perform(request, by: me) }
        continue
      }
      record.isPerforming = true
      crowd.join("code within \(action)", next(calls), within: true)
      return .step(.perform(run))
    }
    let isDone = run.end == run.entries.count
    record.batchPosition = isDone ? 0 : run.end
    record.batch = isDone ? [] : run.entries
    return .step(.drainLooks)
  }

  func checkEnd() throws(Violation) {
    guard record.pending.isEmpty, record.batch.isEmpty, record.waiting.isEmpty else {
      throw Violation("something is left")
    }
    guard machine.phase == .idle, !record.isBusy, record.reentrancyGuard == [], record.known.isEmpty else {
      throw Violation("\(machine.phase), busy: \(record.isBusy)")
    }
    guard machine.idleWaiters.isEmpty, record.departed == record.ended else { throw Violation("somebody is forgotten") }
  }
}

@Suite(.timeLimit(.minutes(15))) struct InboxInterleavings {
  fileprivate typealias Call = InboxSystem.Call

  @Test(arguments: [1, 2])
  func `every entry is done once and in order, and one drain at a time does it`(quantum: Int) async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.dispatch(3)]], quantum: quantum) }
      .expectNoFailure(atLeast: 50)
    await explore {
      InboxSystem([[.dispatch(1)], [.dispatch(2), .dispatch(3)]], quantum: quantum, within: [1: [.dispatch(4)]])
    }
    .expectNoFailure(atLeast: 50)
  }

  @Test(arguments: [1, 2])
  func `a visitor sees what was asked before, and what is left to it is done`(quantum: Int) async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.dispatch(3), .visit]], quantum: quantum) }
      .expectNoFailure(atLeast: 500)
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.visit], [.visit]], quantum: quantum) }
      .expectNoFailure(atLeast: 10_000)
  }

  @Test func `who waits until all is done is told then, and once`() async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.visit], [.untilIdle]]) }
      .expectNoFailure(atLeast: 500)
  }

  private static let releasing: [[Call]] = [[.release(1)], [.visit], Call.shutdown(3)]

  @Test func `a shutdown returns, whoever visits`() async {
    await explore { InboxSystem([[.dispatch(1)], [.visit], Call.shutdown(3)]) }.expectNoFailure(atLeast: 10_000)
    await explore { InboxSystem(Self.releasing) }.expectNoFailure(atLeast: 10_000)
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.send(4)], [.end(3)]]) }.expectNoFailure(atLeast: 4_000)
  }

  /// As long as nothing is left over at the end of a drain: that is left to the visitor.
  @Test(arguments: [InboxSystem.Call.visit, .send(1)])
  fileprivate func `a visitor that stands still before it reaches the executor holds up nobody`(
    visit: InboxSystem.Call
  ) async {
    let others: [[[Call]]] = [
      [[.dispatch(2), .untilIdle]], [[.send(2)], [.visit]], [Call.shutdown(3)],
      [[.dispatch(2), .dispatch(4)], [.send(5)]], [[.dispatch(2), .dispatch(4)] + Call.shutdown(3)],
    ]
    for others in others {
      await explore { InboxSystem([[visit]] + others, quantum: 8, standing: [0]) }.expectNoFailure(atLeast: 15)
    }
    await explore { InboxSystem([[visit], [.send(6)], [.dispatch(2), .send(4)]], quantum: 8, standing: [0, 1]) }
      .expectNoFailure(atLeast: 1_000)
  }

  private static let within: [Int: [Call]] = [1: [.visit, .dispatch(5)], 2: [.dispatch(4), .visit, .untilIdle]]
  private static let callers: [[[Call]]] = [
    [[.dispatch(1), .dispatch(3)], [.visit]], [[.dispatch(2)], [.dispatch(3), .visit]],
    [[.dispatch(1)], [.dispatch(2)], [.visit]], [[.send(1), .dispatch(3)], [.send(2)]],
  ]

  @Test func `code that a commit calls may visit, and wait until all is done`() async {
    for (number, clients) in Self.callers.enumerated() {
      await explore { InboxSystem(clients, within: Self.within, waitsOutside: number == 0) }
        .expectNoFailure(atLeast: 4_000)
    }
  }

  @Test func `an executor may run a job inside the one that enqueues it`() async {
    for clients in Self.callers {
      await explore { InboxSystem(clients, within: Self.within, runsJobsInside: true) }
        .expectNoFailure(atLeast: 4_000)
    }
  }

  /// The drain that runs at once takes the visitor that is just through for one that is still to come, and leaves the
  /// rest to it.
  @Test func `a visitor that leaves before its visit ends is found out`() async {
    let exploration = await explore {
      InboxSystem(
        [[.send(1)]], within: [1: [.dispatch(2), .dispatch(3)]], runsJobsInside: true, leavesBeforeItsVisitEnds: true)
    }
    #expect(!exploration.failures.isEmpty)
  }

  @Test(
    arguments: [
      (.dispatchForgetsToSchedule, "client, client: waits for ever"),
      (.drainForgetsToTell, "client: waits for ever"),
      (.drainTellsTwice, "a waiter is resumed twice"),
      (.drainForgetsTheRest, "who waits until all is done is told while something is left"),
      (.idleIsSetOutsideTheLock, "a visitor does not see what was asked before"),
      (.visitForgetsToSchedule, "client, client: waits for ever"),
      (.refusedVisitForgetsToSchedule, "something is left"),
      (.visitEntersABusyTree, "a visitor does not see what was asked before"),
      (.visitEntersFromWithin, "something is done in the middle of an entry"),
      (.owedDrainIsForgotten, "client: waits for ever"),
      (.pendingRequestForgetsWhoWaits, "code within 1: waits for ever"),
      (.pendingRequestWaitsForWhatIsKnown, "code within 1: waits for ever"),
    ] as [(InboxSystem.Mistake, String)])
  fileprivate func `a mistake is found`(mistake: InboxSystem.Mistake, reason: String) async {
    let isWithin = [.visitEntersFromWithin, .pendingRequestForgetsWhoWaits, .pendingRequestWaitsForWhatIsKnown]
      .contains(mistake)
    let within: [Int: [Call]] = isWithin ? [1: [.visit]] : [:]
    let clients: [[Call]] = [[.dispatch(1), .dispatch(2), .untilIdle], [.dispatch(3), .visit]]
    let refused: [[Call]] = [[.dispatch(1), .dispatch(2)], [.send(4)], [.end(3)]]
    let exploration = await explore {
      InboxSystem(
        mistake == .refusedVisitForgetsToSchedule ? refused : clients, within: within,
        runsJobsInside: mistake == .owedDrainIsForgotten, mistake: mistake)
    }
    #expect(exploration.failures.keys.contains(reason))
  }
}
