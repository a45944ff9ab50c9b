#if PostgreSQL
  import Dispatch
  import Puredux
  public import PureduxLog

  /// Logs in a PostgreSQL database. All trees are in the tables of one schema.
  ///
  ///     let log = try await PostgreSQLLog("postgresql://boards@db.internal/boards")
  ///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
  ///
  /// Requires PostgreSQL 13 or later and libpq 14 or later. Two connections serve all trees, one of them for appends.
  /// No network wait is on the cooperative thread pool.
  ///
  /// **Order.** An append raises the head in the tree's row, which stays locked until the commit. So positions have no
  /// gaps, and no reader sees an entry before its predecessors.
  ///
  /// **Durability.** An acknowledged entry is committed, as safely as `synchronous_commit` and
  /// `synchronous_standby_names` say; by default, it is on the disk of one server. The promotion of a synchronous
  /// standby loses nothing. That of an asynchronous one loses the last commits, and stores that have seen them stop
  /// (`LogStop.unreadable`). If the connection is lost during a commit, the outcome is unknown.
  ///
  /// **Server failures.** While the server is away, starts or is a standby, the log accepts and delivers nothing. It
  /// continues by itself with the first host in the connection string that takes writes. A host that does not answer,
  /// or lacks known entries, is left for the next one.
  ///
  /// **Following.** An append notifies the followers of all processes (`NOTIFY`). As notifications may be lost, for
  /// instance in a pooler in transaction mode, one statement also polls all followed trees every
  /// `Options.pollInterval`.
  ///
  /// **Truncation** deletes entries ten seconds after the call, or at the next truncation if this process ends earlier.
  /// A reader that has not reached them by then throws `LogError.truncated`. The last entry always stays.
  public final class PostgreSQLLog: LogDirectory {
    /// Settings of the tables and the connections.
    public struct Options: Sendable {
      /// The schema of the tables: a name of 1 to 63 bytes. Logs in different schemas are independent.
      public var schema = "puredux"
      /// Whether a missing schema and missing tables are created, and older tables upgraded. If false, `init` throws
      /// `.refused` instead: for a role without the privileges, whose tables `setupScript(schema:role:)` has created.
      public var makesTables = true
      /// How long `init` tries to connect, between zero and a hundred years. A pending attempt then has its own limit.
      public var connectLimit = Duration.seconds(10)
      /// The time after which an unanswered request fails with `.unavailable`, between a second and a hundred years. It
      /// also limits an attempt to connect, unless the connection string has a `connect_timeout`.
      public var answerLimit = Duration.seconds(5)
      /// The longest delay of another process' entries without notifications, a hundredth of a second to a minute.
      /// While such entries arrive, there are up to fifty polls a second.
      public var pollInterval = Duration.seconds(1)
      /// The delay between a truncation and its deletion.
      var truncationGrace = Duration.seconds(10)

      /// The defaults.
      public init() {}
    }

    private struct State: Sendable {
      var identity: String?
      var isClosed = false
      var untold: Set<String> = []
      var isTelling = false
      var poller: Task<Void, Never>?
    }

    let options: Options
    let schema: Schema
    let followers = Followers()
    let patience: Connection.Patience
    let reading: Session
    let probe: Probe
    private let writing: Session
    let writer: Writer
    private let shared: Shared

    /// Without a reference to the log.
    private final class Shared: Sendable {
      let state = LockedValue(State())
      /// Marks this process' notifications, which it ignores.
      let sender = String(UInt64.random(in: .min ... .max), radix: 36)
      let channel = LockedValue("")
      /// The removals that this process has begun and not completed, by the numbers of their trees.
      let removals = LockedValue<[Int64: Removal]>([:])
    }

    private struct Removal {
      /// Nil if another process, or another `PostgreSQLLog`, has begun it.
      let key: [UInt8]?
      var inProgress = true
    }

    /// Connects to a database, and creates the tables if they do not exist.
    ///
    /// - Parameters:
    ///   - connection: A connection string of libpq, such as `postgresql://boards@db.internal/boards` or
    ///     `host=/run/postgresql dbname=boards`. Services, password files and the environment apply as with `psql`.
    ///     Without `target_session_attrs`, a server must take writes.
    ///   - options: Settings of the tables and the connections.
    /// - Throws: A `LogError`, whose text names the remedy.
    ///   - `.unavailable`: No server can be reached within `connectLimit`, or the task is cancelled.
    ///   - `.full`: The server has no room left.
    ///   - `.refused`: The connection string or schema name is invalid, the server refuses the user, the database does
    ///     not exist, or the role lacks a privilege. Or the tables are missing and not to be created, are not this
    ///     library's, or have a newer version.
    ///   - `.damaged`: The tables are not as they should be.
    public init(_ connection: String, options: Options = Options()) async throws(LogError) {
      var options = options
      options.connectLimit = options.connectLimit.clamped
      options.answerLimit = max(options.answerLimit.clamped, .seconds(1))
      options.pollInterval = min(max(options.pollInterval, .milliseconds(10)), .seconds(60))
      self.options = options
      let schema = try Schema(options.schema)
      self.schema = schema
      let patience = Connection.Patience(limit: options.answerLimit)
      self.patience = patience
      let shared = Shared()
      self.shared = shared
      try Connection.check(connection)
      let (makes, name) = (options.makesTables, options.schema)
      @Sendable func identify(_ connection: Connection) throws(LogError) {
        let known = shared.state.withLock { $0.identity }
        let identity =
          known == nil
          ? try schema.prepare(connection, makes: makes, patience) : try schema.identity(connection, patience)
        let isSame = shared.state.withLock { state in
          state.identity = state.identity ?? identity
          return state.identity == identity
        }
        guard isSame else {
          throw .damaged(position: 0, "The tables in the schema \(name) were replaced by others.")
        }
        shared.channel.withLock { $0 = "puredux " + identity }
      }
      let followers = followers
      reading = Session(
        connection, label: "puredux.postgresql.reading", limit: options.answerLimit, limitsStatements: true,
        isOpened: false
      ) { texts in
        for text in texts { Self.notified(text, of: shared.sender, followers) }
      } opening: { connection throws(LogError) in
        try identify(connection)
        let channel = shared.channel.withLock { $0 }
        _ = try connection.query(Statement(text: "LISTEN \"\(channel)\""), patience)
      }
      writing = Session(
        connection, label: "puredux.postgresql.writing", limit: options.answerLimit, limitsStatements: false,
        isOpened: true, opening: identify)
      let reading = reading
      let question = schema.statement("SELECT EXISTS (SELECT FROM $.trees), EXISTS (SELECT FROM $.entries)")
      probe = Probe { [weak reading] in
        do throws(LogError) {
          try await reading?.run { connection throws(LogError) in _ = try connection.query(question, patience) }
          return true
        } catch {
          // Each store finds a lasting error by itself.
          return !error.isPassing && !error.isFull
        }
      }
      writer = Writer(writing, schema, answerLimit: options.answerLimit) { trees in
        Self.tell(trees, shared, reading, patience)
      }
      let deadline = ContinuousClock.now + options.connectLimit
      while true {
        do throws(LogError) {
          try await reading.run { _ throws(LogError) in }
          break
        } catch {
          guard error.isPassing || error.isFull, ContinuousClock.now < deadline else { throw error }
          do {
            try await Task.sleep(for: .milliseconds(100))
          } catch {
            throw .unavailable("The task was cancelled.")
          }
        }
      }
      let poller = Task.detached { [weak self] in
        var wait = options.pollInterval
        while (try? await Task.sleep(for: wait)) != nil {
          guard let found = await self?.poll() else { return }
          wait = min(options.pollInterval, found ? max(.milliseconds(20), wait / 4) : wait * 2)
        }
      }
      shared.state.withLock { $0.poller = poller }
      Task.detached { [weak self] in _ = try? await self?.clearRest() }
    }

    deinit { shared.state.withLock { $0.poller }?.cancel() }

    /// A script for `psql` that creates the schema and its tables, and grants their use to a role that may not create
    /// tables.
    ///
    /// - Parameters:
    ///   - schema: The schema, as in the options.
    ///   - role: The program's role.
    /// - Throws: `LogError.refused` if the schema's name is invalid.
    public static func setupScript(schema: String = "puredux", role: String) throws(LogError) -> String {
      try Schema(schema).script(for: role)
    }

    /// The log of a tree. Sends nothing to the database until it is used. The first use creates the tree's row, which
    /// takes about a hundred bytes plus the key, and stays until the tree is removed.
    ///
    /// - Parameter key: Any text of up to 2,000 bytes. Uses of a log with a longer key throw `LogError.refused`. Equal
    ///   texts are one key, however their accents are encoded.
    public subscript(key: String) -> any OrderedLog { PostgreSQLTree(of: key, in: self) }

    /// Closes the connections after all earlier requests. Every follower then gets `LogError.unavailable`, for good:
    /// shut the stores down first. Otherwise, the connections close when the log and its trees are released.
    public func close() async {
      shared.state.withLock { state in
        state.isClosed = true
        state.poller?.cancel()
      }
      await writer.close()
      await reading.close()
      for feed in followers.all() { feed.wake() }
    }

    var isClosed: Bool { shared.state.withLock { $0.isClosed } }

    /// Calls back after this call.
    func tell(_ body: @escaping @Sendable () -> Void) { writing.queue.async(execute: body) }

    // MARK: Lists

    /// Lists keys in the byte order of their composed texts, 1,000 in memory at a time.
    public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
      pages(
        of: """
          SELECT key FROM $.trees AS trees WHERE key >= $1 AND (key > $1 OR $2 = 1) AND (head > 0
            OR EXISTS (SELECT FROM $.snapshots AS kept WHERE kept.tree = trees.id)
            OR EXISTS (SELECT FROM $.summaries AS kept WHERE kept.tree = trees.id))
          ORDER BY key LIMIT 1000
          """, prefix
      ) { key, _, _ in key }
    }

    /// Lists summaries in the byte order of their composed keys, 1,000 in memory at a time.
    public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
      pages(
        of: """
          SELECT key, position, summary FROM $.trees AS trees JOIN $.summaries AS summaries ON summaries.tree = trees.id
          WHERE key >= $1 AND (key > $1 OR $2 = 1) ORDER BY key LIMIT 1000
          """, prefix
      ) { key, answer, row in
        LogSummary(
          key: key, position: UInt64(max(0, answer.integer(row, 1) ?? 0)), bytes: answer.bytes(row, 2) ?? [])
      }
    }

    private struct Page<Element: Sendable>: Sendable {
      /// In reverse order.
      var elements: [Element] = []
      var last: [UInt8]
      var isBegun = false
      var isWhole = false
    }

    private func pages<Element: Sendable>(
      of text: String, _ prefix: String,
      _ element: @escaping @Sendable (_ key: String, _ answer: Answer, _ row: Int) -> Element
    ) -> AsyncThrowingStream<Element, any Error> {
      let prefix = Array(prefix.composed.utf8)
      let found = LockedValue(Page<Element>(last: prefix))
      return AsyncThrowingStream { [self] () async throws -> Element? in
        while true {
          if let element = found.withLock({ $0.elements.popLast() }) { return element }
          let before = found.withLock { $0 }
          if before.isWhole { return nil }
          let page = try await reading.run { [schema, patience] connection throws(LogError) in
            var page = Page<Element>(last: before.last, isBegun: true)
            let isFirst = Parameter.integer(before.isBegun ? 0 : 1)
            let answer = try connection.query(schema.statement(text, .bytes(before.last), isFirst), patience)
            page.isWhole = answer.count < 1000
            for row in 0..<answer.count {
              guard let key = answer.bytes(row, 0), key.starts(with: prefix) else {
                page.isWhole = true
                break
              }
              page.last = key
              page.elements.append(element(String(decoding: key, as: UTF8.self), answer, row))
            }
            page.elements.reverse()
            return page
          }
          found.withLock { $0 = page }
        }
      }
    }

    // MARK: Following

    func follow(_ feed: Feed, of tree: PostgreSQLTree) {
      followers.add(feed, to: tree.text)
      if let id = tree.knowledge.id { followers.learned(id, of: tree.text) }
    }

    /// Returns whether any follower was behind without knowing it.
    private func poll() async -> Bool {
      let (ids, keys) = followers.targets()
      if ids.isEmpty, keys.isEmpty { return false }
      do throws(LogError) {
        return try await reading.run { [followers, schema, patience] connection throws(LogError) in
          var heads: [Int64: UInt64] = [:]
          if !ids.isEmpty {
            let found = try connection.query(
              schema.statement("SELECT id, head FROM $.trees WHERE id = ANY ($1)", .integers(ids)), patience)
            for row in 0..<found.count {
              if let id = found.integer(row, 0) { heads[id] = UInt64(max(0, found.integer(row, 1) ?? 0)) }
            }
          }
          var isNews = false
          for id in ids {
            for feed in followers.feeds(of: id) {
              if let head = heads[id] { if feed.found(head: head, of: id) { isNews = true } } else { feed.wake() }
            }
          }
          if keys.isEmpty { return isNews }
          let some = Parameter.list(keys.map { Array($0.utf8) })
          let found = try connection.query(
            schema.statement("SELECT key FROM $.trees WHERE key = ANY ($1) AND head > 0", some), patience)
          for row in 0..<found.count {
            guard let key = found.text(row, 0) else { continue }
            for feed in followers.feeds(of: key) { feed.wake() }
          }
          return isNews || found.count > 0
        }
      } catch {
        // Readers query for themselves, and find the failure.
        for feed in followers.all() { feed.wake() }
        return false
      }
    }

    /// One notification for all appends during the last one, outside of their transactions: `NOTIFY` would serialize
    /// the commits.
    private static func tell(
      _ trees: [Writer.Written], _ shared: Shared, _ reading: Session, _ wait: Connection.Patience
    ) {
      let begins = shared.state.withLock { state in
        for tree in trees { state.untold.insert(tree.text) }
        defer { state.isTelling = state.isTelling || !state.untold.isEmpty }
        return !state.isTelling && !state.untold.isEmpty
      }
      if begins { reading.queue.async { tellAll(shared, reading, wait) } }
    }

    private static func tellAll(_ shared: Shared, _ reading: Session, _ wait: Connection.Patience) {
      let untold = shared.state.withLock { state in
        defer { state.untold = [] }
        state.isTelling = !state.untold.isEmpty
        return state.untold
      }
      if untold.isEmpty { return }
      var texts = [shared.sender]
      for tree in untold.sorted() {
        // PostgreSQL's limit is 8,000 bytes.
        if texts[texts.count - 1].utf8.count + tree.utf8.count > 7900 { texts.append(shared.sender) }
        texts[texts.count - 1] += " " + tree
      }
      for text in texts {
        // Other processes also poll.
        _ = reading.perform { connection throws(LogError) in
          // Nothing durable is written, so the commit need not wait for the disk.
          try connection.query(
            Statement(
              text: "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
              parameters: [.text(shared.channel.withLock { $0 }), .text(text)]), wait)
        }
      }
      reading.queue.async { tellAll(shared, reading, wait) }
    }

    private static func notified(_ text: String, of sender: String, _ followers: Followers) {
      let parts = text.split(separator: " ")
      guard let first = parts.first, first != sender else { return }
      for part in parts.dropFirst() {
        for feed in Writer.Written.feeds(named: part, followers) { feed.wake() }
      }
    }

    // MARK: Removal

    /// Deletes the entries that the tree's row marks as truncated. The row is read again in each batch: a server that
    /// was promoted meanwhile may lack the mark, and then keeps its entries.
    func clearTruncated(_ id: Int64, through position: UInt64) async throws(LogError) {
      try await clear(id, through: position, where: "position < (SELECT first FROM $.trees WHERE id = $1)")
    }

    /// In batches, between which other work runs, until no entry is found: rows that another client deletes do not
    /// count as deleted here.
    private func clear(_ id: Int64, through position: UInt64, where condition: String) async throws(LogError) {
      let statement = schema.statement(
        """
        WITH found AS MATERIALIZED (
          SELECT position FROM $.entries
          WHERE tree = $1 AND position <= $2 AND \(condition) ORDER BY position LIMIT 200
        ), gone AS (DELETE FROM $.entries WHERE tree = $1 AND position IN (SELECT position FROM found))
        SELECT FROM found LIMIT 1
        """, .integer(id), .integer(Int64(clamping: position)))
      while try await reading.run({ [patience] connection throws(LogError) in
        try connection.query(statement, patience).count
      }) > 0 {}
    }

    /// Like `clear`, in small batches, as the server ends long statements.
    func clearParts(_ condition: String, _ parameters: Parameter...) async throws(LogError) {
      let statement = schema.statement(
        """
        WITH found AS MATERIALIZED (SELECT ctid AS place FROM $.snapshot_parts WHERE \(condition) LIMIT 16),
          gone AS (DELETE FROM $.snapshot_parts WHERE ctid = ANY (ARRAY(SELECT place FROM found)))
        SELECT FROM found LIMIT 1
        """, parameters)
      while try await reading.run({ [patience] connection throws(LogError) in
        try connection.query(statement, patience).count
      }) > 0 {}
    }

    func beginRemoval(_ id: Int64, of key: [UInt8]?) {
      shared.removals.withLock { $0[id] = Removal(key: $0[id]?.key ?? key) }
    }

    /// Each statement requires the removal's note: a server that was promoted meanwhile may lack it, and then keeps the
    /// tree.
    func clearRemoved(_ id: Int64, of key: [UInt8]?) async throws(LogError) {
      beginRemoval(id, of: key)
      var isCleared = false
      defer { shared.removals.withLock { if isCleared { $0[id] = nil } else { $0[id]?.inProgress = false } } }
      let isRemoved = "EXISTS (SELECT FROM $.removals WHERE tree = $1)"
      try await clear(id, through: .max, where: isRemoved)
      try await clearParts("tree = $1 AND " + isRemoved, .integer(id))
      try await reading.run { [schema, patience] connection throws(LogError) in
        for table in ["snapshots", "summaries"] {
          _ = try connection.query(
            schema.statement("DELETE FROM $.\(table) WHERE tree = $1 AND " + isRemoved, .integer(id)), patience)
        }
        // A server that was promoted after the deletions may lack them.
        let noted = try connection.query(
          schema.statement(
            """
            UPDATE $.removals SET cleared = true WHERE tree = $1
            AND NOT EXISTS (SELECT FROM $.entries WHERE entries.tree = $1)
            AND NOT EXISTS (SELECT FROM $.snapshot_parts AS parts WHERE parts.tree = $1)
            """, .integer(id)), patience)
        guard noted.changed == 1 else {
          throw .unavailable("The server has lost the removal, as after a failover. Remove the log again.")
        }
      }
      isCleared = true
    }

    /// Completes all removals, except those of other keys that this process has in progress.
    ///
    /// - Returns: The errors of the removals that fail, with their keys as in `Removal`.
    func clearRest(for own: [UInt8]? = nil) async throws(LogError) -> [(key: [UInt8]?, error: LogError)] {
      let rest = try await reading.run { [schema, patience] connection throws(LogError) in
        let found = try connection.query(schema.statement("SELECT tree FROM $.removals WHERE NOT cleared"), patience)
        return (0..<found.count).compactMap { found.integer($0, 0) }
      }
      var failures: [(key: [UInt8]?, error: LogError)] = []
      for id in rest {
        let begun = shared.removals.withLock { $0[id] }
        if let begun, begun.inProgress, let key = begun.key, key != own { continue }
        do throws(LogError) {
          try await clearRemoved(id, of: begun?.key)
        } catch {
          failures.append((begun?.key, error))
        }
      }
      return failures
    }

    /// Removes the tree of a key.
    ///
    /// From the removal's note on, the key names a new tree, under another number. The old tree's data is then deleted,
    /// 200 entries at a time. If that fails, each later call, for any key, and the next process that opens the log
    /// complete the removal. A repeated call also removes a new tree that has been written under the key since.
    ///
    /// - Throws: Also if an earlier removal of the key by this `PostgreSQLLog` still fails. If the key names no tree, also
    ///   if the removal of any tree by another one still fails: that tree may have been the key's.
    public func remove(_ key: String) async throws(LogError) { try await PostgreSQLTree(of: key, in: self).remove() }
  }
#else
  @available(
    *, unavailable,
    message: "PureduxPostgreSQL is behind a trait: add traits: [\"PostgreSQL\"] to the dependency on Puredux."
  )
  public final class PostgreSQLLog {}
#endif
