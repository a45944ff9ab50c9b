#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxPostgreSQL

  typealias ListStore = RootStore<[String], String>

  extension LogOptions {
    static var silent: LogOptions {
      var options = LogOptions()
      options.reporting = { _ in }
      return options
    }
  }

  func open(
    _ server: PostgreSQLServer, _ change: (inout PostgreSQLLog.Options) -> Void = { _ in }
  ) async throws -> PostgreSQLLog {
    var options = PostgreSQLLog.Options()
    options.connectLimit = .seconds(60)
    change(&options)
    return try await PostgreSQLLog(server.address(), options: options)
  }

  func list(
    _ log: any OrderedLog, options: LogOptions = .silent, onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil
  ) async throws -> ListStore {
    try await ListStore(
      following: log, initialState: [],
      options: FollowingOptions(log: options, fingerprint: .unchecked, onPhase: onPhase)
    ) {
      $0.append($1)
    }
  }

  /// The error of a call to a log. Tests that match cases of a typed error in a `catch` crash the compiler (6.3).
  func failure<Result>(of body: () async throws -> Result) async -> LogError? {
    do {
      _ = try await body()
      return nil
    } catch {
      return error as? LogError
    }
  }

  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLLogTests {
    @Test("the log on PostgreSQL keeps the contract of logs")
    func contract() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.truncationGrace = .zero }
      try await checkOrderedLog(within: .seconds(120)) { log[$0] }
      await log.close()
    }

    @Test("the logs on PostgreSQL keep the contract of directories")
    func directory() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      try await checkLogDirectory(log, within: .seconds(120))
    }

    @Test("stores of trees that any process removes at random, most before their first entry, stop")
    func removals() async throws {
      let server = try PostgreSQLServer()
      let processes = [try await open(server), try await open(server)]
      try await RandomRemovals.run(0..<10, in: processes)
      for process in processes { await process.close() }
    }

    @Test("a tree without entries ends when another process removes it, and removing an unused tree leaves nothing")
    func empty() async throws {
      let server = try PostgreSQLServer()
      let (here, there) = (try await open(server), try await open(server))
      try await checkRemovalWithoutEntries(in: here, followedIn: there) {
        let counts = "(SELECT count(*) FROM puredux.trees) + (SELECT count(*) FROM puredux.removals)"
        return try server.execute("SELECT \(counts)") == "0\n"
      } whenRemoved: { unaware in
        #expect(await failure { try await unaware.append([1]) } == .removed)
      }
      await here.close()
      await there.close()
    }

    @Test(
      "no duration traps, however long or short",
      arguments: [Duration(attoseconds: .max), Duration(attoseconds: .min), .zero, .nanoseconds(-1)])
    func durations(duration: Duration) async throws {
      let server = try PostgreSQLServer()
      var options = PostgreSQLLog.Options()
      (options.connectLimit, options.answerLimit, options.pollInterval) = (duration, duration, duration)
      // The shortest limit is a second, which a busy machine may exceed: retry.
      func untilAvailable<Result>(_ body: () async throws -> Result) async throws -> Result {
        while true {
          do {
            return try await body()
          } catch let error as LogError {
            guard case .unavailable = error else { throw error }
          }
        }
      }
      let log = try await untilAvailable { try await PostgreSQLLog(server.address(), options: options) }
      #expect(try await untilAvailable { try await log["a"].append([1]) } >= 1)
      await log.close()
    }

    @Test("any text is a key, up to a length")
    func keys() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let keys = ["\0", "a\0b", "%", "\\x61", "'; DROP TABLE trees; --", String(repeating: "k", count: 2000)]
      for (index, key) in keys.enumerated() { #expect(try await log[key].append([UInt8(index)]) == 1) }
      var found: Set<String> = []
      for try await key in log.keys(prefix: "") { found.insert(key) }
      #expect(found == Set(keys))
      let tooLong = log[String(repeating: "k", count: 2001)]
      let calls: [() async throws -> Void] = [
        { _ = try await tooLong.append([1]) }, { _ = try await tooLong.head() },
        { _ = try await tooLong.summaries?.save([], at: 1) },
        { for try await _ in tooLong.records(after: 0) {} },
      ]
      for call in calls {
        guard case .refused? = await failure(of: call) else {
          Issue.record("A key of 2,001 bytes is taken.")
          continue
        }
      }
      await log.close()
    }

    @Test("keys are listed in pages and in order, whatever other rows exist")
    func pages() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      // Rows of other clients.
      try server.execute(
        "INSERT INTO puredux.trees (key, head) SELECT convert_to('k' || lpad(n::text, 5, '0'), 'UTF8'), n % 2 FROM generate_series(1, 5000) AS n"
      )
      for prefix in ["", "k", "k0", "k00"] {
        var found: [String] = []
        for try await key in log.keys(prefix: prefix) { found.append(key) }
        let all = stride(from: 1, through: 5000, by: 2).map { "k" + "\(100_000 + $0)".dropFirst() }
        #expect(found == all.filter { $0.hasPrefix(prefix) })
      }
      await log.close()
    }

    @Test(
      "two processes append to the same trees at distinct positions and without deadlocks",
      arguments: ["read committed", "repeatable read", "serializable"])
    func manyWriters(isolation: String) async throws {
      let server = try PostgreSQLServer()
      try server.execute("ALTER ROLE postgres SET default_transaction_isolation = '\(isolation)'")
      let logs = [try await open(server), try await open(server)]
      let keys = (0..<40).map { "tree \($0)" }
      try await withThrowingTaskGroup { tasks in
        for (writer, log) in logs.enumerated() {
          for key in keys.shuffled() {
            tasks.addTask {
              let positions = try await log[key].append((0..<50).map { Array("\(writer) \($0)".utf8) })
              #expect(zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 })
            }
          }
        }
        try await tasks.waitForAll()
      }
      for key in keys {
        let read = try await logs[0][key].read(after: 0, through: 100)
        #expect(read.map(\.position) == Array(1...100))
        for writer in 0..<2 {
          let own = read.map { String(decoding: $0.bytes, as: UTF8.self) }.filter { $0.hasPrefix("\(writer) ") }
          #expect(own == (0..<50).map { "\(writer) \($0)" })
        }
      }
      for log in logs { await log.close() }
    }

    @Test("another process' entry arrives at once by its notification, and without it at the next poll")
    func notifications() async throws {
      let server = try PostgreSQLServer()
      // Long enough that no poll runs during the test.
      let one = try await open(server) { $0.pollInterval = .seconds(60) }
      let other = try await open(server) { $0.pollInterval = .seconds(60) }
      let impatient = try await open(server) { $0.pollInterval = .milliseconds(10) }
      let (followed, unheard) = (try await list(one["list"]), try await list(impatient["list"]))
      // The readers do not listen to this writer's notifications.
      let writer = try await list(other["list"])
      for number in 0..<20 {
        try await writer.send("\(number)")
        for await list in followed.states() where list.count > number { break }
        for await list in unheard.states() where list.count > number { break }
      }
      // A raw append, as if its process had died before the notification.
      let silent = try await open(server)
      let position = try await silent["silent"].append([1])
      let records = impatient["silent"].records(after: position)
      try server.execute(
        """
        WITH head AS (UPDATE puredux.trees SET head = head + 1 WHERE key = 'silent' RETURNING id, head)
        INSERT INTO puredux.entries SELECT id, head, '\\x07' FROM head
        """)
      for try await some in records {
        #expect(some == [LogRecord(position: position + 1, bytes: [7])])
        break
      }
      for store in [followed, unheard, writer] { await store.shutdown() }
      for log in [one, other, impatient, silent] { await log.close() }
    }

    @Test("stores wait while the server is away, and continue by themselves when it returns")
    func serverStopped() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let (states, isAccepted) = try await statesAfterOutages(
        of: log["list"], stopping: { server.stop() }, starting: { try server.start() })
      #expect(isAccepted && states[0] == states[1] && Set(states[0]).count == 9)
      await log.close()
    }

    @Test("connections ended by the server are replaced, and each action is committed once")
    func terminated() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let store = try await list(log["list"])
      let sending = Task {
        for number in 0..<300 { try await store.send("\(number)") }
      }
      for _ in 0..<20 {
        try server.execute(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'puredux'")
      }
      try await sending.value
      #expect(await store.state == (0..<300).map(String.init))
      let replica = try await list(log["list"])
      #expect(await replica.state == (0..<300).map(String.init))
      await store.shutdown()
      await replica.shutdown()
      await log.close()
    }

    @Test("a commit that waits for a standby is unconfirmed, and is committed once when the standby is back")
    func standbyAway() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(1) }
      let phases = AsyncStream.makeStream(of: LogStatistics.Phase.self)
      let store = try await list(log["list"]) { phases.continuation.yield($0) }
      try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()")
      // Commits wait as soon as one of the server's processes has read the setting.
      let isBack = Flag()
      let sending = Task {
        var count = 0
        while !isBack.isRaised {
          try await store.send("\(count)")
          count += 1
        }
        return count
      }
      for await phase in phases.stream { if case .waiting = phase { break } }
      isBack.raise()
      for await list in store.states() {
        #expect(list == (0..<list.count).map(String.init))
        break
      }
      try server.execute("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
      let count = try await sending.value
      #expect(await store.state == (0..<count).map(String.init))
      await store.shutdown()
      await log.close()
    }

    /// The place of a setting that silences the server's warnings.
    enum Silence: CaseIterable { case nowhere, connectionString, roleBehindPooler }

    @Test(
      "after a cancelled wait for a standby, the outcome of the commit is unknown",
      arguments: Silence.allCases)
    func waitCancelled(silence: Silence) async throws {
      let server = try PostgreSQLServer()
      let pooler = try Pooler(before: server, .dropsMessages)
      var address = server.address()
      switch silence {
      case .nowhere: break
      case .connectionString: address += " options='-c client_min_messages=error'"
      case .roleBehindPooler:
        try server.execute("ALTER ROLE postgres SET client_min_messages = error")
        address = "host=\(pooler.directory) user=postgres dbname=postgres"
      }
      var options = PostgreSQLLog.Options()
      (options.connectLimit, options.answerLimit) = (.seconds(60), .seconds(60))
      let log = try await PostgreSQLLog(address, options: options)
      let tree = log["list"]
      try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()")
      // Commits wait as soon as one of the server's processes has read the setting: the first appends may succeed.
      async let found = {
        while true { if let failure = await failure(of: { try await tree.append([1]) }) { return failure } }
      }()
      let cancels = """
        SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
        WHERE application_name = 'puredux' AND wait_event = 'SyncRep'
        """
      while try server.execute(cancels).hasPrefix("0") { await Task.yield() }
      let outcome = await found
      guard case .unavailable(let text) = outcome, text.contains("standby") else {
        Issue.record("\(outcome)")
        return
      }
      try server.execute("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
      await log.close()
      #expect(pooler.changed.value.withLock { $0 > 0 } == (silence == .roleBehindPooler))
    }

    @Test("a log can be closed though a commit waits for a standby in vain")
    func closedMeanwhile() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(1) }
      try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()")
      let tree = log["list"]
      while await failure(of: { try await tree.append([1]) }) == nil {}
      await log.close()
      guard case .unavailable? = await failure(of: { try await tree.append([2]) }) else {
        Issue.record("A closed log takes something.")
        return
      }
    }

    @Test("an append in a batch with a locked tree does not fail with it")
    func rowLocked() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let (free, locked) = (log["free"], log["locked"])
      for tree in [free, locked] { #expect(try await tree.append([1]) == 1) }
      let other = server.executing(
        """
        BEGIN;
        UPDATE puredux.trees SET first = first WHERE key = 'locked';
        DO $$ BEGIN
          FOR tenth IN 1..200 LOOP
            PERFORM pg_sleep(0.1);
            EXIT WHEN (SELECT head FROM puredux.trees WHERE key = 'free') = 2;
          END LOOP;
        END $$;
        COMMIT
        """)
      while try server.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0\n" {
        await Task.yield()
      }
      let isGiven = DispatchSemaphore(value: 0)
      log.tell { isGiven.wait() }
      let outcomes = AsyncStream.makeStream(of: (isFree: Bool, Result<UInt64, LogError>).self)
      free.append([2]) { outcomes.continuation.yield((true, $0)) }
      locked.append([2]) { outcomes.continuation.yield((false, $0)) }
      isGiven.signal()
      var found: [Bool: Result<UInt64, LogError>] = [:]
      for await (isFree, outcome) in outcomes.stream {
        found[isFree] = outcome
        if found.count == 2 { break }
      }
      #expect(found[true] == .success(2))
      guard case .failure(.unavailable(let text))? = found[false], text.contains("55P03") else {
        Issue.record("\(String(describing: found[false]))")
        return
      }
      _ = try await other.value
      #expect(try await locked.append([2]) == 2)
      await log.close()
    }

    @Test("a read-only database takes nothing until it is writable again")
    func readOnly() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let phases = AsyncStream.makeStream(of: LogStatistics.Phase.self)
      let store = try await list(log["list"]) { phases.continuation.yield($0) }
      try await store.send("before")
      try server.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
      try server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'puredux'")
      #expect(store.dispatch("during") == .enqueued)
      for await phase in phases.stream { if case .waiting = phase { break } }
      try server.execute(
        "SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only")
      try await store.send("after")
      #expect(await store.state == ["before", "during", "after"])
      await store.shutdown()
      await log.close()
    }

    @Test("entries too large for one read are read at once, without a poll in between")
    func largeEntries() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = try #require(log["tree"] as? PostgreSQLTree)
      let sizes = [10, 2 << 20, 10, 10, 2 << 20]
      _ = try await tree.append(sizes.map { [UInt8](repeating: 1, count: $0) })
      var (read, hasMore) = ([[Int]](), true)
      while hasMore {
        let batch = try await tree.entries(after: UInt64(read.joined().count))
        read.append(batch.records.map(\.bytes.count))
        hasMore = batch.hasMore
      }
      #expect(read == [[10], [2 << 20], [10, 10], [2 << 20]])
      await log.close()
    }

    @Test("truncated entries are removed after a while, and readers that need them get an error")
    func truncation() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.truncationGrace = .milliseconds(1) }
      let tree = log["tree"]
      let positions = try await tree.append((0..<10).map { [UInt8($0)] })
      for position in [0, 10, 11, UInt64.max] { try await tree.truncate(through: position) }
      #expect(try await tree.read(after: 0, through: 10).count == 10)
      try await tree.truncate(through: 4)
      while try server.execute("SELECT count(*) FROM puredux.entries").hasPrefix("6") == false {
        await Task.yield()
      }
      #expect(await failure { try await tree.read(after: 0, through: 10) } == .truncated(first: 5))
      #expect(try await tree.read(after: 4, through: 10).map(\.position) == Array(positions[4...]))
      await log.close()
    }

    @Test("erased entries are gone, even if another client removes some of them meanwhile")
    func erasedMeanwhile() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(60) }
      _ = try await log["tree"].append([1])
      // As after another process' truncation.
      try server.execute(
        """
        INSERT INTO puredux.entries SELECT id, n, 'x' FROM puredux.trees, generate_series(2, 12001) AS n;
        UPDATE puredux.trees SET head = 12001
        """)
      let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name"
      let other = server.executing(
        """
        BEGIN;
        DELETE FROM puredux.entries WHERE position <= 5000;
        DO $$ BEGIN
          WHILE (\(waiting) = 'puredux' AND wait_event_type = 'Lock') = 0 LOOP
            PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
          END LOOP;
        END $$;
        COMMIT
        """)
      while try server.execute("\(waiting) = 'psql' AND wait_event = 'PgSleep'") == "0\n" { await Task.yield() }
      try await log["tree"].erase(through: 12_000)
      _ = try await other.value
      #expect(try server.execute("SELECT count(*) FROM puredux.entries") == "1\n")
      await log.close()
    }

    @Test("a snapshot in parts is complete or ignored, and the next one removes the parts of a writer that died")
    func snapshots() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append((0..<9).map { [UInt8($0)] })
      let large = LogSnapshot(position: 5, bytes: (0..<(5 << 20)).map { UInt8(truncatingIfNeeded: $0 >> 3) })
      try await tree.snapshots?.save(large)
      #expect(try await tree.snapshots?.newest() == large)
      try server.execute(
        """
        INSERT INTO puredux.snapshot_parts SELECT id, position, name, 0, 'x' FROM puredux.trees,
        (VALUES (4, 'left'), (7, 'later')) AS given (position, name)
        """)
      try await tree.snapshots?.save(LogSnapshot(position: 6, bytes: [1]))
      #expect(
        try server.execute("SELECT name FROM puredux.snapshot_parts WHERE name IN ('left', 'later')") == "later\n")
      try server.execute("DELETE FROM puredux.snapshot_parts WHERE position = 6")
      #expect(try await tree.snapshots?.newest() == nil)
      await log.close()
    }

    @Test("a part of a snapshot is not stored beside the removal of its tree")
    func partAfterRemoval() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(60) }
      let tree = log["tree"]
      _ = try await tree.append([[1], [2]])
      let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name"
      // The removal commits when the snapshot waits for it, or has stored a part.
      let removal = server.executing(
        """
        BEGIN;
        WITH gone AS (DELETE FROM puredux.trees RETURNING id) INSERT INTO puredux.removals SELECT id FROM gone;
        DO $$ BEGIN
          WHILE (\(sessions) = 'puredux' AND wait_event_type = 'Lock') = 0
            AND NOT EXISTS (SELECT FROM puredux.snapshot_parts) LOOP
            PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
          END LOOP;
        END $$;
        SELECT count(*) FROM puredux.snapshot_parts;
        COMMIT
        """)
      while try server.execute("\(sessions) = 'psql' AND wait_event = 'PgSleep'") == "0\n" { await Task.yield() }
      #expect(
        await failure { try await tree.snapshots?.save(LogSnapshot(position: 1, bytes: [1])) } == .removed)
      #expect(try await removal.value == "0\n")
      await log.close()
    }

    @Test(
      "a removal that was cut short is completed by its repetition, or by the next process", arguments: [true, false])
    func removalCutShort(isRepeated: Bool) async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      _ = try await log["tree"].append((0..<9).map { [UInt8($0)] })
      // The process dies after the first step of a removal.
      try server.execute(
        "WITH gone AS (DELETE FROM puredux.trees RETURNING id) INSERT INTO puredux.removals SELECT id FROM gone")
      #expect(await failure { try await log["tree"].head() } == nil)
      if isRepeated { try await log.remove("tree") }
      let next = isRepeated ? log : try await open(server)
      while try server.execute("SELECT count(*) FROM puredux.removals WHERE NOT cleared") != "0\n" {
        await Task.yield()
      }
      #expect(try server.execute("SELECT count(*) FROM puredux.entries") == "0\n")
      await next.close()
      await log.close()
    }

    @Test("an operator can read the logs' entries")
    func view() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let store = try await list(log["boards/1"])
      for text in ["a", "Größe", #"b\c"#] { try await store.send(text) }
      await store.shutdown()
      _ = try await log["boards/1"].append([1, 2])
      let seen = try server.execute("SELECT key, position, text FROM puredux.contents ORDER BY position")
      #expect(seen == #"boards/1|1|"a"\#nboards/1|2|"Gr\303\266\303\237e"\#nboards/1|3|"b\\c"\#nboards/1|4|\#n"#)
      await log.close()
    }
  }
#endif
