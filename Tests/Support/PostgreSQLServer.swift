#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxPostgreSQL

  /// A PostgreSQL server on a socket in a directory of its own. It can crash and restart with its data.
  // Only one test at a time uses a server. Tests that share one read only its address, until `stop` at the end.
  package final class PostgreSQLServer: @unchecked Sendable {
    /// From `PUREDUX_POSTGRESQL`, Debian's newest version, or the path.
    package static let programs: String? = {
      let environment = ProcessInfo.processInfo.environment
      let debian = "/usr/lib/postgresql"
      let versions = ((try? FileManager.default.contentsOfDirectory(atPath: debian)) ?? []).compactMap { Int($0) }
      let named = environment["PUREDUX_POSTGRESQL"].map { [$0] } ?? []
      let paths = (environment["PATH"] ?? "").split(separator: ":").map(String.init)
      let all = named + versions.sorted(by: >).map { "\(debian)/\($0)/bin" } + paths
      return all.first { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") }
    }()

    /// The server does not run as root.
    private static var user: [String] {
      geteuid() == 0 ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []
    }

    /// Made by `initdb`, and copied by each server.
    private static let template: Result<String, any Error> = Result {
      let directory = try makeDirectory()
      try run([
        try programs.unwrap() + "/initdb", "--pgdata", directory + "/data", "--username", "postgres", "--auth", "trust",
        "--encoding", "UTF8", "--locale", "C", "--no-sync",
      ])
      atexit { if let directory = try? PostgreSQLServer.template.get() { PostgreSQLServer.remove(directory) } }
      return directory
    }

    private static func makeDirectory() throws -> String {
      // A socket's path may have at most about a hundred bytes.
      let directory = "/tmp/puredux-\(UUID().uuidString.prefix(8))"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      if geteuid() == 0 { try run(["/bin/chown", "postgres:postgres", directory], as: []) }
      return directory
    }

    @discardableResult package static func run(
      _ command: [String], as user: [String]? = nil, input: String = ""
    ) throws -> String {
      let outcome = try Program.run((user ?? Self.user) + command, input: input)
      guard outcome.succeeds else { throw CommandFailure(text: outcome.said) }
      return outcome.said
    }

    package struct CommandFailure: Error { package var text: String }

    package let directory: String
    package var settings: [String]
    private var program: Program?

    /// - Parameter other: A stopped server whose data is copied.
    package init(_ settings: [String] = [], copyOf other: PostgreSQLServer? = nil) throws {
      directory = try Self.makeDirectory()
      self.settings = settings
      try Self.run(["/bin/cp", "-a", (other?.directory ?? Self.template.get()) + "/data", directory + "/data"])
      try start()
    }

    deinit {
      stop()
      Self.remove(directory)
    }

    private static func remove(_ directory: String) { _ = try? run(["/bin/rm", "-rf", directory]) }

    package func address(user: String = "postgres", password: String? = nil) -> String {
      "host=\(directory) user=\(user) dbname=postgres" + (password.map { " password=\($0)" } ?? "")
    }

    package func start() throws {
      let programs = try Self.programs.unwrap()
      // At the end of its input, or of this process, the script kills the server.
      let script = #""$@" >>"$0" 2>&1 & server=$!; read -r line; kill -QUIT $server; wait"#
      let all = ["fsync=off", "listen_addresses=", "unix_socket_directories=" + directory] + settings
      let program = try Program(
        ["/bin/sh", "-c", script, directory + ".log"] + Self.user
          + [programs + "/postgres", "-D", directory + "/data"] + all.flatMap { ["-c", $0] })
      self.program = program
      let deadline = Date(timeIntervalSinceNow: 60)
      while (try? execute("SELECT 1")) == nil {
        guard Date() < deadline, program.isRunning else { throw CommandFailure(text: "The server does not start.") }
        usleep(20_000)
      }
    }

    /// Stops the server as if the machine had died.
    package func stop() {
      guard let program else { return }
      program.end()
      self.program = nil
      try? FileManager.default.removeItem(atPath: directory + ".log")
    }

    /// Returns one value per line.
    @discardableResult package func execute(_ text: String, user: String = "postgres") throws -> String {
      try Self.run(
        [
          try Self.programs.unwrap() + "/psql", "-h", directory, "-U", user, "-d", "postgres", "-qAtX", "-v",
          "ON_ERROR_STOP=1", "-f", "-",
        ], input: text)
    }

    /// For statements that block until other code has acted.
    package func executing(_ text: String) -> Task<String, any Error> {
      Task.detached { [self] in
        try await withCheckedThrowingContinuation { continuation in
          Thread.detachNewThread { continuation.resume(with: Result { try self.execute(text) }) }
        }
      }
    }

    /// The server must be stopped.
    package func backUp() throws { try Self.run(["/bin/cp", "-a", directory + "/data", directory + "/backup"]) }

    package func restore() throws {
      try Self.run(["/bin/rm", "-rf", directory + "/data"])
      try Self.run(["/bin/cp", "-a", directory + "/backup", directory + "/data"])
    }
  }

  /// A tree on a shared server, which outlives the tests. Until the log has opened, appends wait in order.
  package final class SharedDatabaseLog: OrderedLog {
    private typealias Append = (entry: [UInt8], outcome: @Sendable (Result<UInt64, LogError>) -> Void)

    private static let logs = Task.detached {
      let server = try PostgreSQLServer()
      servers.withLock { $0 = server }
      atexit { SharedDatabaseLog.servers.withLock { $0.take() }?.stop() }
      return try await PostgreSQLLog(server.address())
    }
    private static let servers = LockedValue<PostgreSQLServer?>(nil)

    private let opening: Task<any OrderedLog, Never>
    private let appends: AsyncStream<Append>.Continuation

    package init() {
      // The tests must fail if this does.
      let opening = Task.detached { try! await Self.logs.value["\(UUID())"] }
      let (waiting, appends) = AsyncStream.makeStream(of: Append.self)
      Task.detached {
        let log = await opening.value
        for await append in waiting { log.append(append.entry, outcome: append.outcome) }
      }
      self.opening = opening
      self.appends = appends
    }

    deinit { appends.finish() }

    package func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      appends.yield((entry, outcome))
    }

    package func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let reading = LockedValue<AsyncThrowingStream<[LogRecord], any Error>?>(nil)
      return AsyncThrowingStream { [opening] in
        let log = await opening.value
        let stream = reading.withLock { stream in
          stream = stream ?? log.records(after: position)
          return stream
        }
        for try await records in stream! { return records }
        return nil
      }
    }

    package func head() async throws(LogError) -> UInt64 { try await opening.value.head() }
    package func truncate(through position: UInt64) async throws(LogError) {
      try await opening.value.truncate(through: position)
    }
  }

  extension Optional where Wrapped == String {
    fileprivate func unwrap() throws -> String {
      guard let self else { throw PostgreSQLServer.CommandFailure(text: "PostgreSQL is not installed.") }
      return self
    }
  }
#endif
