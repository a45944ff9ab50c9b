public import Puredux
import Synchronization

/// Opening failed only because the log was truncated meanwhile. It can begin again, with a newer snapshot.
@usableFromInline struct Overtaken: Error {
  @usableFromInline init() {}
}

/// The order of a tree that follows a log: writes accepted actions to the log, and commits those that the log delivers.
/// Stateless. It and the tree retain each other until the root store has ended.
@usableFromInline final class Following<State: Sendable, Action: Sendable>: Order {
  private let replica: Replica<State, Action>
  private let phases: Phases<State, Action>
  private let writer: LogWriter<State, Action>
  private let summaries: Summaries<State, Action>
  private let snapshots: Snapshots<State, Action>
  private let applying: Applying<State, Action>
  private let reader: LogReader<State, Action>

  init(
    log: any OrderedLog, head: UInt64, stored: Fold, recovery: RecoveryMark? = nil,
    codings: LogCodings<State, Action>, options: FollowingOptions<State, Action>, clock: ElapsedClock
  ) {
    replica = Replica(
      log: log, head: head, stored: stored, recovery: recovery, codings: codings, options: options.log,
      fingerprint: options.fingerprint, clock: clock)
    summaries = Summaries(replica, options.summary)
    phases = Phases(replica, summaries, onPhase: options.onPhase)
    writer = LogWriter(replica, phases)
    snapshots = Snapshots(replica, phases, summaries)
    applying = Applying(replica, writer, phases, snapshots, summaries)
    reader = LogReader(replica, applying, phases, snapshots)
  }

  // MARK: The beginning

  @usableFromInline static func open(
    _ log: any OrderedLog, initialState: State, codings: LogCodings<State, Action>,
    options following: FollowingOptions<State, Action>
  ) async throws -> (Following, State) {
    var following = following
    following.log = following.log.clamped
    let clock = ElapsedClock(following.store.clock)
    let (head, stored) = try await Opening.read(log, by: codings.states, options: following.log, clock: clock)
    let content = stored ?? SnapshotContent(state: initialState, fold: Fold())
    try Opening.expectKnownRules(of: content.fold, log, options: following.log)
    following.reportMissingFingerprint(of: log)
    let directory = following.log.recoveryDirectory
    let recovery = head > content.fold.position ? await RecoveryMark.of(log, orIn: directory) : nil
    let tied = Following(
      log: log, head: head, stored: content.fold, recovery: recovery, codings: codings, options: following,
      clock: clock)
    tied.applying.hashFirst(content.state)
    return (tied, content.state)
  }

  @usableFromInline func begin(_ core: StoreCore<State, Action>) {
    replica.core.withLock { $0 = core }
    core.perform { [replica, phases] tree in
      phases.tellFirst()
      let position = replica.reading.withLock { $0.position }
      if replica.isOver(at: position) {
        phases.stop(.newerRules(position: position), on: tree)
      } else {
        phases.progress(on: tree)
      }
    }
    let follower = Task.detached { [reader] in await reader.follow() }
    replica.standing.withLock { $0.life.follower = follower }
  }

  @usableFromInline func untilRecovered() async throws { try await phases.untilRecovered() }

  /// Returns when the released store has ended, and has told its last phase.
  @usableFromInline func untilEnded(_ core: StoreCore<State, Action>) async {
    await phases.untilApplied(.max)
    // The end may be in progress.
    await core.turn { _ in }
  }

  @usableFromInline var hasStopped: Bool { replica.stop != nil }

  @usableFromInline func replaceSnapshots() async throws { try await snapshots.replace() }

  // MARK: As the order of the tree

  @usableFromInline func process(_ action: inout Action, _ passage: Passage<Action>) -> StoreError? {
    let sequencer = replica.sequencer
    let withdraw = { @Sendable [writer] id in writer.withdraw(id) }
    guard !sequencer.isCommitting, passage.hasMiddleware else {
      return sequencer.process(&action, passage, withdraw: withdraw)
    }
    // The rules that the entry will carry. They change on this executor only; the outbox keeps them with the action.
    return LogRules.$current.withValue(replica.standing.withLock { $0.writing.applied.rules }) {
      sequencer.process(&action, passage, withdraw: withdraw)
    }
  }

  @usableFromInline func submit(_ action: Action, _ passage: Passage<Action>) {
    replica.sequencer.submitted(
      replica.sequencer.hasEnded ? .failure(.terminated) : writer.submit(action), passage)
  }

  @usableFromInline func perform(_ request: any SubmittingRequest, on tree: isolated any TreeIsolation) {
    replica.sequencer.perform(request, on: tree)
  }

  @usableFromInline func follow(_ next: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> UInt64? {
    replica.sequencer.follow(next)
  }

  @usableFromInline func forget(_ follower: UInt64) { replica.sequencer.forget(follower) }

  @usableFromInline var isCommitting: Bool { replica.sequencer.isCommitting }
  @usableFromInline var isReplaying: Bool { replica.sequencer.isReplaying }
  @usableFromInline var inboxBound: Int { max(1, replica.options.pendingBytes / Outbox.overhead) }

  @usableFromInline var refusal: DispatchResult? {
    switch replica.admission.load(ordering: .relaxed) {
    case 0: nil
    case 1: .overloaded
    default: .stopped
    }
  }

  @usableFromInline var statistics: LogStatistics? {
    let now = replica.clock.now
    return replica.standing.withLock { $0.statistics(at: now) }
  }

  // MARK: For the store

  func logPhases() -> AsyncStream<LogStatistics.Phase> { phases.stream() }
  func saveSnapshot() async throws -> UInt64 { try await snapshots.saveNow() }
  func seal(for rules: UInt32, _ reason: String) async throws -> UInt64 { try await snapshots.seal(for: rules, reason) }
  func truncate() async throws -> UInt64 { try await snapshots.truncate() }
  func erase() async throws -> UInt64 { try await snapshots.erase() }

  // MARK: The end

  @usableFromInline func rootClosed() {
    replica.core.withLock { $0 }?.perform { [replica] _ in
      // The first request's time counts.
      let begins = replica.standing.withLock {
        !$0.writing.isEmpty && $0.life.endingLimit == nil && !$0.life.hasEnded
      }
      guard begins else { return }
      let limit = Task.detached {
        guard await replica.clock.sleep(for: replica.options.endingLimit) else { return }
        replica.core.withLock { $0 }?.perform { replica.sequencer.giveUpAll(on: $0) }
      }
      replica.standing.withLock { $0.life.endingLimit = limit }
    }
  }

  @usableFromInline func rootEnded(on tree: isolated any TreeIsolation) {
    replica.sequencer.end()
    if replica.standing.withLock({ $0.life.hasEnded }) { return }
    applying.endLast(on: tree)
    applying.attest(on: tree)
    summaries.keepLast(on: tree)
    phases.end()
  }
}
