import Puredux

/// Decides when one replica writes its summary, and knows the log's summary. A pure state machine.
///
/// Invariant: there is a writer while entries have been applied since the last summary was made. The known summary's
/// position never goes back, except to none.
struct SummarySchedule {
  var writer: Task<Void, Never>?
  private var isDue = false
  private(set) var hasLooked = false
  private(set) var kept: (position: UInt64, bytes: [UInt8])?
  private var isFailureTold = false

  mutating func makeDue() -> Bool {
    isDue = true
    return writer == nil
  }

  mutating func begin() { isDue = false }

  /// Called after an attempt. Returns whether the writer ends: no entries were applied since, and no transient failure
  /// is to be retried.
  mutating func end(after error: LogError?) -> Bool {
    if case .unavailable? = error { return false }
    if case .full? = error { return false }
    if isDue { return false }
    writer = nil
    return true
  }

  mutating func look(at summary: LogSummary?) {
    if !hasLooked { kept = summary.map { ($0.position, $0.bytes) } }
    hasLooked = true
  }

  /// Notes the log's present summary. The answers for the interval and for a snapshot may overlap: the later position
  /// counts.
  mutating func note(_ kept: (position: UInt64, bytes: [UInt8])?) {
    if let kept, let known = self.kept, known.position > kept.position { return }
    self.kept = kept
    hasLooked = true
    if kept != nil { isFailureTold = false }
  }

  /// Notes a permanent failure. Returns whether to report it.
  mutating func fail() -> Bool {
    defer { isFailureTold = true }
    return !isFailureTold
  }
}

final class Summaries<State: Sendable, Action: Sendable>: Sendable {
  typealias Value = any Encodable & Sendable

  private let replica: Replica<State, Action>
  private let summary: (@Sendable (State) -> Value)?
  private let schedule = LockedValue(SummarySchedule())

  init(_ replica: Replica<State, Action>, _ summary: (@Sendable (State) -> Value)?) {
    self.replica = replica
    self.summary = summary
  }

  /// Schedules a summary after its interval, or at once if the store was just opened.
  func keepLater(isOpening: Bool = false) {
    guard summary != nil, !isOpening || replica.reading.withLock({ $0.position > 0 }) else { return }
    schedule.withLock { schedule in
      if schedule.makeDue() { schedule.writer = Task.detached { await self.write(isOpening: isOpening) } }
    }
  }

  private func write(isOpening: Bool) async {
    var waits = !isOpening
    while true {
      if waits { guard await replica.clock.sleep(for: replica.options.summaryInterval) else { return } }
      waits = true
      schedule.withLock { $0.begin() }
      let error = await keep()
      if schedule.withLock({ $0.end(after: error) }) || replica.standing.withLock({ $0.life.isOver }) { return }
    }
  }

  /// Writes the present state's summary. Unless `always`, skips one that the log already has. Returns the log's error.
  @discardableResult func keep(always: Bool = false) async -> LogError? {
    guard summary != nil, let core = replica.core.withLock({ $0 }) else { return nil }
    guard let summaries = replica.log.summaries else {
      fail(.refused("The log keeps no summaries."))
      return nil
    }
    if !schedule.withLock({ $0.hasLooked }), !always {
      let kept = try? await summaries.kept()
      schedule.withLock { $0.look(at: kept) }
    }
    let made = LockedValue<(UInt64, Value)?>(nil)
    await core.turn { tree in
      guard !self.replica.sequencer.hasEnded, let now = self.make(of: core, on: tree) else { return }
      made.withLock { $0 = now }
    }
    guard let (position, value) = made.withLock({ $0 }), let bytes = encode(value) else { return nil }
    let kept = schedule.withLock { $0.kept }
    if !always, let kept, kept.bytes == bytes, kept.position <= position {
      if kept.position == position { return nil }
      // Another replica may have written another one in between.
      let now = try? await summaries.kept()
      if let now, now.bytes == bytes, now.position <= position {
        schedule.withLock { $0.note((now.position, bytes)) }
        return nil
      }
    }
    do throws(LogError) {
      let isKept = try await summaries.save(bytes, at: position)
      schedule.withLock { $0.note(isKept ? (position, bytes) : nil) }
      return nil
    } catch {
      schedule.withLock { $0.note(nil) }
      fail(error)
      return error
    }
  }

  /// Writes the last state's summary. Only a caller that closes the log waits for it.
  func keepLast(on tree: isolated any TreeIsolation) {
    guard summary != nil, let summaries = replica.log.summaries, let core = replica.core.withLock({ $0 })
    else { return }
    let last = replica.reading.withLock { $0.position }
    guard schedule.withLock({ $0.kept?.position != last }),
      let (position, value) = make(of: core, on: tree),
      let bytes = encode(value)
    else { return }
    summaries.save(bytes, at: position) { outcome in
      if case .failure(let error) = outcome { self.fail(error) }
    }
  }

  func end() -> Task<Void, Never>? { schedule.withLock { $0.writer.take() } }

  private func make(
    of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) -> (UInt64, Value)? {
    guard let summary, replica.stop == nil else { return nil }
    let (position, counts) = replica.reading.withLock { ($0.position, $0.canSave) }
    guard counts, position > 0, let value = core.withState(on: tree, summary) else { return nil }
    return (position, value)
  }

  private func encode(_ value: Value) -> [UInt8]? {
    do {
      let bytes = try LogSummary.encode(value)
      if bytes.count <= LogSummary.byteLimit { return bytes }
      fail(.refused("It has \(bytes.count) bytes."))
    } catch {
      fail(.refused("It cannot be encoded: \(describe(error))"))
    }
    return nil
  }

  private func fail(_ error: LogError) {
    guard !error.isPassing, schedule.withLock({ $0.fail() }) else { return }
    replica.report(.summariesFail(key: replica.log.name, error))
  }
}
