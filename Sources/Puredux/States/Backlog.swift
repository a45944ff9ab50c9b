/// The unread states of one source, and the cursors of its subscribers.
///
/// A state is stored once, however many subscribers have to read it, and not at all if they wait for it. Unneeded
/// states become garbage, released outside the lock. Compiled once, except for the functions that publish or take a
/// state.
@usableFromInline struct Backlog: @unchecked Sendable {
  // SAFETY: it stores only states of the source, which are `Sendable`.
  @usableFromInline var cursors = Cursors()
  @usableFromInline var kept = StateQueue()
  @usableFromInline var own = OwnStates()

  @usableFromInline init() {}

  @usableFromInline struct Garbage: @unchecked Sendable {
    var states = StateQueue()
    var shared: ContiguousArray<Queue<AnyObject>> = []

    @usableFromInline init() {}

    @usableFromInline var isEmpty: Bool { states.isEmpty && shared.isEmpty }

    @usableFromInline mutating func removeAll() {
      states.removeAll()
      if !shared.isEmpty { shared = [] }
    }
  }

  // MARK: Subscribing

  mutating func subscribe(_ buffering: Buffering) -> Int {
    let id = cursors.subscribe(buffering)
    own.makeRoom(for: id)
    return id
  }

  /// Returns the waiting consumer to hand the first state to.
  mutating func activate<State>(_ id: Int, first: State?) -> AnyWaiter? {
    let activation = cursors.activate(id, hasFirst: first != nil)
    forgetIfEmpty()
    switch activation {
    case .ignored: return nil
    case .kept:
      if let first { own.append(Shared(first), to: id) }
      return nil
    case .handedTo(let waiter): return waiter
    }
  }

  // MARK: Publishing

  /// Fills `woken`, empty at the call, with the consumers to hand the state to. Returns the unneeded state that it
  /// replaces.
  @inlinable mutating func publish<State>(
    _ state: State, waking woken: inout ContiguousArray<Cursors.Parked>, garbage: inout Garbage
  ) -> State? {
    let isKept = cursors.publish(waking: &woken)
    if !cursors.withRoom.isEmpty { keepForOldest(state) }
    guard isKept else { return nil }
    // Fast path: stalled subscribers that buffer the newest states.
    if cursors.drops == 1, cursors.dropsOwn.isEmpty, !kept.isEmpty {
      cursors.dropped()
      return kept.replaceFirst(appending: state)
    }
    kept.append(state)
    drop(into: &garbage)
    return nil
  }

  @inline(never) @usableFromInline mutating func keepForOldest<State>(_ state: State) {
    if cursors.isFinished { return }
    var index = 0
    var shared: Shared<State>?
    while let id = cursors.nextToKeep(&index) {
      let kept = shared ?? Shared(state)
      own.append(kept, to: id)
      shared = kept
    }
  }

  // MARK: Reading

  @inlinable mutating func take<State>(_ id: Int, garbage: inout Garbage) -> Taken<State> {
    switch cursors.read(id) {
    case .nothing:
      drop(into: &garbage)
      return .nothing
    case .end:
      close(id, garbage: &garbage)
      return .end
    case .own:
      return .state(Shared.state(of: own.popFirst(of: id)!))
    case .kept(let offset, let takesOut):
      let state: State? = takesOut ? kept.popFirst() : kept.state(at: offset)
      drop(into: &garbage)
      return .state(state!)
    }
  }

  /// Also moves up to `limit` further states of an unbounded cursor to the consumer.
  @inlinable mutating func takeAhead<State>(
    _ id: Int, limit: Int, into ahead: inout StatesAhead, garbage: inout Garbage
  ) -> Taken<State> {
    let taken: Taken<State> = take(id, garbage: &garbage)
    guard case .state = taken, let run = cursors.readAhead(id, limit: limit) else { return taken }
    ahead.fill(of: State.self) {
      kept.take(run.takesOut, copying: run.count - run.takesOut, from: run.offset, into: &$0)
    }
    drop(into: &garbage)
    return taken
  }

