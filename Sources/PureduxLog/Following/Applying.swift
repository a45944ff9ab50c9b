import Puredux
import Synchronization

/// Applies entries on the tree's executor, as `Reading` decides: commits their actions, and compares order and states
/// with their writers'.
///
/// Invariant: entries are applied one after the other, in order, and none after an interruption or a stop.
final class Applying<State: Sendable, Action: Sendable>: Sendable {
  private let replica: Replica<State, Action>
  private let writer: LogWriter<State, Action>
  private let phases: Phases<State, Action>
  private let snapshots: Snapshots<State, Action>
  private let summaries: Summaries<State, Action>

  init(
    _ replica: Replica<State, Action>, _ writer: LogWriter<State, Action>, _ phases: Phases<State, Action>,
    _ snapshots: Snapshots<State, Action>, _ summaries: Summaries<State, Action>
  ) {
    self.replica = replica
    self.writer = writer
    self.phases = phases
    self.snapshots = snapshots
    self.summaries = summaries
  }

  // MARK: Entries

  func apply(
    _ outlines: [Outline], _ actions: [Action?], of core: StoreCore<State, Action>,
    on tree: isolated any TreeIsolation
  ) -> Interruption? {
    let now = replica.clock.now
    var next = 0
    var interruption: Interruption?
    defer { replica.sequencer.isReplaying = false }
    for outline in outlines {
      let (position, first) = (outline.position, next)
      next += outline.actionCount
      guard replica.reading.withLock({ position > $0.position }), !replica.sequencer.hasEnded, replica.stop == nil
      else { continue }
      let (isSkipped, found, isReplayed) = replica.reading.withLock { reading in
        let isSkipped = reading.skips(outline)
        return (isSkipped, reading.interruption(by: outline, isSkipped: isSkipped), position <= reading.goal)
      }
      if let found {
        interruption = found
        break
      }
      replica.sequencer.isReplaying = isReplayed
      if isReplayed { replica.options.replaying?(position) }
      if isReplayed, !isSkipped { replica.recovery.withLock { $0 }?.begin(position) }
      switch outline.kind {
      case .newerFormat:
        phases.stop(.newerSchema(position: position), on: tree)
        return nil
      case .unreadable, .seal, .epoch, .standIn:
        replica.reading.withLock { $0.apply(outline.kind, isSkipped: isSkipped) }
      case .decision(let skipped):
        guard !isSkipped, skipped < position else { break }
        let isObeyed = replica.reading.withLock { $0.obey(position, skipping: skipped) }
        if !isObeyed { interruption = .overruled(position: skipped, by: position) }
      case .entry(let header):
        if let stop = begin(outline, header, isSkipped: isSkipped, of: core, on: tree) {
          phases.stop(stop, on: tree)
          return nil
        }
        LogRules.$current.withValue(header.rules) {
          for offset in 0..<outline.actionCount {
            if offset == outline.actionCount - 1 {
              replica.reading.withLock { $0.beginLastAction(of: outline, isSkipped: isSkipped) }
            }
            commit(
              isSkipped ? nil : actions[first + offset], header.first + UInt64(offset), of: header.writer, at: position,
              now, of: core, on: tree)
          }
        }
      }
      if interruption != nil { break }
      end(outline, isSkipped: isSkipped, of: core, on: tree)
      if replica.isOver(at: position) {
        interruption = .sealed(position: position)
        break
      }
    }
    replica.recovery.withLock { $0 }?.pause(behind: replica.reading.withLock { $0.position })
    // The stop resumes the callers that wait for the seal, once there is a snapshot.
    if case .sealed = interruption { return interruption }
    phases.tellArrivals()
    phases.progress(on: tree)
    snapshots.saveIfDue(of: core, on: tree)
    if !replica.sequencer.hasEnded { summaries.keepLater() }
    writer.pump()
    return interruption
  }

