#if PostgreSQL
  import Foundation
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxPostgreSQL

  /// Opening the log: tables, versions, privileges, and the server's refusals.
  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLSetupTests {
    private func failure(
      _ address: String, _ change: (inout PostgreSQLLog.Options) -> Void = { _ in }
    ) async -> LogError? {
      var options = PostgreSQLLog.Options()
      options.connectLimit = .seconds(2)
      change(&options)
      let given = options
      return await PureduxPostgreSQLTests.failure { try await PostgreSQLLog(address, options: given).close() }
    }

    private func expectRefused(_ failure: LogError?, _ part: String, _ place: SourceLocation = #_sourceLocation) {
      guard case .refused(let text)? = failure, text.contains(part) else {
        Issue.record("\(String(describing: failure))", sourceLocation: place)
        return
      }
    }

    private func expectUnavailable(_ failure: LogError?, _ part: String, _ place: SourceLocation = #_sourceLocation) {
      guard case .unavailable(let text)? = failure, text.contains(part) else {
        Issue.record("\(String(describing: failure))", sourceLocation: place)
        return
      }
    }

    /// Objects of other programs under names of this library in the schema.
    private static let others = [
      "TABLE about (page text)", "TABLE about (version text, identity text)", "VIEW about AS SELECT 1 AS version",
      "SEQUENCE about", "TABLE trees (height bigint)", "TABLE entries (id bigint)", "VIEW contents AS SELECT 1 AS one",
    ]

    @Test("a schema in which other programs use a name of the tables is refused and unchanged", arguments: others)
    func foreign(definition: String) async throws {
      let server = try PostgreSQLServer()
      try server.execute("CREATE \(definition)")
      let relations = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname"
      let before = try server.execute(relations)
      let name = definition.split(separator: " ")[1]
      let found = await failure(server.address()) { $0.schema = "public" }
      expectRefused(found, "\(name)")
      expectRefused(found, "another schema")
      expectRefused(
        await failure(server.address()) { ($0.schema, $0.makesTables) = ("public", false) }, "\(name)")
      #expect(try server.execute(relations) == before)
      // Another schema can be used.
      #expect(await failure(server.address()) == nil)
    }

    @Test("a server's refusals are reported with their remedies")
    func refused() async throws {
      let server = try PostgreSQLServer()
      try server.execute("CREATE ROLE boards LOGIN PASSWORD 'secret'; CREATE ROLE other LOGIN PASSWORD 'secret'")
      let hba = "local all postgres trust\nlocal postgres boards scram-sha-256\n"
      try hba.write(toFile: server.directory + "/data/pg_hba.conf", atomically: false, encoding: .utf8)
      try server.execute("SELECT pg_reload_conf()")
      expectRefused(await failure(server.address(user: "boards", password: "wrong")), "password")
      expectRefused(await failure(server.address(user: "boards")), "PGPASSWORD")
      expectRefused(await failure(server.address(user: "other", password: "secret")), "pg_hba.conf")
      expectRefused(await failure("host=\(server.directory) user=postgres dbname=none"), "database")
      expectRefused(await failure(server.address(user: "boards", password: "secret")), "setupScript")
      for text in ["postgresql://a:b%zz@c/d", "no option", "horst=a", "host='"] {
        let found = await failure(text)
        expectRefused(found, "connection string")
        #expect(!"\(String(describing: found))".contains("b%zz"))
      }
      // libpq would take a part of the password for a host, a port or a database.
      for text in [
        "boards:a@hush@127.0.0.1:1/boards", "boards:a/hush@127.0.0.1:1/boards", "boards:1/hush@127.0.0.1:1/a",
      ] {
        let found = await failure("postgresql://" + text)
        expectRefused(found, "%40")
        #expect(!"\(String(describing: found))".contains("hush"))
      }
      expectUnavailable(await failure("postgres://boards:a%40b@127.0.0.1:1/boards?application_name=a@b"), "refused")
      for schema in ["", String(repeating: "s", count: 64), "a\0"] {
        expectRefused(await failure(server.address()) { $0.schema = schema }, "schema")
      }
    }

    @Test("the reason of a refused connection is found in any language")
    func languages() {
      for severity in ["FATAL", "ERROR", "ВАЖНО", "致命错误"] {
        let text = #"connection to server at "::1", port 5432 failed: \#(severity):  28P01: password"#
        expectRefused(Failure.connecting(text), "password")
      }
      expectUnavailable(Failure.connecting("could not connect:  12345 is no code"), "no code")
    }

    @Test("an unreachable, starting or full server is unavailable")
    func unavailable() async throws {
      expectUnavailable(await failure("host=/nowhere dbname=postgres"), "/nowhere")
      expectUnavailable(await failure("host=127.0.0.1 port=1 dbname=postgres"), "refused")
      let server = try PostgreSQLServer(["max_connections=10", "superuser_reserved_connections=0"])
      var logs: [PostgreSQLLog] = []
      for number in 0..<5 {
        let log = try await open(server)
        _ = try await log["tree"].append([UInt8(number)])
        logs.append(log)
      }
      expectUnavailable(await failure(server.address()), "max_connections")
      for log in logs { await log.close() }
      #expect(await failure(server.address()) == nil)
    }

    @Test("concurrent clients create the tables once, in any schema and encoding")
    func madeOnce() async throws {
      let server = try PostgreSQLServer()
      try server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
      let address = "host=\(server.directory) user=postgres dbname=latin"
      var options = PostgreSQLLog.Options()
      options.schema = #"odd "näme"; $."#
      let given = options
      try await withThrowingTaskGroup { tasks in
        for number in 0..<6 {
          tasks.addTask {
            let log = try await PostgreSQLLog(address, options: given)
            _ = try await log["größe 🏳️‍🌈"].append([UInt8(number)])
            await log.close()
          }
        }
        try await tasks.waitForAll()
      }
      let log = try await PostgreSQLLog(address, options: given)
      #expect(try await log["größe 🏳️‍🌈"].head() == 6)
      await log.close()
    }

    @Test("a role's own settings change nothing")
    func settings() async throws {
      let server = try PostgreSQLServer()
      let settings = [
        "standard_conforming_strings = off", "backslash_quote = off", "search_path = nowhere", "bytea_output = escape",
        "default_transaction_isolation = serializable", "default_transaction_deferrable = on", "row_security = off",
        "idle_in_transaction_session_timeout = 1", "client_encoding = 'LATIN1'", "client_min_messages = debug1",
      ]
      try server.execute(settings.map { "ALTER ROLE postgres SET \($0);" }.joined())
      let log = try await open(server) { $0.truncationGrace = .zero }
      try await checkOrderedLog(within: .seconds(120)) { log[$0] }
      let store = try await list(log["boards/1"])
      try await store.send("Größe")
      await store.shutdown()
      let seen = try server.execute("SELECT text FROM puredux.contents WHERE key = 'boards/1'")
      #expect(seen.hasPrefix("\"Gr"))
      await log.close()
    }

    @Test("a role without the privilege to create uses the script's tables, and needs only what the script grants")
    func script() async throws {
      let server = try PostgreSQLServer()
      let role = #"bo"ards"#
      let script = try PostgreSQLLog.setupScript(schema: "logs", role: role)
      try server.execute(#"CREATE ROLE "bo""ards" LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC"#)
      let address = "host=\(server.directory) user='\(role)' dbname=postgres"
      expectRefused(
        await failure(address) {
          $0.schema = "logs"; $0.makesTables = false
        }, "no tables")
      try server.execute(script)
      var options = PostgreSQLLog.Options()
      (options.schema, options.makesTables, options.truncationGrace) = ("logs", false, .zero)
      let log = try await PostgreSQLLog(address, options: options)
      try await checkOrderedLog(within: .seconds(120)) { log[$0] }
      for try await key in log.keys(prefix: "") { try await log.remove(key) }
      try await checkLogDirectory(log, within: .seconds(120))
    }

    @Test("the setup script equals the golden file")
    func golden() throws {
      let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      let path = directory.appendingPathComponent("Golden/version-1.sql")
      let script = try PostgreSQLLog.setupScript(role: "boards")
      if ProcessInfo.processInfo.environment["PUREDUX_WRITE_GOLDEN"] != nil {
        try script.write(to: path, atomically: true, encoding: .utf8)
      }
      #expect(script == (try String(contentsOf: path, encoding: .utf8)))
    }

    @Test("tables of a newer version are not changed, and older ones only with permission")
    func versions() async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      await log.close()
      try server.execute("UPDATE puredux.about SET version = 2")
      expectRefused(await failure(server.address()), "newer version")
      try server.execute("UPDATE puredux.about SET version = 0")
      expectRefused(await failure(server.address()) { $0.makesTables = false }, "not to be changed")
      try server.execute("DELETE FROM puredux.about")
      guard case .damaged? = await failure(server.address()) else {
        Issue.record("Tables without a version are used.")
        return
      }
    }
  }
#endif
