/// The states of one source and the cursors of its subscribers: a pure state machine, run under its channel's lock.
///
/// A state is kept once, however many have still to read it, and not at all where everybody keeps up: a publication goes
/// straight to the waiting consumers. What a publication costs depends on the consumers it wakes, never on those that
/// stall (G6). States that nobody needs any more are handed back as garbage, for their release to happen outside the lock.
@usableFromInline
struct Log<State, Waiter> {
  @usableFromInline
  enum Policy: Equatable, Sendable {
    case unbounded
    case newest(Int32)
    case oldest(Int32)
  }

  @usableFromInline
  typealias Garbage = ContiguousArray<State>

  /// A consumer that waits for its cursor's next state.
  @usableFromInline
  struct Parked {
    @usableFromInline
    let cursor: Int
    @usableFromInline
    let waiter: Waiter

    @inlinable
    init(cursor: Int, waiter: Waiter) {
      self.cursor = cursor
      self.waiter = waiter
    }
  }

  @usableFromInline
  enum Taken {
    case state(State)
    case end
    case nothing
  }

  @usableFromInline
  enum Phase: Sendable {
    /// Nobody's: its place can be given to a new cursor.
    case free
    /// Subscribed, but its place in the tree's order has not come: sees nothing yet.
    case subscribing
    case live
    /// Cancelled or read to the end.
    case ended
  }

  /// A place in an array, or none, in four bytes.
  @usableFromInline
  struct Slot: Sendable {
    @usableFromInline
    var raw: Int32 = -1

    @inlinable
    init() {}

    @inlinable
    init(_ index: Int) { raw = Int32(index) }

    @inlinable
    var index: Int? { raw < 0 ? nil : Int(raw) }

    @inlinable
    mutating func take() -> Int? {
      defer { raw = -1 }
      return index
    }
  }

  @usableFromInline
  struct Cursor {
    @usableFromInline
    var phase = Phase.subscribing
    /// Its place in the tree's order has still to come, whatever became of it since.
    @usableFromInline
    var isActivationAwaited = true
    /// Its subscription is gone.
    @usableFromInline
    var isAbandoned = false
    /// Where it stands in `parked` and in `hungry`.
    @usableFromInline
    var parkedAt = Slot()
    @usableFromInline
    var hungryAt = Slot()
    /// Where it stands among those whose first state is passed over at the same position.
    @usableFromInline
    var expiringAt = Slot()
    @usableFromInline
    let policy: Policy
    /// The position of the next state to read; for `.oldest` the end of the log at its last delivery.
    @usableFromInline
    var position = 0
    /// The state it was subscribed at, until that is read, and what `.oldest` keeps.
    @usableFromInline
    var own = Queue<State>()

    @inlinable
    init(policy: Policy) {
      self.policy = policy
    }
  }

  @usableFromInline
  var isFinished = false
  /// Cursors that have not ended.
  @usableFromInline
  var subscriberCount = 0
  /// More states can be dropped than one step may drop: call `trim()` until this is false.
  @usableFromInline
  var needsTrim = false

  @usableFromInline
  var backlog = Backlog<State>()
  @usableFromInline
  var cursors: ContiguousArray<Cursor> = []
  @usableFromInline
  var freeCursors: ContiguousArray<Int> = []
  @usableFromInline
  var parked: ContiguousArray<Parked> = []
  /// Further consumers of a cursor; while it is subscribing, all of them. Few cursors have any.
  @usableFromInline
  var queues: [Int: Queue<Waiter>] = [:]
  /// Unbounded cursors at the end of the log.
  @usableFromInline
  var unboundedAtEnd = 0
  @usableFromInline
  var newest = NewestPlaces()
  /// Newest cursors that have not read the state they were subscribed at, by the end of the log at which that is past their limit; and some of
  /// which it is.
  @usableFromInline
  var expiring: [Int: ContiguousArray<Int>] = [:]
  @usableFromInline
  var expired: ContiguousArray<Int> = []
  /// Oldest cursors with room.
  @usableFromInline
  var hungry: ContiguousArray<Int> = []

