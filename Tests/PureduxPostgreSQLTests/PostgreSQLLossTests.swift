#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxPostgreSQL

  /// Logs that have lost entries: G11, a store stops and never goes on.
  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLLossTests {
    private func expectStop(_ store: ListStore, _ states: [String]) async throws {
      await #expect(throws: StoreError.self) { try await store.send("lost") }
      guard case .stopped(.unreadable(position: _)) = await store.statistics.log?.phase else {
        Issue.record("\(String(describing: await store.statistics.log))")
        return
      }
      #expect(await store.state == states)
      await store.shutdown()
    }

    @Test("stores ahead of a restored backup stop")
    func restored() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let store = try await list(log["list"])
      let idle = try await list(log["list"])
      for number in 0..<3 { try await store.send("\(number)") }
      server.stop()
      try server.backUp()
      try server.start()
      for number in 3..<6 { try await store.send("\(number)") }
      for await list in idle.states() where list.count == 6 { break }
      server.stop()
      try server.restore()
      try server.start()
      try await expectStop(store, (0..<6).map(String.init))
      // An idle store also finds the loss.
      for await phase in idle.logPhases() { if case .stopped(.unreadable(position: _)) = phase { break } }
      await idle.shutdown()
      // The stopped store has appended nothing that would stop later stores.
      let next = try await list(log["list"])
      #expect(await next.state == ["0", "1", "2"])
      try await next.send("3")
      await next.shutdown()
      await log.close()
    }

    @Test("a log moves on from an old primary that commits nothing, though it is named first")
    func oldPrimary() async throws {
      let old = try PostgreSQLServer()
      let first = try await open(old)
      let begun = try await list(first["list"])
      try await begun.send("0")
      await begun.shutdown()
      await first.close()
      old.stop()
      let new = try PostgreSQLServer(copyOf: old)
      let other = try await open(new)
      let ahead = try await list(other["list"])
      try await ahead.send("1")
      // Without such a standby, no commit of the old server ends.
      old.settings = ["synchronous_standby_names=nobody"]
      try old.start()
      // One commit waits, and holds the tree's row.
      Thread.detachNewThread { _ = try? old.execute("UPDATE puredux.trees SET head = head") }
      while try old.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0\n" {
        await Task.yield()
      }
      var options = PostgreSQLLog.Options()
      options.connectLimit = .seconds(60)
      options.answerLimit = .seconds(1)
      let log = try await PostgreSQLLog(
        "host=\(old.directory),\(new.directory) user=postgres dbname=postgres", options: options)
      let store = try await list(log["list"])
      #expect(await store.state == ["0"])
      try await store.send("2")
      #expect(await store.state == ["0", "1", "2"])
      for await states in ahead.states() where states.count == 3 { break }
      #expect(await ahead.state == ["0", "1", "2"])
      await store.shutdown()
      await ahead.shutdown()
      await log.close()
      await other.close()
      // Ends the waiting commit.
      old.stop()
    }

    /// A log of two servers in its connection string: the first has three entries of a tree, the second has a fourth.
    /// Both of the log's connections are lost.
    private func openBehindOlder() async throws
      -> (log: PostgreSQLLog, tree: any OrderedLog, servers: [PostgreSQLServer])
    {
      let older = try PostgreSQLServer()
      let first = try await open(older)
      _ = try await first["tree"].append([[1], [2], [3]])
      await first.close()
      older.stop()
      let newer = try PostgreSQLServer(copyOf: older)
      var options = PostgreSQLLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await PostgreSQLLog(
        "host=\(older.directory),\(newer.directory) user=postgres dbname=postgres", options: options)
      let tree = log["tree"]
      #expect(try await tree.append([4]) == 4)
      try older.start()
      try newer.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'puredux'")
      return (log, tree, [older, newer])
    }

    @Test("a server that lacks known entries is left for the next in the connection string")
    func olderServer() async throws {
      let (log, tree, servers) = try await openBehindOlder()
      defer { for server in servers { server.stop() } }
      // First the connection is lost, then the older server is asked.
      var problem = LogError?.some(.unavailable(""))
      while case .unavailable? = problem {
        problem = await failure {
          let head = try await tree.head()
          #expect(head == 4)
        }
      }
      #expect(problem == nil)
      await log.close()
    }

    @Test("both connections may ask the older server before either moves on")
    func olderServerTwice() async throws {
      let (log, tree, servers) = try await openBehindOlder()
      defer { for server in servers { server.stop() } }
      var told = ""
      while !told.contains("The log ends at 3") { told = "\(await failure(of: { try await tree.head() }) as Any)" }
      var problem = LogError?.some(.unavailable(""))
      while case .unavailable? = problem {
        problem = await failure {
          let position = try await tree.append([5])
          #expect(position >= 5)
        }
      }
      #expect(problem == nil)
      await log.close()
    }

    @Test("a tree created in a restored database is not that of a store that was ahead")
    func restoredNumbers() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.pollInterval = .seconds(60) }  // So that the store writes before it looks.
      _ = try await log["old"].append([1])
      let ahead = try await list(log["ahead"])
      try await ahead.send("0")
      // As a dump from before the tree existed.
      try server.execute("DELETE FROM puredux.entries WHERE tree = (SELECT id FROM puredux.trees WHERE key = 'ahead')")
      try server.execute("DELETE FROM puredux.trees WHERE key = 'ahead'")
      try server.execute("SELECT setval('puredux.trees_id_seq', count(*)) FROM puredux.trees")
      let other = try await open(server)
      let new = try await list(other["new"])
      try await new.send("1")
      try await expectStop(ahead, ["0"])
      try await new.send("2")
      #expect(await new.state == ["1", "2"])
      await new.shutdown()
      await other.close()
      await log.close()
    }

    @Test(
      "missing or replaced tables stop the stores",
      arguments: [
        "DROP SCHEMA puredux CASCADE", "TRUNCATE puredux.trees", "DELETE FROM puredux.trees",
        "UPDATE puredux.about SET identity = 'another'", "DROP TABLE puredux.entries CASCADE",
        "UPDATE puredux.trees SET head = 1",
      ])
    func gone(statement: String) async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let store = try await list(log["list"])
      for number in 0..<3 { try await store.send("\(number)") }
      try server.execute(statement)
      try server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'puredux'")
      try await expectStop(store, ["0", "1", "2"])
      await log.close()
    }

    @Test("a server without the mark of a truncation, or the note of a removal, keeps the entries")
    func lostMark() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append((0..<9).map { [UInt8($0)] })
      let id = try #require(Int64(try server.execute("SELECT id FROM puredux.trees").dropLast()))
      // As after the promotion of a standby that lags.
      try server.execute(
        """
        CREATE FUNCTION puredux.forget() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN NEW.first := OLD.first; RETURN NEW; END';
        CREATE TRIGGER forget BEFORE UPDATE ON puredux.trees FOR EACH ROW EXECUTE FUNCTION puredux.forget()
        """)
      try await tree.snapshots?.save(LogSnapshot(position: 3, bytes: [3]))
      _ = try await tree.summaries?.save([3], at: 3)
      try await log.clearTruncated(id, through: 8)
      expectUnavailable(await failure { try await tree.erase(through: 8) })
      #expect(try await tree.snapshots?.newest() == LogSnapshot(position: 3, bytes: [3]))
      #expect(try await tree.summaries?.kept()?.position == 3)
      expectUnavailable(await failure { try await log.clearRemoved(id, of: nil) })
      #expect(try await tree.read(after: 0, through: 9).count == 9)
      await log.close()
    }

    @Test("a server that loses a part of a new snapshot keeps the one before")
    func lostPart() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append((0..<9).map { [UInt8($0)] })
      let kept = LogSnapshot(position: 3, bytes: [3])
      try await tree.snapshots?.save(kept)
      // As after the promotion of a standby that lags.
      try server.execute(
        """
        CREATE FUNCTION puredux.lose() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN DELETE FROM puredux.snapshot_parts WHERE position = NEW.position; RETURN NULL; END';
        CREATE TRIGGER lose AFTER INSERT ON puredux.snapshot_parts FOR EACH ROW EXECUTE FUNCTION puredux.lose()
        """)
      let newer = LogSnapshot(position: 8, bytes: [8])
      expectUnavailable(await failure { try await tree.snapshots?.save(newer) })
      expectUnavailable(await failure { try await tree.snapshots?.replace(with: newer) })
      #expect(try await tree.snapshots?.newest() == kept)
      await log.close()
    }

    @Test("an erasure fails while the server has parts of its earlier snapshots, and its repetition deletes these")
    func lostDeletionOfParts() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append((0..<9).map { [UInt8($0)] })
      let id = try server.execute("SELECT id FROM puredux.trees").dropLast()
      // A part is there again after its deletion, as on a standby that is promoted then.
      try server.execute(
        """
        CREATE FUNCTION puredux.restore() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO puredux.snapshot_parts VALUES (\(id), 3, ''x'', 0, ''x''); RETURN NULL; END';
        CREATE TRIGGER restore AFTER DELETE ON puredux.snapshots FOR EACH STATEMENT EXECUTE FUNCTION puredux.restore()
        """)
      expectUnavailable(await failure { try await tree.erase(through: 8) })
      try server.execute("DROP TRIGGER restore ON puredux.snapshots")
      try await tree.erase(through: 8)
      #expect(try server.execute("SELECT count(*) FROM puredux.snapshot_parts") == "0\n")
      await log.close()
    }

    @Test("an erasure and a removal fail while the server has their entries, and their repetition deletes these")
    func lostDeletions() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append((0..<9).map { [UInt8($0)] })
      let id = try server.execute("SELECT id FROM puredux.trees").dropLast()
      // An entry is there again after its deletion, as on a standby that is promoted then.
      try server.execute(
        """
        CREATE FUNCTION puredux.restore() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO puredux.entries (tree, position, entry) VALUES (\(id), 5, ''x''); RETURN NULL; END'
        """)
      let restore = """
        CREATE TRIGGER restore AFTER DELETE ON puredux.snapshots FOR EACH STATEMENT EXECUTE FUNCTION puredux.restore()
        """
      let forget = "DROP TRIGGER restore ON puredux.snapshots"
      try server.execute(restore)
      expectUnavailable(await failure { try await tree.erase(through: 8) })
      try server.execute(forget)
      try await tree.erase(through: 8)
      #expect(try server.execute("SELECT count(*) FROM puredux.entries") == "1\n")
      try server.execute(restore)
      expectUnavailable(await failure { try await log.remove("tree") })
      #expect(try server.execute("SELECT cleared FROM puredux.removals") == "f\n")
      try server.execute(forget)
      try await log.remove("tree")
      #expect(try server.execute("SELECT cleared FROM puredux.removals") == "t\n")
      #expect(try server.execute("SELECT count(*) FROM puredux.entries") == "0\n")
      await log.close()
    }

    @Test("a failing removal neither stops nor fails another one, and a repetition reports it")
    func failingRemoval() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      for key in ["a", "b", "c"] { _ = try await log[key].append([1]) }
      let ids = try server.execute("SELECT id FROM puredux.trees ORDER BY key").split(separator: "\n")
      try server.execute(
        """
        CREATE FUNCTION puredux.fail() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN RAISE EXCEPTION SQLSTATE ''XX001''; END';
        CREATE TRIGGER fail BEFORE DELETE ON puredux.entries FOR EACH ROW WHEN (OLD.tree = \(ids[0]))
          EXECUTE FUNCTION puredux.fail()
        """)
      #expect(await failure { try await log.remove("a") } != nil)
      // The process that removes this tree dies.
      try server.execute(
        "WITH gone AS (DELETE FROM puredux.trees WHERE key = 'b' RETURNING id) "
          + "INSERT INTO puredux.removals SELECT id FROM gone")
      try await log.remove("c")
      #expect(try server.execute("SELECT count(*) FROM puredux.entries WHERE tree <> \(ids[0])") == "0\n")
      // "c" names no tree now.
      try await log.remove("c")
      #expect(await failure { try await log.remove("a") } != nil)
      _ = try await log["a"].append([2])
      #expect(await failure { try await log.remove("a") } != nil)
      #expect(try server.execute("SELECT count(*) FROM puredux.entries WHERE tree <> \(ids[0])") == "0\n")
      let later = try await open(server)
      // A later process cannot know whether this key named the tree.
      #expect(await failure { try await later.remove("c") } != nil)
      _ = try await later["c"].append([2])
      try await later.remove("c")
      await later.close()
      try server.execute("DROP TRIGGER fail ON puredux.entries")
      try await log.remove("a")
      #expect(try server.execute("SELECT count(*) FROM puredux.entries") == "0\n")
      await log.close()
    }

    private func expectUnavailable(_ failure: LogError?, _ place: SourceLocation = #_sourceLocation) {
      guard case .unavailable? = failure else {
        Issue.record("\(String(describing: failure))", sourceLocation: place)
        return
      }
    }

    @Test("a missing entry is found by its readers, and does not count as the end")
    func entryGone() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      _ = try await log["tree"].append((0..<9).map { [UInt8($0)] })
      try server.execute("DELETE FROM puredux.entries WHERE position = 5")
      guard case .damaged(position: 5, _)? = await failure(of: { try await log["tree"].read(after: 0, through: 9) })
      else {
        Issue.record("It is read.")
        return
      }
      guard case .damaged(position: 5, _)? = await failure(of: { try await log["tree"].read(after: 4, through: 9) })
      else {
        Issue.record("It is read.")
        return
      }
      #expect(try await log["tree"].read(after: 5, through: 9).count == 4)
      await log.close()
    }

    @Test("an entry that another program inserted stops the store that would overwrite it")
    func entryAhead() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let tree = log["tree"]
      _ = try await tree.append([1])
      _ = try await log["other"].append([1])
      try server.execute("INSERT INTO puredux.entries SELECT id, 2, 'x' FROM puredux.trees WHERE key = 'tree'")
      guard case .damaged? = await failure(of: { try await tree.append([2]) }) else {
        Issue.record("It is written over.")
        return
      }
      #expect(try await log["other"].append([2]) == 2)
      await log.close()
    }
  }
#endif
