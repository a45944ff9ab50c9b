import Puredux
import Synchronization

struct Standing {
  var writing: Writing
  var life: Life
  var snapshotFailures = SnapshotFailures()
  var isFingerprintFailureTold = false

  var trouble: LogTrouble? { writing.trouble ?? life.deliveryTrouble }

  func statistics(at time: Duration) -> LogStatistics {
    var statistics = LogStatistics(
      phase: life.phase, position: writing.applied.mark.position, waiting: life.waiting(at: time),
      behind: writing.behind, pendingActions: writing.count, pendingBytes: writing.bytes,
      skipped: writing.applied.skipped, rejected: writing.rejected)
    statistics.failedSnapshots = snapshotFailures.count
    statistics.epoch = writing.applied.epoch
    return statistics
  }
}

/// A tree, its log, and the state between them: pure state machines, each with its own lock.
///
/// The parts of `Following` ask these values for decisions, and carry them out after the lock is released. No lock is
/// taken under another one.
final class Replica<State: Sendable, Action: Sendable>: Sendable {
  let log: any OrderedLog
  let probe: Probe?
  let codings: LogCodings<State, Action>
  let options: LogOptions
  let clock: ElapsedClock
  let fingerprint: StateFingerprint<State>?
  let core = LockedValue<StoreCore<State, Action>?>(nil)
  let sequencer = Sequencer<Action>()
  let standing: LockedValue<Standing>
  let reading: LockedValue<Reading>
  let recovery: LockedValue<RecoveryMark?>
  /// Read by `dispatch`: 0 accepts, 1 is overloaded, 2 has stopped.
  let admission = Atomic<UInt8>(0)

  init(
    log: any OrderedLog, head: UInt64, stored: Fold, recovery: RecoveryMark?, codings: LogCodings<State, Action>,
    options: LogOptions, fingerprint: StateFingerprint<State>?, clock: ElapsedClock
  ) {
    self.log = log
    probe = (log as? any ProbedLog)?.probe
    self.codings = codings
    self.options = options
    self.clock = clock
    self.fingerprint = fingerprint?.hash == nil ? nil : fingerprint
    self.recovery = LockedValue(recovery)
    let version = self.fingerprint?.version(options.fingerprintVersion)
    standing = LockedValue(
      Standing(
        writing: Writing(
          limits: options.limits(entryLimit: log.entryLimit), writer: options.writer,
          applied: Writing.Applied(stored, by: options), head: head, schema: codings.actions.schema,
          fingerprintVersion: version),
        life: Life(phase: .recovering(0, of: head - min(head, stored.position)))))
    reading = LockedValue(Reading(stored, goal: head, fingerprintVersion: version))
  }

  var instrument: TreeInstrument? { core.withLock { $0 }?.instrument }
  var stop: LogStop? { standing.withLock { $0.life.stop } }
  var trouble: LogTrouble? { standing.withLock { $0.trouble } }

  func isOver(at position: UInt64) -> Bool {
    reading.withLock { $0.isOver(at: position, knowing: options.newestKnownRules) }
  }

  func report(_ report: LogReport) { options.reporting(report) }
}
