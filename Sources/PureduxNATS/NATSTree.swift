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

    /// What is to be there of a log that has had entries.
    struct Extent: Equatable, Sendable {
      /// How far it is truncated: entries up to there may have been removed.
      var truncated: UInt64
      /// The first entry behind that.
      var first: UInt64
      /// The very first entry that there was, where that is known.
      var start: UInt64?

      /// Whether nothing is missing behind a position, if this is the first entry that is left. What is removed, by
      /// whomever, is always all that lies before some entry.
      func isWhole(behind position: UInt64, beginningWith left: UInt64) -> Bool {
        left <= max(position, start ?? 0) || (position >= truncated && left <= first)
      }
    }

    let owner: NATSLog
    private let key: String
    private let token: LockedValue<String?>
    private let knowledge = LockedValue(Known())
    /// The names that older versions may have given the tree, where the key can be spelled in several ways; none as
    /// soon as it is known which one it has.
    private let spellings: LockedValue<[String]>

    init(of key: String, in owner: NATSLog) {
      self.owner = owner
      self.key = key
      let tokens = Subjects.tokens(of: key)
      token = LockedValue(tokens.first)
      spellings = LockedValue(tokens.count > 1 ? tokens : [])
    }

    var name: String? { key }
    private var jetStream: JetStream { owner.jetStream }
    private var stream: String { jetStream.stream }

    private func named() throws(LogError) -> String {
      guard let token = token.withLock({ $0 }) else { throw .refused("The key of a log is too long: \(key)") }
      return token
    }

    /// Looks under which spelling of the key there are entries. A store asks for the snapshot and the head first.
    private func findSpelling() async throws(LogError) {
      let tokens = spellings.withLock { $0 }
      guard !tokens.isEmpty else { return }
      var found: [String] = []
      for token in tokens where try await jetStream.last(of: jetStream.prefix + token, in: stream) != nil {
        found.append(token)
      }
      guard found.count < 2 else {
        throw .refused(
          "The stream has entries for the key \(key) in different spellings, under the subjects "
            + "\(found.map { jetStream.prefix + $0 }.joined(separator: ", ")). Keys that are equal texts are one log: "
            + "purge all but one.")
      }
      if let found = found.first { token.withLock { $0 = found } }
      spellings.withLock { $0 = [] }
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
      try await findSpelling()
      let head = try await jetStream.last(of: subject(), in: stream)?.seq ?? 0
      if head == 0 { _ = try await checkEntries(behind: 0) }
      saw(head)
      return head
    }

    // MARK: What is missing

    func extent() async throws(LogError) -> Extent? { try await bucket().extent() }

    /// Throws where entries behind a position are missing, or all are: the last one always stays. Notes that there are
    /// entries where that is not noted yet: so nobody commits one of which a later loss would not show.
    ///
    /// What was received before this call, and continues at that position, has no gap if this returns.
    ///
    /// - Returns: How far the log was truncated: behind that nothing is removed within the time that truncations wait.
    func checkEntries(behind position: UInt64) async throws(LogError) -> UInt64 {
      let subject = try subject()
      // What changes meanwhile is there at a second look.
      for _ in 0..<2 {
        async let noted = result { () async throws(LogError) in try await self.extent() }
        // The entry at the position, which shows that none behind it is gone. It was sent a moment ago; the first one
        // may be large.
        let nearest = try await jetStream.first(of: subject, from: max(1, position), in: stream)?.seq
        var extent = try await noted.get()
        if let extent, nearest == position { return extent.truncated }
        let first = position > 1 ? try await jetStream.first(of: subject, from: 1, in: stream)?.seq : nearest
        guard let first else {
          guard let extent else { return 0 }
          if try await isEmpty(extent) { throw loss(behind: position, nil) }
          continue
        }
        // Read once more where it does not agree: it may have changed before the entries did.
        if !(extent?.isWhole(behind: position, beginningWith: first) ?? false) {
          extent = try await bucket().begin(with: first)
        }
        guard let extent else { continue }
        guard !extent.isWhole(behind: position, beginningWith: first) else { return extent.truncated }
        throw position < extent.truncated ? .truncated(first: first) : loss(behind: position, first)
      }
      // Of servers that have not caught up with each other. Who asked tries again later.
      throw .unavailable("The stream counts entries of the log \(key), and shows none.")
    }

    /// Whether the log has no entry left of those that there were; false where one has come meanwhile.
    private func isEmpty(_ extent: Extent) async throws(LogError) -> Bool {
      let state = try await jetStream.entries(of: subject())
      guard state.count == 0 else { return false }
      // A stream never forgets how far it was, so that these servers have not been there yet; or never again, where an
      // older backup was restored.
      if state.last < extent.first {
        throw .unavailable("The stream ends at \(state.last), and the log has had an entry at \(extent.first).")
      }
      return true
    }

    private func loss(behind position: UInt64, _ left: UInt64?) -> LogError {
      let rest = left.map { "the first that is left is at \($0)" } ?? "none is left"
      let key = (try? bucket().extentKey) ?? ""
      return .damaged(
        position: position == .max ? position : position + 1,
        "The log \(self.key) has lost entries behind \(position): \(rest). Restore them; or, to go on without them, "
          + "delete the key \(key) of the bucket \(stream)-snapshots.")
    }

    private func result<Value>(
      _ body: () async throws(LogError) -> Value
    ) async -> Result<Value, LogError> {
      do throws(LogError) { return .success(try await body()) } catch { return .failure(error) }
    }

    // MARK: Truncation

    func truncate(through position: UInt64) async throws(LogError) {
      let subject = try subject()
      // The last entry stays, as the head's position; and what is no entry's position says nothing of what is missing.
      guard position > 0, position < .max,
        try await jetStream.first(of: subject, from: position, in: stream)?.seq == position,
        let first = try await jetStream.first(of: subject, from: position + 1, in: stream)?.seq
      else { return }
      try await bucket().truncate(through: position, to: first)
      let grace = owner.options.truncationGrace
      Task.detached { [weak jetStream, stream] in
        guard (try? await Task.sleep(for: grace)) != nil else { return }
        try? await jetStream?.purge(subject, before: position + 1, in: stream)
      }
    }

    // MARK: Snapshots

    private func bucket() throws(LogError) -> Bucket { Bucket(jetStream, token: try named()) }

    func newest() async throws(LogError) -> LogSnapshot? {
      try await findSpelling()
      return try await bucket().newest()
    }
    func save(_ snapshot: LogSnapshot) async throws(LogError) { try await bucket().save(snapshot, always: false) }
    func replace(with snapshot: LogSnapshot) async throws(LogError) { try await bucket().save(snapshot, always: true) }
  }
#endif
