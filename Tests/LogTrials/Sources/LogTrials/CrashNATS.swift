#if NATS
  import Foundation
  import Histories
  import Puredux
  import PureduxLog
  import PureduxNATS

  /// Three replicas on three servers, each with 16 writers; servers and replicas crash and are cut off meanwhile. In
  /// the end, every acknowledged entry must be there once, in its writer's order, and in the same order everywhere. One
  /// order must explain the records of all processes.
  enum CrashNATS {
    // MARK: A replica

    /// Writes until it is told to stop, and reports acknowledgements on standard output.
    static func replica(
      _ run: Int, history: String, servers: [String], savesSnapshots: Bool = true
    ) async throws {
      let replica = try RecordedReplica("replica \(run)", history: history)
      var options = NATSLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await NATSLog(servers: servers, options: options)
      var following = LogOptions()
      following.snapshotBytes = savesSnapshots ? 2_000_000 : nil
      following.endingLimit = .seconds(60)
      let store = try await RootStore<Book, Entry>(
        following: log["book"], initialState: Book(),
        options: FollowingOptions(log: following, fingerprint: .hashed { $0.hash })
      ) { replica.enter($1, in: &$0) }
      try await ReplicaWork.write(run, replica, to: store)
    }

    // MARK: The trial

    private static func replica(_ run: Int, on host: Int, of cluster: Cluster, _ files: HistoryFiles) throws
      -> ReplicaProcess
    {
      try ReplicaProcess(
        cluster.process(
          on: host, Bundle.main.executablePath ?? CommandLine.arguments[0],
          ["replica-nats", String(run), files.path("replica-\(run)")] + cluster.urls))
    }

    static func run(rounds: Int, isPartitionable: Bool, history: String?) throws {
      var (acknowledged, missing, twice, worst) = (0, 0, 0, Duration.zero)
      for round in 1...rounds {
        let files = try HistoryFiles(directory: history.map { "\($0)/\(round)" })
        try one(round, isPartitionable: isPartitionable, files)
        let verdict = try files.judge()
        let figures = verdict.figures
        tell(
          """
          run \(round): \(figures.acknowledged) acknowledged, \(figures.missing) missing, longest stall \
          \(verdict.longestStall): \(figures.positions) positions, the same on all
          """)
        acknowledged += figures.acknowledged
        missing += figures.missing
        twice += figures.twice
        worst = max(worst, verdict.longestStall)
      }
      tell(
        """
        \(rounds) runs: \(acknowledged) acknowledged, \(missing) missing, \(twice) twice, the same on all, longest stall \
        \(worst)
        """)
    }

    private static func one(_ round: Int, isPartitionable: Bool, _ files: HistoryFiles) throws {
      let cluster = try Cluster(isPartitionable: isPartitionable)
      defer { withExtendedLifetime(cluster) {} }
      var replicas = try (1...3).map { try replica(round * 10 + $0, on: 10 + $0, of: cluster, files) }
      func wait(_ seconds: Double) { Thread.sleep(forTimeInterval: seconds) }
      /// Waits until each replica has a number of further acknowledgements.
      func waitForProgress(_ count: Int = 3000) throws {
        let goals = replicas.map { $0.told.total + count }
        let deadline = Date(timeIntervalSinceNow: 120)
        while zip(replicas, goals).contains(where: { $0.told.total < $1 }) {
          guard Date() < deadline else {
            throw Cluster.Problem(text: "round \(round): no progress: \(replicas.map { $0.told.total }), \(goals)")
          }
          wait(0.05)
        }
      }
      func step(_ name: String, _ body: () throws -> Void) throws {
        let before = replicas.map { $0.told.longest }
        try body()
        try waitForProgress()
        let stalls = zip(replicas, before).map { $0.told.longest > $1 ? "\($0.told.longest)" : "-" }
        tell("  \(name): longest stalls so far \(stalls.joined(separator: ", "))")
      }
      try waitForProgress()
      try step("a leader crashed") {
        let leader = try cluster.leader()
        cluster.kill(leader)
        wait(3)
        try cluster.start(leader)
        wait(3)
      }
      try step("a replica crashed") {
        replicas[1].kill()
        wait(1)
        replicas[1] = try replica(round * 10 + 4, on: 12, of: cluster, files)
      }
      try step("all servers crashed") {
        for server in 1...3 { cluster.kill(server) }
        wait(1)
        for server in 1...3 { try cluster.start(server) }
      }
      if isPartitionable {
        try step("a replica cut off") {
          try cluster.connect(13, false)
          wait(8)
          try cluster.connect(13, true)
        }
        try step("a leader cut off") {
          let leader = try cluster.leader()
          try cluster.connect(leader, false)
          wait(8)
          try cluster.connect(leader, true)
        }
      }
      // The required minimum of acknowledgements.
      while replicas.contains(where: { $0.told.total < 20_000 }) { wait(0.05) }
      for replica in replicas { replica.say("stop") }
      for replica in replicas where replica.lines(until: "stopped") == nil {
        throw Cluster.Problem(text: "round \(round): a replica does not stop")
      }
      replicas[0].say("end")
      for replica in replicas where replica.lines(until: "over") == nil {
        throw Cluster.Problem(text: "round \(round): a replica does not reach the end")
      }
      for replica in replicas { replica.kill() }
    }
  }
#endif