  @inlinable
  init() {}

  @inlinable
  var isIdle: Bool { subscriberCount == 0 }
  /// How many states wait for the subscriber that is furthest behind.
  @inlinable
  var backlogCount: Int { backlog.count }

  // MARK: Subscribing

  /// A new cursor, which sees nothing until it is activated.
  @inlinable
  mutating func subscribe(_ policy: Policy) -> Int {
    subscriberCount += 1
    let cursor = Cursor(policy: policy)
    if let id = freeCursors.popLast() {
      cursors[id] = cursor
      return id
    }
    cursors.append(cursor)
    return cursors.count - 1
  }

  /// The cursor's place in the order has come: it starts with `first`, where there is one, and goes on with every later
  /// publication. Returns the consumer to hand `first` to, where one waits already.
  @inlinable
  mutating func activate(_ id: Int, first: State?) -> Waiter? {
    cursors[id].isActivationAwaited = false
    guard cursors[id].phase == .subscribing else {
      freeIfDone(id)
      return nil
    }
    cursors[id].phase = .live
    cursors[id].position = backlog.end
    var served: Waiter?
    if let first {
      served = nextQueued(of: id)
      if served == nil { cursors[id].own.append(first) }
    }
    switch cursors[id].policy {
    case .unbounded: unboundedAtEnd += 1
    case .newest(let limit):
      newest.atEnd.add(1, of: limit)
      if !cursors[id].own.isEmpty { willExpire(id, limit: limit) }
    case .oldest(let limit):
      if cursors[id].own.count < limit { becomeHungry(id) }
    }
    if let next = nextQueued(of: id) { park(next, of: id) }
    return served
  }

  // MARK: Publishing

  /// Takes in a state. Into `woken`, empty at the call, come the consumers to hand it to.
  @inlinable
  mutating func publish(_ state: State, waking woken: inout ContiguousArray<Parked>, garbage: inout Garbage) {
    guard !isFinished else { return }
    swap(&woken, &parked)
    let end = backlog.end + 1
    var unboundedServed = 0
    var newestServed = 0
    for delivery in woken {
      let id = delivery.cursor
      switch cursors[id].policy {
      case .unbounded: unboundedServed += 1
      case .newest: newestServed += 1
      case .oldest: break
      }
      cursors[id].position = end
      cursors[id].parkedAt = Slot()
      if let next = nextQueued(of: id) { park(next, of: id) }
    }
    if !hungry.isEmpty { feedHungry(state, end: end) }
    let holders = unboundedAtEnd - unboundedServed
    unboundedAtEnd = unboundedServed
    let isNewestBehind = newestServed < newest.atEnd.total
    if holders > 0 || isNewestBehind || !backlog.isEmpty {
      let group = isNewestBehind ? groupOfNewest(notServedBy: woken) : 0
      backlog.append(state, holders: holders, group: group)
      if !expiring.isEmpty { expire() }
      trim(into: &garbage)
    } else {
      backlog.skip()
    }
  }

  /// Those at the end that were not served stand before the new state.
  @inlinable
  mutating func groupOfNewest(notServedBy woken: ContiguousArray<Parked>) -> Int32 {
    let group = newest.makeGroupOfThoseAtEnd()
    for delivery in woken {
      if case .newest(let limit) = cursors[delivery.cursor].policy { newest.moveToEnd(from: group, limit: limit) }
    }
    return group
  }

  @inlinable
  mutating func feedHungry(_ state: State, end: Int) {
    var index = 0
    while index < hungry.count {
      let id = hungry[index]
      if cursors[id].position != end {
        cursors[id].own.append(state)
        if case .oldest(let limit) = cursors[id].policy, cursors[id].own.count >= limit {
          becomeSated(id)
          continue
        }
      }
      index += 1
    }
  }

