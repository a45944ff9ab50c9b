/// The positions of a source's subscribers among its states: a pure state machine, run under its channel's lock.
///
/// It knows only positions, not states, and so is compiled once, whatever the type of the states; `Backlog` holds the
/// states, and carries out what is decided here. The cost of a publication depends on the consumers it wakes, never on
/// the subscribers that are stalled (G6).
@usableFromInline struct Cursors: Sendable {
  /// A consumer that waits for its cursor's next state.
  @usableFromInline struct Parked: Sendable {
    @usableFromInline let cursor: Int
    @usableFromInline let waiter: AnyWaiter
  }

  /// What there is to read at a cursor.
  @usableFromInline enum Reading: Sendable {
    /// The first of the states that are its own.
    case own
    /// The state at an offset from the first kept one; the first is taken out if this cursor is the last to need it.
    case kept(offset: Int, takesOut: Bool)
    case end
    case nothing
  }

  private enum Phase: Sendable {
    /// Unused: the slot can be given to a new cursor.
    case free
    /// Subscribed, but its place in the tree's order has not come: it sees nothing yet.
    case subscribing
    case live
    /// Cancelled or read to the end.
    case ended
  }

  /// An index into an array, or none, in four bytes.
  private struct Slot: Sendable {
    private var raw: Int32 = -1

    init() {}

    init(_ index: Int) { raw = Int32(index) }

    var index: Int? { raw < 0 ? nil : Int(raw) }

    mutating func take() -> Int? {
      defer { raw = -1 }
      return index
    }
  }

  private struct Cursor: Sendable {
    var phase = Phase.subscribing
    /// Its place in the tree's order is still to come, whatever has become of it since.
    var isActivationAwaited = true
    /// Its subscription is gone.
    var isAbandoned = false
    /// Its indices in `parked` and in `withRoom`.
    var parkedAt = Slot()
    var withRoomAt = Slot()
    /// Its index among the cursors whose first state expires at the same position.
    var expiringAt = Slot()
    /// How many states of its own it has: the one it was subscribed at, until that is read, and those that `.oldest`
    /// keeps.
    var ownCount: Int32 = 0
    let buffering: Buffering
    /// The position of the next state to read; for `.oldest`, the end of the backlog at its last delivery.
    var position = 0
  }

  /// The cursors that stand right before a kept state.
  private struct Mark: Sendable {
    /// The number of unbounded cursors.
    var holders: Int32
    /// The group of the newest cursors (`NewestPlaces`), or zero.
    var group: Int32

    /// Whether no cursors stand here.
    var isBlank: Bool { holders == 0 && group == 0 }
  }

  // MARK: What the backlog has to do

  /// How many states to drop from the front of those that are kept.
  @usableFromInline private(set) var drops = 0
  /// The cursors whose own first state is to be dropped.
  @usableFromInline private(set) var dropsOwn: ContiguousArray<Int> = []
  /// There are more states to drop than one step may drop: call `trim()` until this is false.
  @usableFromInline private(set) var needsTrim = false

  /// The number of slots, whether their cursors have ended or not.
  @usableFromInline var count: Int { cursors.count }
  /// The number of cursors that have not ended.
  @usableFromInline private(set) var subscriberCount = 0
  @usableFromInline private(set) var isFinished = false
  /// The `.oldest` cursors that have room.
  @usableFromInline private(set) var withRoom: ContiguousArray<Int> = []

  /// The positions of the first state that is kept, and behind the last.
  private var start = 0
  private var end = 0
  private var marks = SegmentedQueue<Mark>()
  /// How many of the marks are not blank.
  private var markedCount = 0
  private var cursors: ContiguousArray<Cursor> = []
  private var freeCursors: ContiguousArray<Int> = []
  private var parked: ContiguousArray<Parked> = []
  /// Further consumers of a cursor; while it is subscribing, all of them. Few cursors have any.
  private var queues: [Int: Queue<AnyWaiter>] = [:]
  /// The number of unbounded cursors at the end of the backlog.
  private var unboundedAtEnd = 0
  private var newest = NewestPlaces()
  /// Newest cursors that have not read the state they were subscribed at, by the end of the backlog at which that state
  /// is past their limit; and some for which that end has come.
  private var expiring: [Int: ContiguousArray<Int>] = [:]
  private var expired: ContiguousArray<Int> = []

