import Synchronization

@usableFromInline package final class TreeInstrument: Sendable {
  let instrument: any StoreInstrument
  let store: InstrumentedStore
  let timesCommits: Bool
  private let clock: ElapsedClock
  /// The time of the current commit's request, in nanoseconds; `.min` if it did not wait. An atomic has no run-time
  /// access check.
  private let requested = Atomic(Int64.min)
  private let effectCount = Atomic(0)

  init(_ instrument: any StoreInstrument, name: String, clock: any Clock<Duration>) {
    self.instrument = instrument
    store = InstrumentedStore(name: name)
    timesCommits = instrument.timesCommits
    self.clock = ElapsedClock(clock)
  }

  var now: Duration { clock.now }

  /// Zero if the clock has been set back meanwhile.
  func elapsed(since time: Duration) -> Duration { max(.zero, now - time) }

  func begin(reading read: @escaping @Sendable () async -> StoreStatistics?) {
    store.begin(read)
    instrument.opened(store)
  }

  func end() {
    store.end()
    instrument.closed(store)
  }

  // MARK: Commits

  /// If commits are timed, also carries the times of requests.
  func carrying(_ others: CarriedValues?) -> CarriedValues? {
    guard timesCommits else { return others }
    let own = CarriedValues { [self] in
      let time = now.inNanoseconds
      return CarriedValues.Context { body in
        let outer = self.requested.exchange(time, ordering: .relaxed)
        body()
        self.requested.store(outer, ordering: .relaxed)
      } restoreAsync: { body in
        await body()
      }
    }
    return others.map { $0.and(own) } ?? own
  }

  struct Beginning {
    let position: Int
    let time: Duration?
    let waited: Duration?
  }

  func begins(at position: Int) -> Beginning {
    guard timesCommits else { return Beginning(position: position, time: nil, waited: nil) }
    let time = now
    let requested = requested.load(ordering: .relaxed)
    return Beginning(
      position: position, time: time,
      waited: requested == .min ? .zero : .nanoseconds(max(0, time.inNanoseconds &- requested)))
  }

  func event(
    _ beginning: Beginning, at position: Int, of store: StoreID, isReplay: Bool = false,
    isGivenElsewhere: Bool = false
  ) -> CommitEvent {
    CommitEvent(
      store: store, position: position, count: position - beginning.position,
      waited: isReplay || isGivenElsewhere ? nil : beginning.waited, reduced: beginning.time.map { elapsed(since: $0) },
      isReplay: isReplay)
  }

  // MARK: Effects

  func nextEffectNumber() -> Int { effectCount.wrappingAdd(1, ordering: .relaxed).newValue }

  func turnedAway(_ id: String?, of store: StoreID) {
    instrument.effect(EffectEvent(kind: .turnedAway, number: 0, id: id, store: store), in: self.store)
  }

  // MARK: The log

  package func tell(_ event: StoreLogEvent) { instrument.log(event, in: store) }
}

extension Duration {
  /// On overflow all times lack the same amount, so differences are right.
  fileprivate var inNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue &+ attoseconds / 1_000_000_000
  }
}
