public import Puredux
public import Testing

extension StoreType {
  /// Records the store's state now and after each published commit, as `states()` delivers them (G4, G5).
  ///
  ///     let counts = store.record()
  ///     store.dispatch(.increment)
  ///     await counts.expect(0, 1)
  ///
  /// A scope publishes at each commit, even if its part of the state is unchanged.
  ///
  /// - Parameters:
  ///   - equating: Leaves out a state that equals the previous one.
  ///   - limit: The time that each call of the recorder waits for effects that neither end nor rest.
  public func record(
    removeStateDuplicates equating: Equating<State> = .neverEqual, limit: Duration = defaultWaitingLimit
  ) -> Recorder<State> {
    Recorder(store(), except: equating, limit: limit)
  }
}

/// The states of a store in commit order, each buffered until it is read.
///
/// A state is recorded within its commit: before a `send` returns, and before the store has settled. So `next` records
/// an issue at once if the whole tree is at rest (`settled()`) and no state is left.
///
/// A recorder does not keep its store alive. Several reading tasks share the states.
public final class Recorder<State: Sendable>: Sendable {
  private struct Log: Sendable {
    var states: [State] = []
    var readCount = 0
    var end: End?
    var listeners: [Int: AsyncStream<Event>.Continuation] = [:]
    var listenerCount = 0

    /// - Parameter garbage: Read states, to be released outside the lock.
    mutating func next(_ garbage: inout [State]) -> State? {
      guard readCount < states.count else { return nil }
      let state = states[readCount]
      readCount += 1
      if readCount == states.count || (readCount > 1_024 && readCount * 2 > states.count) {
        garbage = states
        states = Array(states[readCount...])
        readCount = 0
      }
      return state
    }
  }

  private enum Event: Sendable { case change, rest }

  private enum End: Sendable { case ofStore, byStop }

  /// The subscription must not hold the recorder.
  private final class Box: Sendable {
    let log = LockedValue(Log())

    func next() -> (state: State?, end: End?) {
      var garbage: [State] = []
      return log.withLock { ($0.next(&garbage), $0.end) }
    }

    func change(_ change: (inout Log) -> Void) {
      let listeners = log.withLock { log in
        change(&log)
        return log.listeners.isEmpty ? [] : log.listeners.sorted { $0.key < $1.key }.map(\.value)
      }
      for listener in listeners { listener.yield(.change) }
    }
  }

  private let box = Box()
  private let probe: StoreProbe<State>
  private let subscription: Subscription
  private let limit: Duration

  init<Action>(_ store: Store<State, Action>, except unchanged: Equating<State> = .neverEqual, limit: Duration) {
    probe = StoreProbe(store, except: unchanged)
    self.limit = limit
    subscription = probe.follow { [box] state in
      box.change { $0.states.append(state) }
    } ended: { [box] in
      box.change { $0.end = $0.end ?? .ofStore }
    }
  }

  deinit { subscription.cancel() }

  /// Ends recording. Recorded states can still be read.
  public func stop() {
    box.change { $0.end = $0.end ?? .byStop }
    subscription.cancel()
  }

  // MARK: Reading

  /// Returns the next state. If it is not committed yet, waits as long as an effect of the tree runs.
  ///
  /// Records an issue and returns nil if the store has ended, if the tree is at rest, or if effects run for longer than
  /// the recorder's limit. The action has to be given to the store before this call, or by an effect.
  ///
  /// - Parameters:
  ///   - patience: The time to wait by the continuous clock, even while the tree is at rest, for actions of tasks
  ///     outside the store.
  ///   - sourceLocation: The place of issues.
  @discardableResult
  public func next(
    within patience: Duration? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) async -> State? {
    let reading = reading(within: patience)
    defer { reading.limit.end() }
    switch await take(reading) {
    case .state(let state): return state
    case .none(let reason):
      if let reason { Issue.record("No state comes: \(reason)", [], at: sourceLocation) }
      return nil
    }
  }

  /// Skips states until a condition holds, and returns the state for which it does. If none comes, records an issue
  /// with the number of skipped states, and returns nil, as `next` does.
  @discardableResult
  public func next(
    within patience: Duration? = nil, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, where condition: (State) throws -> Bool
  ) async rethrows -> State? {
    let reading = reading(within: patience)
    defer { reading.limit.end() }
    var skipped = (count: 0, last: State?.none)
    while true {
      switch await take(reading) {
      case .state(let state):
        if try condition(state) { return state }
        skipped = (skipped.count + 1, state)
      case .none(let reason):
        if let reason {
          Issue.record(
            "No such state comes: \(reason)",
            skipped.last.map { ["\(skipped.count) others came, the last: \(show($0))"] } ?? [], at: sourceLocation)
        }
        return nil
      }
    }
  }

  /// Returns all unread states, up to everything requested of the tree before. Records an issue if the tree has not
  /// committed that within the recorder's limit.
  public func all(sourceLocation: SourceLocation = #_sourceLocation) async -> [State] {
    _ = await untilCommitted(at: sourceLocation)
    return takeAll()
  }

