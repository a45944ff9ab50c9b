import Puredux

/// Reads the log's entries, has them decoded and applied, and resolves interruptions, until the store has ended or
/// stopped.
///
/// Invariant: one task reads, and delivers an entry after all earlier ones have been applied. Before a recovery's first
/// entry, it has searched the log for decisions: an entry that would end the process can be skipped.
final class LogReader<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let applying: Applying<State, Action>
  private let phases: Phases<State, Action>
  private let snapshots: Snapshots<State, Action>

  init(
    _ replica: Replica<State, Action>, _ applying: Applying<State, Action>, _ phases: Phases<State, Action>,
    _ snapshots: Snapshots<State, Action>
  ) {
    self.replica = replica
    self.applying = applying
    self.phases = phases
    self.snapshots = snapshots
  }

  private var log: any OrderedLog { replica.log }
  private var name: String? { replica.log.name }

  // MARK: Following

  func follow() async {
    var hasFailed = false
    var latest = (position: replica.reading.withLock { $0.position }, time: replica.clock.now)
    while !Task.isCancelled, let core = replica.core.withLock({ $0 }) {
      let delivery = replica.standing.withLock { $0.life.beginDelivery() }
      let sign = hasFailed ? Task.detached { await self.tellReturn(of: delivery, to: core) } : nil
      let ending = await applyAll(of: core)
      sign?.cancel()
      let problem: LogError
      switch ending {
      case .over: return
      case .resolved: continue
      case .failed(let error): problem = error
      }
      hasFailed = true
      replica.standing.withLock { $0.life.failDelivery() }
      switch problem {
      case .removed:
        replica.report(.stoppedAs(key: name, .removed))
        return await stop(.removed, after: problem, of: core)
      case .truncated where await isOvertaken(): return phases.endRecovery(Overtaken())
      case .truncated, .damaged, .refused, .inUse:
        let position = replica.reading.withLock { $0.position } &+ 1
        // After a truncation a lagging replica is simply reopened. Any other failure is an operator's concern.
        switch problem {
        case .truncated, .deathOfProcess: break
        default: replica.report(.stopped(problem.of(name)))
        }
        return await stop(.unreadable(position: position), after: problem, of: core)
      case .unavailable, .full:
        let position = replica.reading.withLock { max($0.position, $0.searched) }
        if position > latest.position { latest = (position, replica.clock.now) }
        if replica.clock.now - latest.time >= replica.options.openingLimit { phases.endRecovery(problem) }
        await core.turn { tree in
          self.replica.standing.withLock { $0.life.waitForDelivery(problem.trouble) }
          self.phases.enter(.waiting(problem.trouble), on: tree)
        }
      }
      guard await replica.clock.sleep(for: replica.options.retryInterval) else { return }
      // Until its limit is over, a store being opened retries without the probe.
      if replica.standing.withLock({ !$0.life.isOpening }) { await replica.probe?.untilAnswered() }
    }
  }

  /// Whether the log was truncated, while the store was being opened, behind a newer snapshot.
  private func isOvertaken() async -> Bool {
    guard replica.standing.withLock({ $0.life.isOpening }), !replica.options.ignoresSnapshots,
      replica.codings.states != nil, let newest = try? await log.snapshots?.newest()
    else { return false }
    return newest.position > replica.reading.withLock { $0.position }
  }

  private func stop(_ reason: LogStop, after problem: LogError, of core: StoreCore<State, Action>) async {
    phases.endRecovery(problem)
    await stop(reason, of: core)
  }

  private func stop(_ reason: LogStop, of core: StoreCore<State, Action>) async {
    await core.turn { self.phases.stop(reason, on: $0) }
  }

  /// Detects that the log is back, without waiting for a next entry: it answers, and its last entry has been applied.
  private func tellReturn(of delivery: Int, to core: StoreCore<State, Action>) async {
    while await replica.clock.sleep(for: replica.options.retryInterval) {
      guard let head = try? await log.head() else {
        await replica.probe?.untilAnswered()
        continue
      }
      let isTold = LockedValue(false)
      await core.turn { tree in
        let position = self.replica.reading.withLock { $0.position }
        let isBack = self.replica.standing.withLock { standing in
          guard standing.life.delivery == delivery else { return false }
          standing.writing.found(head: head)
          guard position >= standing.writing.head else { return false }
          standing.life.resumeDelivery()
          return true
        }
        guard isBack else { return }
        self.phases.progress(on: tree)
        isTold.withLock { $0 = true }
      }
      if isTold.withLock({ $0 }) { return }
    }
  }

  private enum Ending {
    case over
    case resolved
    case failed(LogError)
  }

  private func applyAll(of core: StoreCore<State, Action>) async -> Ending {
    do {
      try await findDecisions()
      for try await records in log.records(after: replica.reading.withLock { $0.position }) {
        let (outlines, actions) = decode(records)
        let interruption = LockedValue<Interruption?>(nil)
        await core.turn { tree in
          let found = self.applying.apply(outlines, actions, of: core, on: tree)
          interruption.withLock { $0 = found }
        }
        if let found = interruption.withLock({ $0 }) { return try await resolve(found, of: core) }
        if replica.standing.withLock({ $0.life.isOver }) { return .over }
      }
    } catch {
      return Task.isCancelled ? .over : .failed((error as? LogError) ?? .unavailable("\(error)"))
    }
    return Task.isCancelled ? .over : .failed(.unavailable("The log's entries have come to an end."))
  }

  private func decode(_ records: [LogRecord]) -> ([Outline], [Action?]) {
    let (goal, skipped) = replica.reading.withLock { ($0.goal, $0.decisions.skipped) }
    let decoder = EntryDecoder(
      actions: replica.codings.actions, newestRules: replica.options.newestKnownRules,
      oldestRules: replica.options.oldestRules, writer: replica.standing.withLock { $0.writing.writer }, goal: goal,
      skipped: skipped, recovery: replica.recovery.withLock { $0 })
    defer {
      if let last = records.last {
        decoder.recovery?.pause(behind: replica.reading.withLock { min($0.position, last.position) })
      }
    }
    return decoder.decode(records)
  }

  // MARK: Interruptions

  private func resolve(_ interruption: Interruption, of core: StoreCore<State, Action>) async throws -> Ending {
    switch interruption {
    case .failure(let failure, let position):
      let found = try await decisions(behind: position)
      if Task.isCancelled { return .over }
      if find(found, about: position) { return .resolved }
      await stop(at: position, for: failure, of: core)
    case .overruled(let position, let decision):
      if try await takeBack(decision, about: position) { return .resolved }
      if Task.isCancelled { return .over }
      replica.report(.skippedElsewhere(key: name, position: position, by: decision))
      await stop(.diverged(position: position), of: core)
    case .truncated(let position): return .failed(.truncated(first: position + 1))
    case .sealed(let position):
      await snapshots.saveSealed(through: position)
      await stop(.newerRules(position: position), of: core)
    }
    return .over
  }

  private func stop(
    at position: UInt64, for failure: Outline.Failure, of core: StoreCore<State, Action>
  ) async {
    switch failure {
    case .newerSchema: await stop(.newerSchema(position: position), of: core)
    case .newerRules:
      // After a seal, this program applies only the entries before it.
      let (applied, sealedRules) = replica.reading.withLock { ($0.position, $0.fold.sealedRules) }
      if sealedRules > replica.options.newestKnownRules { await snapshots.saveSealed(through: applied) }
      await stop(.newerRules(position: position), of: core)
    case .poisoned:
      replica.report(.poisoned(key: name, position: position))
      await stop(.poisoned(position: position), of: core)
    case .olderRules(let rules):
      replica.report(.olderRules(key: name, position: position, rules: rules))
      await stop(.olderRules(position: position), of: core)
    case .undecodable(let text):
      replica.report(.undecodable(key: name, position: position, isSnapshot: false, text))
      await stop(.undecodable(position: position), of: core)
    }
  }

  // MARK: Decisions

  private func findDecisions() async throws {
    let (searched, goal) = replica.reading.withLock { ($0.searched, $0.goal) }
    guard searched < goal else { return }
    for try await records in log.records(after: searched) {
      let found = Self.decisions(in: records)
      guard let last = records.last?.position else { continue }
      replica.reading.withLock { $0.find(found, through: last) }
      if last >= goal { return }
    }
    if !Task.isCancelled { throw LogError.unavailable("The log's entries have come to an end.") }
  }

  private static func decisions(in records: [LogRecord]) -> [UInt64: UInt64] {
    var found: [UInt64: UInt64] = [:]
    for record in records { found[record.position] = record.skipped }
    return found
  }

  private func decisions(behind position: UInt64) async throws -> [UInt64: UInt64] {
    let head = try await log.head()
    var found: [UInt64: UInt64] = [:]
    guard head > position else { return found }
    for try await records in log.records(after: position) {
      found.merge(Self.decisions(in: records)) { $1 }
      if let last = records.last, last.position >= head { break }
    }
    return found
  }

  private func find(_ found: [UInt64: UInt64], about position: UInt64) -> Bool {
    let isOpening = replica.standing.withLock { $0.life.isOpening }
    return replica.reading.withLock { $0.find(found, about: position, isOpening: isOpening) }
  }

  /// Whether a decision was taken back, or is by this call because no program can carry it out. The order of the log
  /// decides, so all replicas agree.
  private func takeBack(_ decision: UInt64, about position: UInt64) async throws -> Bool {
    let applied = replica.reading.withLock { $0.position }
    if find(try await decisions(behind: applied), about: decision) { return true }
    guard let covering = try await log.covering(position) else { return false }
    let reason = "The snapshot at position \(covering.snapshot) has the entry, and the log was truncated."
    let report = LogReport.takenBack(key: name, position: position, decision: decision, snapshot: covering.snapshot)
    if replica.options.isTrial {
      replica.report(report)
      replica.reading.withLock { $0.disregard(decision) }
      return true
    }
    do throws(LogError) {
      try await log.takeBack(decision, reason: reason)
    } catch {
      if case .refused = error { return false }
      throw error
    }
    replica.report(report)
    return find(try await decisions(behind: applied), about: decision)
  }
}
