public import Puredux
public import PureduxLog

/// The part of a program that computes a state from a log, for `verifyReplay`.
public struct ReplayedProgram<State: Sendable, Action: Sendable>: Sendable {
  let open: @Sendable (any OrderedLog, LogOptions, Middleware<State, Action>) async throws -> RootStore<State, Action>
  let options: LogOptions

  /// - Parameters: Those of `RootStore(following:)`. Of `options`, only `log` and `fingerprint` are used.
  public init(
    initialState: State, reducers: [Reducer<State, Action>], codings: LogCodings<State, Action>,
    options: FollowingOptions<State, Action> = FollowingOptions(), middleware: [Middleware<State, Action>] = []
  ) {
    self.options = options.log
    open = { [fingerprint = options.fingerprint ?? .unchecked] log, options, counting in
      try await RootStore(
        following: log, initialState: initialState, reducers: reducers, codings: codings,
        options: FollowingOptions(log: options, fingerprint: fingerprint), middleware: [counting] + middleware)
    }
  }

  /// Uses JSON for actions and states, and one reducer.
  public init(
    initialState: State, schema: UInt32 = 1, options: FollowingOptions<State, Action> = FollowingOptions(),
    middleware: [Middleware<State, Action>] = [], reducer: @escaping @Sendable (inout State, Action) -> Void
  ) where State: Codable, Action: Codable {
    self.init(
      initialState: initialState, reducers: [Reducer(reducer)], codings: .json(schema: schema), options: options,
      middleware: middleware)
  }
}

/// The result of replaying a log.
public struct ReplayReport: Sendable, Hashable, Codable {
  /// The program's stop, with its position. Nil if all results match those of the log's writers, as far as entries
  /// carry a fingerprint (`FollowingOptions.fingerprint`). `.poisoned` if an entry ends the process, or its replay does
  /// not end.
  public var stop: LogStop?
  /// The position of the snapshot that the replay began with, if the log is truncated, or sealed for the program's
  /// rules; otherwise 0.
  public var start: UInt64 = 0
  /// The position of the last replayed entry.
  public var position: UInt64 = 0
  /// How many actions the program's middleware stopped, including those stopped at their first commit.
  public var rejected: UInt64 = 0
  /// The position of the first stopped action; nil without one.
  public var firstRejection: UInt64?
  /// The reports to the operator, as texts.
  public var reports: [String] = []

  /// For tests of code that reads reports.
  public init(
    stop: LogStop? = nil, start: UInt64 = 0, position: UInt64 = 0, rejected: UInt64 = 0, firstRejection: UInt64? = nil,
    reports: [String] = []
  ) {
    (self.stop, self.start, self.position) = (stop, start, position)
    (self.rejected, self.firstRejection, self.reports) = (rejected, firstRejection, reports)
  }
}

/// Replays a log with a program, and changes neither. Use it in a test, or in a job over last night's logs: a new
/// version of the program must reproduce the states that the previous one has acknowledged.
///
///     let report = try await verifyReplay(
///       of: log["boards/17"],
///       by: ReplayedProgram(initialState: Board(), options: options) { $0.apply($1) })
///     #expect(report.stop == nil)
///
/// An entry that traps the reducer ends this process; `verifyReplay(opening:by:)` finds it.
///
/// Cost: one replay. Entries without a fingerprint, or with another number's, are not compared; for these, compare both
/// versions' numbers of rejections. A report that a decision is taken back means that a store would do so.
///
/// - Throws: The errors of opening a store, for instance for a damaged log, except stops.
public func verifyReplay<State, Action>(
  of log: any OrderedLog, by program: ReplayedProgram<State, Action>
) async throws -> ReplayReport {
  try await report(of: log, by: program) { _ in }
}

func report<State, Action>(
  of log: any OrderedLog, by program: ReplayedProgram<State, Action>, entering: @escaping @Sendable (UInt64) -> Void
) async throws -> ReplayReport {
  do {
    let report = try await report(of: UnchangedLog(log, hasSnapshots: false), program, from: 0, entering)
    // The snapshot replaces entries of older rules before a seal.
    if case .olderRules = report.stop {} else { return report }
    guard try await log.snapshots?.newest() != nil else { return report }
  } catch LogError.truncated {}
  do {
    let start = try await log.snapshots?.newest()?.position ?? 0
    return try await report(of: UnchangedLog(log, hasSnapshots: true), program, from: start, entering)
  }
}

private func report<State, Action>(
  of log: UnchangedLog, _ program: ReplayedProgram<State, Action>, from start: UInt64,
  _ entering: @escaping @Sendable (UInt64) -> Void
) async throws -> ReplayReport {
  let found = LockedValue((position: start, rejected: UInt64(0), first: UInt64?.none, reports: [String]()))
  var options = program.options
  options.opensWhereStopped = true
  options.isTrial = true
  options.ignoresSnapshots = false
  options.snapshotBytes = nil
  options.recoveryDirectory = nil
  options.reporting = { report in found.withLock { $0.reports.append("\(report)") } }
  options.replaying = { position in
    found.withLock { $0.position = position }
    entering(position)
  }
  let counting = Middleware<State, Action> { action, context, next in
    next(action)
    guard context.isReplay, !context.isCommitted else { return }
    found.withLock { found in
      found.rejected += 1
      found.first = found.first ?? found.position
    }
  }
  let store: RootStore<State, Action>
  do {
    store = try await program.open(log, options, counting)
  } catch StoreError.stopped(let stop) {
    let reports = found.withLock { $0.reports }
    return ReplayReport(stop: stop, start: start, position: start, reports: reports)
  }
  let figures = await store.statistics.log
  await store.shutdown()
  let (rejected, first, reports) = found.withLock { ($0.rejected, $0.first, $0.reports) }
  var report = ReplayReport(
    start: start, position: figures?.position ?? start, rejected: rejected, firstRejection: first, reports: reports)
  if case .stopped(let stop) = figures?.phase { report.stop = stop }
  return report
}

private final class UnchangedLog: OrderedLog, SnapshotStore {
  private let log: any OrderedLog
  private let hasSnapshots: Bool

  init(_ log: any OrderedLog, hasSnapshots: Bool) {
    self.log = log
    self.hasSnapshots = hasSnapshots
  }

  private static var refusal: LogError { .refused("The log is only read.") }

  var name: String? { log.name }
  var entryLimit: Int { log.entryLimit }
  var snapshots: (any SnapshotStore)? { hasSnapshots ? self : nil }
  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    Task { outcome(.failure(Self.refusal)) }
  }
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }
  func truncate(through position: UInt64) async throws(LogError) { throw Self.refusal }
  func newest() async throws(LogError) -> LogSnapshot? {
    guard let snapshots = log.snapshots else { return nil }
    return try await snapshots.newest()
  }
  func save(_ snapshot: LogSnapshot) async throws(LogError) { throw Self.refusal }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { throw Self.refusal }
}
