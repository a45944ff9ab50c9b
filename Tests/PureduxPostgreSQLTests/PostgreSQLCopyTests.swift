#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxDirectory
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import PureduxTesting
  import Testing

  @testable import PureduxPostgreSQL

  /// Copies to a database and back to files preserve the state, and the database keeps all kinds of entries.
  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLCopyTests {
    private func counted(
      _ log: any OrderedLog, _ options: LogOptions = .silent
    ) async throws -> ListStore {
      try await ListStore(
        following: log, initialState: [],
        options: FollowingOptions(
          log: options, fingerprint: .hashed { $0.reduce(1) { $0 &* 31 &+ UInt64($1.utf8.count) } },
          summary: { $0.count })
      ) { list, action in
        list.append(action)
        if action == "forget" { list.removeAll { $0.hasPrefix("secret") } }
      }
    }

    // MARK: From files to a database, and back

    @Test(
      "stores that move to a copied log have the same state at the same position, there and back",
      arguments: [false, true])
    func moved(truncates: Bool) async throws {
      let server = try PostgreSQLServer()
      let directory = try TemporaryDirectory()
      let files = try FileLog(directory: directory.path + "/old")
      let log = try await open(server)
      let back = try FileLog(directory: directory.path + "/new")
      var expected: [String] = []
      for (old, new) in [(files, log), (log, back)] as [(any LogDirectory, any LogDirectory)] {
        let stores = [try await counted(old["boards/1"]), try await counted(old["boards/1"])]
        #expect(await stores[0].state == expected)
        for number in 0..<50 { try await stores[number % 2].send("before \(number)") }
        if truncates { try await stores[0].eraseLog() } else { try await stores[0].saveSnapshot() }
        try await stores[1].send("behind the snapshot")
        // Without an epoch, as no position was disclosed, and positions are to stay the same.
        async let sent: Void = {
          for number in 0..<200 { try await stores[number % 2].send("during \(number)") }
        }()
        for _ in 0..<3 { #expect(try await old.copy(to: new, reason: nil).failures == []) }
        try await sent
        var states: [[String]] = []
        for store in stores {
          for await list in store.states() where list.count == expected.count + 251 { break }
          await store.shutdown()
          states.append(await store.state)
        }
        // A store that ends appends an entry without actions, and does not wait for it.
        await log.writer.finish()
        #expect(states[0] == states[1])
        #expect(states[0].dropLast(251) == expected[...] && Set(states[0].suffix(251)).count == 251)
        expected = states[0]
        #expect(try await old.copy(to: new, reason: nil).failures == [])
        let rest = try await old.copy(to: new, reason: nil)
        #expect(rest.logs == 1 && rest.added == 0 && rest.failures == [])
        let (end, moved) = (try await old["boards/1"].head(), try await new["boards/1"].head())
        // Truncated entries are replaced by fewer ones.
        #expect(truncates ? moved < end : moved == end)
        #expect(try await new["boards/1"].verifyEntries().problems == [])
        let first = try await counted(new["boards/1"])
        #expect(await first.state == expected)
        #expect(await first.statistics.log?.position == moved)
        await first.shutdown()
      }
      await files.close()
      await log.close()
      await back.close()
    }

    @Test("a copy that loses its connections is completed by the next call, each entry once")
    func cutShort() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let memory = MemoryLogs()
      let entries = (0..<20_000).map { number in Array("\(number) ".utf8) + [UInt8](repeating: 7, count: 500) }
      _ = try await memory["tree"].append(entries)
      var failures = 0
      for round in 0... {
        let (places, progress) = AsyncStream.makeStream(of: UInt64.self)
        let copying = Task {
          // The copy may fail before the connections are replaced.
          defer { progress.finish() }
          _ = try await memory["tree"].copy(to: log["tree"], reason: nil) { progress.yield($0.copied) }
        }
        if round < 6 {
          for await place in places where place > round * 1500 { break }
          try server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'puredux'")
        }
        do {
          try await copying.value
          break
        } catch let error as LogCopyError {
          guard case .log(.unavailable) = error.reason else { throw error }
          failures += 1
          await Task.yield()
        }
      }
      #expect(failures > 0)
      #expect(try await log["tree"].read(after: 0, through: 20_000).map(\.bytes) == entries)
      #expect(try await log["tree"].head() == 20_000)
      await log.close()
    }

    @Test("many entries are appended after a position, all or none, and followers get them")
    func dense() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let other = try await open(server)
      let tree = try #require(log["tree"] as? any DenseLog)
      let entries = (0..<2000).map { Array("entry \($0)".utf8) }
      let followed = Task {
        var read: [LogRecord] = []
        for try await some in other["tree"].records(after: 0) {
          read += some
          if read.count >= 2001 { break }
        }
        return read
      }
      try await tree.append([], behind: 7)
      try await tree.append(entries, behind: 0)
      #expect(try await other["tree"].append([1]) == 2001)
      for head in [0, 2000, 2002, UInt64.max] {
        #expect(await failure { try await tree.append([[2], [3]], behind: head) } == .headIsElsewhere(2001))
      }
      let large = [UInt8](repeating: 1, count: tree.entryLimit + 1)
      guard case .refused? = await failure(of: { try await tree.append([[2], large], behind: 2001) }) else {
        Issue.record("It is taken.")
        return
      }
      #expect(try await followed.value.map(\.bytes) == entries + [[1]])
      // The log still takes entries after a refusal.
      try await tree.append([[4]], behind: 2001)
      #expect(try await tree.append([5]) == 2003)
      #expect(try await log["tree"].read(after: 2000, through: 2003).map(\.bytes) == [[1], [4], [5]])
      try await other.remove("tree")
      #expect(await failure { try await tree.append([[6]], behind: 2003) } == .removed)
      await log.close()
      await other.close()
    }

    @Test("logs in use are exported to a file, read there, and imported into another schema")
    func exported() async throws {
      let server = try PostgreSQLServer()
      let directory = try TemporaryDirectory()
      let log = try await open(server)
      var stores: [ListStore] = []
      for key in ["boards/1", "boards/2", "rooms/1"] {
        let store = try await counted(log[key])
        for number in 0..<20 { try await store.send("\(number)") }
        if key == "boards/2" { try await store.eraseLog() } else { try await store.saveSnapshot() }
        try await store.send("later")
        stores.append(store)
      }
      let path = directory.path + "/export"
      let report = try await log.export(to: path, prefix: "boards/")
      #expect(report.logs == 2 && report.failures == [])
      try await stores[0].send("behind the export")
      for store in stores { await store.shutdown() }
      let archive = try await LogArchive(path: path)
      #expect(try await all(archive.keys(prefix: "")) == ["boards/1", "boards/2"])
      let expected = (0..<20).map(String.init) + ["later"]
      let restored = try await open(server) { $0.schema = "restored" }
      #expect(try await restored.import(from: path).failures == [])
      for key in ["boards/1", "boards/2"] {
        #expect(try await archive[key].verifyEntries().problems == [])
        #expect(try await restored[key].verifyEntries().problems == [])
        let store = try await counted(restored[key])
        #expect(await store.state == expected)
        #expect(await store.statistics.log?.epoch != 0)
        await store.shutdown()
      }
      await archive.close()
      await restored.close()
      // The logs in the other schema are unchanged.
      let board = try await counted(log["boards/1"])
      #expect(await board.state == expected + ["behind the export"])
      await board.shutdown()
      await log.close()
    }

    // MARK: Decisions, erasure, summaries

    @Test("a skip, a seal and an epoch are entries, which hold for every replica, and in the copy")
    func decisions() async throws {
      let server = try PostgreSQLServer()
      let directory = try TemporaryDirectory()
      let log = try await open(server)
      let other = try await open(server)
      func rules(_ number: UInt32) -> LogOptions {
        var options = LogOptions.silent
        options.rules = number
        return options
      }
      let old = try await counted(log["list"], rules(1))
      let replica = try await counted(other["list"], rules(1))
      for action in ["a", "a mistake"] { try await old.send(action) }
      let mistake = try await log["list"].head()
      try await old.send("b")
      #expect(try await other["list"].skip(position: mistake, reason: "a mistake") == mistake + 2)
      // Stores that have applied the entry stop, and are reopened.
      await old.shutdown()
      await replica.shutdown()
      let skipped = try await counted(log["list"], rules(1))
      #expect(await skipped.state == ["a", "b"])
      #expect(await skipped.statistics.log?.skipped == 1)
      try await skipped.sealLog(forRules: 2, reason: "other rules")
      await skipped.shutdown()
      let sealed = try await log["list"].head()
      await #expect(throws: StoreError.stopped(.newerRules(position: sealed))) {
        _ = try await counted(log["list"], rules(1))
      }
      let epoch = try await other["list"].beginEpoch(reason: "moved")
      let new = try await counted(log["list"], rules(2))
      try await new.send("c")
      #expect(await new.statistics.log?.epoch == epoch)
      await new.shutdown()
      let files = try FileLog(directory: directory.path)
      try await log["list"].copy(to: files["list"], reason: nil)
      for log in [other["list"], files["list"]] {
        let store = try await counted(log, rules(2))
        #expect(await store.state == ["a", "b", "c"])
        let statistics = await store.statistics.log
        #expect(statistics?.skipped == 1 && statistics?.epoch == epoch)
        await store.shutdown()
      }
      await files.close()
      await log.close()
      await other.close()
    }

    @Test("erased texts are in no table")
    func erased() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'puredux'"
      let tables = try server.execute(names).split(separator: "\n")
      #expect(tables.count == 8)
      /// The tables that contain one of some texts, as text or in hexadecimal.
      func holding(_ texts: String...) throws -> Set<Substring> {
        let patterns = texts.flatMap { text in [text, text.utf8.map { String($0, radix: 16) }.joined()] }
        return Set(
          try tables.filter { table in
            let rows =
              "SELECT count(*) FROM puredux.\(table) AS t WHERE t::text ~ '\(patterns.joined(separator: "|"))'"
            return try server.execute(rows) != "0\n"
          })
      }
      let store = try await ListStore(
        following: log["list"], initialState: [],
        options: FollowingOptions(log: .silent, summary: { $0.filter { $0.hasPrefix("secret") } })
      ) { list, action in
        list.append(action)
        if action == "forget" { list.removeAll { $0.hasPrefix("secret") } }
      }
      for action in ["kept", "secret of Ann", "secret of Bob"] { try await store.send(action) }
      try await store.saveSnapshot()
      // The remains of a process that died while it saved a snapshot.
      try server.execute(
        "INSERT INTO puredux.snapshot_parts SELECT tree, 2, 'left', 0, 'secret' FROM puredux.snapshots")
      #expect(try holding("secret") == ["entries", "contents", "snapshot_parts", "summaries"])
      try await store.send("forget")
      #expect(try await store.eraseLog() == 4)
      #expect(try holding("secret") == [])
      #expect(await failure { try await log["list"].read(after: 0, through: 4) } == .truncated(first: 5))
      try await store.send("later")
      let replica = try await counted(log["list"])
      #expect(await replica.state == ["kept", "forget", "later"])
      await replica.shutdown()
      await store.shutdown()
      #expect(try holding("later").isSuperset(of: ["entries", "contents"]))
      try await log.remove("list")
      #expect(try holding("later", "kept", "forget") == [])
      await log.close()
    }

    @Test("summaries that stores write at their end are listed by another process, but not those of removed trees")
    func summaries() async throws {
      let server = try PostgreSQLServer()
      let here = try await open(server)
      for number in 0..<20 {
        let store = try await counted(here["lists/\(number)"])
        for entry in 0..<(number % 3 + 1) { try await store.send("\(entry)") }
        await store.shutdown()
      }
      for number in 0..<1500 { _ = try await here["many/\(number)"].summaries?.save([1], at: 1) }
      await here.close()
      let there = try await open(server)
      let listed = try await all(there.summaries(of: Int.self, prefix: "lists/"))
      #expect(Set(listed.map(\.key)) == Set((0..<20).map { "lists/\($0)" }) && listed.count == 20)
      for summary in listed { #expect(Int(summary.key.dropFirst(6)).map { $0 % 3 + 1 } == summary.value) }
      #expect(try await all(there.summaries(of: Int.self, prefix: "lists/1")).count == 11)
      let many = try await all(there.summaries(prefix: "many/"))
      #expect(Set(many.map(\.key)) == Set((0..<1500).map { "many/\($0)" }) && many.count == 1500)
      try await there.remove("lists/1")
      #expect(try await all(there.summaries(prefix: "lists/1")).count == 10)
      await there.close()
    }

    // MARK: Directories and instruments

    @Test("a directory of stores releases them and makes them again, here and in another process")
    func directory() async throws {
      let server = try PostgreSQLServer()
      let logs = [try await open(server), try await open(server)]
      let directories = logs.map { log in
        StoreDirectory<Int, [String], String>(idleLimit: .zero) { try await list(log["boards/\($0)"]) }
      }
      for round in 0..<3 {
        try await withThrowingTaskGroup { tasks in
          for board in 0..<20 {
            let directory = directories[(board + round) % 2]
            tasks.addTask { try await directory.withStore(board) { try await $0.send("\(round)") } }
          }
          try await tasks.waitForAll()
        }
      }
      for board in 0..<20 {
        try await directories[board % 2].withStore(board) { #expect(await $0.state == ["0", "1", "2"]) }
      }
      // A store whose log was removed has stopped, and is replaced for its next user.
      let handle = try await directories[0].open(0)
      try await logs[1].remove("boards/0")
      for await phase in handle.store.logPhases() { if case .stopped = phase { break } }
      try await directories[0].withStore(0) { store in
        try await store.send("anew")
        #expect(await store.state == ["anew"])
      }
      for directory in directories { await directory.shutdown() }
      for log in logs { await log.close() }
    }

    @Test("an instrument is told of entries, snapshots and replayed actions")
    func instrument() async throws {
      struct Notes: StoreInstrument {
        let notes = Record<String>()

        func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
          switch event {
          case .entered: break
          case .replayed(let positions, _): notes.add("replayed \(positions)")
          case .appended(let actions, let bytes, let duration, let error):
            notes.add("appended \(actions)\(error == nil && bytes > 0 && duration >= .zero ? "" : ", failed")")
          case .savedSnapshot(let position, let bytes, _, let error):
            notes.add("snapshot of \(position)\(error == nil && bytes > 0 ? "" : ", failed")")
          }
        }
      }
      let server = try PostgreSQLServer()
      let log = try await open(server)
      func store(_ notes: Notes) async throws -> ListStore {
        try await ListStore(
          following: log["list"], initialState: [],
          options: FollowingOptions(log: .silent, store: StoreOptions(name: "list", instrument: notes))
        ) { $0.append($1) }
      }
      let first = Notes()
      let one = try await store(first)
      for action in ["a", "b"] { try await one.send(action) }
      try await one.saveSnapshot()
      try await one.send("c")
      // The log's answer may arrive after the commit.
      await first.notes.untilCount(5)
      await one.shutdown()
      #expect(first.notes.all.sorted().prefix(4) == ["appended 1", "appended 1", "appended 1", "replayed 0"])
      #expect(first.notes.all.contains("snapshot of 2") && !first.notes.all.contains { $0.hasSuffix("failed") })
      let second = Notes()
      let other = try await store(second)
      #expect(second.notes.all.contains("replayed 1"))
      #expect(await other.state == ["a", "b", "c"])
      await other.shutdown()
      await log.close()
    }
  }
#endif
