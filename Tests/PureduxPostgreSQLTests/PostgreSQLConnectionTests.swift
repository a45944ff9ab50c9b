#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxPostgreSQL

  /// The number of a process' connections to the server.
  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLConnectionTests {
    /// A transaction that locks a table until a table named `release` exists.
    private func lock(_ table: String, of server: PostgreSQLServer) async throws -> Task<String, any Error> {
      let lock = server.executing(
        """
        BEGIN;
        LOCK TABLE puredux.\(table) IN ACCESS EXCLUSIVE MODE;
        DO $$ BEGIN
          FOR tenth IN 1..3000 LOOP
            PERFORM pg_sleep(0.1);
            EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = 'release');
          END LOOP;
        END $$;
        COMMIT
        """)
      while try server.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0\n" {
        await Task.yield()
      }
      return lock
    }

    /// Returns when this process has at most `bound` connections: the server ends those of abandoned statements.
    private func expectConnections(at server: PostgreSQLServer, atMost bound: Int) async throws {
      let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'puredux'"
      while try server.execute("SELECT (\(count)) <= \(bound)") != "t\n" { await Task.yield() }
    }

    @Test(
      "a process has two connections while any of the tables is locked",
      arguments: ["about", "trees", "entries", "removals", "snapshots", "snapshot_parts", "summaries"])
    func lockedTable(table: String) async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(1) }
      let store = try await list(log["list"])
      try await store.send("before")
      try await store.saveSnapshot()
      for number in 0..<3 { _ = try await log["removed \(number)"].append([1]) }
      let lock = try await lock(table, of: server)
      var opening = LogOptions.silent
      opening.openingLimit = .zero
      for number in 0..<2 {
        #expect(store.dispatch("\(number)") == .enqueued)
        let tree = log["list"]
        _ = await failure { try await log["other"].append([1]) }
        _ = await failure { try await tree.read(after: 0, through: 1) }
        _ = await failure { try await tree.snapshots?.newest() }
        _ = await failure { try await tree.snapshots?.save(LogSnapshot(position: 1, bytes: [UInt8(number)])) }
        _ = await failure { try await tree.summaries?.kept() }
        _ = await failure { try await log.remove("removed \(number)") }
        _ = await failure { try await list(log["opened"], options: opening).shutdown() }
        var options = PostgreSQLLog.Options()
        (options.answerLimit, options.connectLimit) = (.seconds(1), .zero)
        _ = await failure { try await PostgreSQLLog(server.address(), options: options).close() }
      }
      try await expectConnections(at: server, atMost: 2)
      try server.execute("CREATE TABLE release ()")
      _ = try await lock.value
      try await store.send("after")
      #expect(await store.state == ["before", "0", "1", "after"])
      await store.shutdown()
      await log.close()
    }

    @Test("appends to many trees wait for a locked table twice, not once per tree")
    func manyTrees() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server) { $0.answerLimit = .seconds(1) }
      let trees = (0..<30).map { log["tree \($0)"] }
      for tree in trees { _ = try await tree.append([1]) }
      func waits() throws -> Int {
        try String(contentsOfFile: server.directory + ".log", encoding: .utf8).split(separator: "\n")
          .count { $0.contains("due to lock timeout") }
      }
      let lock = try await lock("entries", of: server)
      let isGiven = DispatchSemaphore(value: 0)
      log.tell { isGiven.wait() }
      let outcomes = AsyncStream.makeStream(of: Result<UInt64, LogError>.self)
      for tree in trees { tree.append([2]) { outcomes.continuation.yield($0) } }
      isGiven.signal()
      var failures = 0
      for await outcome in outcomes.stream.prefix(30) { if case .failure(.unavailable) = outcome { failures += 1 } }
      #expect(failures == 30)
      // No reads run meanwhile. On a busy machine, some may have reached their time limit.
      let count = try waits()
      #expect(count <= 4)
      try server.execute("CREATE TABLE release ()")
      _ = try await lock.value
      for tree in trees {
        while await failure(of: { try await tree.append([3]) }) != nil {}
      }
      await log.close()
    }

    @Test(
      "the limits hold behind a pooler that takes no startup settings",
      arguments: [Pooler.Treatment.refuses, .drops])
    func pooler(treatment: Pooler.Treatment) async throws {
      let server = try PostgreSQLServer()
      let pooler = try Pooler(before: server, treatment)
      var options = PostgreSQLLog.Options()
      (options.connectLimit, options.answerLimit) = (.seconds(60), .seconds(1))
      let log = try await PostgreSQLLog(
        "host=\(pooler.directory) user=postgres dbname=postgres", options: options)
      let store = try await list(log["list"])
      try await store.send("before")
      let lock = try await lock("trees", of: server)
      var told = ""
      // A busy machine may need several attempts to answer in time.
      for _ in 0..<20 where !told.contains("55P03") {
        told = "\(await failure { try await log["list"].head() } as Any)"
      }
      #expect(told.contains("55P03"))
      try await expectConnections(at: server, atMost: 2)
      try server.execute("CREATE TABLE release ()")
      _ = try await lock.value
      try await store.send("after")
      #expect(await store.state == ["before", "after"])
      await store.shutdown()
      await log.close()
      #expect(pooler.changed.value.withLock { $0 } > 0)
    }

    @Test("the settings of the connection string apply in addition to the log's")
    func ownOptions() async throws {
      let server = try PostgreSQLServer()
      try server.execute("CREATE ROLE other NOLOGIN; GRANT CREATE ON DATABASE postgres TO other")
      var options = PostgreSQLLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await PostgreSQLLog(server.address() + " options='-c role=other'", options: options)
      _ = try await log["list"].append([1])
      #expect(
        try server.execute("SELECT tableowner FROM pg_tables WHERE schemaname = 'puredux' AND tablename = 'trees'")
          == "other\n")
      await log.close()
    }

    @Test("stores that wait for a server do not poll", arguments: [false, true])
    func noPolling(isBusy: Bool) async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let (attempts, haveAll) = try await attemptsWhileAway(
        of: { log[$0] }, stores: 20, isBusy: isBusy, stopping: { server.stop() }, starting: { try server.start() })
      #expect(attempts <= (isBusy ? 6 : 1))
      #expect(haveAll == 20)
      await log.close()
    }
  }

  /// A pooler on its own socket. Like pgbouncer by default, it refuses clients that set options in their startup
  /// packet. Alternatively it drops the options, as with `ignore_startup_parameters`, or drops one of them.
  final class Pooler: Sendable {
    enum Treatment: Sendable { case refuses, drops, dropsMessages }

    let directory = "/tmp/puredux-\(UUID().uuidString.prefix(8))"
    final class Count: Sendable { let value = LockedValue(0) }

    /// The number of clients that have set options.
    let changed = Count()
    private let listener: Int32

    init(before server: PostgreSQLServer, _ treatment: Treatment) throws {
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      let (listener, name, changed) = (Self.make(), "/.s.PGSQL.5432", changed)
      self.listener = listener
      let target = server.directory + name
      // SAFETY: the address is read within the call.
      let isBound = unsafe Self.with(directory + name) { address, size in unsafe bind(listener, address, size) } == 0
      guard isBound, listen(listener, 16) == 0 else { throw CocoaError(.fileWriteUnknown) }
      Thread.detachNewThread {
        while true {
          let client = accept(listener, nil, nil)
          if client < 0 { return }
          Thread.detachNewThread { Self.serve(client, target, treatment, changed) }
        }
      }
    }

    deinit {
      shutdown(listener, Int32(SHUT_RDWR))
      close(listener)
      try? FileManager.default.removeItem(atPath: directory)
    }

    private static func make() -> Int32 {
      #if canImport(Darwin)
        socket(AF_UNIX, SOCK_STREAM, 0)
      #else
        socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      #endif
    }

    private static func with(
      _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      // SAFETY: the path fits, and the pointer is read as a general socket address within the call.
      unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: Array(path.utf8)) }
      return unsafe withUnsafePointer(to: &address) { address in
        unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
          unsafe body(address, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      }
    }

    /// The received bytes; empty at the end.
    private static func receive(_ descriptor: Int32, _ count: Int = 1 << 16) -> [UInt8] {
      // SAFETY: `size` is the number of received bytes.
      unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, size in
        size = unsafe max(0, recv(descriptor, buffer.baseAddress, count, 0))
      }
    }

    private static func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
      var rest = bytes[...]
      while !rest.isEmpty {
        // SAFETY: the bytes are read within the call.
        let count = unsafe rest.withUnsafeBytes { bytes in
          #if canImport(Darwin)
            unsafe Foundation.send(descriptor, bytes.baseAddress, bytes.count, 0)
          #else
            unsafe Foundation.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
          #endif
        }
        if count <= 0 { return false }
        rest = rest.dropFirst(count)
      }
      return true
    }

    private static func serve(
      _ client: Int32, _ target: String, _ treatment: Treatment, _ changed: Count
    ) {
      defer { close(client) }
      // The startup packet: length, protocol version, and zero-terminated names and values.
      let packet = receive(client)
      guard packet.count > 8 else { return }
      var texts = packet[8...].split(separator: 0, omittingEmptySubsequences: false).map {
        String(decoding: $0, as: UTF8.self)
      }
      if let place = stride(from: 0, to: texts.count - 1, by: 2).first(where: { texts[$0] == "options" }) {
        changed.value.withLock { $0 += 1 }
        switch treatment {
        case .refuses:
          let text = "SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
          _ = send([UInt8(ascii: "E"), 0, 0, 0, UInt8(text.utf8.count + 4)] + text.utf8, to: client)
          return
        case .drops: texts.removeSubrange(place...place + 1)
        case .dropsMessages: texts[place + 1].replace("-c client_min_messages=warning", with: "")
        }
      }
      let body = packet[4..<8] + Array(texts.joined(separator: "\0").utf8)
      let server = make()
      defer { close(server) }
      // SAFETY: the address is read within the call.
      guard unsafe with(target, { address, size in unsafe connect(server, address, size) }) == 0,
        send([0, 0, UInt8((body.count + 4) >> 8), UInt8((body.count + 4) & 255)] + body, to: server)
      else { return }
      let isOver = DispatchSemaphore(value: 0)
      for (from, to) in [(client, server), (server, client)] {
        Thread.detachNewThread {
          while true {
            let bytes = receive(from)
            if bytes.isEmpty || !send(bytes, to: to) { break }
          }
          shutdown(client, Int32(SHUT_RDWR))
          shutdown(server, Int32(SHUT_RDWR))
          isOver.signal()
        }
      }
      for _ in 0..<2 { isOver.wait() }
    }
  }
#endif
