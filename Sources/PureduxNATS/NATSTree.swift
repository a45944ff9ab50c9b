#if NATS
  import Puredux
  import PureduxLog

  /// The log of one tree on a cluster: a subject of the stream, and keys of the bucket.
  final class NATSTree: LogOfEngine, ProbedLog, SnapshotStore, SummaryStore {
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

    private typealias Append = (entry: [UInt8], outcome: @Sendable (Result<UInt64, LogError>) -> Void)

    /// What the tree is called.
    private struct Naming: Sendable {
      /// Nil until that is known.
      var token: String?
      /// How many trees of the key have been removed before it.
      var number: UInt64 = 0
      /// What is appended before that is known, and whether somebody finds out.
      var waiting: [Append] = []
      var isAsking = false
    }

    /// The last entry of a tree that is removed, behind which nobody reads. An older version takes it for one of a
    /// newer format, and stops there.
    static let end: [UInt8] = [0x50, 0x44, 0x58, 0xFF] + Array("removed".utf8)

    let owner: NATSLog
    var engine: NATSLog { owner }
    var probe: Probe { owner.probe }
    private let key: String
    /// The names of the key's first tree: one, and those that older versions may have given it, where the key can be
    /// spelled in several ways. None where the key is too long.
    private let tokens: [String]
    private let naming = LockedValue(Naming())
    private let knowledge = LockedValue(Known())

    init(of key: String, in owner: NATSLog) {
      self.owner = owner
      self.key = key
      tokens = Subjects.tokens(of: key)
    }

    var name: String? { key }
    private var jetStream: JetStream { owner.jetStream }
    private var stream: String { jetStream.stream }

    private func base() throws(LogError) -> String {
      guard let base = tokens.first else { throw .refused("The key of a log is too long: \(key)") }
      return base
    }

    private func named() throws(LogError) -> String {
      guard let token = naming.withLock({ $0.token }) else {
        throw .unavailable("It is not known yet what the log is called.")
      }
      return token
    }

    /// Finds out what the tree is called, once, and throws where it has been removed since.
    func learn() async throws(LogError) {
      if damage == .removed { throw .removed }
      if naming.withLock({ $0.token != nil }) { return }
      let base = try base()
      let removals = try await Bucket(jetStream, token: base).removals()
      // Who removed it has died, or is still waiting for what others may have on their way.
      for number in removals.cleared..<max(removals.cleared, removals.removed) { try await finishRemoval(of: number) }
      let number = removals.removed
      let token = number > 0 ? Subjects.token(base, number: number) : try await spelling() ?? base
      naming.withLock { naming in
        guard naming.token == nil else { return }
        naming.token = token
        naming.number = number
      }
    }

    /// The spelling of the key under which there are entries.
    private func spelling() async throws(LogError) -> String? {
      guard tokens.count > 1 else { return nil }
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
      return found.first
    }

    func subject() throws(LogError) -> String { jetStream.prefix + (try named()) }

    var entryLimit: Int { jetStream.entryLimit }
    var snapshots: (any SnapshotStore)? { self }
    var summaries: (any SummaryStore)? { self }

    // MARK: What is known

    var known: UInt64 { knowledge.withLock { $0.position } }
    var damage: LogError? { knowledge.withLock { $0.damage } }

    /// There is an entry at that position.
    func saw(_ position: UInt64) { knowledge.withLock { $0.position = max($0.position, position) } }

    /// The tree has been removed.
    func noteRemoved() { knowledge.withLock { $0.damage = .removed } }

    /// Throws where a message is the end of a tree that was removed.
    private func entry(_ message: JetStream.StoredMessage?) throws(LogError) -> JetStream.StoredMessage? {
      guard let data = message?.data, data.elementsEqual(Self.end) else { return message }
      noteRemoved()
      throw .removed
    }

    /// Throws where the tree has been removed: to be asked where less is there than there should be.
    private func checkRemoval() async throws(LogError) {
      let removals = try await Bucket(jetStream, token: base()).removals()
      guard removals.removed > naming.withLock({ $0.number }) else { return }
      noteRemoved()
      throw .removed
    }

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
      do throws(LogError) {
        if entry.count > entryLimit { throw .refused("An entry of \(entry.count) bytes is too large.") }
        if entry == Self.end { throw .refused("An entry of these bytes ends a log.") }
        if damage == .removed { throw .removed }
        _ = try base()
      } catch {
        Task.detached { outcome(.failure(error)) }
        return
      }
      let (token, asks) = naming.withLock { naming -> (String?, Bool) in
        if let token = naming.token, !naming.isAsking { return (token, false) }
        naming.waiting.append((entry, outcome))
        defer { naming.isAsking = true }
        return (nil, !naming.isAsking)
      }
      if let token { return publish((entry, outcome), to: token) }
      if asks { Task.detached { await self.publishWaiting() } }
    }

    /// Appends what was given before it was known where it belongs, and what comes meanwhile.
    private func publishWaiting() async {
      let learned = await result { () async throws(LogError) in try await self.learn() }
      while true {
        let (token, appends) = naming.withLock { naming in
          defer { naming.waiting = [] }
          naming.isAsking = !naming.waiting.isEmpty
          return (naming.token, naming.waiting)
        }
        if appends.isEmpty { return }
        for append in appends {
          switch (learned, token) {
          case (.success, let token?): publish(append, to: token)
          case (.failure(let error), _): append.outcome(.failure(error))
          case (.success, nil): append.outcome(.failure(.unavailable("It is not known what the log is called.")))
          }
        }
      }
    }

    private func publish(_ append: Append, to token: String) {
      let before = known
      let outcome = append.outcome
      let subject = jetStream.prefix + token
      jetStream.connection.request(subject, append.entry, limit: owner.options.answerLimit) { [self] answer in
        outcome(
          answer.flatMap(JetStream.position).flatMap { position in
            appended(at: position, behind: before).map { .failure($0) } ?? .success(position)
          })
      }
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let reader = Reader(self, after: position)
      return AsyncThrowingStream { try await reader.next() }
    }

    func head() async throws(LogError) -> UInt64 {
      try await checkIdentity()
      try await learn()
      let subject = try subject()
      var head = try entry(try await jetStream.last(of: subject, in: stream))?.seq ?? 0
      if head == 0 {
        // The caller may be about to follow the tree: a removal before the first entry finds this note, and tells it.
        try await bucket().noteOpening()
        _ = try await checkEntries(behind: 0)
        // A server whose files are damaged may know entries, and no last one: a log that has any does not end at 0.
        if let first = try entry(try await jetStream.first(of: subject, from: 1, in: stream))?.seq {
          head = try entry(try await jetStream.last(of: subject, in: stream))?.seq ?? 0
          guard head >= first else {
            throw .unavailable("The stream shows an entry of the log \(key) at \(first), and no last one.")
          }
        }
      }
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
      try await learn()
      let subject = try subject()
      // What changes meanwhile is there at a second look.
      for _ in 0..<2 {
        async let noted = result { () async throws(LogError) in try await self.extent() }
        // The entry at the position, which shows that none behind it is gone. It was sent a moment ago; the first one
        // may be large.
        let nearest = try entry(try await jetStream.first(of: subject, from: max(1, position), in: stream))?.seq
        var extent = try await noted.get()
        if let extent, nearest == position { return extent.truncated }
        let first =
          position > 1 ? try entry(try await jetStream.first(of: subject, from: 1, in: stream))?.seq : nearest
        guard let first else {
          try await checkRemoval()
          guard let extent else { return 0 }
          if try await isEmpty(extent) { throw loss(behind: position, nil) }
          continue
        }
        // Read once more where it does not agree: it may have changed before the entries did.
        if !(extent?.isWhole(behind: position, beginningWith: first) ?? false) {
          // What a process that has missed a removal writes there begins no tree.
          try await checkRemoval()
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
      try await learn()
      let subject = try subject()
      // The last entry stays, as the head's position; and what is no entry's position says nothing of what is missing.
      guard position > 0, position < .max,
        try await jetStream.first(of: subject, from: position, in: stream)?.seq == position,
        let first = try entry(try await jetStream.first(of: subject, from: position + 1, in: stream))?.seq
      else { return }
      try await bucket().truncate(through: position, to: first)
      let grace = owner.options.truncationGrace
      Task.detached { [weak jetStream, stream] in
        guard (try? await Task.sleep(for: grace)) != nil else { return }
        try? await jetStream?.purge(subject, before: position + 1, in: stream)
      }
    }

    func erase(through position: UInt64) async throws(LogError) {
      try await learn()
      let subject = try subject()
      guard position > 0, position < .max else { throw .notErasable(position) }
      let first = try entry(try await jetStream.first(of: subject, from: position + 1, in: stream))?.seq
      let at = try await jetStream.first(of: subject, from: position, in: stream)?.seq
      let truncated = try await extent()?.truncated ?? 0
      guard let first, at == position || position <= truncated else { throw .notErasable(position) }
      try await bucket().truncate(through: position, to: first)
      // Who reads may have looked a moment ago whether something is missing, and would not see that this is.
      do {
        try await Task.sleep(for: owner.options.truncationGrace)
      } catch {
        throw .unavailable("The task was cancelled. The entries have not been erased.")
      }
      try await jetStream.purge(subject, before: position + 1, in: stream)
      try await bucket().removeSnapshots(before: position)
      try await bucket().removeSummary(before: position)
    }

    // MARK: Snapshots

    private func bucket() throws(LogError) -> Bucket { Bucket(jetStream, token: try named()) }

    func newest() async throws(LogError) -> LogSnapshot? {
      try await learn()
      return try await bucket().newest()
    }

    func save(_ snapshot: LogSnapshot) async throws(LogError) {
      try await learn()
      try await bucket().save(snapshot)
    }

    func replace(with snapshot: LogSnapshot) async throws(LogError) {
      try await learn()
      try await bucket().save(snapshot, replacing: { () async throws(LogError) in try await self.head() })
    }

    // MARK: The summary

    func kept() async throws(LogError) -> LogSummary? {
      try await learn()
      return try await bucket().summary()
    }

    func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
      owner.saving {
        outcome(
          await self.result { () async throws(LogError) in
            try await self.learn()
            let summary = LogSummary(key: self.key.composed, position: position, bytes: bytes)
            return try await self.bucket().save(summary, number: self.naming.withLock { $0.number }) {
              () async throws(LogError) in try await self.head()
            }
          })
      }
    }

    // MARK: Removal

    /// Removes the tree: it is as soon as that is noted, and then the rest of it goes.
    func remove() async throws(LogError) {
      try await learn()
      let hasEntries = try await jetStream.last(of: subject(), in: stream) != nil
      if !hasEntries, try await bucket().isEmpty() { return }
      let number = naming.withLock { $0.number }
      try await Bucket(jetStream, token: base()).noteRemoval(of: number)
      try await finishRemoval(of: number)
    }

    /// Tells those who follow a tree that is removed, and removes what there is of it; later also what was on its way.
    private func finishRemoval(of number: UInt64) async throws(LogError) {
      let base = try base()
      let names = number == 0 ? tokens : [Subjects.token(base, number: number)]
      for token in names {
        let subject = jetStream.prefix + token
        let last = try await jetStream.last(of: subject, in: stream)
        // A tree without entries has the first name.
        if last != nil || token == names.first {
          let ended = last.flatMap { $0.data?.elementsEqual(Self.end) == true ? $0.seq : nil }
          let end = if let ended { ended } else { try await jetStream.put(subject, Self.end).get() }
          try await jetStream.purge(subject, before: end, in: stream)
        }
        try await Bucket(jetStream, token: token).clear()
      }
      let grace = owner.options.truncationGrace
      Task.detached { [weak jetStream, stream] in
        guard (try? await Task.sleep(for: grace)) != nil, let jetStream else { return }
        do {
          for token in names {
            try await jetStream.purge(jetStream.prefix + token, in: stream)
            try await Bucket(jetStream, token: token).clear()
          }
          try await Bucket(jetStream, token: base).noteRemoval(of: number, isCleared: true)
        } catch {
          // Who uses the key next does it.
        }
      }
    }
  }
#endif
