#if NATS
  import Puredux
  import PureduxLog

  /// The log of one tree on a cluster: a subject of the stream, and keys of the bucket.
  final class NATSTree: OrderedLog, SnapshotStore {
    private struct Known: Sendable {
      /// The last position that there is an entry at, as far as is known here.
      var position: UInt64 = 0
      /// What shows that the log is not what it was.
      var damage: LogError?
    }

    /// How far the log is truncated, and the position of the first entry that is left.
    struct Truncation: Equatable, Sendable {
      var position: UInt64
      var first: UInt64
    }

    let owner: NATSLog
    private let key: String
    private let token: String?
    private let knowledge = LockedValue(Known())

    init(of key: String, in owner: NATSLog) {
      self.owner = owner
      self.key = key
      token = Subjects.token(of: key)
    }

    private var jetStream: JetStream { owner.jetStream }
    private var stream: String { jetStream.stream }

    private func named() throws(LogError) -> String {
      guard let token else { throw .refused("The key of a log is too long: \(key)") }
      return token
    }

    private func subject() throws(LogError) -> String { jetStream.prefix + (try named()) }

    var entryLimit: Int { jetStream.entryLimit }
    var snapshots: (any SnapshotStore)? { self }

    // MARK: What is known

    var known: UInt64 { knowledge.withLock { $0.position } }
    var damage: LogError? { knowledge.withLock { $0.damage } }

    /// There is an entry at that position.
    func saw(_ position: UInt64) { knowledge.withLock { $0.position = max($0.position, position) } }

    /// Throws where the stream is not the one that it was when the log was opened.
    func checkIdentity() async throws(LogError) {
      do {
        try await jetStream.checkIdentity()
      } catch {
        if case .damaged = error { knowledge.withLock { $0.damage = $0.damage ?? error } }
        throw error
      }
    }

    /// An entry was given a position, and was behind another one when it was published. Returns what that shows.
    private func appended(at position: UInt64, behind before: UInt64) -> LogError? {
      knowledge.withLock { known in
        if position <= before, known.damage == nil {
          known.damage = .damaged(
            position: position, "The log has lost entries: what was appended behind \(before) is at \(position).")
        }
        known.position = max(known.position, position)
        return known.damage
      }
    }

    // MARK: Entries

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      let target: String
      do throws(LogError) {
        if entry.count > entryLimit { throw .refused("An entry of \(entry.count) bytes is too large.") }
        target = try subject()
      } catch {
        Task.detached { outcome(.failure(error)) }
        return
      }
      let before = known
      jetStream.connection.request(target, entry, limit: owner.options.answerLimit) { [self] answer in
        outcome(
          answer.flatMap(JetStream.position).flatMap { position in
            appended(at: position, behind: before).map { .failure($0) } ?? .success(position)
          })
      }
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      guard let subject = try? subject() else {
        return AsyncThrowingStream { throw LogError.refused("The key of a log is too long: \(self.key)") }
      }
      let reader = Reader(self, subject: subject, after: position)
      return AsyncThrowingStream { try await reader.next() }
    }

    func head() async throws(LogError) -> UInt64 {
      try await checkIdentity()
      let head = try await jetStream.last(of: subject(), in: stream)?.seq ?? 0
      saw(head)
      return head
    }

    // MARK: Truncation

    func truncate(through position: UInt64) async throws(LogError) {
      let subject = try subject()
      // The last entry stays, as the head's position; and what is no entry's position says nothing of what is missing.
      guard position > 0, position < .max,
        try await jetStream.first(of: subject, from: position, in: stream)?.seq == position,
        let first = try await jetStream.first(of: subject, from: position + 1, in: stream)?.seq
      else { return }
      let bucket = try bucket()
      try await bucket.truncate(to: Truncation(position: position, first: first))
      let grace = owner.options.truncationGrace
      Task.detached { [weak jetStream, stream] in
        guard (try? await Task.sleep(for: grace)) != nil else { return }
        try? await jetStream?.purge(subject, before: position + 1, in: stream)
      }
    }

    func truncation() async throws(LogError) -> Truncation? { try await bucket().truncation() }

    // MARK: Snapshots

    private func bucket() throws(LogError) -> Bucket { Bucket(jetStream, token: try named()) }

    func newest() async throws(LogError) -> LogSnapshot? { try await bucket().newest() }
    func save(_ snapshot: LogSnapshot) async throws(LogError) { try await bucket().save(snapshot, always: false) }
    func replace(with snapshot: LogSnapshot) async throws(LogError) { try await bucket().save(snapshot, always: true) }
  }
#endif
