import Puredux

enum Opening {
  private struct UndecodableSnapshot: Error {
    let position: UInt64
    let text: String
  }

  /// Retries while the log is away or lags, as its servers may just be starting.
  ///
  /// - Parameter states: Nil if snapshots are not read.
  static func read<State: Sendable>(
    _ log: any OrderedLog, by states: LogCoding<State>?, options: LogOptions, clock: ElapsedClock
  ) async throws -> (head: UInt64, newest: SnapshotContent<State>?) {
    let start = clock.now
    var found = await read(log, states: options.ignoresSnapshots ? nil : states)
    while case .failure(LogError.unavailable) = found, clock.now - start < options.openingLimit {
      guard await clock.sleep(for: options.retryInterval) else { throw CancellationError() }
      found = await read(log, states: options.ignoresSnapshots ? nil : states)
    }
    if case .failure(let failure as UndecodableSnapshot) = found {
      options.reporting(.undecodable(key: log.name, position: failure.position, isSnapshot: true, failure.text))
      throw StoreError.stopped(.undecodable(position: failure.position))
    }
    if case .failure(StoreError.stopped(let stop)) = found { options.reporting(.stoppedAs(key: log.name, stop)) }
    return try found.get()
  }

  private static func read<State: Sendable>(
    _ log: any OrderedLog, states: LogCoding<State>?
  ) async -> Result<(head: UInt64, newest: SnapshotContent<State>?), any Error> {
    do {
      var newest: SnapshotContent<State>?
      if let states, let snapshot = try await newestSnapshot(of: log) {
        do throws(SnapshotContent<State>.Failure) {
          newest = try SnapshotContent(snapshot.bytes, by: states)
        } catch {
          switch error {
          case .newer: throw StoreError.stopped(.newerSchema(position: snapshot.position))
          case .unreadable:
            throw UndecodableSnapshot(position: snapshot.position, text: "It was not written by this library.")
          case .undecodable(let error): throw UndecodableSnapshot(position: snapshot.position, text: describe(error))
          }
        }
      }
      // After the snapshot, so that the log has its entries, unless a cluster's server lags.
      let head = try await log.head()
      if let position = newest?.fold.position, position > head {
        throw LogError.unavailable("The log ends at \(head), and there is a snapshot at \(position).")
      }
      return .success((head, newest))
    } catch {
      return .failure(error)
    }
  }

  private static func newestSnapshot(of log: any OrderedLog) async throws(LogError) -> LogSnapshot? {
    guard let snapshots = log.snapshots else { return nil }
    do throws(LogError) {
      return try await snapshots.newest()
    } catch {
      // An unreadable snapshot counts as none. But an unreachable one may exist, and if it is another log's, the
      // entries may be, too.
      switch error {
      case .unavailable, .damaged, .removed: throw error
      case .full, .inUse, .refused, .truncated: return nil
      }
    }
  }

  static func expectKnownRules(of stored: Fold, _ log: any OrderedLog, options: LogOptions) throws(StoreError) {
    guard stored.rules > options.newestKnownRules, !options.opensWhereStopped else { return }
    let stop = LogStop.newerRules(position: stored.position)
    options.reporting(.stoppedAs(key: log.name, stop))
    throw .stopped(stop)
  }
}