  @inlinable
  mutating func becomeHungry(_ id: Int) {
    guard cursors[id].hungryAt.index == nil else { return }
    cursors[id].hungryAt = Slot(hungry.count)
    hungry.append(id)
  }

  @inlinable
  mutating func becomeSated(_ id: Int) {
    guard let index = cursors[id].hungryAt.take() else { return }
    hungry.swapAt(index, hungry.count - 1)
    hungry.removeLast()
    if index < hungry.count { cursors[hungry[index]].hungryAt = Slot(index) }
  }

  /// No state will follow: what is unread stays readable. Returns the consumers to end.
  @inlinable
  mutating func finish() -> ContiguousArray<Waiter> {
    isFinished = true
    var waiters = ContiguousArray<Waiter>()
    for delivery in parked {
      waiters.append(delivery.waiter)
      waiters += takeQueued(of: delivery.cursor)
      cursors[delivery.cursor].parkedAt = Slot()
    }
    parked = []
    return waiters
  }

  // MARK: Reading

  /// What there is to read at a cursor now.
  @inlinable
  mutating func take(_ id: Int, garbage: inout Garbage) -> Taken {
    switch cursors[id].phase {
    case .free, .ended: return .end
    case .subscribing: return .nothing
    case .live: break
    }
    if let state = read(id, garbage: &garbage) { return .state(state) }
    guard isFinished else { return .nothing }
    end(id, garbage: &garbage)
    return .end
  }

  @inlinable
  mutating func read(_ id: Int, garbage: inout Garbage) -> State? {
    let position = cursors[id].position
    switch cursors[id].policy {
    case .unbounded:
      return cursors[id].own.popFirst() ?? readUnbounded(id, at: position, garbage: &garbage)
    case .newest(let limit):
      if let first = cursors[id].own.popFirst() {
        willNotExpire(id, limit: limit)
        if backlog.end - position < limit { return first }
        garbage.append(first)
      }
      guard position < backlog.end else { return nil }
      let oldest = max(position, backlog.end - Int(limit))
      newestLeaves(position, limit: limit)
      newestComes(to: oldest + 1, limit: limit)
      cursors[id].position = oldest + 1
      let state = takeUnlessNeeded(at: oldest)
      trim(into: &garbage)
      return state
    case .oldest:
      guard let state = cursors[id].own.popFirst() else { return nil }
      becomeHungry(id)
      return state
    }
  }

  @inlinable
  mutating func readUnbounded(_ id: Int, at position: Int, garbage: inout Garbage) -> State? {
    guard position < backlog.end else { return nil }
    cursors[id].position = position + 1
    let left = backlog.addHolders(-1, at: position)
    if position + 1 == backlog.end {
      unboundedAtEnd += 1
    } else {
      backlog.addHolders(1, at: position + 1)
    }
    let state = left == 0 ? takeUnlessNeeded(at: position) : backlog.state(at: position)
    trim(into: &garbage)
    return state
  }

  /// A state that was read, taken out where that was the last who needed it.
  @inlinable
  mutating func takeUnlessNeeded(at position: Int) -> State? {
    position == backlog.start && isFirstNeededNoMore ? dropFirst() : backlog.state(at: position)
  }

  /// A newest cursor does not stand at a position any more.
  @inlinable
  mutating func newestLeaves(_ position: Int, limit: Int32) {
    if position == backlog.end {
      newest.atEnd.removeOne(of: limit)
    } else if position < backlog.start {
      newest.removeSliding(limit)
    } else {
      let group = backlog.group(at: position)
      if newest.remove(limit, from: group) { backlog.setGroup(0, at: position) }
    }
  }

  @inlinable
  mutating func newestComes(to position: Int, limit: Int32) {
    if position == backlog.end {
      newest.atEnd.add(1, of: limit)
    } else {
      let group = backlog.group(at: position)
      if group != 0 {
        newest.add(limit, to: group)
      } else {
        backlog.setGroup(newest.makeGroup(of: limit), at: position)
      }
    }
  }