  @inlinable mutating func takeOrWait<State>(_ id: Int, _ waiter: AnyWaiter, garbage: inout Garbage) -> Taken<State> {
    let taken: Taken<State> = take(id, garbage: &garbage)
    if case .nothing = taken { cursors.wait(waiter, at: id) }
    return taken
  }

  // MARK: Closing

  mutating func cancel(_ id: Int, garbage: inout Garbage) -> ContiguousArray<AnyWaiter> {
    let waiters = cursors.cancel(id)
    close(id, garbage: &garbage)
    return waiters
  }

  mutating func refuse(_ id: Int, garbage: inout Garbage) {
    cursors.refuse(id)
    close(id, garbage: &garbage)
  }

  mutating func remove(_ id: Int, garbage: inout Garbage) {
    cursors.remove(id)
    close(id, garbage: &garbage)
    forgetIfEmpty()
  }

  @usableFromInline mutating func close(_ id: Int, garbage: inout Garbage) {
    drop(into: &garbage)
    own.removeAll(of: id, into: &garbage.shared)
  }

  private mutating func forgetIfEmpty() {
    if cursors.count == 0 { own = OwnStates() }
  }

  // MARK: Dropping

  mutating func trim(into garbage: inout Garbage) {
    cursors.trim()
    drop(into: &garbage)
  }

  @inlinable mutating func drop(into garbage: inout Garbage) {
    if cursors.drops > 0 || !cursors.dropsOwn.isEmpty { dropNow(into: &garbage) }
  }

  @inline(never) @usableFromInline mutating func dropNow(into garbage: inout Garbage) {
    kept.move(cursors.drops, to: &garbage.states)
    for id in cursors.dropsOwn { own.removeAll(of: id, into: &garbage.shared) }
    cursors.dropped()
  }
}

extension Backlog {
  @usableFromInline enum Taken<State> {
    case state(State)
    case end
    case nothing
  }
}

extension Backlog.Taken: Sendable where State: Sendable {}

extension Backlog {
  @usableFromInline final class Shared<State>: CustomStringConvertible {
    private let state: State

    init(_ state: State) { self.state = state }

    @usableFromInline var description: String { "\(state)" }

    /// SAFETY: a backlog makes the boxes of its cursors from its own states.
    @usableFromInline static func state(of shared: AnyObject) -> State {
      unsafe unsafeDowncast(shared, to: Shared.self).state
    }
  }
}

extension Backlog {
  /// Most cursors have only that of their activation.
  @usableFromInline struct OwnStates {
    private var firsts: ContiguousArray<AnyObject?> = []
    private var others: [Int: Queue<AnyObject>] = [:]

    init() {}

    var isEmpty: Bool { firsts.isEmpty }

    mutating func makeRoom(for id: Int) {
      if id == firsts.count { firsts.append(nil) }
    }

    mutating func append(_ shared: AnyObject, to id: Int) {
      if firsts[id] == nil { firsts[id] = shared } else { others[id, default: Queue()].append(shared) }
    }

    @usableFromInline mutating func popFirst(of id: Int) -> AnyObject? {
      guard let first = firsts[id].take() else { return nil }
      if !others.isEmpty, let next = others[id]?.popFirst() {
        firsts[id] = next
        if others[id]?.isEmpty == true { others[id] = nil }
      }
      return first
    }

    mutating func removeAll(of id: Int, into garbage: inout ContiguousArray<Queue<AnyObject>>) {
      guard let first = firsts[id].take() else { return }
      var all = Queue<AnyObject>()
      all.append(first)
      garbage.append(all)
      if let more = others.removeValue(forKey: id) { garbage.append(more) }
    }

    func all(of id: Int) -> [AnyObject] { (firsts[id].map { [$0] } ?? []) + (others[id]?.all ?? []) }
  }
}
