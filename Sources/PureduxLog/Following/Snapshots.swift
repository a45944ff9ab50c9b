import Puredux

/// Decides when one replica saves a snapshot, if `Reading` allows it. A pure state machine.
///
/// Invariant: at most one automatic snapshot is being saved at a time, and the last position never goes back.
struct SnapshotSchedule {
  private var bytes = 0
  private var isSaving = false
  private(set) var lastPosition: UInt64

  init(lastPosition: UInt64) { self.lastPosition = lastPosition }

  mutating func add(_ count: Int) { bytes += count }

  func isDue(afterBytes limit: Int) -> Bool { bytes >= max(1, limit) && !isSaving }

  mutating func begin() {
    bytes = 0
    isSaving = true
  }

  mutating func end() { isSaving = false }

  @discardableResult mutating func saved(at position: UInt64) -> UInt64 {
    defer { lastPosition = max(lastPosition, position) }
    return lastPosition
  }
}

/// Counts failures, and reports a permanent one once until a snapshot is saved.
struct SnapshotFailures {
  private(set) var count: UInt64 = 0
  private var isTold = false

  mutating func add(_ error: LogError) -> Bool {
    count += 1
    if error.isPassing { return false }
    defer { isTold = true }
    return !isTold
  }

  mutating func end() { isTold = false }
}

extension LogError {
  var isPassing: Bool {
    switch self {
    case .unavailable, .full, .removed: true
    case .inUse, .refused, .truncated, .damaged: false
    }
  }
}