  /// As `take`. Of an unbounded cursor also takes up to `limit` of the states that follow, in reverse order: they are the consumer's from then on,
  /// and it asks for them without the log.
  @inlinable
  mutating func takeAhead(
    _ id: Int, limit: Int, into ahead: inout ContiguousArray<State>, garbage: inout Garbage
  ) -> Taken {
    let taken = take(id, garbage: &garbage)
    guard case .state = taken, case .unbounded = cursors[id].policy, cursors[id].phase == .live else { return taken }
    let position = cursors[id].position
    let count = min(limit, backlog.end - position)
    // Fewer are not worth the room for them.
    guard count >= 4 else { return taken }
    // The holders of each position stand before its state: this cursor moves from the first to behind the last.
    backlog.addHolders(-1, at: position)
    for position in position..<position + count {
      if let state = takeUnlessNeeded(at: position) { ahead.append(state) }
    }
    ahead.reverse()
    cursors[id].position = position + count
    if position + count == backlog.end { unboundedAtEnd += 1 } else { backlog.addHolders(1, at: position + count) }
    trim(into: &garbage)
    return taken
  }

  /// As `take`, and where there is nothing the consumer waits.
  @inlinable
  mutating func takeOrPark(_ id: Int, _ waiter: Waiter, garbage: inout Garbage) -> Taken {
    let taken = take(id, garbage: &garbage)
    guard case .nothing = taken else { return taken }
    if cursors[id].phase == .subscribing || cursors[id].parkedAt.index != nil {
      queues[id, default: Queue()].append(waiter)
    } else {
      park(waiter, of: id)
    }
    return .nothing
  }

  @inlinable
  mutating func park(_ waiter: Waiter, of id: Int) {
    cursors[id].parkedAt = Slot(parked.count)
    parked.append(Parked(cursor: id, waiter: waiter))
  }

  @inlinable
  mutating func nextQueued(of id: Int) -> Waiter? {
    guard !queues.isEmpty, let next = queues[id]?.popFirst() else { return nil }
    if queues[id]?.isEmpty == true { queues[id] = nil }
    return next
  }

  @inlinable
  mutating func takeQueued(of id: Int) -> ContiguousArray<Waiter> {
    guard !queues.isEmpty, var queue = queues.removeValue(forKey: id) else { return [] }
    return queue.popAll()
  }

  // MARK: Ending

  /// Ends a cursor: nothing more is kept for it. Returns the consumers to end.
  @inlinable
  mutating func cancel(_ id: Int, garbage: inout Garbage) -> ContiguousArray<Waiter> {
    var waiters = ContiguousArray<Waiter>()
    if let index = cursors[id].parkedAt.take() {
      waiters.append(parked[index].waiter)
      parked.swapAt(index, parked.count - 1)
      parked.removeLast()
      if index < parked.count { cursors[parked[index].cursor].parkedAt = Slot(index) }
    }
    waiters += takeQueued(of: id)
    end(id, garbage: &garbage)
    return waiters
  }

  /// The cursor's place in the order will not come.
  @inlinable
  mutating func refuse(_ id: Int, garbage: inout Garbage) {
    cursors[id].isActivationAwaited = false
    end(id, garbage: &garbage)
  }

  /// The cursor's subscription is gone, so that nobody asks for it any more.
  @inlinable
  mutating func remove(_ id: Int, garbage: inout Garbage) {
    end(id, garbage: &garbage)
    cursors[id].isAbandoned = true
    freeIfDone(id)
  }

  @inlinable
  mutating func freeIfDone(_ id: Int) {
    guard cursors[id].isAbandoned, !cursors[id].isActivationAwaited else { return }
    cursors[id].phase = .free
    freeCursors.append(id)
    guard freeCursors.count == cursors.count else { return }
    cursors = []
    freeCursors = []
    parked = []
    hungry = []
    newest = NewestPlaces()
    expiring = [:]
    expired = []
  }

