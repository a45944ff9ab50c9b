#if NATS
  import Foundation
  import PureduxLog
  import PureduxTestSupport
  import Testing

  extension LogOptions {
    static var silent: LogOptions {
      var options = LogOptions()
      options.reporting = { _ in }
      return options
    }
  }

  /// A JetStream server on this machine, which can crash and restart with its data.
  final class NATSServer {
    /// The path of the server's program: `PUREDUX_NATS_SERVER`, or found in `PATH`.
    static let program: String? = {
      let environment = ProcessInfo.processInfo.environment
      let named = environment["PUREDUX_NATS_SERVER"].map { [$0] } ?? []
      let paths = (environment["PATH"] ?? "").split(separator: ":").map { "\($0)/nats-server" }
      return (named + paths).first { FileManager.default.isExecutableFile(atPath: $0) }
    }()

    private let directory: String
    /// Additional configuration, from the next start on.
    var configuration: String
    private var running: Program?
    private(set) var port: Int?

    /// - Parameter configuration: Additional lines for the server's configuration.
    init(_ configuration: String = "") throws {
      directory = FileManager.default.temporaryDirectory.path + "/puredux-nats-\(UUID().uuidString)"
      self.configuration = configuration
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      try start()
    }

    deinit {
      kill()
      try? FileManager.default.removeItem(atPath: directory)
    }

    var url: String { "nats://127.0.0.1:\(port ?? 0)" }

    /// Starts the server, and waits until it listens. The first start chooses a free port.
    func start() throws {
      let path = directory + "/server.conf"
      try """
      listen: "127.0.0.1:\(port ?? -1)"
      ports_file_dir: "\(directory)"
      jetstream { store_dir: "\(directory)/data", sync_interval: always }
      \(configuration)
      """.write(toFile: path, atomically: true, encoding: .utf8)
      let program = try #require(Self.program, "nats-server is not installed")
      for name in try FileManager.default.contentsOfDirectory(atPath: directory) where name.hasSuffix(".ports") {
        try FileManager.default.removeItem(atPath: directory + "/" + name)
      }
      // The server ends with its standard input, and so with this process.
      let script = #""$0" "$@" & server=$!; read -r line; kill -9 $server; wait"#
      let running = try Program(["/bin/sh", "-c", script, program, "-c", path, "-l", directory + "/server.log"])
      self.running = running
      let deadline = Date(timeIntervalSinceNow: 30)
      struct Ports: Decodable { var nats: [String] }
      while true {
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        if let name = names.first(where: { $0.hasSuffix(".ports") }),
          let data = FileManager.default.contents(atPath: directory + "/" + name),
          let listening = try? JSONDecoder().decode(Ports.self, from: data),
          let port = listening.nats.first?.split(separator: ":").last.flatMap({ Int($0) })
        {
          self.port = port
          return
        }
        try #require(Date() < deadline && running.isRunning, "the server does not start")
        usleep(5000)
      }
    }

    /// Copies the stopped server's data to a backup, or back.
    func backUp() throws {
      try FileManager.default.copyItem(atPath: directory + "/data", toPath: directory + "/backup")
    }

    func restore() throws {
      try removeData()
      try FileManager.default.copyItem(atPath: directory + "/backup", toPath: directory + "/data")
    }

    /// Simulates a replaced, empty disk.
    func removeData() throws { try FileManager.default.removeItem(atPath: directory + "/data") }

    /// Simulates the death of the machine.
    func kill() {
      running?.end()
      running = nil
    }
  }
#endif
