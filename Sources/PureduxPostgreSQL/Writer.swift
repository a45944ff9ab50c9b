#if PostgreSQL
  import Puredux
  import PureduxLog

  /// Writes appends in batches: one tree's in one statement, several trees' in one transaction, in the order of their
  /// keys.
  final class Writer: Sendable {
    struct Append: Sendable {
      let tree: PostgreSQLTree
      let entry: [UInt8]
      let outcome: @Sendable (Result<UInt64, LogError>) -> Void
    }

    struct Written: Sendable {
      var id: Int64
      /// Only with a tree's first entries: followers may not know its number yet.
      var key: [UInt8]?

      var text: String {
        guard let key else { return "\(id)" }
        return "\(id):" + key.map { String(256 + Int($0), radix: 16).dropFirst() }.joined()
      }

      static func feeds(named text: some StringProtocol, _ followers: Followers) -> [Feed] {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count == 1 { return Int64(parts[0]).map { followers.feeds(of: $0) } ?? [] }
        let digits = Array(parts[1])
        let key = stride(from: 0, to: digits.count - 1, by: 2).map { place in
          UInt8(String(digits[place...(place + 1)]), radix: 16) ?? 0
        }
        return followers.feeds(of: String(decoding: key, as: UTF8.self))
      }
    }

    private struct Group {
      var tree: PostgreSQLTree
      let id: Int64
      var known: UInt64 = 0
      var appends: [Append] = []
      /// The required head, if any.
      var head: UInt64?
    }

    private static let byteLimit = 4 << 20
    private static let countLimit = 4096
    private static let treeLimit = 128
    /// The longest wait for a commit; callers are told long before. A server that waits for its standby keeps the row
    /// locked even without the connection, so the wait doubles.
    private static let longestPatience = Duration.seconds(600)

    private let session: Session
    private let orders: BatchQueue<Append>
    private let answerLimit: Duration
    private let patience: LockedValue<Duration>
    private let isClosing = LockedValue(false)
    /// Trees whose last append was refused: another client may lock their rows.
    private let blocked = LockedValue<Set<Int64>>([])
    private let schema: Schema
    private let committed: @Sendable ([Written]) -> Void

    /// - Parameter committed: Called on the session's queue with the trees that have new entries.
    init(
      _ session: Session, _ schema: Schema, answerLimit: Duration,
      committed: @escaping @Sendable ([Written]) -> Void
    ) {
      self.session = session
      self.schema = schema
      self.answerLimit = answerLimit
      self.committed = committed
      orders = BatchQueue(session.queue)
      patience = LockedValue(answerLimit)
    }

    func append(_ append: Append) {
      orders.add(append) { self.perform($0) }
    }

    /// Appends all entries or, if the head is elsewhere, none.
    func append(_ appends: [Append], behind head: UInt64) {
      session.queue.async { self.write(appends, behind: head) }
    }

    /// Earlier appends take at most the answer limit.
    func close() async {
      isClosing.withLock { $0 = true }
      await finish()
      await session.close()
    }

    func finish() async {
      await withCheckedContinuation { continuation in
        session.queue.async {
          self.orders.performAll { self.perform($0) }
          continuation.resume()
        }
      }
    }

    // MARK: On the queue

    private func perform(_ appends: [Append]) {
      var rest = appends[...]
      while !rest.isEmpty {
        var (count, bytes) = (0, 0)
        while count < min(rest.count, Self.countLimit), bytes < Self.byteLimit {
          bytes += rest[rest.startIndex + count].entry.count
          count += 1
        }
        write(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
    }

    private func write(_ appends: [Append], behind head: UInt64? = nil) {
      let outcome = session.perform { connection throws(LogError) in
        try self.bind(appends, connection)
        return self.groups(appends)
      }
      switch outcome {
      case .failure(let error): appends.forEach { $0.outcome(.failure(error)) }
      case .success(var groups):
        for index in groups.indices { groups[index].head = head }
        let blocked = blocked.withLock { $0 }
        let free = groups.filter { !blocked.contains($0.id) }
        let together = stride(from: 0, to: free.count, by: Self.treeLimit).map { start in
          Array(free[start..<min(start + Self.treeLimit, free.count)])
        }
        // Shuffled, as the trees after one that is still locked wait for the next attempt.
        let alone = groups.filter { blocked.contains($0.id) }.shuffled().map { [$0] }
        var lock: LogError?
        for some in together + alone {
          if let lock { some.forEach { tell($0, .failure(lock), isLate: false) } } else { lock = write(some) }
        }
      }
    }

    private func bind(_ appends: [Append], _ connection: Connection) throws(LogError) {
      var new: [[UInt8]: [PostgreSQLTree]] = [:]
      for append in appends where append.tree.knowledge.id == nil {
        new[append.tree.key, default: []].append(append.tree)
      }
      if new.isEmpty { return }
      let keys = new.keys.sorted { $0.lexicographicallyPrecedes($1) }
      let patience = Connection.Patience(limit: answerLimit)
      for start in stride(from: 0, to: keys.count, by: 1000) {
        let some = Parameter.list(Array(keys[start..<min(start + 1000, keys.count)]))
        _ = try connection.query(
          schema.statement(
            Schema.newTrees("given") + " FROM unnest($1) AS given ORDER BY given ON CONFLICT DO NOTHING", some),
          patience)
        let found = try connection.query(
          schema.statement("SELECT key, id FROM $.trees WHERE key = ANY ($1)", some), patience)
        for row in 0..<found.count {
          guard let key = found.bytes(row, 0), let id = found.integer(row, 1) else { continue }
          new[key]?.forEach { $0.learn(id) }
        }
      }
    }

    /// In the order in which all processes lock the rows.
    private func groups(_ appends: [Append]) -> [Group] {
      var groups: [Int64: Group] = [:]
      for append in appends {
        guard let id = append.tree.knowledge.id else {
          append.outcome(.failure(.unavailable("The tree is being removed.")))
          continue
        }
        var group = groups.removeValue(forKey: id) ?? Group(tree: append.tree, id: id)
        // A tree may have several log objects.
        let known = append.tree.knowledge.position
        if known > group.known { (group.tree, group.known) = (append.tree, known) }
        group.appends.append(append)
        groups[id] = group
      }
      return groups.values.sorted { one, other in
        one.tree.key == other.tree.key ? one.id < other.id : one.tree.key.lexicographicallyPrecedes(other.tree.key)
      }
    }

    /// - Parameter isRepeated: Whether the groups were tried before, in a transaction with a locked tree.
    /// - Returns: The failure, if all tried groups are locked, for instance with the whole table.
    @discardableResult private func write(_ groups: [Group], isRepeated: Bool = false) -> LogError? {
      if groups.isEmpty { return nil }
      let isTold = LockedValue(false)
      let limit = patience.withLock { $0 }
      let wait = Connection.Patience(limit: answerLimit) { waited in
        // Callers learn now that the outcome is unknown.
        let error = LogError.unavailable(
          "The database has not confirmed the commit within \(self.answerLimit).")
        let tells = isTold.withLock { isTold in
          defer { isTold = true }
          return !isTold
        }
        if tells { groups.forEach { $0.appends.forEach { $0.outcome(.failure(error)) } } }
        self.orders.performAll { $0.forEach { $0.outcome(.failure(error)) } }
        guard waited < limit, !self.isClosing.withLock({ $0 }) else {
          self.patience.withLock { $0 = min($0 * 2, Self.longestPatience) }
          return false
        }
        return true
      }
      let refused = LockedValue<Int?>(nil)
      let outcome = session.perform { connection throws(LogError) -> [Result<UInt64, LogError>] in
        let statements = groups.map { self.statement($0) }
        let answers: [Answer]
        do throws(LogError) {
          answers =
            statements.count == 1
            ? [try connection.query(statements[0], wait)] : try connection.transaction(statements, wait)
        } catch {
          if !connection.isBroken { refused.withLock { $0 = connection.refused } }
          throw error
        }
        var bases: [Result<UInt64, LogError>] = []
        for (group, answer) in zip(groups, answers) {
          if let base = answer.integer(0, 0) {
            bases.append(.success(UInt64(max(0, base))))
          } else {
            bases.append(.failure(group.tree.refusal(of: group.id, behind: group.head, connection)))
          }
        }
        return bases
      }
      let isLate = isTold.withLock { $0 }
      switch outcome {
      case .failure(let error):
        let isLocked = Failure.isLocked(error)
        if isLocked, isRepeated {
          groups.forEach { tell($0, .failure(error), isLate: isLate) }
        } else if let place = refused.withLock({ $0 }), !error.isFull {
          // Only this tree fails. The others are written without it, and precede it from now on.
          blocked.withLock { _ = $0.insert(groups[place].id) }
          tell(groups[place], .failure(error), isLate: isLate)
          var others = groups
          others.remove(at: place)
          let failure = isLate ? nil : write(others, isRepeated: isLocked)
          return others.isEmpty && isLocked ? error : failure
        } else {
          groups.forEach { tell($0, .failure(error), isLate: isLate) }
        }
        return isLocked ? error : nil
      case .success(let bases):
        patience.withLock { $0 = answerLimit }
        blocked.withLock { $0.subtract(groups.map(\.id)) }
        var written: [Written] = []
        for (group, base) in zip(groups, bases) {
          if case .success(let base) = base {
            written.append(Written(id: group.id, key: base == 0 ? group.tree.key : nil))
          }
          tell(group, base, isLate: isLate)
        }
        committed(written)
        return nil
      }
    }

    private func tell(_ group: Group, _ base: Result<UInt64, LogError>, isLate: Bool) {
      var failure: LogError?
      var first: UInt64 = 0
      switch base {
      case .failure(let error): failure = error
      case .success(let base):
        first = base + 1
        failure = group.tree.knowledge.appended(group.appends.count, behind: base, knowing: group.known)
        // Followers first: a `send` returns once its action arrives from the log.
        if failure == nil { group.tree.appended(group.appends.map(\.entry), behind: base) }
      }
      if let failure, failure.isLasting { group.tree.found(failure) }
      if isLate { return }
      for (index, append) in group.appends.enumerated() {
        if failure == nil { append.tree.knowledge.saw(first + UInt64(index)) }
        append.outcome(failure.map { .failure($0) } ?? .success(first + UInt64(index)))
      }
    }

    /// The row stays locked until the commit, so positions have no gaps and rise in commit order. Nothing is appended
    /// to a log that has lost known entries, as readers would find it out of order, and stop.
    private func statement(_ group: Group) -> Statement {
      schema.statement(
        """
        WITH head AS (
          UPDATE $.trees SET head = head + cardinality($2)
          WHERE id = $1 AND head \(group.head == nil ? ">=" : "=") $3
          RETURNING id, head - cardinality($2) AS base
        ), written AS (
          INSERT INTO $.entries (tree, position, entry) SELECT head.id, head.base + given.place, given.entry
          FROM head, unnest($2) WITH ORDINALITY AS given (entry, place))
        SELECT base FROM head
        """, .integer(group.id), .list(group.appends.map(\.entry)), .integer(Int64(clamping: group.head ?? group.known))
      )
    }
  }

  extension LogError {
    var isPassing: Bool {
      if case .unavailable = self { true } else { false }
    }

    var isLasting: Bool {
      switch self {
      case .damaged, .removed: true
      default: false
      }
    }

    var isFull: Bool { if case .full = self { true } else { false } }
  }
#endif