  @inlinable
  mutating func end(_ id: Int, garbage: inout Garbage) {
    let phase = cursors[id].phase
    guard phase == .live || phase == .subscribing else { return }
    cursors[id].phase = .ended
    subscriberCount -= 1
    becomeSated(id)
    garbage += cursors[id].own.popAll()
    guard phase == .live else { return }
    let position = cursors[id].position
    switch cursors[id].policy {
    case .unbounded:
      if position == backlog.end { unboundedAtEnd -= 1 } else { backlog.addHolders(-1, at: position) }
    case .newest(let limit):
      willNotExpire(id, limit: limit)
      newestLeaves(position, limit: limit)
    case .oldest: break
    }
    trim(into: &garbage)
  }

  // MARK: Dropping

  /// Drops some of the states that nobody needs.
  @inline(__always)
  @inlinable
  mutating func trim(into garbage: inout Garbage) {
    needsTrim = false
    if isFirstNeededNoMore { dropFirsts(into: &garbage) }
    if !expired.isEmpty { dropExpired(into: &garbage) }
  }

  @inline(never)
  @inlinable
  mutating func dropFirsts(into garbage: inout Garbage) {
    var left = 64
    repeat {
      if let state = dropFirst() { garbage.append(state) }
      left -= 1
    } while left > 0 && isFirstNeededNoMore
    needsTrim = left == 0
  }

  @inline(__always)
  @inlinable
  var isFirstNeededNoMore: Bool {
    !backlog.isEmpty && backlog.holdersOfFirst == 0
      && (newest.behind == 0 || newest.largestLimit(atFirst: backlog.groupOfFirst) < backlog.count)
  }

  @inline(__always)
  @inlinable
  mutating func dropFirst() -> State? {
    if newest.behind > 0 {
      let group = backlog.groupOfFirst
      if group != 0 { newest.slide(group) }
    }
    return backlog.popFirst()
  }

  /// The state that a newest cursor was subscribed at is readable until there are as many behind it as its limit.
  @inlinable
  mutating func willExpire(_ id: Int, limit: Int32) {
    let end = cursors[id].position + Int(limit)
    cursors[id].expiringAt = Slot(expiring[end]?.count ?? 0)
    expiring[end, default: []].append(id)
  }

  @inlinable
  mutating func willNotExpire(_ id: Int, limit: Int32) {
    guard let index = cursors[id].expiringAt.take() else { return }
    let end = cursors[id].position + Int(limit)
    guard let last = expiring[end]?.popLast() else { return }
    if last != id {
      expiring[end]?[index] = last
      cursors[last].expiringAt = Slot(index)
    } else if index == 0 {
      expiring[end] = nil
    }
  }

  /// The log has come to an end at which some first states are past.
  @inlinable
  mutating func expire() {
    guard let ids = expiring.removeValue(forKey: backlog.end) else { return }
    if expired.isEmpty { expired = ids } else { expired += ids }
  }

  @inline(never)
  @inlinable
  mutating func dropExpired(into garbage: inout Garbage) {
    var left = 64
    while left > 0, let id = expired.popLast() {
      left -= 1
      // Its place may be another's by now.
      guard case .newest(let limit) = cursors[id].policy, backlog.end - cursors[id].position >= limit,
        let first = cursors[id].own.popFirst()
      else { continue }
      cursors[id].expiringAt = Slot()
      garbage.append(first)
    }
    if !expired.isEmpty { needsTrim = true }
  }
}

extension Log: Sendable where State: Sendable, Waiter: Sendable {}
extension Log.Parked: Sendable where State: Sendable, Waiter: Sendable {}
extension Log.Taken: Sendable where State: Sendable, Waiter: Sendable {}
extension Log.Cursor: Sendable where State: Sendable, Waiter: Sendable {}
