#if PostgreSQL
  import Foundation

  /// A trial's PostgreSQL server, on a socket in its own directory.
  final class PostgreSQLNode {
    struct Problem: Error, CustomStringConvertible {
      let text: String
      var description: String { text }
    }

    /// The path of the server's programs: `PUREDUX_POSTGRESQL`, Debian's newest, or found in `PATH`.
    private static let programs: String? = {
      let environment = ProcessInfo.processInfo.environment
      let debian = "/usr/lib/postgresql"
      let versions = ((try? FileManager.default.contentsOfDirectory(atPath: debian)) ?? []).compactMap { Int($0) }
      let named = environment["PUREDUX_POSTGRESQL"].map { [$0] } ?? []
      let paths = (environment["PATH"] ?? "").split(separator: ":").map(String.init)
      let all = named + versions.sorted(by: >).map { "\(debian)/\($0)/bin" } + paths
      return all.first { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") }
    }()

    /// PostgreSQL refuses to run as root.
    private static var user: [String] {
      geteuid() == 0 ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []
    }

    static func program(_ name: String) throws -> String {
      guard let programs else { throw Problem(text: "PostgreSQL is not installed") }
      return programs + "/" + name
    }

    /// Runs a program, and throws its output if it fails.
    @discardableResult static func run(_ command: [String], asRoot: Bool = false, input: String = "") throws -> String {
      let process = Process()
      let all = (asRoot ? [] : user) + command
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = all
      process.currentDirectoryURL = URL(fileURLWithPath: "/tmp")
      let (given, said) = (Pipe(), Pipe())
      process.standardInput = given
      process.standardOutput = said
      process.standardError = said
      try process.run()
      // A program that has already ended is reported below.
      try? given.fileHandleForWriting.write(contentsOf: Data(input.utf8))
      try? given.fileHandleForWriting.close()
      let text = String(decoding: said.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      guard process.terminationStatus == 0 else { throw Problem(text: "\(command[0]): \(text)") }
      return text
    }

    let directory: String
    private let settings: [String]
    private var process: Process?
    /// The server lives while this pipe is open, and so ends with the trial's process.
    private var lifeline: Pipe?

    init(settings: [String] = []) throws {
      // A socket's path has at most about a hundred bytes.
      directory = "/tmp/puredux-\(UUID().uuidString.prefix(8))"
      self.settings = settings
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      try own(directory)
    }

    deinit {
      stop()
      _ = try? Self.run(["rm", "-rf", data, directory + "/backup"])
      _ = try? Self.run(["rm", "-rf", directory], asRoot: true)
    }

    private func own(_ path: String) throws {
      if geteuid() == 0 { try Self.run(["chown", "postgres:postgres", path], asRoot: true) }
    }

    private var data: String { directory + "/data" }

    func address(_ role: String) -> String { "host=\(directory) user=\(role) dbname=postgres" }

    // MARK: Data

    /// - Parameter log: The directory of the write-ahead log, if it is a separate one.
    func initialize(log: String? = nil, more: [String] = []) throws {
      try Self.run(
        [
          Self.program("initdb"), "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8",
          "--locale", "C", "--no-sync",
        ] + more + (log.map { ["--waldir", $0] } ?? []))
    }

    /// Copies another server as its standby.
    func copy(_ other: PostgreSQLNode, name: String) throws {
      stop()
      try Self.run(["rm", "-rf", data])
      try other.backUp(to: data, more: ["--write-recovery-conf"])
      let settings = "primary_conninfo = '\(other.address("postgres")) application_name=\(name)'\n"
      try Self.run(["tee", "-a", data + "/postgresql.auto.conf"], input: settings)
    }

    func backUp(to place: String, more: [String] = []) throws {
      try Self.run(
        [
          Self.program("pg_basebackup"), "--dbname", address("postgres"), "--pgdata", place, "--checkpoint", "fast",
          "--no-sync",
        ] + more)
    }

    func backUp() throws { try backUp(to: directory + "/backup") }

    /// Restores the backup while the server is stopped.
    func restore() throws {
      try Self.run(["rm", "-rf", data])
      try Self.run(["mv", directory + "/backup", data])
    }

    /// Mounts a file system in memory, which only root can do.
    func mount(_ name: String, megabytes: Int) throws -> String {
      let place = directory + "/" + name
      try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
      try Self.run(["mount", "-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", place], asRoot: true)
      try own(place)
      return place
    }

    func unmount(_ place: String) {
      stop()
      _ = try? Self.run(["umount", place], asRoot: true)
    }

    // MARK: Process

    /// Starts the server, and waits until it accepts connections.
    func start(_ environment: [String: String] = [:], waits: Bool = true) throws {
      let process = Process()
      let lifeline = Pipe()
      process.executableURL = URL(fileURLWithPath: "/bin/bash")
      // A line, or the end of this process, kills the server without an orderly shutdown. `sh` is not used, as it hangs
      // if signals are blocked, as they are in tasks' threads.
      let script = #""$@" >>"$0" 2>&1 & server=$!; read -r line; kill -QUIT $server; wait"#
      let all = ["listen_addresses=", "unix_socket_directories=" + directory] + settings
      process.arguments =
        ["-c", script, directory + "/log"] + Self.user + ["env"] + environment.map { "\($0.key)=\($0.value)" }
        + [try Self.program("postgres"), "-D", data] + all.flatMap { ["-c", $0] }
      process.currentDirectoryURL = URL(fileURLWithPath: "/tmp")
      process.standardInput = lifeline
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      self.process = process
      self.lifeline = lifeline
      if waits { try wait(for: "the server accepts connections") { (try? execute("SELECT 1")) != nil } }
    }

    func wait(for what: String, _ condition: () throws -> Bool) throws {
      let deadline = Date(timeIntervalSinceNow: 60)
      while try !condition() {
        guard Date() < deadline else { throw Problem(text: "It takes too long until \(what): see \(directory)/log") }
        usleep(50_000)
      }
    }

    private var postmaster: Int32? {
      let text = try? String(contentsOfFile: data + "/postmaster.pid", encoding: .utf8)
      return text?.split(separator: "\n").first.flatMap { Int32($0) }
    }

    /// Signals the server and all its processes.
    private func signal(_ number: Int32) {
      guard process != nil, let postmaster else { return }
      // Stopped first, so that it starts no other process.
      kill(postmaster, SIGSTOP)
      let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
      for child in all.compactMap({ Int32($0) }) {
        let status = (try? String(contentsOfFile: "/proc/\(child)/stat", encoding: .utf8)) ?? ""
        // The state and parent follow the name in parentheses.
        let fields = status.split(separator: ")").last?.split(separator: " ") ?? []
        if fields.count > 1, Int32(fields[1]) == postmaster { kill(child, number) }
      }
      kill(postmaster, number)
    }

    /// Simulates the death of the machine.
    func crash() {
      signal(SIGKILL)
      stop()
    }

    func pause() { signal(SIGSTOP) }
    func resume() { signal(SIGCONT) }

    func stop() {
      guard let process else { return }
      resume()
      try? lifeline?.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
      try? lifeline?.fileHandleForWriting.close()
      process.waitUntilExit()
      self.process = nil
    }

    func promote() throws {
      try execute("SELECT pg_promote(true, 60)")
    }

    /// Runs SQL by `psql`. Returns one value per line.
    @discardableResult func execute(_ text: String) throws -> String {
      try Self.run(
        [
          Self.program("psql"), "-h", directory, "-U", "postgres", "-d", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1",
          "-f", "-",
        ], input: text
      ).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    // MARK: Pooler

    func pool(_ mode: String, connections: Int) throws -> (address: String, process: Process) {
      let place = directory + "/pool"
      try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
      try own(place)
      for name in try FileManager.default.contentsOfDirectory(atPath: place) {
        try FileManager.default.removeItem(atPath: place + "/" + name)
      }
      try #""boards" """#.write(toFile: place + "/users", atomically: true, encoding: .utf8)
      try """
      [databases]
      postgres = host=\(directory) dbname=postgres
      [pgbouncer]
      listen_addr =
      listen_port = 5432
      unix_socket_dir = \(place)
      auth_type = trust
      auth_file = \(place)/users
      pool_mode = \(mode)
      default_pool_size = \(connections)
      """.write(toFile: place + "/settings", atomically: true, encoding: .utf8)
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = Self.user + ["pgbouncer", "-q", place + "/settings"]
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      return ("host=\(place) user=boards dbname=postgres", process)
    }
  }

  /// Two servers: a primary, and one that may be its standby.
  final class PostgreSQLPair {
    let nodes: [PostgreSQLNode]
    private(set) var leading = 0
    var primary: PostgreSQLNode { nodes[leading] }
    var standby: PostgreSQLNode { nodes[1 - leading] }

    init(settings: [String]) throws {
      nodes = try (0..<2).map { _ in try PostgreSQLNode(settings: settings) }
      try primary.initialize()
      try primary.start()
      try Self.makeRole(primary)
    }

    static func makeRole(_ node: PostgreSQLNode) throws {
      try node.execute("CREATE ROLE boards LOGIN; GRANT CREATE ON DATABASE postgres TO boards")
    }

    /// A connection string of both servers for one that takes writes, with the present primary first.
    var address: String { "host=\(primary.directory),\(standby.directory) user=boards dbname=postgres" }

    /// Makes the other server a standby. If it is synchronous, each commit waits for it.
    func addStandby(isSynchronous: Bool) throws {
      try standby.copy(primary, name: "other")
      try standby.start()
      try primary.wait(for: "the standby follows") {
        try primary.execute("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"
      }
      guard isSynchronous else { return }
      try primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'other'")
      try primary.execute("SELECT pg_reload_conf()")
      try primary.wait(for: "the standby is synchronous") {
        try primary.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
      }
    }

    /// Promotes the standby, while the old primary may still run.
    func promote() throws {
      try standby.promote()
      leading = 1 - leading
    }
  }
#endif