  @usableFromInline init() {}

  /// How many states are kept for everyone.
  var keptCount: Int { end - start }
  /// How many groups of newest cursors there are.
  var groupCount: Int { newest.groups.count }

  // MARK: Subscribing

  /// A new cursor, which sees nothing until it is activated.
  @usableFromInline mutating func subscribe(_ buffering: Buffering) -> Int {
    subscriberCount += 1
    let cursor = Cursor(buffering: buffering)
    if let id = freeCursors.popLast() {
      cursors[id] = cursor
      return id
    }
    cursors.append(cursor)
    return cursors.count - 1
  }

  /// What becomes of a cursor's first state.
  enum Activation {
    /// It has ended, or there is no first state.
    case ignored
    case kept
    case handedTo(AnyWaiter)
  }

  /// The cursor's place in the order has come: it starts with the present state, if there is one, and continues with
  /// every later publication.
  mutating func activate(_ id: Int, hasFirst: Bool) -> Activation {
    cursors[id].isActivationAwaited = false
    guard cursors[id].phase == .subscribing else {
      freeIfDone(id)
      return .ignored
    }
    cursors[id].phase = .live
    cursors[id].position = end
    let served = hasFirst ? nextQueued(of: id) : nil
    let keepsFirst = hasFirst && served == nil
    if keepsFirst { cursors[id].ownCount = 1 }
    switch cursors[id].buffering {
    case .unbounded: unboundedAtEnd += 1
    case .newest(let limit):
      newest.atEnd.add(1, of: limit)
      if keepsFirst { willExpire(id, limit: limit) }
    case .oldest(let limit):
      if cursors[id].ownCount < limit { gainRoom(id) }
    }
    if let next = nextQueued(of: id) { park(next, of: id) }
    return served.map { .handedTo($0) } ?? (keepsFirst ? .kept : .ignored)
  }

  // MARK: Publishing

  /// A state has been published. Fills `woken`, empty at the call, with the consumers to hand it to. True if the state
  /// is to be kept behind the others.
  @usableFromInline mutating func publish(waking woken: inout ContiguousArray<Parked>) -> Bool {
    if isFinished { return false }
    swap(&woken, &parked)
    let next = end + 1
    var unboundedServed = 0
    var newestServed = 0
    for delivery in woken {
      let id = delivery.cursor
      switch cursors[id].buffering {
      case .unbounded: unboundedServed += 1
      case .newest: newestServed += 1
      case .oldest: break
      }
      cursors[id].position = next
      cursors[id].parkedAt = Slot()
      if !queues.isEmpty, let next = nextQueued(of: id) { park(next, of: id) }
    }
    let holders = unboundedAtEnd - unboundedServed
    unboundedAtEnd = unboundedServed
    let isNewestBehind = newestServed < newest.atEnd.total
    let isKept = holders > 0 || isNewestBehind || start < end
    end = next
    guard isKept else {
      start = next
      return false
    }
    let group = isNewestBehind ? groupOfNewest(notServedBy: woken) : 0
    let mark = Mark(holders: Int32(truncatingIfNeeded: holders), group: group)
    if mark.isBlank, movesOn {
      start += 1
      drops += 1
      return true
    }
    marks.append(mark)
    if !mark.isBlank { markedCount += 1 }
    if !expiring.isEmpty { expire() }
    trim()
    return true
  }

  /// Whether the new state merely takes the place of the first, with no cursor before it: the case of stalled cursors
  /// that keep the newest states. All marks are blank, and so remain as they are.
  private var movesOn: Bool {
    markedCount == 0 && newest.sliding.largest == marks.count && expiring.isEmpty && expired.isEmpty
  }

  /// The cursors at the end that were not served now stand before the new state.
  private mutating func groupOfNewest(notServedBy woken: ContiguousArray<Parked>) -> Int32 {
    let group = newest.makeGroupOfThoseAtEnd()
    for delivery in woken {
      if case .newest(let limit) = cursors[delivery.cursor].buffering { newest.moveToEnd(from: group, limit: limit) }
    }
    return group
  }

