#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxPostgreSQL
  import Testing

  @testable import LogCommands

  /// A local PostgreSQL server, on a socket in a directory of its own.
  private final class Database {
    static let programs: String? = {
      let environment = ProcessInfo.processInfo.environment
      let debian = "/usr/lib/postgresql"
      let versions = ((try? FileManager.default.contentsOfDirectory(atPath: debian)) ?? []).compactMap { Int($0) }
      let all = [environment["PUREDUX_POSTGRESQL"]] + versions.sorted(by: >).map { "\(debian)/\($0)/bin" }
      return all.compactMap(\.self).first { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") }
    }()

    /// PostgreSQL refuses to run as root.
    private static let user =
      geteuid() == 0 ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []

    let directory: String
    private let process = Process()
    /// The server ends when this pipe is closed, and so with the test process.
    private let lifeline = Pipe()

    init() throws {
      // The path of a socket is limited to about a hundred bytes.
      directory = "/tmp/puredux-\(UUID().uuidString.prefix(8))"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      if geteuid() == 0 { try run(["/bin/chown", "postgres:postgres", directory], as: []) }
      let data = directory + "/data"
      try run([program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"])
      process.executableURL = URL(fileURLWithPath: "/bin/sh")
      // A line ends the server, and so does the end of this process.
      let script = #""$@" >"$0" 2>&1 & server=$!; read -r line; kill -QUIT $server"#
      process.arguments =
        ["-c", script, directory + ".log"] + Self.user + [program("postgres"), "-D", data, "-c", "fsync=off"]
        + ["-c", "listen_addresses=", "-c", "unix_socket_directories=" + directory]
      process.currentDirectoryURL = URL(fileURLWithPath: "/tmp")
      process.standardInput = lifeline
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      let deadline = Date(timeIntervalSinceNow: 60)
      while (try? execute("SELECT 1")) == nil {
        try #require(Date() < deadline && process.isRunning, "the server does not start")
        usleep(20_000)
      }
      let rules = "local all postgres trust\nlocal all all scram-sha-256\n"
      try rules.write(toFile: data + "/pg_hba.conf", atomically: false, encoding: .utf8)
      try execute("SELECT pg_reload_conf(); CREATE ROLE boards LOGIN PASSWORD 'secret'")
      try execute("GRANT CREATE ON DATABASE postgres TO boards")
    }

    deinit {
      // Closing the pipe is not enough: other processes may have inherited it.
      try? lifeline.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
      process.waitUntilExit()
      // The server removes this file last.
      while FileManager.default.fileExists(atPath: directory + "/data/postmaster.pid") { usleep(5000) }
      _ = try? run(["/bin/rm", "-rf", directory])
      for path in [directory, directory + ".log"] { try? FileManager.default.removeItem(atPath: path) }
    }

    private func program(_ name: String) -> String { (Self.programs ?? "") + "/" + name }

    private struct CommandFailure: Error { var command: [String] }

    @discardableResult func execute(_ text: String) throws -> String {
      try run([program("psql"), "-h", directory, "-U", "postgres", "-d", "postgres", "-qAtX", "-c", text])
    }

    @discardableResult private func run(_ command: [String], as user: [String] = user) throws -> String {
      let all = user + command
      let process = Process()
      process.executableURL = URL(fileURLWithPath: all[0])
      process.arguments = Array(all.dropFirst())
      process.currentDirectoryURL = URL(fileURLWithPath: "/tmp")
      let said = Pipe()
      process.standardOutput = said
      process.standardError = FileHandle.nullDevice
      try process.run()
      let text = said.fileHandleForReading.readDataToEndOfFile()
      process.waitUntilExit()
      guard process.terminationStatus == 0 else { throw CommandFailure(command: command) }
      return String(decoding: text, as: UTF8.self)
    }
  }

  /// The same commands on logs in a database.
  @Suite(
    .enabled(if: Database.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(15))
  )
  struct DatabaseTests {
    private let tests = LogCommandsTests()

    @Test("logs are copied to a database and back, in either form of its address; what is asked for makes no tables")
    func copying() async throws {
      let database = try Database()
      let form = "host=\(database.directory) user=boards password=secret dbname=postgres"
      let host = database.directory.replacing("/", with: "%2F")
      let address = "postgresql://boards:secret@\(host)/postgres"
      try await tests.withLogs { place, path in
        for command in [["keys"], ["stat"], ["verify"], ["show", "boards/1"], ["remove", "boards/1", "--yes"]] {
          let console = Console(isKept: true)
          var arguments = command
          arguments.insert(form, at: 1)
          #expect(await LogTool.run(arguments, on: console) == 5)
          #expect(console.reported.count == 1 && console.reported[0].contains("no tables"))
        }
        #expect(try database.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'puredux'") == "0\n")
        #expect(await tests.run("copy", path, form).errors == ["Logs: 2, entries: 6, added: 6."])
        #expect(await tests.run("keys", address).lines == ["boards/1", "rooms/1"])
        #expect(await tests.run("verify", address).errors == ["Logs: 2, without a fault."])
        #expect(await tests.run("show", form, "boards/1", "--after", "1").lines[0].hasSuffix("\t\"b\\\\tc\""))
        #expect(await tests.run("stat", form).lines[0].hasPrefix("boards/1\t4\t2\t"))
        #expect(await tests.run("skip", form, "boards/1", "3", "--reason", "a mistake").lines == ["5"])
        #expect(await tests.run("keys", form, "--schema", "other").code == 5)
        let other = await tests.run("copy", address, form, "--target-schema", "other", "--key", "boards/1")
        #expect(other.errors == ["Logs: 1, entries: 5, added: 5."])
        #expect(await tests.run("copy", form, form).code == 2)
        for option in ["--stream", "--schema"] {
          #expect(await tests.run("keys", address, option, "other").lines == ["boards/1"])
        }
        #expect(await tests.run("export", form, place + "/backup").code == 0)
        #expect(await tests.run("import", place + "/backup", address, "--schema", "third").code == 0)
        #expect(await tests.run("copy", address, place + "/back", "--schema", "third").code == 0)
        #expect(try await tests.state(place + "/back", "boards/1") == ["a", "b\tc"])
        #expect(try await tests.state(place + "/back", "rooms/1") == ["a", "b\tc", "d"])
        #expect(await tests.run("remove", form, "rooms/1", "--yes").code == 0)
        #expect(await tests.run("keys", form).lines == ["boards/1"])
        // The right to read is enough for reading commands.
        let rights = "GRANT USAGE ON SCHEMA puredux TO looks; GRANT SELECT ON ALL TABLES IN SCHEMA puredux TO looks"
        try database.execute("CREATE ROLE looks LOGIN PASSWORD 'secret'; " + rights)
        let reader = "postgresql://looks:secret@\(host)/postgres"
        for command in ["keys", "stat", "verify"] { #expect(await tests.run(command, reader).code == 0) }
        // Rights can be granted while a log is open.
        #expect(await tests.run("skip", reader, "boards/1", "1", "--reason", "none").code == 4)
        #expect(await tests.run("seal", form, "boards/1", "1", "--reason", "other rules").lines == ["6"])
      }
    }

    @Test("a password is in nothing that is said, whatever goes wrong")
    func refused() async throws {
      let database = try Database()
      let host = database.directory.replacing("/", with: "%2F")
      for place in [
        "host=\(database.directory) user=boards password=hush dbname=postgres",
        "postgresql://boards:hush@\(host)/postgres",
        "postgresql://\(host)/postgres?password=hush&user=boards",
      ] {
        for arguments in [
          ["keys", place], ["keys", place, place], ["show", "data", place], ["import", place, "data"],
          ["copy", place, place], ["export", place, "/nowhere/at/all"],
        ] {
          let console = Console(isKept: true)
          #expect(await LogTool.run(arguments, on: console) != 0)
          #expect(console.reported != [] && !console.reported.contains { $0.contains("hush") })
        }
      }
      let nobody = await tests.run("keys", "host=/nowhere dbname=postgres password=hush")
      #expect(nobody.code == 4 && !nobody.errors.contains { $0.contains("hush") })
    }
  }
#endif
