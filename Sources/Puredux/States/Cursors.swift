/// The positions of a source's subscribers among its states, under the channel's lock. `Backlog` holds the states, and
/// carries out the decisions.
///
/// Compiled once. A publication's cost depends on the consumers that it wakes, never on stalled subscribers (G6).
@usableFromInline struct Cursors: Sendable {
  @usableFromInline struct Parked: Sendable {
    @usableFromInline let cursor: Int
    @usableFromInline let waiter: AnyWaiter
  }

  @usableFromInline enum Reading: Sendable {
    case own
    /// If `takesOut`, the first shared state, which no other cursor needs.
    case kept(offset: Int, takesOut: Bool)
    case end
    case nothing
  }

  private enum Phase: Sendable {
    case free
    case subscribing
    case live
    case ended
  }

  /// An optional index in four bytes.
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
    /// True until `activate` or `refuse`, even if the cursor has been closed.
    var isActivationAwaited = true
    var isAbandoned = false
    var parkedAt = Slot()
    var withRoomAt = Slot()
    var expiringAt = Slot()
    /// Unread states: that of its activation, and those of `.oldest`.
    var ownCount: Int32 = 0
    let buffering: Buffering
    /// The next state to read; for `.oldest`, the end of the backlog at the last delivery.
    var position = 0
  }

  /// The cursors whose next state is a given shared state.
  private struct Mark: Sendable {
    var holders: Int32
    /// The group of newest cursors (`NewestPlaces`), or zero.
    var group: Int32

    var isBlank: Bool { holders == 0 && group == 0 }
  }

  // MARK: Instructions to the backlog

  @usableFromInline private(set) var drops = 0
  @usableFromInline private(set) var dropsOwn: ContiguousArray<Int> = []
  /// Whether `trim()` has more to drop, in bounded steps.
  @usableFromInline private(set) var needsTrim = false

  @usableFromInline var count: Int { cursors.count }
  @usableFromInline private(set) var subscriberCount = 0
  @usableFromInline private(set) var isFinished = false
  @usableFromInline private(set) var withRoom: ContiguousArray<Int> = []

  private var start = 0
  private var end = 0
  private var marks = SegmentedQueue<Mark>()
  private var markedCount = 0
  private var cursors: ContiguousArray<Cursor> = []
  private var freeCursors: ContiguousArray<Int> = []
  private var parked: ContiguousArray<Parked> = []
  /// Further consumers of a cursor, or all before its activation. Rarely used.
  private var queues: [Int: Queue<AnyWaiter>] = [:]
  private var unboundedAtEnd = 0
  private var newest = NewestPlaces()
  /// By the end of the backlog at which the state of their activation expires.
  private var expiring: [Int: ContiguousArray<Int>] = [:]
  private var expired: ContiguousArray<Int> = []

  @usableFromInline init() {}

  var keptCount: Int { end - start }
  var groupCount: Int { newest.groups.count }

  // MARK: Subscribing

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

  enum Activation {
    case ignored
    case kept
    case handedTo(AnyWaiter)
  }

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

  /// Fills `woken`, empty at the call, with the consumers to hand the state to. Returns whether the state is to be
  /// stored.
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

  /// Whether the new state replaces the first, and all marks stay blank: all stalled cursors buffer the newest states.
  private var movesOn: Bool {
    markedCount == 0 && newest.sliding.largest == marks.count && expiring.isEmpty && expired.isEmpty
  }

  private mutating func groupOfNewest(notServedBy woken: ContiguousArray<Parked>) -> Int32 {
    let group = newest.makeGroupOfThoseAtEnd()
    for delivery in woken {
      if case .newest(let limit) = cursors[delivery.cursor].buffering { newest.moveToEnd(from: group, limit: limit) }
    }
    return group
  }

  /// The next oldest cursor with room that was not handed the new state, which it now owns. Nil after the last.
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

  /// No other cursor needs the first `takesOut` states.
  @usableFromInline struct Run: Sendable {
    @usableFromInline let offset: Int
    @usableFromInline let count: Int
    @usableFromInline let takesOut: Int
  }

  /// Takes up to `limit` states that follow those read.
  @usableFromInline mutating func readAhead(_ id: Int, limit: Int) -> Run? {
    guard case .unbounded = cursors[id].buffering, cursors[id].phase == .live else { return nil }
    let position = cursors[id].position
    let count = min(limit, end - position)
    // A shorter run does not repay its storage.
    guard count >= 4 else { return nil }
    let offset = position - start
    // Holders are counted only at their next state.
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

  @usableFromInline mutating func wait(_ waiter: AnyWaiter, at id: Int) {
    if cursors[id].phase == .subscribing || cursors[id].parkedAt.index != nil {
      queues[id, default: Queue()].append(waiter)
    } else {
      park(waiter, of: id)
    }
  }

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

  mutating func refuse(_ id: Int) {
    cursors[id].isActivationAwaited = false
    close(id)
  }

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

  @usableFromInline mutating func dropped() {
    drops = 0
    if !dropsOwn.isEmpty { dropsOwn = [] }
  }

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

  /// Inlined: a call would copy the whole value.
  @inline(__always) private var isFirstNeededNoMore: Bool {
    guard start < end else { return false }
    // The usual reason to keep the state.
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

  /// The first state of a newest cursor can be read until `limit` states have followed.
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