  /// After a publication: the next oldest cursor that has room and was not handed the state, which now becomes its own.
  /// Nil after the last.
  ///
  /// - Parameter index: Zero at the first call.
  @usableFromInline mutating func nextToKeep(_ index: inout Int) -> Int? {
    while index < withRoom.count {
      let id = withRoom[index]
      guard cursors[id].position != end else {
        index += 1
        continue
      }
      cursors[id].ownCount += 1
      if case .oldest(let limit) = cursors[id].buffering, cursors[id].ownCount >= limit {
        becomeFull(id)
      } else {
        index += 1
      }
      return id
    }
    return nil
  }

  private mutating func gainRoom(_ id: Int) {
    guard cursors[id].withRoomAt.index == nil else { return }
    cursors[id].withRoomAt = Slot(withRoom.count)
    withRoom.append(id)
  }

  private mutating func becomeFull(_ id: Int) {
    guard let index = cursors[id].withRoomAt.take() else { return }
    withRoom.swapAt(index, withRoom.count - 1)
    withRoom.removeLast()
    if index < withRoom.count { cursors[withRoom[index]].withRoomAt = Slot(index) }
  }

  /// No state will follow: those that are unread stay readable. Returns the consumers to end.
  mutating func finish() -> ContiguousArray<AnyWaiter> {
    isFinished = true
    var waiters = ContiguousArray<AnyWaiter>()
    for delivery in parked {
      waiters.append(delivery.waiter)
      waiters += takeQueued(of: delivery.cursor)
      cursors[delivery.cursor].parkedAt = Slot()
    }
    parked = []
    return waiters
  }

  // MARK: Reading

  /// What there is to read at a cursor now; the cursor moves behind it.
  @usableFromInline mutating func read(_ id: Int) -> Reading {
    switch cursors[id].phase {
    case .free, .ended: return .end
    case .subscribing: return .nothing
    case .live: break
    }
    let reading = readLive(id)
    guard case .nothing = reading, isFinished else { return reading }
    close(id)
    return .end
  }

  private mutating func readLive(_ id: Int) -> Reading {
    switch cursors[id].buffering {
    case .unbounded:
      if cursors[id].ownCount > 0 { return readOwn(id) }
      return cursors[id].position < end ? readUnbounded(id) : .nothing
    case .newest(let limit):
      if cursors[id].ownCount > 0 {
        willNotExpire(id, limit: limit)
        if end - cursors[id].position < limit { return readOwn(id) }
        cursors[id].ownCount = 0
        dropsOwn.append(id)
      }
      return cursors[id].position < end ? readNewest(id, limit: limit) : .nothing
    case .oldest:
      guard cursors[id].ownCount > 0 else { return .nothing }
      gainRoom(id)
      return readOwn(id)
    }
  }

  private mutating func readOwn(_ id: Int) -> Reading {
    cursors[id].ownCount -= 1
    return .own
  }

  private mutating func readUnbounded(_ id: Int) -> Reading {
    let position = cursors[id].position
    cursors[id].position = position + 1
    let left = addHolders(-1, at: position)
    if position + 1 == end { unboundedAtEnd += 1 } else { addHolders(1, at: position + 1) }
    let reading = readKept(at: position, mayTakeOut: left == 0)
    trim()
    return reading
  }

  private mutating func readNewest(_ id: Int, limit: Int32) -> Reading {
    let position = cursors[id].position
    let oldest = max(position, end - Int(limit))
    newestLeaves(position, limit: limit)
    newestComes(to: oldest + 1, limit: limit)
    cursors[id].position = oldest + 1
    let reading = readKept(at: oldest, mayTakeOut: true)
    trim()
    return reading
  }

  private mutating func readKept(at position: Int, mayTakeOut: Bool) -> Reading {
    let takesOut = mayTakeOut && position == start && isFirstNeededNoMore
    defer { if takesOut { dropFirst() } }
    return .kept(offset: position - start, takesOut: takesOut)
  }

  /// A run of states that a consumer takes at once, from an offset on; the first `takesOut` of them are needed by
  /// nobody else, and are taken out.
  @usableFromInline struct Run: Sendable {
    @usableFromInline let offset: Int
    @usableFromInline let count: Int
    @usableFromInline let takesOut: Int
  }

