#if NATS
  import Foundation
  import Histories
  import Puredux
  import PureduxLog
  import PureduxNATS

  /// Three replicas on three servers, each with 16 writers; servers and replicas crash and are cut off while they
  /// write. In the end all that was acknowledged has to be there, once, in each writer's order, and in the same order
  /// everywhere: one order has to explain what all processes have recorded.
  enum CrashNATS {
    // MARK: A replica

    /// Writes until it is told to stop, and says on its standard output that an entry was acknowledged.
    static func replica(_ run: Int, history: String, servers: [String]) async throws {
      let replica = try RecordedReplica("replica \(run)", history: history)
      var options = NATSLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await NATSLog(servers: servers, options: options)
      var following = LogOptions()
      following.snapshotBytes = 2_000_000
      following.endingLimit = .seconds(60)
      let store = try await RootStore<Book, Entry>(
        following: log["book"], initialState: Book(),
        options: FollowingOptions(log: following, fingerprint: { $0.hash })
      ) { replica.enter($1, in: &$0) }
      let isStopped = Flag()
      Thread.detachNewThread {
        while let line = readLine() {
          if line == "stop" { isStopped.raise() }
          if line == "end" { replica.dispatch(.end, to: store) }
        }
        exit(0)
      }
      await withTaskGroup { tasks in
        for writer in 0..<16 {
          tasks.addTask {
            for number in 1... where !isStopped.isRaised {
              do {
                try await replica.send(Entry(run: run, writer: writer, number: number), to: store)
                tell("acknowledged")
                if number.isMultiple(of: 20) {
                  try await replica.read(by: writer, claiming: .ownWrites) { await store.state }
                }
              } catch {
                return tell("error \(error) \(String(describing: await store.statistics.log))")
              }
              if isStopped.isRaised { return }
            }
          }
        }
      }
      tell("stopped")
      // The entry that ends the trial is given when all have stopped: its state has all that was acknowledged.
      try await replica.read(by: 0, claiming: .linearizable) {
        for await book in store.states() where book.hasEnded { return book }
        throw StoreError.terminated
      }
      tell("over")
    }

    private static func tell(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    final class Flag: @unchecked Sendable {
      private let lock = NSLock()
      private var value = false
      var isRaised: Bool { lock.withLock { value } }
      func raise() { lock.withLock { value = true } }
    }

    // MARK: The trial

    /// What a replica's process has told.
    final class Replica: @unchecked Sendable {
      let process: Process
      let input = Pipe()
      private let lock = NSCondition()
      private var total = 0
      private var lines: [String] = []
      private var isOver = false
      private var lastTime = ContinuousClock.now
      private var longest = Duration.zero

      init(_ run: Int, on host: Int, of cluster: Cluster, _ files: HistoryFiles) throws {
        process = cluster.process(
          on: host, Bundle.main.executablePath ?? CommandLine.arguments[0],
          ["replica-nats", String(run), files.path("replica-\(run)")] + cluster.urls)
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardInput = input
        try process.run()
        Thread.detachNewThread {
          var rest = Data()
          while true {
            let data = pipe.fileHandleForReading.availableData
            if data.isEmpty { break }
            rest += data
            while let end = rest.firstIndex(of: 10) {
              self.take(String(decoding: rest[rest.startIndex..<end], as: UTF8.self))
              rest = Data(rest[(end + 1)...])
            }
          }
          self.lock.withLock {
            self.isOver = true
            self.lock.broadcast()
          }
        }
      }

      private func take(_ line: String) {
        lock.withLock {
          if line == "acknowledged" {
            let now = ContinuousClock.now
            if total > 0 { longest = max(longest, lastTime.duration(to: now)) }
            lastTime = now
            total += 1
          } else {
            if line.hasPrefix("error") { tell(line) }
            lines.append(line)
            lock.broadcast()
          }
        }
      }

      /// How many entries were acknowledged, and the longest time without one.
      var told: (total: Int, longest: Duration) { lock.withLock { (total, longest) } }

      func say(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

      /// The lines up to one; nil where it does not come.
      func lines(until last: String) -> [String]? {
        lock.withLock {
          let deadline = Date(timeIntervalSinceNow: 120)
          while !lines.contains(last), !isOver, lock.wait(until: deadline) {}
          return lines.contains(last) ? lines : nil
        }
      }

      func kill() {
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
      }
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
      var replicas = try (1...3).map { try Replica(round * 10 + $0, on: 10 + $0, of: cluster, files) }
      func wait(_ seconds: Double) { Thread.sleep(forTimeInterval: seconds) }
      /// Until each replica has so many more acknowledged than now.
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
        replicas[1] = try Replica(round * 10 + 4, on: 12, of: cluster, files)
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
      // As many as are asked for, at least.
      while replicas.contains(where: { $0.told.total < 20_000 }) { wait(0.05) }
      for replica in replicas { replica.say("stop") }
      for replica in replicas where replica.lines(until: "stopped") == nil {
        throw Cluster.Problem(text: "round \(round): a replica does not stop")
      }
      replicas[0].say("end")
      for replica in replicas where replica.lines(until: "over") == nil {
        throw Cluster.Problem(text: "round \(round): a replica does not come to the end")
      }
      for replica in replicas { replica.kill() }
    }
  }
#endif