/// Saves a replica's snapshots, and truncates, seals and erases its log, as `SnapshotSchedule` and `Reading` decide.
final class Snapshots<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let phases: Phases<State, Action>
  private let summaries: Summaries<State, Action>

  init(_ replica: Replica<State, Action>, _ phases: Phases<State, Action>, _ summaries: Summaries<State, Action>) {
    self.replica = replica
    self.phases = phases
    self.summaries = summaries
  }

  private var log: any OrderedLog { replica.log }

  // MARK: By themselves

  /// Repeated if another one is due by then.
  func saveIfDue(of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation) {
    guard let limit = replica.options.snapshotBytes, let states = replica.codings.states, let store = log.snapshots,
      !replica.sequencer.hasEnded, replica.stop == nil,
      let fold = replica.reading.withLock({ $0.beginSnapshot(afterBytes: limit) }),
      let state = core.withState(on: tree, { $0 })
    else { return }
    Task.detached {
      await self.save(SnapshotContent(state: state, fold: fold), by: states, to: store)
      self.replica.reading.withLock { $0.snapshots.end() }
      core.perform { self.saveIfDue(of: core, on: $0) }
    }
  }

  private func save(
    _ content: SnapshotContent<State>, by states: LogCoding<State>, to store: any SnapshotStore
  ) async {
    let position = content.fold.position
    do throws(LogError) {
      try await keep(content, by: states, in: store)
    } catch {
      return failed(error)
    }
    replica.standing.withLock { $0.snapshotFailures.end() }
    await summaries.keep()
    // Only through the previous one, so that a slightly lagging replica finds its next entry.
    let before = replica.reading.withLock { $0.snapshots.saved(at: position) }
    // A store must be able to begin with the stored snapshot.
    guard replica.options.truncatesBehindSnapshots, before > 0, before < position,
      let newest = try? await store.newest(), newest.position >= before,
      let kept = try? SnapshotContent(newest.bytes, by: states), kept.fold.position == newest.position,
      newest.position <= replica.standing.withLock({ $0.writing.head })
    else { return }
    // If this fails, the next snapshot truncates these entries, too.
    do {
      try await log.expectCarriedOut(by: kept.fold)
      try await log.truncate(through: before)
    } catch {}
  }

  /// Saves a snapshot of the last entry that this program may apply.
  func saveSealed(through position: UInt64) async {
    guard let (store, states) = try? places(), let content = try? await content(), content.fold.position == position,
      replica.reading.withLock({ $0.obeys(at: position) })
    else { return }
    do throws(LogError) {
      try await keep(content, by: states, in: store, inPlaceOfAll: replica.options.ignoresSnapshots)
    } catch {
      failed(error)
    }
    await summaries.keep()
  }

  func replace() async throws {
    guard replica.options.ignoresSnapshots, replica.stop == nil, let states = replica.codings.states,
      let store = log.snapshots, var content = try await content()
    else { return }
    var progress = replica.clock.now
    while let failure = await replaceAll(with: content, by: states, in: store) {
      guard case .unavailable = failure, replica.clock.now - progress < replica.options.openingLimit else {
        throw failure
      }
      guard await replica.clock.sleep(for: replica.options.retryInterval) else { throw CancellationError() }
      guard let later = try await self.content() else { return }
      if later.fold.position > content.fold.position { progress = replica.clock.now }
      content = later
    }
    _ = replica.reading.withLock { $0.snapshots.saved(at: content.fold.position) }
  }

  /// Saves a snapshot in place of all others. Returns the error. It is `.unavailable` while the log is away, or has not
  /// yet delivered the entries of a newer snapshot, behind which it may be truncated.
  private func replaceAll(
    with content: SnapshotContent<State>, by states: LogCoding<State>, in store: any SnapshotStore
  ) async -> LogError? {
    do throws(LogError) {
      if let newest = try await readable(in: store), newest.position > content.fold.position,
        try await newest.position <= log.head()
      {
        return .unavailable("The log has not delivered the entries of the snapshot at \(newest.position).")
      }
      try await keep(content, by: states, in: store, inPlaceOfAll: true)
      return nil
    } catch {
      return error
    }
  }

  private func readable(in store: any SnapshotStore) async throws(LogError) -> LogSnapshot? {
    do throws(LogError) {
      return try await store.newest()
    } catch {
      if case .damaged = error { return nil }
      throw error
    }
  }

  // MARK: By request

  func saveNow() async throws -> UInt64 {
    let (store, states) = try places()
    let position = try await saveNow(in: store, by: states)
    await summaries.keep()
    return position
  }

  private func saveNow(in store: any SnapshotStore, by states: LogCoding<State>) async throws -> UInt64 {
    guard let content = try await content() else { throw StoreError.terminated }
    guard content.fold.position > 0 else { throw LogError.refused("There is nothing in the log.") }
    // The snapshot's position: the store may have advanced since.
    guard replica.reading.withLock({ $0.canSave(at: content.fold.position) }) else {
      throw LogError.unavailable("The store is behind the decisions about entries of the log.")
    }
    do throws(LogError) {
      try await keep(content, by: states, in: store)
    } catch {
      failed(error)
      throw error
    }
    _ = replica.reading.withLock { $0.snapshots.saved(at: content.fold.position) }
    replica.standing.withLock { $0.snapshotFailures.end() }
    return content.fold.position
  }

  func seal(for rules: UInt32, _ reason: String) async throws -> UInt64 {
    let (store, states) = try places()
    guard rules > replica.options.rules else {
      throw LogError.refused("A log is sealed for newer rules than its writers'.")
    }
    if let stop = replica.stop { throw StoreError.stopped(stop) }
    let position = try await log.append(.init(rules: rules, time: LogEntry.now, reason: reason))
    await phases.untilApplied(position)
    // A program that does not know the new rules saves a snapshot, and stops at the seal.
    if replica.isOver(at: position) { await phases.untilApplied(.max) }
    if let saved = try? await store.newest(), saved.position >= position,
      (try? SnapshotContent(saved.bytes, by: states)) != nil
    {
      return position
    }
    _ = try await saveNow()
    return position
  }

  func truncate() async throws -> UInt64 {
    let (store, states) = try places()
    if let stop = replica.stop { throw StoreError.stopped(stop) }
    guard let newest = try await store.newest() else { throw LogError.refused("There is no snapshot.") }
    guard let fold = try? SnapshotContent(newest.bytes, by: states).fold, fold.position == newest.position else {
      throw LogError.refused("The snapshot at position \(newest.position) cannot be decoded.")
    }
    let position = fold.position
    // A cluster's server may lag, and entries not applied here must not be removed here.
    guard position <= replica.reading.withLock({ $0.position }) else {
      throw LogError.unavailable("The store is behind the snapshot at position \(position).")
    }
    try await log.expectCarriedOut(by: fold)
    try await log.truncate(through: position)
    return position
  }

  func erase() async throws -> UInt64 {
    let (store, states) = try places()
    let position = try await saveNow(in: store, by: states)
    guard let newest = try await store.newest(), newest.position >= position,
      let kept = try? SnapshotContent(newest.bytes, by: states), kept.fold.position == newest.position
    else { throw LogError.unavailable("The snapshot at position \(position) is not there.") }
    // Replaces every earlier summary, even if a writer has one in flight.
    if let error = await summaries.keep(always: true) { throw error }
    try await log.expectCarriedOut(by: kept.fold)
    // A log keeps its last entry: this one, so that no erased entry is the last.
    let header = replica.standing.withLock { $0.writing.header }
    let outcome = await withCheckedContinuation { continuation in
      log.append(LogEntry.encode(header, actions: [])) { continuation.resume(returning: $0) }
    }
    _ = try outcome.get()
    try await log.expectCarriedOut(by: kept.fold)
    try await log.erase(through: position)
    guard let left = try await store.newest(), left.position >= position else {
      throw LogError.unavailable(
        "The snapshot at position \(position) is lost, as after a failover. Erase the log again.")
    }
    return position
  }

  // MARK: A snapshot

  private func content() async throws(StoreError) -> SnapshotContent<State>? {
    guard let core = replica.core.withLock({ $0 }) else { return nil }
    let found = LockedValue<SnapshotContent<State>?>(nil)
    await core.turn { tree in
      let fold = self.replica.reading.withLock { $0.fold }
      let state = core.withState(on: tree) { $0 }
      found.withLock { $0 = state.map { SnapshotContent(state: $0, fold: fold) } }
    }
    if let stop = replica.stop { throw .stopped(stop) }
    return found.withLock { $0 }
  }

  private func places() throws(LogError) -> (any SnapshotStore, LogCoding<State>) {
    guard let store = log.snapshots else { throw .refused("The log keeps no snapshots.") }
    guard let states = replica.codings.states else { throw .refused("The store has no coding for its states.") }
    return (store, states)
  }

  private func keep(
    _ content: SnapshotContent<State>, by states: LogCoding<State>, in store: any SnapshotStore,
    inPlaceOfAll isFirst: Bool = false
  ) async throws(LogError) {
    let (instrument, start) = (replica.instrument, replica.clock.now)
    var byteCount = 0
    var failure: LogError?
    do throws(LogError) {
      let snapshot = try encoded(content, by: states)
      byteCount = snapshot.bytes.count
      if isFirst { try await store.replace(with: snapshot) } else { try await store.save(snapshot) }
    } catch {
      failure = error
    }
    let taken = max(.zero, replica.clock.now - start)
    instrument?.tell(
      .savedSnapshot(position: content.fold.position, bytes: byteCount, after: taken, failure))
    if let failure { throw failure }
  }

  private func encoded(
    _ content: SnapshotContent<State>, by states: LogCoding<State>
  ) throws(LogError) -> LogSnapshot {
    do {
      return LogSnapshot(position: content.fold.position, bytes: try content.encode(by: states))
    } catch {
      throw .refused("The state cannot be encoded: \(error)")
    }
  }

  private func failed(_ error: LogError) {
    let isNew = replica.standing.withLock { $0.snapshotFailures.add(error) }
    if isNew { replica.report(.snapshotsFail(error.of(replica.log.name))) }
  }
}