  /// After a read, for an unbounded cursor: up to `limit` of the states that follow; the cursor moves behind them.
  @usableFromInline mutating func readAhead(_ id: Int, limit: Int) -> Run? {
    guard case .unbounded = cursors[id].buffering, cursors[id].phase == .live else { return nil }
    let position = cursors[id].position
    let count = min(limit, end - position)
    // Fewer are not worth the room they take.
    guard count >= 4 else { return nil }
    let offset = position - start
    // Holders are counted at the state that they stand before: this cursor moves from the first to behind the last.
    addHolders(-1, at: position)
    var takesOut = 0
    while takesOut < count, position + takesOut == start, isFirstNeededNoMore {
      dropFirst()
      takesOut += 1
    }
    cursors[id].position = position + count
    if position + count == end { unboundedAtEnd += 1 } else { addHolders(1, at: position + count) }
    trim()
    return Run(offset: offset, count: count, takesOut: takesOut)
  }

  @discardableResult private mutating func addHolders(_ number: Int32, at position: Int) -> Int32 {
    updateMark(at: position) { $0.holders += number }?.holders ?? 0
  }

  /// Changes a mark, and returns the changed one.
  @discardableResult private mutating func updateMark(at position: Int, _ change: (inout Mark) -> Void) -> Mark? {
    marks.update(position - start) { mark in
      guard var changed = mark else { return nil }
      if !changed.isBlank { markedCount -= 1 }
      change(&changed)
      if !changed.isBlank { markedCount += 1 }
      mark = changed
      return changed
    } ?? nil
  }

  /// A newest cursor no longer stands at a position.
  private mutating func newestLeaves(_ position: Int, limit: Int32) {
    if position == end {
      newest.atEnd.removeOne(of: limit)
    } else if position < start {
      newest.removeSliding(limit)
    } else {
      let group = marks[position - start]?.group ?? 0
      if newest.remove(limit, from: group) { setGroup(0, at: position) }
    }
  }

  private mutating func newestComes(to position: Int, limit: Int32) {
    if position == end {
      newest.atEnd.add(1, of: limit)
    } else if let group = marks[position - start]?.group, group != 0 {
      newest.add(limit, to: group)
    } else {
      setGroup(newest.makeGroup(of: limit), at: position)
    }
  }

  private mutating func setGroup(_ group: Int32, at position: Int) {
    updateMark(at: position) { $0.group = group }
  }

  /// Makes a consumer wait that found nothing to read.
  @usableFromInline mutating func wait(_ waiter: AnyWaiter, at id: Int) {
    if cursors[id].phase == .subscribing || cursors[id].parkedAt.index != nil {
      queues[id, default: Queue()].append(waiter)
    } else {
      park(waiter, of: id)
    }
  }

  /// Whether this consumer still waits at a cursor: others may wait there when it has been handed its state.
  func isAwaited(_ id: Int, by waiter: AnyWaiter) -> Bool {
    if let index = cursors[id].parkedAt.index, parked[index].waiter == waiter { return true }
    return queues[id]?.all.contains(waiter) ?? false
  }

  private mutating func park(_ waiter: AnyWaiter, of id: Int) {
    cursors[id].parkedAt = Slot(parked.count)
    parked.append(Parked(cursor: id, waiter: waiter))
  }

  private mutating func nextQueued(of id: Int) -> AnyWaiter? {
    guard !queues.isEmpty, let next = queues[id]?.popFirst() else { return nil }
    if queues[id]?.isEmpty == true { queues[id] = nil }
    return next
  }

  private mutating func takeQueued(of id: Int) -> ContiguousArray<AnyWaiter> {
    guard !queues.isEmpty, var queue = queues.removeValue(forKey: id) else { return [] }
    return queue.popAll()
  }

  /// How many states wait for the cursor that has the most to read.
  var longestBacklog: Int {
    cursors.lazy.filter { $0.phase == .live }.map { [end] cursor in
      let behind = end - cursor.position
      return switch cursor.buffering {
      case .unbounded: Int(cursor.ownCount) + behind
      case .newest(let limit): min(Int(limit), Int(cursor.ownCount) + behind)
      case .oldest: Int(cursor.ownCount)
      }
    }.max() ?? 0
  }

  // MARK: Closing

