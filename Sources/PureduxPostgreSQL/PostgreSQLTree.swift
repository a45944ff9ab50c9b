#if PostgreSQL
  import Dispatch
  import Puredux
  import PureduxLog

  final class PostgreSQLTree: LogOfEngine, ProbedLog, DenseLog, SnapshotStore, SummaryStore {
    private struct Row {
      var head: UInt64
      /// The first entry that is not truncated.
      var first: UInt64
    }

    let owner: PostgreSQLLog
    var engine: PostgreSQLLog { owner }
    var probe: Probe { owner.probe }
    let text: String
    let key: [UInt8]
    let knowledge = Knowledge()

    init(of key: String, in owner: PostgreSQLLog) {
      self.owner = owner
      text = key.composed
      self.key = Array(text.utf8)
    }

    var name: String? { text }
    var entryLimit: Int { 16 << 20 }
    var snapshots: (any SnapshotStore)? { self }
    var summaries: (any SummaryStore)? { self }
    private var schema: Schema { owner.schema }
    private var patience: Connection.Patience { owner.patience }

    func learn(_ id: Int64) {
      owner.followers.learned(knowledge.learn(id), of: text)
    }

    private func ask<Result: Sendable>(
      _ body: @escaping @Sendable (Connection) throws(LogError) -> Result
    ) async throws(LogError) -> Result {
      guard key.count <= Schema.keyLimit else { throw .refused("The key of a log is too long: \(text)") }
      if let damage = knowledge.damage { throw damage }
      return try await owner.reading.run(body)
    }

    private func query(
      _ connection: Connection, _ text: String, _ parameters: Parameter...
    ) throws(LogError) -> Answer {
      var statement = schema.statement(text)
      statement.parameters = parameters
      return try connection.query(statement, patience)
    }

    // MARK: Row

    private func id(_ connection: Connection, makes: Bool = false) throws(LogError) -> Int64? {
      if let id = knowledge.id { return id }
      if makes {
        let statement = schema.statement(Schema.newTrees("$1") + " ON CONFLICT DO NOTHING", .bytes(key))
        _ = try connection.query(statement, patience)
      }
      guard let id = try query(connection, "SELECT id FROM $.trees WHERE key = $1", .bytes(key)).integer(0, 0) else {
        return nil
      }
      learn(id)
      return knowledge.id
    }

    private func made(_ connection: Connection) throws(LogError) -> Int64 {
      guard let id = try id(connection, makes: true) else { throw .unavailable("The tree is being removed.") }
      return id
    }

    /// Creates the row before the first entry, so that a removal finds it and every follower learns of the removal. Nil
    /// if the role may not insert rows, and so cannot append either.
    private func followed(_ connection: Connection) throws(LogError) -> Int64? {
      if let id = try id(connection) { return id }
      do throws(LogError) {
        return try made(connection)
      } catch {
        if Failure.isOfRights(error) { return nil }
        throw error
      }
    }

    private func row(_ id: Int64, _ connection: Connection) throws(LogError) -> Row {
      // The answer must include a position known before.
      let known = knowledge.position
      let found = try query(connection, "SELECT head, first FROM $.trees WHERE id = $1", .integer(id))
      guard let head = found.integer(0, 0), let first = found.integer(0, 1) else { throw try missing(id, connection) }
      let row = Row(head: UInt64(max(0, head)), first: UInt64(max(1, first)))
      if let problem = knowledge.found(head: row.head, knowing: known, by: connection.session) {
        // The next connection goes to another host, if any.
        connection.giveUp()
        throw problem
      }
      return row
    }

    func refusal(of id: Int64, behind head: UInt64?, _ connection: Connection) -> LogError {
      do throws(LogError) {
        let row = try row(id, connection)
        if let head, row.head != head { return .headIsElsewhere(row.head) }
        return .unavailable("The head of the log has changed since.")
      } catch {
        return error
      }
    }

    private func missing(_ id: Int64, _ connection: Connection) throws(LogError) -> LogError {
      let isRemoved = try query(connection, "SELECT count(*) FROM $.removals WHERE tree = $1", .integer(id))
      return knowledge.noteDamage(
        isRemoved.integer(0, 0) == 1
          ? .removed
          : .damaged(position: 0, "The tree \(text) was not removed, and its row in the table trees is gone."))
    }

    // MARK: Entries

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      if let failure = obstacle(to: [entry]) { return owner.tell { outcome(.failure(failure)) } }
      owner.writer.append(Writer.Append(tree: self, entry: entry, outcome: outcome))
    }

    func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError) {
      if let failure = obstacle(to: entries) { throw failure }
      guard !entries.isEmpty else { return }
      let result: Result<UInt64, LogError> = await withCheckedContinuation { continuation in
        var appends = entries.map { Writer.Append(tree: self, entry: $0) { _ in } }
        // All appends have the same outcome.
        appends[0] = Writer.Append(tree: self, entry: entries[0]) { continuation.resume(returning: $0) }
        owner.writer.append(appends, behind: head)
      }
      _ = try result.get()
    }

    private func obstacle(to entries: [[UInt8]]) -> LogError? {
      if key.count > Schema.keyLimit { return .refused("The key of a log is too long: \(text)") }
      if let entry = entries.first(where: { $0.count > entryLimit }) {
        return .refused("An entry of \(entry.count) bytes is too large.")
      }
      return knowledge.damage
    }

    func appended(_ entries: [[UInt8]], behind base: UInt64) {
      guard let id = knowledge.id else { return }
      for feed in owner.followers.feeds(of: text) { feed.offer(entries, to: id, behind: base) }
    }

    func found(_ damage: LogError) {
      _ = knowledge.noteDamage(damage)
      wakeFollowers()
    }

    private func wakeFollowers() {
      for feed in owner.followers.feeds(of: text) { feed.wake() }
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let reader = Reader(self, after: position)
      return AsyncThrowingStream { try await reader.next() }
    }

    private static let readCount: Int64 = 4096
    private static let readBytes: Int64 = 1 << 20

    func entries(after position: UInt64) async throws(LogError) -> (records: [LogRecord], hasMore: Bool) {
      try await ask { connection throws(LogError) in
        guard let id = try self.followed(connection) else { return ([], false) }
        // The next pass finds entries committed between the queries.
        for _ in 0..<3 {
          let (found, head) = try self.read(id, after: position, connection)
          var next = position
          let records = found.prefix { record in
            next += 1
            return record.position == next
          }
          if let last = records.last {
            self.knowledge.saw(last.position, by: connection.session)
            return (Array(records), last.position < head)
          }
          let row = try self.row(id, connection)
          if row.head <= position, found.isEmpty { return ([], false) }
          if row.first > position + 1 { throw .truncated(first: row.first) }
        }
        throw self.knowledge.noteDamage(
          .damaged(position: position + 1, "The entry at \(position + 1) of the tree \(self.text) is gone."))
      }
    }

    private func read(
      _ id: Int64, after position: UInt64, _ connection: Connection
    ) throws(LogError) -> (found: [LogRecord], head: UInt64) {
      guard position < UInt64(Int64.max) - UInt64(Self.readCount) else { return ([], 0) }
      let found = try query(
        connection,
        """
        SELECT position, entry, head FROM (
          SELECT position, entry, head, sum(octet_length(entry)) OVER (ORDER BY position) AS size
          FROM $.trees JOIN $.entries ON tree = id
          WHERE id = $1 AND position > $2 AND position <= $2 + $3) AS batch
        WHERE size <= $4 OR position = $2 + 1 ORDER BY position
        """, .integer(id), .integer(Int64(position)), .integer(Self.readCount), .integer(Self.readBytes))
      let records = (0..<found.count).map { row in
        LogRecord(position: UInt64(max(0, found.integer(row, 0) ?? 0)), bytes: found.bytes(row, 1) ?? [])
      }
      return (records, UInt64(max(0, found.integer(0, 2) ?? 0)))
    }

    func head() async throws(LogError) -> UInt64 {
      try await ask { connection throws(LogError) in
        guard let id = try self.followed(connection) else { return 0 }
        return try self.row(id, connection).head
      }
    }

    // MARK: Truncation

    func truncate(through position: UInt64) async throws(LogError) {
      let id = try await ask { connection throws(LogError) -> Int64? in
        guard let id = try self.id(connection) else { return nil }
        return try self.mark(position, of: id, connection) ? id : nil
      }
      guard let id else { return }
      let grace = owner.options.truncationGrace
      Task.detached { [weak owner] in
        guard (try? await Task.sleep(for: grace)) != nil, let owner else { return }
        try? await owner.clearTruncated(id, through: position)
      }
    }

    /// Returns false if there is nothing to truncate: the last entry always stays.
    private func mark(
      _ position: UInt64, of id: Int64, _ connection: Connection
    ) throws(LogError) -> Bool {
      let row = try row(id, connection)
      guard position > 0, position < row.head else { return false }
      let statement = schema.statement(
        "UPDATE $.trees SET first = greatest(first, $2 + 1) WHERE id = $1 AND head > $2", .integer(id),
        .integer(Int64(position)))
      _ = try connection.query(statement, patience)
      return true
    }

    func erase(through position: UInt64) async throws(LogError) {
      let id = try await ask { connection throws(LogError) -> Int64 in
        guard let id = try self.id(connection), try self.mark(position, of: id, connection) else {
          throw .notErasable(position)
        }
        return id
      }
      try await owner.clearTruncated(id, through: position)
      let bound = Parameter.integer(Int64(position))
      // Each statement requires the mark: a server that was promoted meanwhile and lacks it may lack the newer snapshot,
      // too.
      let erased = "tree = $1 AND position < $2 AND $2 < (SELECT first FROM $.trees WHERE id = $1)"
      try await owner.clearParts(erased, .integer(id), bound)
      try await ask { connection throws(LogError) in
        for table in ["snapshots", "summaries"] {
          _ = try self.query(connection, "DELETE FROM $.\(table) WHERE \(erased)", .integer(id), bound)
        }
        let left = try self.query(
          connection,
          """
          SELECT FROM $.entries WHERE tree = $1 AND position <= $2
          UNION ALL SELECT FROM $.snapshot_parts WHERE tree = $1 AND position < $2 LIMIT 1
          """, .integer(id), bound)
        guard try self.row(id, connection).first > position, left.count == 0 else {
          throw .unavailable(
            "Erased data is stored again, after a failover or by a late snapshot. Erase the log again.")
        }
      }
    }

    // MARK: Snapshots

    func newest() async throws(LogError) -> LogSnapshot? {
      var last: String?
      while true {
        let manifest = try await ask { connection throws(LogError) -> (position: Int64, name: String, size: [Int64])? in
          guard let id = try self.id(connection) else { return nil }
          _ = try self.row(id, connection)
          let found = try self.query(
            connection, "SELECT position, name, parts, bytes FROM $.snapshots WHERE tree = $1", .integer(id))
          guard let position = found.integer(0, 0), let name = found.text(0, 1), let parts = found.integer(0, 2),
            let bytes = found.integer(0, 3)
          else { return nil }
          return (position, name, [parts, bytes])
        }
        guard let manifest, manifest.name != last else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(min(max(0, manifest.size[1]), 1 << 30)))
        for part in 0..<max(0, manifest.size[0]) {
          let some = try await ask { connection throws(LogError) -> [UInt8]? in
            guard let id = try self.id(connection) else { return nil }
            return try self.query(
              connection,
              "SELECT bytes FROM $.snapshot_parts WHERE tree = $1 AND position = $2 AND name = $3 AND part = $4",
              .integer(id), .integer(manifest.position), .text(manifest.name), .integer(part)
            ).bytes(0, 0)
          }
          guard let some else { break }
          bytes += some
        }
        if bytes.count == manifest.size[1] {
          return LogSnapshot(position: UInt64(max(0, manifest.position)), bytes: bytes)
        }
        // A newer snapshot has replaced the parts, or they are lost.
        last = manifest.name
      }
    }

    func save(_ snapshot: LogSnapshot) async throws(LogError) {
      try await keep(snapshot, where: "snapshots.position < excluded.position")
    }

    func replace(with snapshot: LogSnapshot) async throws(LogError) {
      try await keep(
        snapshot,
        where: "snapshots.position <= excluded.position "
          + "OR snapshots.position > (SELECT head FROM $.trees AS trees WHERE trees.id = snapshots.tree)")
    }

    /// The manifest is written if a condition holds.
    private func keep(_ snapshot: LogSnapshot, where condition: String) async throws(LogError) {
      let position = Int64(clamping: snapshot.position)
      let id = try await ask { connection throws(LogError) -> Int64 in
        let id = try self.made(connection)
        _ = try self.row(id, connection)
        return id
      }
      let name = String(UInt64.random(in: .min ... .max), radix: 36)
      var parts: Int64 = 0
      for start in stride(from: 0, to: snapshot.bytes.count, by: 1 << 20) {
        let part = Array(snapshot.bytes[start..<min(start + 1 << 20, snapshot.bytes.count)])
        let number = parts
        try await ask { connection throws(LogError) in
          // The lock keeps a removal from ending before this part is stored: nobody would delete it later.
          let stored = try self.query(
            connection,
            """
            INSERT INTO $.snapshot_parts (tree, position, name, part, bytes)
            SELECT id, $2, $3, $4, $5 FROM $.trees WHERE id = $1 FOR KEY SHARE
            """, .integer(id), .integer(position), .text(name), .integer(number), .bytes(part))
          if stored.changed == 0 { throw try self.missing(id, connection) }
        }
        parts += 1
      }
      let count = parts
      let isKept = try await ask { connection throws(LogError) -> Bool in
        let kept = try self.query(
          connection,
          """
          INSERT INTO $.snapshots AS snapshots (tree, position, name, parts, bytes)
          SELECT id, $2, $3, $4, $5 FROM $.trees AS trees WHERE id = $1 AND $4 = (
            SELECT count(*) FROM $.snapshot_parts AS parts WHERE parts.tree = $1 AND parts.position = $2 AND parts.name = $3)
          FOR KEY SHARE
          ON CONFLICT (tree) DO UPDATE SET position = excluded.position, name = excluded.name, parts = excluded.parts,
            bytes = excluded.bytes WHERE \(condition)
          """, .integer(id), .integer(position), .text(name), .integer(count), .integer(Int64(snapshot.bytes.count)))
        if kept.changed == 1 { return true }
        _ = try self.row(id, connection)
        let newer = try self.query(
          connection, "SELECT FROM $.snapshots WHERE tree = $1 AND position > $2", .integer(id), .integer(position))
        let stored = try self.query(
          connection, "SELECT FROM $.snapshot_parts WHERE tree = $1 AND position = $2 AND name = $3", .integer(id),
          .integer(position), .text(name))
        // The writer of a newer snapshot deletes these parts.
        guard newer.count > 0 || stored.count == count else {
          throw .unavailable("The server has lost a part of the snapshot, as after a failover.")
        }
        return false
      }
      if isKept {
        // Earlier snapshots, also by writers that died. A snapshot that is being written has this position or a later
        // one.
        try await owner.clearParts(
          """
          tree = $1 AND name <> (SELECT name FROM $.snapshots WHERE tree = $1) AND (
            position < (SELECT position FROM $.snapshots WHERE tree = $1)
            OR position > (SELECT head FROM $.trees WHERE id = $1))
          """, .integer(id))
      } else {
        try await owner.clearParts(
          "tree = $1 AND position = $2 AND name = $3", .integer(id), .integer(position), .text(name))
      }
    }

    // MARK: Summary

    func kept() async throws(LogError) -> LogSummary? {
      try await ask { connection throws(LogError) -> LogSummary? in
        guard let id = try self.id(connection) else { return nil }
        _ = try self.row(id, connection)
        let found = try self.query(
          connection, "SELECT position, summary FROM $.summaries WHERE tree = $1", .integer(id))
        guard let position = found.integer(0, 0), let bytes = found.bytes(0, 1) else { return nil }
        return LogSummary(key: self.text, position: UInt64(max(0, position)), bytes: bytes)
      }
    }

    func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
      if key.count > Schema.keyLimit {
        return owner.tell { outcome(.failure(.refused("The key of a log is too long: \(self.text)"))) }
      }
      // Enqueued at once, so that `close` waits for it.
      owner.reading.queue.async {
        outcome(
          self.owner.reading.perform { connection throws(LogError) in
            if let damage = self.knowledge.damage { throw damage }
            let id = try self.made(connection)
            _ = try self.row(id, connection)
            let kept = try self.query(
              connection,
              """
              INSERT INTO $.summaries AS summaries (tree, position, summary)
              SELECT id, $2, $3 FROM $.trees AS trees WHERE id = $1 FOR KEY SHARE
              ON CONFLICT (tree) DO UPDATE SET position = excluded.position, summary = excluded.summary
              WHERE summaries.position <= excluded.position
                OR summaries.position > (SELECT head FROM $.trees AS trees WHERE trees.id = summaries.tree)
              """, .integer(id), .integer(Int64(clamping: position)), .bytes(bytes))
            if kept.changed == 1 { return true }
            // The tree may have been removed meanwhile.
            _ = try self.row(id, connection)
            return false
          })
      }
    }

    // MARK: Removal

    /// The removal takes effect with its note.
    func remove() async throws(LogError) {
      let id = try await ask { connection throws(LogError) -> Int64? in
        let statement = self.schema.statement(
          """
          WITH gone AS (DELETE FROM $.trees WHERE key = $1 RETURNING id)
          INSERT INTO $.removals (tree) SELECT id FROM gone RETURNING tree
          """, .bytes(self.key))
        let id = try connection.query(statement, self.patience).integer(0, 0)
        // Before another request on this connection finds the note.
        if let id { self.owner.beginRemoval(id, of: self.key) }
        return id
      }
      if let id {
        wakeFollowers()
        try await owner.clearRemoved(id, of: key)
      }
      let failures = try await owner.clearRest(for: key)
      // The notes have no keys.
      if let failure = failures.first(where: { $0.key == key || ($0.key == nil && id == nil) }) { throw failure.error }
    }
  }
#endif
