#if NATS
  import Puredux
  import PureduxLog

  final class NATSTree: LogOfEngine, ProbedLog, SnapshotStore, SummaryStore {
    private struct Known: Sendable {
      var position: UInt64 = 0
      /// The error that ends this log for good.
      var damage: LogError?
    }

    /// The entries that must exist, once there was one.
    struct Extent: Equatable, Sendable {
      /// Entries up to this position may have been purged.
      var truncated: UInt64
      var first: UInt64
      /// The tree's very first entry, if known.
      var start: UInt64?

      /// Whether no entry after a position is missing, if `left` is the stream's first: removals take all entries
      /// before some entry.
      func isWhole(behind position: UInt64, beginningWith left: UInt64) -> Bool {
        left <= max(position, start ?? 0) || (position >= truncated && left <= first)
      }
    }

    private typealias Append = (entry: [UInt8], outcome: @Sendable (Result<UInt64, LogError>) -> Void)

    private struct Naming: Sendable {
      var token: String?
      var number: UInt64 = 0
      var waiting: [Append] = []
      var isAsking = false
    }

    /// The last entry of a removed tree, at which readers stop. To older versions it is of a newer format.
    static let end: [UInt8] = [0x50, 0x44, 0x58, 0xFF] + Array("removed".utf8)

    let owner: NATSLog
    var engine: NATSLog { owner }
    var probe: Probe { owner.probe }
    private let key: String
    /// The possible names of the key's first tree. Empty if the key is too long.
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
        throw .unavailable("The name of the log's tree is not known yet.")
      }
      return token
    }

    /// Finds out the tree's name, once. Throws if the tree has been removed.
    func learn() async throws(LogError) {
      if damage == .removed { throw .removed }
      if naming.withLock({ $0.token != nil }) { return }
      let base = try base()
      let removals = try await Bucket(jetStream, token: base).removals()
      // The remover died, or waits for entries in flight.
      for number in removals.cleared..<max(removals.cleared, removals.removed) { try await finishRemoval(of: number) }
      let number = removals.removed
      let token = number > 0 ? Subjects.token(base, number: number) : try await spelling() ?? base
      naming.withLock { naming in
        guard naming.token == nil else { return }
        naming.token = token
        naming.number = number
      }
    }

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

    // MARK: Known positions and damage

    var known: UInt64 { knowledge.withLock { $0.position } }
    var damage: LogError? { knowledge.withLock { $0.damage } }

    func saw(_ position: UInt64) { knowledge.withLock { $0.position = max($0.position, position) } }

    func noteRemoved() { knowledge.withLock { $0.damage = .removed } }

    /// Throws if a message is a removed tree's final entry.
    private func entry(_ message: JetStream.StoredMessage?) throws(LogError) -> JetStream.StoredMessage? {
      guard let data = message?.data, data.elementsEqual(Self.end) else { return message }
      noteRemoved()
      throw .removed
    }

    /// Called if fewer entries are found than expected.
    private func checkRemoval() async throws(LogError) {
      guard try await isRemoved() else { return }
      noteRemoved()
      throw .removed
    }

    private func isRemoved() async throws(LogError) -> Bool {
      try await Bucket(jetStream, token: base()).removals().removed > naming.withLock { $0.number }
    }

    func checkIdentity() async throws(LogError) {
      do {
        try await jetStream.checkIdentity()
      } catch {
        if case .damaged = error { knowledge.withLock { $0.damage = $0.damage ?? error } }
        throw error
      }
    }

    /// Returns damage if an append does not come after the last position known before.
    private func appended(at position: UInt64, behind before: UInt64) -> LogError? {
      knowledge.withLock { known in
        if position <= before, known.damage == nil {
          known.damage = .damaged(
            position: position, "The log has lost entries: an entry appended after \(before) is at \(position).")
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
          case (.success, nil): append.outcome(.failure(.unavailable("The name of the log's tree is not known.")))
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
        // `remove` finds the tree by this note.
        try await bucket().noteOpening()
        try await clearIfRemoved()
        _ = try await checkEntries(behind: 0)
        // A server with damaged files may find entries but no last one.
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

    // MARK: Missing entries

    func extent() async throws(LogError) -> Extent? { try await bucket().extent() }

    /// Throws if an entry after a position is missing, or if none is left. Notes the tree's first entry.
    ///
    /// If this returns, entries that were received before the call and continue at the position have no gap.
    ///
    /// - Returns: How far the log was truncated. Later entries are not purged within the truncation delay.
    func checkEntries(behind position: UInt64) async throws(LogError) -> UInt64 {
      try await learn()
      let subject = try subject()
      // A second look resolves changes between the requests.
      for _ in 0..<2 {
        async let noted = result { () async throws(LogError) in try await self.extent() }
        // An entry at the position proves that none after it is missing. It was just sent; the first one may be large.
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
        // The note may have changed before the entries did.
        if !(extent?.isWhole(behind: position, beginningWith: first) ?? false) {
          // A late entry of a process that missed the removal must not begin a tree.
          try await checkRemoval()
          extent = try await bucket().begin(with: first)
        }
        guard let extent else { continue }
        guard !extent.isWhole(behind: position, beginningWith: first) else { return extent.truncated }
        throw position < extent.truncated ? .truncated(first: first) : loss(behind: position, first)
      }
      // The caller retries.
      throw .unavailable("The stream counts entries of the log \(key), but shows none.")
    }

    /// False if an entry has arrived meanwhile.
    private func isEmpty(_ extent: Extent) async throws(LogError) -> Bool {
      let state = try await jetStream.entries(of: subject())
      guard state.count == 0 else { return false }
      // A stream never forgets its last position: these servers have not reached it yet, or are restored from a backup.
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
      // The last entry carries the head. A position without an entry does not identify the next one.
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
      // A reader that has just checked for losses would miss this one: its check must expire.
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
      try await clearIfRemoved()
    }

    func replace(with snapshot: LogSnapshot) async throws(LogError) {
      try await learn()
      try await bucket().save(snapshot, replacing: { () async throws(LogError) in try await self.head() })
      try await clearIfRemoved()
    }

    /// Called after a value is stored. A removal deletes the values stored before its end; this call deletes a later
    /// value.
    private func clearIfRemoved() async throws(LogError) {
      guard try await isRemoved() else { return }
      try await bucket().clear()
      noteRemoved()
      throw .removed
    }

    // MARK: Summary

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
            let isKept = try await self.bucket().save(summary, number: self.naming.withLock { $0.number }) {
              () async throws(LogError) in try await self.head()
            }
            try await self.clearIfRemoved()
            return isKept
          })
      }
    }

    // MARK: Removal

    /// The removal takes effect with its note.
    func remove() async throws(LogError) {
      try await learn()
      let hasEntries = try await jetStream.last(of: subject(), in: stream) != nil
      if !hasEntries, try await bucket().isEmpty() { return }
      let number = naming.withLock { $0.number }
      try await Bucket(jetStream, token: base()).noteRemoval(of: number)
      try await finishRemoval(of: number)
    }

    private func finishRemoval(of number: UInt64) async throws(LogError) {
      let base = try base()
      let names = number == 0 ? tokens : [Subjects.token(base, number: number)]
      for token in names {
        let subject = jetStream.prefix + token
        let last = try await jetStream.last(of: subject, in: stream)
        // A tree without entries uses the first name.
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
          // The key's next user does this.
        }
      }
    }
  }
#endif