  /// Closes a cursor: its own states are to be dropped, and nothing more is kept for it. Returns the consumers to end.
  mutating func cancel(_ id: Int) -> ContiguousArray<AnyWaiter> {
    var waiters = ContiguousArray<AnyWaiter>()
    if let index = cursors[id].parkedAt.take() {
      waiters.append(parked[index].waiter)
      parked.swapAt(index, parked.count - 1)
      parked.removeLast()
      if index < parked.count { cursors[parked[index].cursor].parkedAt = Slot(index) }
    }
    waiters += takeQueued(of: id)
    close(id)
    return waiters
  }

  /// The cursor's place in the order will not come.
  mutating func refuse(_ id: Int) {
    cursors[id].isActivationAwaited = false
    close(id)
  }

  /// The cursor's subscription is gone, so that nothing asks for it any more.
  mutating func remove(_ id: Int) {
    close(id)
    cursors[id].isAbandoned = true
    freeIfDone(id)
  }

  private mutating func freeIfDone(_ id: Int) {
    guard cursors[id].isAbandoned, !cursors[id].isActivationAwaited else { return }
    cursors[id].phase = .free
    freeCursors.append(id)
    guard freeCursors.count == cursors.count else { return }
    cursors = []
    freeCursors = []
    parked = []
    withRoom = []
    newest = NewestPlaces()
    expiring = [:]
    expired = []
  }

  private mutating func close(_ id: Int) {
    let phase = cursors[id].phase
    guard phase == .live || phase == .subscribing else { return }
    cursors[id].phase = .ended
    subscriberCount -= 1
    becomeFull(id)
    if phase == .live {
      let position = cursors[id].position
      switch cursors[id].buffering {
      case .unbounded:
        if position == end { unboundedAtEnd -= 1 } else { addHolders(-1, at: position) }
      case .newest(let limit):
        willNotExpire(id, limit: limit)
        newestLeaves(position, limit: limit)
      case .oldest: break
      }
    }
    cursors[id].ownCount = 0
    trim()
  }

  // MARK: Dropping

  /// The backlog has dropped what it had to drop.
  @usableFromInline mutating func dropped() {
    drops = 0
    if !dropsOwn.isEmpty { dropsOwn = [] }
  }

  /// Drops some of the states that are no longer needed.
  @usableFromInline mutating func trim() {
    needsTrim = false
    if isFirstNeededNoMore { dropFirsts() }
    if !expired.isEmpty { dropExpired() }
  }

  private mutating func dropFirsts() {
    var left = 64
    repeat {
      dropFirst()
      drops += 1
      left -= 1
    } while left > 0 && isFirstNeededNoMore
    needsTrim = left == 0
  }

  /// Inlined, as the whole of this value would be copied for each call otherwise.
  @inline(__always) private var isFirstNeededNoMore: Bool {
    guard start < end else { return false }
    // Checked first: mostly, this is what keeps the first state.
    if newest.sliding.largest >= end - start { return false }
    guard let first = marks[0], first.holders == 0 else { return false }
    return newest.behind == 0 || newest.largestLimit(atFirst: first.group) < end - start
  }

  private mutating func dropFirst() {
    if let mark = marks.popFirst(), !mark.isBlank {
      markedCount -= 1
      if mark.group != 0 { newest.slide(mark.group) }
    }
    start += 1
  }

  /// The state that a newest cursor was subscribed at can be read until as many have followed as its limit.
  private mutating func willExpire(_ id: Int, limit: Int32) {
    let end = cursors[id].position + Int(limit)
    cursors[id].expiringAt = Slot(expiring[end]?.count ?? 0)
    expiring[end, default: []].append(id)
  }

  private mutating func willNotExpire(_ id: Int, limit: Int32) {
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

  /// The backlog has reached an end at which some first states are past their cursors' limits.
  private mutating func expire() {
    guard let ids = expiring.removeValue(forKey: end) else { return }
    if expired.isEmpty { expired = ids } else { expired += ids }
  }

  private mutating func dropExpired() {
    var left = 64
    while left > 0, let id = expired.popLast() {
      left -= 1
      // The slot may belong to another cursor by now.
      guard case .newest(let limit) = cursors[id].buffering, cursors[id].ownCount > 0,
        end - cursors[id].position >= limit
      else { continue }
      cursors[id].ownCount = 0
      cursors[id].expiringAt = Slot()
      dropsOwn.append(id)
    }
    if !expired.isEmpty { needsTrim = true }
  }
}
