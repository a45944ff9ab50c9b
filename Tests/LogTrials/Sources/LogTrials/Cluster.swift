#if NATS
  import Foundation

  /// Three NATS servers on this machine: each in its own network, which can be cut off, or all on the loopback
  /// interface.
  final class Cluster {
    let isPartitionable: Bool
    /// Whether servers tell clients the other servers' addresses.
    private let isAdvertised: Bool
    private let directory = FileManager.default.temporaryDirectory.path + "/log-trials-nats-\(UUID().uuidString)"
    private let program: String
    private var servers: [Int: Process] = [:]

    init(isPartitionable: Bool, isAdvertised: Bool = true) throws {
      self.isPartitionable = isPartitionable
      self.isAdvertised = isAdvertised
      let environment = ProcessInfo.processInfo.environment
      program = environment["PUREDUX_NATS_SERVER"] ?? "nats-server"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      if isPartitionable {
        Self.removeNetworks()
        try Self.ip("link add pdxbridge type bridge")
        try Self.ip("addr add 10.77.0.254/24 dev pdxbridge")
        try Self.ip("link set pdxbridge up")
        for host in [1, 2, 3, 11, 12, 13] {
          try Self.ip("netns add pdx\(host)")
          try Self.ip("link add pdxout\(host) type veth peer name pdxin\(host)")
          try Self.ip("link set pdxin\(host) netns pdx\(host)")
          try Self.ip("link set pdxout\(host) master pdxbridge")
          try Self.ip("link set pdxout\(host) up")
          try Self.ip("netns exec pdx\(host) ip addr add 10.77.0.\(host)/24 dev pdxin\(host)")
          try Self.ip("netns exec pdx\(host) ip link set pdxin\(host) up")
          try Self.ip("netns exec pdx\(host) ip link set lo up")
        }
      }
      for server in 1...3 { try start(server) }
    }

    deinit {
      for server in 1...3 { kill(server) }
      if isPartitionable { Self.removeNetworks() }
      try? FileManager.default.removeItem(atPath: directory)
    }

    private static func removeNetworks() {
      try? ip("link del pdxbridge")
      for host in [1, 2, 3, 11, 12, 13] {
        try? ip("link del pdxout\(host)")
        try? ip("netns del pdx\(host)")
      }
    }

    private static func ip(_ arguments: String) throws {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = ["ip"] + arguments.split(separator: " ").map(String.init)
      process.standardError = FileHandle.nullDevice
      try process.run()
      process.waitUntilExit()
      if process.terminationStatus != 0 { throw Problem(text: "ip \(arguments)") }
    }

    struct Problem: Error { let text: String }

    /// Prepares a program to be run in a host's network.
    func process(on host: Int, _ path: String, _ arguments: [String]) -> Process {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments =
        (isPartitionable ? ["ip", "netns", "exec", "pdx\(host)"] : []) + [path] + arguments
      return process
    }

    private func host(_ server: Int) -> String { isPartitionable ? "10.77.0.\(server)" : "127.0.0.1" }
    private func port(_ server: Int, _ base: Int) -> Int { isPartitionable ? base : base + server }
    func clientPort(_ server: Int) -> Int { port(server, 4222) }
    private func url(_ server: Int) -> String { "nats://\(host(server)):\(port(server, 4222))" }
    var urls: [String] { (1...3).map(url) }

    func start(_ server: Int) throws {
      let routes = (1...3).map { "nats://\(host($0)):\(port($0, 6222))" }.joined(separator: ", ")
      let path = directory + "/\(server).conf"
      try """
      server_name: "s\(server)"
      listen: "\(host(server)):\(port(server, 4222))"
      http: "\(host(server)):\(port(server, 8222))"
      jetstream { store_dir: "\(directory)/\(server)", sync_interval: always }
      cluster {
        name: trials, listen: "\(host(server)):\(port(server, 6222))", routes: [\(routes)]
        no_advertise: \(!isAdvertised)
      }
      """.write(toFile: path, atomically: true, encoding: .utf8)
      let process = process(on: server, program, ["-c", path, "-l", directory + "/\(server).log"])
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      servers[server] = process
    }

    /// Simulates the death of the machine.
    func kill(_ server: Int) { end(server, SIGKILL) }

    /// Ends a server in an orderly way, after it has written its data.
    func stop(_ server: Int) { end(server, SIGTERM) }

    private func end(_ server: Int, _ signal: Int32) {
      guard let process = servers.removeValue(forKey: server) else { return }
      Foundation.kill(process.processIdentifier, signal)
      process.waitUntilExit()
    }

    func pause(_ server: Int) { signal(server, SIGSTOP) }
    func proceed(_ server: Int) { signal(server, SIGCONT) }

    private func signal(_ server: Int, _ signal: Int32) {
      if let process = servers[server] { Foundation.kill(process.processIdentifier, signal) }
    }

    func wipe(_ server: Int) throws { try FileManager.default.removeItem(atPath: "\(directory)/\(server)") }

    /// The files with the logs' entries.
    func blocks(of server: Int) -> [String] {
      let directory = "\(directory)/\(server)"
      let names = FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []
      return names.filter { $0.contains("/streams/puredux/msgs/") && $0.hasSuffix(".blk") }.sorted()
        .map { directory + "/" + $0 }
    }

    /// The lines of a server's log about damaged files.
    func complaints(of server: Int) -> [String] {
      let text = (try? String(contentsOfFile: "\(directory)/\(server).log", encoding: .utf8)) ?? ""
      let signs = ["corrupt", "checksum", "bad msg", "lost", "truncat", "rebuild", "catchup", "reset"]
      return text.split(separator: "\n").map(String.init).filter { line in
        line.contains("puredux") && signs.contains { line.lowercased().contains($0) }
      }
    }

    func connect(_ host: Int, _ isConnected: Bool) throws {
      try Self.ip("link set pdxout\(host) \(isConnected ? "up" : "down")")
    }

    /// The stream's leader according to the others.
    func leader() throws -> Int {
      for server in servers.keys.sorted() {
        let url = "http://\(host(server)):\(port(server, 8222))/jsz?accounts=1&streams=1"
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["curl", "-s", "-m", "2", url]
        process.standardOutput = pipe
        try process.run()
        let answer = String(decoding: (try? pipe.fileHandleForReading.readToEnd()) ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard let stream = answer.range(of: #""name": "puredux","#),
          let leader = answer[stream.upperBound...].range(of: #""leader": "s"#),
          let number = answer[leader.upperBound...].first.flatMap({ Int(String($0)) })
        else { continue }
        return number
      }
      throw Problem(text: "the stream has no leader")
    }
  }
#endif