  private func begin(
    _ outline: Outline, _ header: LogEntry.Header, isSkipped: Bool, of core: StoreCore<State, Action>,
    on tree: isolated any TreeIsolation
  ) -> LogStop? {
    // The writer's store was opened or ended there, and hashed this state.
    if replica.reading.withLock({ $0.attests(header) && $0.position == header.seen.position }) {
      hashNow(of: core, on: tree)
    }
    let (divergence, last) = replica.reading.withLock { reading in
      let divergence = reading.divergence(from: header, at: outline.position, isSkipped: isSkipped)
      return (divergence, outline.own.isEmpty ? nil : reading.last(of: outline, header))
    }
    if let divergence {
      replica.report(
        .diverged(
          key: replica.log.name, position: header.seen.position, entry: outline.position, states: divergence.states))
      return .diverged(position: header.seen.position)
    }
    guard replica.standing.withLock({ $0.writing.isNoClones(header, outline.own, last: last) }) else {
      replica.report(.cloned(key: replica.log.name, position: outline.position))
      return .cloned(position: outline.position)
    }
    replica.reading.withLock { $0.begin(outline, header) }
    return nil
  }

  /// Inlined: types are looked up once for all entries.
  @inline(__always) private func commit(
    _ action: Action?, _ number: UInt64, of writer: UInt64, at position: UInt64, _ now: Duration,
    of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) {
    let verdict = replica.reading.withLock {
      $0.take(number, of: writer, at: position, isCommittable: action != nil)
    }
    let own = replica.standing.withLock { standing -> UInt64? in
      let id = standing.writing.delivered(number, of: writer, verdict, at: now)
      if id != nil, !standing.writing.isFull { replica.admission.store(0, ordering: .relaxed) }
      return id
    }
    guard verdict == .commit else { return }
    switch (action, own) {
    case (let action?, let own?): replica.sequencer.commit(action, own, on: tree)
    case (let action?, nil): if !replica.sequencer.hasEnded { core.commitQuietly(action, on: tree) }
    // It counts again if the seal before it is skipped, or the decision is taken back.
    case (nil, let own?): replica.sequencer.giveUp(own, .outcomeUnknown, on: tree)
    case (nil, nil): break
    }
  }

  private func end(
    _ outline: Outline, isSkipped: Bool, of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation
  ) {
    guard let verdict = replica.reading.withLock({ $0.endActions(of: outline) }) else { return }
    let isDue = verdict == .due && replica.fingerprint != nil
    let hash = isDue ? core.withState(on: tree) { self.hash(of: $0) } ?? nil : nil
    let fold = replica.reading.withLock { reading in
      reading.end(outline, isSkipped: isSkipped, verdict, hash)
      return reading.fold
    }
    let applied = Writing.Applied(fold, by: replica.options)
    replica.standing.withLock { standing in
      standing.life.resumeDelivery()
      standing.writing.advance(to: applied, isHashed: hash != nil)
    }
  }

  func endLast(on tree: isolated any TreeIsolation) {
    guard let ending = replica.reading.withLock({ $0.ending }), let core = replica.core.withLock({ $0 }) else { return }
    end(ending.outline, isSkipped: ending.isSkipped, of: core, on: tree)
  }

  // MARK: Fingerprints

  private func hash(of state: State) -> StateHash? {
    do {
      return try replica.fingerprint?.hash?(state)
    } catch {
      let isTold = replica.standing.withLock { standing in
        defer { standing.isFingerprintFailureTold = true }
        return standing.isFingerprintFailureTold
      }
      if !isTold { replica.report(.fingerprintFails(key: replica.log.name, describe(error))) }
      return nil
    }
  }

  func hashFirst(_ state: State) { restate(hash(of: state)) }

  private func hashNow(of core: StoreCore<State, Action>, on tree: isolated any TreeIsolation) {
    guard replica.fingerprint != nil, replica.reading.withLock({ !$0.isHashed }),
      let hash = core.withState(on: tree, { self.hash(of: $0) }) ?? nil
    else { return }
    restate(hash)
  }

  private func restate(_ hash: StateHash?) {
    let mark = replica.reading.withLock { reading in
      reading.restate(hash)
      return reading.fold.mark
    }
    replica.standing.withLock { $0.writing.restate(mark) }
  }

  /// At the store's end, appends an entry without actions that carries the last state's hash, unless another entry
  /// does. The next program compares its state with it.
  func attest(on tree: isolated any TreeIsolation) {
    guard replica.reading.withLock({ $0.isToBeAttested }),
      replica.standing.withLock({ $0.life.stop == nil && $0.writing.isEmpty })
    else { return }
    if let core = replica.core.withLock({ $0 }) { hashNow(of: core, on: tree) }
    let header = replica.standing.withLock { standing in
      let header = standing.writing.header
      return header.seen.fingerprint != 0 && standing.writing.isEmpty ? header : nil
    }
    if let header { writer.append(header) }
  }
}