  private func untilCommitted(at location: SourceLocation) async -> WaitingOutcome {
    let outcome = await wait(within: limit) { [probe] in await probe.untilCommitted() }
    if outcome == .late {
      Issue.record("After \(limit) the tree has not committed every request.", [], at: location)
    }
    return outcome
  }

  private func takeAll() -> [State] {
    let (states, readCount) = box.log.withLock { log in
      defer { (log.states, log.readCount) = ([], 0) }
      return (log.states, log.readCount)
    }
    return Array(states[readCount...])
  }

  /// Checks that the store has ended, and that every state has been read.
  public func expectEnd(sourceLocation: SourceLocation = #_sourceLocation) async {
    let reading = reading()
    defer { reading.limit.end() }
    var unread = (count: 0, first: [State]())
    while true {
      switch await take(reading) {
      case .state(let state):
        if unread.count < 8 { unread.first.append(state) }
        unread.count += 1
      case .none(let reason):
        if unread.count > 0 {
          let more = unread.count > 8 ? ["and \(unread.count - 8) more"] : []
          Issue.record(
            "The end has not come: there are states before it.", unread.first.map { show($0) } + more,
            at: sourceLocation)
        } else if let reason, box.log.withLock({ $0.end }) != .ofStore {
          Issue.record("The end does not come: \(reason)", [], at: sourceLocation)
        }
        return
      }
    }
  }

  // MARK: Waiting

  private struct Reading: Sendable {
    let patience: Duration?
    let limit: CallLimit
  }

  private func reading(within patience: Duration? = nil) -> Reading {
    Reading(patience: patience, limit: CallLimit(patience ?? limit) { [box] in box.change { _ in } })
  }

  private enum Taken {
    case state(State)
    /// With the reason, unless the caller was cancelled.
    case none(String?)
  }

  private func take(_ reading: Reading) async -> Taken {
    if reading.limit.isOver { return await late(reading) }
    if let state = box.next().state { return .state(state) }
    let (events, event) = AsyncStream.makeStream(of: Event.self)
    let number = box.log.withLock { log in
      log.listenerCount += 1
      log.listeners[log.listenerCount] = event
      return log.listenerCount
    }
    event.yield(.change)
    let settling = Task { [probe] in
      await probe.treeSettled()
      // With patience, other tasks may still give the store actions.
      if reading.patience == nil { event.yield(.rest) }
    }
    defer {
      settling.cancel()
      box.log.withLock { $0.listeners[number] = nil }
    }
    for await event in events {
      let (state, end) = box.next()
      if let state { return .state(state) }
      if let end { return .none(end == .ofStore ? "the store has ended." : "recording was stopped.") }
      if reading.limit.isOver { return await late(reading) }
      // The store refuses everything: its end is in flight.
      guard event == .rest, !probe.hasEnded else { continue }
      let waiting = await probe.runningEffects(within: limit).inWords("These effects wait")
      return Task.isCancelled ? .none(nil) : .none("the store is at rest." + (waiting.map { " \($0)." } ?? ""))
    }
    return .none(nil)
  }

  private func late(_ reading: Reading) async -> Taken {
    if let patience = reading.patience { return .none("none has come within \(patience).") }
    let running = await probe.lateEffects().inWords("These effects have not ended")
    return .none("after \(limit) it is not at rest." + (running.map { " \($0)." } ?? ""))
  }
}

extension Recorder where State: Equatable {
  /// Checks that the next states are these. Records an issue at the first missing or different state, with the members
  /// that differ.
  public func expect(_ states: State..., sourceLocation: SourceLocation = #_sourceLocation) async {
    await expect(contentsOf: states, sourceLocation: sourceLocation)
  }

  /// Does the same with an array.
  public func expect(contentsOf states: [State], sourceLocation: SourceLocation = #_sourceLocation) async {
    let reading = reading()
    defer { reading.limit.end() }
    for (index, expected) in states.enumerated() {
      let place = states.count == 1 ? "the next state" : "state \(index + 1) of \(states.count)"
      switch await take(reading) {
      case .state(let actual):
        guard actual == expected else {
          return Issue.record(
            "\(place.prefix(1).uppercased() + place.dropFirst()) is not as expected.",
            difference(expected: expected, actual: actual), at: sourceLocation)
        }
      case .none(let reason):
        if let reason {
          Issue.record("Expected \(place), \(show(expected)), and none comes: \(reason)", [], at: sourceLocation)
        }
        return
      }
    }
  }

  /// Checks that the unread states, up to everything requested of the tree before, are exactly these (G1, G4). Call
  /// `settled()` first to include later states from effects.
  public func expectOnly(_ states: State..., sourceLocation: SourceLocation = #_sourceLocation) async {
    await expectOnly(contentsOf: states, sourceLocation: sourceLocation)
  }

  /// Does the same with an array.
  public func expectOnly(contentsOf states: [State], sourceLocation: SourceLocation = #_sourceLocation) async {
    guard await untilCommitted(at: sourceLocation) == .done else { return }
    let recorded = takeAll()
    guard recorded != states else { return }
    Issue.record(
      "The states are not exactly those that were expected.", difference(expected: states, actual: recorded),
      at: sourceLocation)
  }
}
