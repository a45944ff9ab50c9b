#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxPostgreSQL

  /// Stores on a PostgreSQL server of their own, with its default syncs, measured against raw libpq in one run.
  enum PostgreSQLFigures {
    static func run(rounds: Int, entries: Int, trees: Int) async throws {
      _ = signal(SIGPIPE, SIG_IGN)
      let node = try PostgreSQLNode(settings: ["shared_preload_libraries=pg_stat_statements", "max_wal_size=4GB"])
      defer { withExtendedLifetime(node) {} }
      try node.initialize()
      try node.start()
      try node.execute("CREATE EXTENSION pg_stat_statements")
      try PostgreSQLPair.makeRole(node)
      try node.execute(
        """
        CREATE TABLE raw (tree bigint, position bigint, entry bytea, PRIMARY KEY (tree, position));
        CREATE SEQUENCE raw_positions;
        GRANT ALL ON raw, raw_positions TO boards
        """)
      // First, as free memory of the process would hide what trees take.
      try await followed(node, trees)
      let log = try await PostgreSQLLog(node.address("boards"))
      let raw = try RawPostgreSQL(node.address("boards"))
      let long = key()
      // Preparations do not wait for the disk.
      let quick = try await PostgreSQLLog(node.address("boards") + " options='-c synchronous_commit=off'")
      try await fill(quick[long], entries)
      await quick.close()
      try node.execute("VACUUM ANALYZE puredux.entries")
      for round in 1...rounds {
        tell("run \(round)")
        let single = try await oneSender(raw, log, count: 2000)
        try await manySenders(log, count: 500, single)
        try await flood(node, log, actions: 1_000_000, single)
        try await replay(node, raw, log, long)
      }
      await log.close()
    }

    private static func ratio(_ one: Duration, _ other: Duration) -> String { FileFigures.ratio(one, other) }
    private static func key() -> String { "tree-\(UUID().uuidString)" }
    private static func rate(_ count: Int, _ time: Duration) -> Int { Int(Double(count) / (time / .seconds(1))) }

    private static let insert = "INSERT INTO raw (tree, position, entry) VALUES (0, $1, $2)"

    private static let positions = Positions()

    private final class Positions: @unchecked Sendable {
      private var last: Int64 = 0
      func next() -> Int64 {
        last += 1
        return last
      }
    }

    /// - Returns: The time of a raw INSERT in its own transaction.
    private static func oneSender(_ raw: RawPostgreSQL, _ log: PostgreSQLLog, count: Int) async throws -> Duration {
      let key = key()
      let store = try await FileFigures.store(following: log[key])
      for _ in 0..<200 { try await store.send(1) }
      var bytes: [UInt8] = []
      for try await records in log[key].records(after: 0) {
        bytes = records[0].bytes
        break
      }
      for _ in 0..<200 { try raw.run(insert, positions.next(), bytes) }
      // The log's own statement, for an unused tree, sent by libpq.
      let other = self.key()
      let maker = try await FileFigures.store(following: log[other])
      try await maker.send(1)
      await maker.shutdown()
      let id = try raw.run("SELECT id FROM puredux.trees WHERE key = '\(other)'")
      let statement = """
        WITH setting AS MATERIALIZED (SELECT set_config('lock_timeout', '4000', true)), head AS (
          UPDATE puredux.trees SET head = head + 1 FROM setting WHERE id = \(id) AND head >= $1
          RETURNING id, head - 1 AS base
        ), written AS (
          INSERT INTO puredux.entries (tree, position, entry) SELECT head.id, head.base + given.place, given.entry
          FROM head, unnest(ARRAY[$2]) WITH ORDINALITY AS given (entry, place))
        SELECT base FROM head
        """
      // The measurements alternate, as the machine's speed varies.
      var (rawTime, statementTime, ownTime) = (Duration.zero, Duration.zero, Duration.zero)
      for _ in 0..<10 {
        statementTime += try ContinuousClock().measure {
          for _ in 0..<(count / 10) { try raw.run(statement, 1, bytes) }
        }
        rawTime += try ContinuousClock().measure {
          for _ in 0..<(count / 10) { try raw.run(insert, positions.next(), bytes) }
        }
        ownTime += try await ContinuousClock().measure { for _ in 0..<(count / 10) { try await store.send(1) } }
      }
      tell(
        "one sender: \(ownTime / count) a send, \(rawTime / count) a raw INSERT of as many bytes (\(bytes.count)): "
          + "\(ratio(ownTime, rawTime)), and \(ratio(ownTime, statementTime)) of what the log's own statement takes libpq"
      )
      await store.shutdown()
      return rawTime / count
    }

    private static func manySenders(_ log: PostgreSQLLog, count: Int, _ single: Duration) async throws {
      let store = try await FileFigures.store(following: log[key()])
      let time = try await ContinuousClock().measure {
        try await withThrowingTaskGroup { tasks in
          for _ in 0..<64 { tasks.addTask { for _ in 0..<count { try await store.send(1) } } }
          try await tasks.waitForAll()
        }
      }
      tell(
        "64 senders to one tree: \(rate(64 * count, time)) sends a second, "
          + "\(ratio(single, time / (64 * count))) times as many as raw INSERTs one by one")
      await store.shutdown()
    }

    private static func flood(
      _ node: PostgreSQLNode, _ log: PostgreSQLLog, actions: Int, _ single: Duration
    ) async throws {
      let key = key()
      let store = try await FileFigures.store(following: log[key])
      let start = ContinuousClock.now
      for _ in 0..<actions {
        while store.dispatch(1) == .overloaded { await Task.yield() }
      }
      _ = await store.state
      let time = start.duration(to: .now)
      await store.shutdown()
      let figures = try node.execute(
        """
        SELECT count(*), sum(octet_length(entry)), count(DISTINCT entries.xmin::text) FROM puredux.entries AS entries
        JOIN puredux.trees ON tree = id WHERE key = '\(key)'
        """
      ).split(separator: "|").compactMap { Int($0) }
      let (entries, bytes, commits) = (max(1, figures[0]), figures[1], figures[2])
      tell(
        "flood: \(rate(actions, time)) actions a second, \(ratio(single, time / actions)) times as many as raw INSERTs: "
          + "\(rate(entries, time)) entries a second of \(bytes / entries) bytes, \(entries / max(1, commits)) a commit, "
          + "\(rate(bytes >> 10, time)) KB a second")
      // pgbench inserts the same rows: one per transaction, and as many per transaction as is fastest.
      var best = (rate: 0, text: "")
      for (clients, rows) in [(1, 1), (16, 1), (64, 1), (1, 16), (2, 16), (4, 16), (2, 64)] {
        let script = FileManager.default.temporaryDirectory.path + "/pgbench-\(UUID().uuidString.prefix(8))"
        try """
        INSERT INTO raw SELECT 1, nextval('raw_positions'), decode(repeat('01', \(bytes / entries)), 'hex') \
        FROM generate_series(1, \(rows));
        """.write(toFile: script, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: script)
        defer { try? FileManager.default.removeItem(atPath: script) }
        let said = try PostgreSQLNode.run([
          PostgreSQLNode.program("pgbench"), "-h", node.directory, "-U", "boards", "-n", "-M", "prepared", "-c",
          "\(clients)", "-j", "\(min(clients, 2))", "-t", "\(max(20, 2000 / clients / rows))", "-f", script, "postgres",
        ])
        let line = said.split(separator: "\n").first { $0.hasPrefix("tps = ") } ?? ""
        let tps = Double(line.split(separator: " ").dropFirst(2).first ?? "") ?? 0
        let found = Int(tps * Double(rows * (bytes / entries) >> 10))
        if found > best.rate { best = (found, "\(clients) clients, \(rows) rows a transaction") }
      }
      tell(
        "pgbench, the same rows: at best \(best.rate) KB a second (\(best.text)): the flood is "
          + String(format: "%.2f", Double(rate(bytes >> 10, time)) / Double(max(1, best.rate))) + " of that")
      try node.execute("TRUNCATE raw; CHECKPOINT")
    }

    private static func fill(_ log: any OrderedLog, _ count: Int) async throws {
      var options = LogOptions()
      options.actionsPerEntry = 1
      options.entriesUnderWay = 1024
      options.snapshotBytes = nil
      options.patience = .seconds(60)
      let store = try await RootStore<UInt64, UInt64>(
        following: log, initialState: 0, codings: LogCodings(actions: FileFigures.numbers, states: nil),
        options: FollowingOptions(log: options, fingerprint: .unchecked)
      ) { $0 &+= $1 }
      let time = try await ContinuousClock().measure {
        for number in 0..<count {
          while store.dispatch(1) == .overloaded { await Task.yield() }
          if number % 1024 == 0 { try await store.send(0) }
        }
        _ = await store.state
      }
      tell("\(count) entries of one action written in \(time), \(rate(count, time)) a second")
      await store.shutdown()
    }

    private static func replay(
      _ node: PostgreSQLNode, _ raw: RawPostgreSQL, _ log: PostgreSQLLog, _ key: String
    ) async throws {
      let copy = """
        COPY (SELECT position, entry FROM puredux.entries
          WHERE tree = (SELECT id FROM puredux.trees WHERE key = '\(key)') ORDER BY position)
        TO STDOUT (FORMAT binary)
        """
      var count = 0
      let rawTime = try ContinuousClock().measure { count = try raw.copy(copy) }
      let start = ContinuousClock.now
      let store = try await RootStore<UInt64, UInt64>(
        following: log[key], initialState: 0, codings: LogCodings(actions: FileFigures.numbers, states: nil),
        options: FollowingOptions(fingerprint: .unchecked)
      ) { $0 &+= $1 }
      let ownTime = start.duration(to: .now)
      tell(
        "\(count) entries replayed in \(ownTime), COPY to libpq in \(rawTime): \(ratio(rawTime, ownTime)) of it, "
          + "\(await store.state) in all")
      await store.shutdown()
    }

    /// Follows trees on one log: first idle, then with one entry.
    private static func followed(_ node: PostgreSQLNode, _ count: Int) async throws {
      let log = try await PostgreSQLLog(node.address("boards"))
      let before = FileFigures.used()
      let start = ContinuousClock.now
      let stores = try await withThrowingTaskGroup { tasks in
        for number in 0..<count {
          tasks.addTask {
            let store = try await FileFigures.store(following: log["followed-\(number)"])
            try await store.send(1)
            return (number, store)
          }
        }
        return try await tasks.reduce(into: [Int: RootStore<UInt64, UInt64>]()) { $0[$1.0] = $1.1 }
      }
      let time = start.duration(to: .now)
      // Until the effects of the writes have ended.
      var isBusy = true
      while isBusy {
        try node.execute("SELECT pg_stat_statements_reset()")
        try await Task.sleep(for: .seconds(5))
        isBusy = try node.execute("SELECT sum(calls) > 50 FROM pg_stat_statements") == "t"
      }
      let after = FileFigures.used()
      try node.execute("SELECT pg_stat_statements_reset()")
      try await Task.sleep(for: .seconds(20))
      let figures = try node.execute(
        """
        SELECT coalesce(sum(calls), 0), coalesce(sum(total_exec_time + total_plan_time), 0)::bigint,
          coalesce(sum(calls) FILTER (WHERE query LIKE '%pg_notify%'), 0) FROM pg_stat_statements
        JOIN pg_roles ON pg_roles.oid = userid WHERE rolname = 'boards'
        """
      ).split(separator: "|").compactMap { Double($0) }
      tell(
        "\(count) trees followed on one log, opened and written to in \(time): "
          + "\((after.kilobytes - before.kilobytes) / count) KB each, \(after.threads - before.threads) threads more; "
          + "while idle \(figures[0] / 20) statements a second of \(figures[1] / max(1, figures[0])) ms, "
          + "\(figures[2] / 20) notifications")
      // By another log, as if in another process.
      let other = try await PostgreSQLLog(node.address("boards"))
      let writer = try await FileFigures.store(following: other["followed-0"])
      guard let reader = stores[0] else { return }
      var times: [Duration] = []
      for number in 0..<50 {
        let states = reader.states()
        let goal = await reader.state + 1
        async let seen: ContinuousClock.Instant? = {
          for await state in states where state >= goal { return .now }
          return nil
        }()
        let start = ContinuousClock.now
        try await writer.send(1)
        if let seen = await seen { times.append(start.duration(to: seen)) }
        try await Task.sleep(for: .milliseconds(number % 10 * 20))
      }
      times.sort()
      tell(
        "an entry of another log arrives in \(times[times.count / 2]) (median), \(times[times.count - 1]) at most, "
          + "counted from before it is sent")
      await writer.shutdown()
      await other.close()
      for store in stores.values { await store.shutdown() }
      await log.close()
    }
  }
#endif
