import PureduxTestSupport
import Testing

@testable import Puredux

/// The inbox, with the steps that `Tree` takes around it.
private struct InboxSystem: Interleaved {
  /// A client's call to a tree; a client makes its calls one after the other.
  enum Call: Hashable {
    /// `Tree.enqueue`.
    case dispatch(Int)
    /// `Tree.release` of a child store, which is ordered even after the tree's end.
    case release(Int)
    /// `Tree.run` without a store, as for a read of a root store.
    case visit
    /// `Tree.send`: a visit that calls the user's code, and is refused if the root store is closed.
    case send(Int)
    /// `Tree.close` of the root store.
    case end(Int)
    /// `Tree.untilIdle`.
    case untilIdle
    /// `StoreCore.shutdown` followed by `RootStore.shutdown`.
    static func shutdown(_ entry: Int) -> [Call] { [.end(entry), .visit, .untilIdle] }
  }

  enum Entry: Hashable {
    case action(Int)
    /// The request of a visitor that may not enter.
    case pending(PendingRequest)

    /// The action whose reducing calls the user's code.
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
    /// The number of entries ordered before the visit began.
    let asked: Int
    /// The action sent; nil for a read.
    let action: Int?
    let rest: [Call]
    /// Whether its caller reaches the executor only after all participants that do not stand still have ended.
    var standsStill = false
  }

  /// The entries that `Tree.performRest` has taken from the batch.
  struct Run: Hashable {
    let entries: [Entry]
    var position: Int
    let end: Int
    /// The request whose caller is resumed when the user's code returns.
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
    /// The results of pending requests: known before anyone waits, or awaited before they are known.
    var known: Set<PendingRequest> = []
    var awaited: [PendingRequest: Wait] = [:]
    /// Whether the user's code has been called for an entry and has not returned.
    var isPerforming = false
    /// The waiting entries, as in `Requests`.
    var waiting: [Entry] = []
    var batch: [Entry] = []
    var batchPosition = 0
    /// The number of entries that have a place in the order, and those of them that are not yet performed.
    var ordered = 0
    var pending: [Entry] = []
    /// The number of drains that have been scheduled and have not ended.
    var drains = 0
  }

  var printed = Printed(Machine())
  var record = Record()
  var crowd = Crowd<Step>()
  let quantum: Int
  /// The calls that the user's code makes while an action is performed, by action.
  let within: [Int: [Call]]
  /// Whether the executor runs a job inside the one that enqueues it, be it a drain or a resumed participant.
  let runsJobsInside: Bool
  /// Whether a caller from within awaits its result off the executor, as a caller without isolation does. The result
  /// may then be known first.
  let waitsOutside: Bool
  /// Whether a visitor calls `leave` before `endVisit`. `Tree.leaveFromVisit` calls it afterwards.
  let leavesBeforeItsVisitEnds: Bool
  /// The clients that stand still between the call of `send`, or of a read, and their arrival on the executor, until
  /// all other participants have ended.
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
      // The visitor is still on the executor, so no drain that this schedules can run too early.
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
      guard !record.isPerforming else { throw Violation("code runs in the middle of an entry") }
      guard done >= visit.asked else { throw Violation("a visitor does not see an earlier request") }
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
      // A drain performs the owed one itself.
      guard let visit else { return owesDrain ? .step(.drain) : .end }
      if owesDrain {
        record.drains -= 1
        try scheduleDrain(by: me)
      }
      return leavesBeforeItsVisitEnds ? .step(.endVisit(visit)) : next(visit.rest)
    }
  }

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
    guard done > request.visit.asked else { throw Violation("a visitor does not see an earlier request") }
    guard let wait = record.awaited.removeValue(forKey: request), mistake != .pendingRequestForgetsWhoWaits else {
      record.known.insert(request)
      return
    }
    try crowd.resume(wait, with: next(request.visit.rest), within: runsJobsInside && crowd.isOnExecutor(me))
  }

  private var done: Int { record.ordered - record.pending.count }

  private func checkIdle(since asked: Int) throws(Violation) {
    guard done >= asked else { throw Violation("a waiter for idle is resumed while entries are left") }
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

  /// No other participant reads the changes, so a separate step is needed only if the user's code makes calls.
  private mutating func perform(_ run: Run, by me: Int) throws(Violation) -> Next<Step> {
    var run = run
    while run.position < run.end {
      let entry = run.entries[run.position]
      guard !record.isPerforming else { throw Violation("code runs in the middle of an entry") }
      guard record.pending.first == entry else { throw Violation("an entry is not performed in its turn") }
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
      throw Violation("entries are left")
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
  func `every entry is performed once and in order, by one drain at a time`(quantum: Int) async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.dispatch(3)]], quantum: quantum) }
      .expectNoFailure(atLeast: 50)
    await explore {
      InboxSystem([[.dispatch(1)], [.dispatch(2), .dispatch(3)]], quantum: quantum, within: [1: [.dispatch(4)]])
    }
    .expectNoFailure(atLeast: 50)
  }

  @Test(arguments: [1, 2])
  func `a visitor sees all earlier requests, and the entries left to it are performed`(quantum: Int) async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.dispatch(3), .visit]], quantum: quantum) }
      .expectNoFailure(atLeast: 500)
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.visit], [.visit]], quantum: quantum) }
      .expectNoFailure(atLeast: 10_000)
  }

  @Test func `a waiter for idle is resumed once, when no entry is left`() async {
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.visit], [.untilIdle]]) }
      .expectNoFailure(atLeast: 500)
  }

  private static let releasing: [[Call]] = [[.release(1)], [.visit], Call.shutdown(3)]

  @Test func `a shutdown returns despite visitors`() async {
    await explore { InboxSystem([[.dispatch(1)], [.visit], Call.shutdown(3)]) }.expectNoFailure(atLeast: 10_000)
    await explore { InboxSystem(Self.releasing) }.expectNoFailure(atLeast: 10_000)
    await explore { InboxSystem([[.dispatch(1), .dispatch(2)], [.send(4)], [.end(3)]]) }.expectNoFailure(atLeast: 4_000)
  }

  /// If entries are left at the end of a drain, they are left to the visitor; there are none here.
  @Test(arguments: [InboxSystem.Call.visit, .send(1)])
  fileprivate func `a visitor that stands still before it reaches the executor delays nobody`(
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

  @Test func `code that a commit calls may visit, and wait for idle`() async {
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

  /// The drain runs inside the visit. It takes the visitor that is just leaving for one still to come, and leaves the
  /// rest to it.
  @Test func `a visitor that leaves before its visit ends is detected`() async {
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
      (.drainForgetsTheRest, "a waiter for idle is resumed while entries are left"),
      (.idleIsSetOutsideTheLock, "a visitor does not see an earlier request"),
      (.visitForgetsToSchedule, "client, client: waits for ever"),
      (.refusedVisitForgetsToSchedule, "entries are left"),
      (.visitEntersABusyTree, "a visitor does not see an earlier request"),
      (.visitEntersFromWithin, "code runs in the middle of an entry"),
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
