#if PostgreSQL
  import Dispatch
  import Puredux
  public import PureduxLog

  /// Logs in a PostgreSQL database: all trees in the tables of one schema, for stores on any number of machines.
  ///
  ///     let log = try await PostgreSQLLog("postgresql://boards@db.internal/boards")
  ///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
  ///
  /// **The order** of a tree is that in which its transactions commit: an append raises the number of the last entry,
  /// in the tree's row, which stays locked until the commit. So positions have no gaps, and no reader sees one before
  /// those that precede it.
  ///
  /// **What is safe.** An entry that is told to be appended is committed, as safely as `synchronous_commit` and
  /// `synchronous_standby_names` of the server, the database or the role say. With the defaults, and without a standby,
  /// it is on the disk of one server. With a synchronous standby that is promoted nothing is lost; with one that is not
  /// synchronous the last commits are, and the stores that have seen them stop (`LogStop.unreadable`). A commit whose
  /// connection is lost may have been done or not, and is never assumed to be either.
  ///
  /// **When the server is away**, is starting, or has become a standby, the log takes and delivers nothing, and goes on
  /// by itself when there is one that takes writes: of several hosts in the connection string the first that does. One
  /// that does not answer, or shows less than there is known to be, is left for the next, which follows it.
  ///
  /// **Following.** Who appends notifies (`NOTIFY`), and who follows any number of trees listens on one connection.
  /// What was not notified of, as a notification was lost, or a pooler in transaction mode is in between, is found by
  /// asking for the heads of all that is followed, in one statement: `Options.pollInterval`.
  ///
  /// **Truncation** removes entries ten seconds after it was asked for; if this process ends before, they go with the
  /// next truncation. A reader that has not come to them yet gets them until then, and is told afterwards that they are
  /// gone (`LogError.truncated`). The last entry always stays.
  ///
  /// Two connections serve all trees: one appends, and one reads, listens and does the rest. Nothing that waits for the
  /// network is done on the cooperative pool. PostgreSQL 13 or later is needed, and libpq 14 or later.
  public final class PostgreSQLLog: LogDirectory {
    /// How the database is spoken to.
    public struct Options: Sendable {
      /// The schema in which the tables are: a text of 1 to 63 bytes. Logs in different schemas have nothing to do with
      /// each other.
      public var schema = "puredux"
      /// Whether the schema and the tables are made where they are not there, and changed to those of this version
      /// where they are of an older one. Without it that is refused: for a role that may not, and whose tables
      /// `setupScript(schema:role:)` has made.
      public var makesTables = true
      /// For how long the first connection is tried before `init` throws; an attempt that has begun by then has its
      /// own limit. Less than zero counts as zero, and more than a hundred years as that; so it does for the next two.
      public var connectLimit = Duration.seconds(10)
      /// What the database has not answered after that long is `.unavailable`. A connection is tried for as long,
      /// unless the connection string says `connect_timeout`. At least a second.
      public var answerLimit = Duration.seconds(5)
      /// How long an entry of another process takes at most to be found where no notification tells of it: between a
      /// hundredth of a second and a minute. While such entries come they are looked for up to fifty times a second.
      public var pollInterval = Duration.seconds(1)
      /// How long a truncation waits.
      var truncationGrace = Duration.seconds(10)

      /// The defaults.
      public init() {}
    }

    private struct State: Sendable {
      /// Of the tables, when they were first seen.
      var identity: String?
      var isClosed = false
      /// Trees that others are to be told of, and whether somebody does.
      var untold: Set<String> = []
      var isTelling = false
      var poller: Task<Void, Never>?
    }

    let options: Options
    let schema: Schema
    let followers = Followers()
    let patience: Connection.Patience
    let reading: Session
    /// Asks the database on behalf of all stores that wait for it.
    let probe: Probe
    private let writing: Session
    let writer: Writer
    private let shared: Shared

    /// What the sessions need, which do not hold the log.
    private final class Shared: Sendable {
      let state = LockedValue(State())
      /// This process, for who listens: its own notifications tell it nothing.
      let sender = String(UInt64.random(in: .min ... .max), radix: 36)
      let channel = LockedValue("")
    }

    /// Connects, and makes the tables where they are not there.
    ///
    /// - Parameters:
    ///   - connection: What libpq connects with, in either of its forms: `postgresql://boards@db.internal/boards`, or
    ///     `host=/run/postgresql dbname=boards`. With it hold services, password files, and the environment, as with
    ///     `psql`. Without `target_session_attrs` in it a server has to take writes.
    ///   - options: How the database is spoken to.
    /// - Throws: `LogError.unavailable` where no server can be reached within `connectLimit`; `.refused` where the
    ///   server refuses the user, where there is no such database, or where the role may not use, or make, the tables,
    ///   or they are of a newer version; `.damaged` where they are not what they should be. The texts say what to do.
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
          throw .damaged(position: 0, "The tables in the schema \(name) are not those that were there.")
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
      clearRest()
    }

    deinit { shared.state.withLock { $0.poller }?.cancel() }

    /// What makes the schema and its tables, and lets a role use them: for an administrator, who runs it with `psql`,
    /// where the program's own role may make no tables.
    ///
    /// - Parameters:
    ///   - schema: As in the options.
    ///   - role: The role that the program connects as.
    /// - Throws: `LogError.refused` where that is no schema's name.
    public static func setupScript(schema: String = "puredux", role: String) throws(LogError) -> String {
      try Schema(schema).script(for: role)
    }

    /// The log of a tree. Asks nothing of the database until it is used. Its row is made with the first use, before the
    /// first entry, and stays until the tree is removed. The row takes about a hundred bytes, and the key.
    ///
    /// - Parameter key: Any text of up to 2,000 bytes. A longer one is refused when the log is used
    ///   (`LogError.refused`). Texts that are equal are one key, however their accents are written.
    public subscript(key: String) -> any OrderedLog { PostgreSQLTree(of: key, in: self) }

    /// Closes the connections, when what was asked for before is done: whoever follows one of the logs is told that it
    /// is unavailable, for good. Shut the stores down first. Without this call they are closed when nobody holds the
    /// log, or one of its trees, any more.
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

    /// Tells somebody something, from anywhere but within this call.
    func tell(_ body: @escaping @Sendable () -> Void) { writing.queue.async(execute: body) }

    // MARK: Lists

    /// In the order of the bytes of their composed texts, of which 1,000 are asked for, and in memory, at a time.
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

    /// In the order of the bytes of their composed keys, of which 1,000 are asked for, and in memory, at a time.
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

    /// What has come of a list, and where it goes on.
    private struct Page<Element: Sendable>: Sendable {
      /// The last one first.
      var elements: [Element] = []
      var last: [UInt8]
      var isBegun = false
      var isWhole = false
    }

    /// What there is of the keys that begin with a text.
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

    /// Asks how far all is that is followed. True where somebody did not know that there is more.
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
        // Who waits for more is told that nobody can say whether there is.
        for feed in followers.all() { feed.wake() }
        return false
      }
    }

    /// Tells other processes of what has been appended, with one notification for all that comes while one is sent. Not
    /// within the transactions of the appends, which it would have commit one behind the other.
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
      for tree in untold {
        // PostgreSQL takes less than 8,000 bytes.
        if texts[texts.count - 1].utf8.count + tree.utf8.count > 7900 { texts.append(shared.sender) }
        texts[texts.count - 1] += " " + tree
      }
      for text in texts {
        // Who is not told finds out.
        _ = reading.perform { connection throws(LogError) in
          // Nothing is lost with it that others would not find out.
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

    /// Deletes the entries of a tree up to a position, some at a time, so that others are asked for in between, until
    /// none is found: what somebody else deletes at the same time is waited for, and counts for nothing.
    func clear(_ id: Int64, through position: UInt64) async throws(LogError) {
      let statement = schema.statement(
        """
        WITH found AS MATERIALIZED (
          SELECT position FROM $.entries WHERE tree = $1 AND position <= $2 ORDER BY position LIMIT 200
        ), gone AS (DELETE FROM $.entries WHERE tree = $1 AND position IN (SELECT position FROM found))
        SELECT FROM found LIMIT 1
        """, .integer(id), .integer(Int64(clamping: position)))
      while try await reading.run({ [patience] connection throws(LogError) in
        try connection.query(statement, patience).count
      }) > 0 {}
    }

    /// Deletes the parts of snapshots that a condition holds for, a few at a time, as the server ends long statements.
    func clearParts(_ condition: String, _ parameters: Parameter...) async throws(LogError) {
      let statement = schema.statement(
        """
        DELETE FROM $.snapshot_parts WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM $.snapshot_parts WHERE \(condition) LIMIT 16))
        """, parameters)
      while try await reading.run({ [patience] connection throws(LogError) in
        try connection.query(statement, patience).changed
      }) > 0 {}
    }

    /// Deletes what there is of a tree that is removed.
    func clearRemoved(_ id: Int64) async throws(LogError) {
      try await clear(id, through: .max)
      try await clearParts("tree = $1", .integer(id))
      try await reading.run { [schema, patience] connection throws(LogError) in
        for table in ["snapshots", "summaries"] {
          _ = try connection.query(
            schema.statement("DELETE FROM $.\(table) WHERE tree = $1", .integer(id)), patience)
        }
        _ = try connection.query(
          schema.statement("UPDATE $.removals SET cleared = true WHERE tree = $1", .integer(id)), patience)
      }
    }

    /// Goes on with removals that others have not come to the end of.
    private func clearRest() {
      Task.detached { [weak self, reading, schema, patience] in
        let rest = try? await reading.run { connection throws(LogError) in
          let found = try connection.query(schema.statement("SELECT tree FROM $.removals WHERE NOT cleared"), patience)
          return (0..<found.count).compactMap { found.integer($0, 0) }
        }
        for id in rest ?? [] { try? await self?.clearRemoved(id) }
      }
    }

    /// Notes that the tree is removed: as of that who uses the key begins a new one, under another number. Then what
    /// there is of it goes, some thousand entries at a time; if this process ends before that is done, the next one
    /// that opens the log goes on.
    public func remove(_ key: String) async throws(LogError) { try await PostgreSQLTree(of: key, in: self).remove() }
  }
#else
  @available(
    *, unavailable,
    message: "PureduxPostgreSQL is behind a trait: add traits: [\"PostgreSQL\"] to the dependency on Puredux."
  )
  public final class PostgreSQLLog {}
#endif
