#if NATS
  import Foundation
  import Histories
  import Puredux
  import PureduxLog
  import PureduxNATS

  /// Faults of a log on three servers. Each run injects every fault once, in an order decided by a seed and each into a
  /// cluster of its own. The checker judges the records.
  enum HurtNATS {
    enum Fault: CaseIterable {
      case flippedBytes, wipedDisk, pausedBroker, badProxy, purged, pausedReplica
    }

    /// - Parameter only: The names of the faults to run, if not all.
    static func run(rounds: Int, seed: UInt64, only: [String], history: String?) async throws {
      var totals = FaultTotals()
      for round in 0..<rounds {
        let seed = seed &+ UInt64(round)
        tell("run \(round + 1), --seed \(seed):")
        var chance = Chance(seed: seed)
        for (number, fault) in Fault.allCases.shuffled(using: &chance).enumerated() {
          let own = Chance(seed: chance.next())
          guard only.isEmpty || only.contains("\(fault)") else { continue }
          let files = try HistoryFiles(directory: history.map { "\($0)/\(seed)-\(number)-\(fault)" })
          do {
            let trial = try Trial(files, own)
            let outcome = try await trial.outcome(of: fault)
            outcome.printed(inFull: round == 0)
            totals.add(outcome)
            try files.remove()
          } catch {
            tell("  \(fault): \(error)\nThe history is in \(files.directory).")
            exit(1)
          }
        }
      }
      totals.printed()
    }

    static func lease(_ number: Int, history: String, servers: [String]) async throws {
      var options = NATSLog.Options()
      options.connectLimit = .seconds(60)
      try await LeaseWork.run(
        NATSLog(servers: servers, options: options)["jobs"], as: number, replicas: 1, history: history)
    }

    final class Trial {
      let files: HistoryFiles
      var chance: Chance
      let cluster: Cluster
      var replicas: [Child] = []
      private var readers = 0

      init(_ files: HistoryFiles, _ chance: Chance) throws {
        self.files = files
        self.chance = chance
        cluster = try Cluster(isPartitionable: false, isAdvertised: false)
      }

      func outcome(of fault: Fault) async throws -> FaultOutcome {
        switch fault {
        case .flippedBytes: try await flippedBytes()
        case .wipedDisk: try await wipedDisk()
        case .pausedBroker: try await pausedBroker()
        case .badProxy: try await badProxy()
        case .purged: try await purged()
        case .pausedReplica: try await pausedReplica()
        }
      }

      typealias Problem = HurtFile.Trial.Problem

      func expect(_ condition: Bool, _ text: String) throws {
        guard !condition else { return }
        let lines = replicas.map { $0.lines.suffix(2).joined(separator: "\n") }
        throw Problem(text: "\(text): \(replicas.map(\.acknowledged)) acknowledged\n\(lines.joined(separator: "\n"))")
      }

      func wait(_ seconds: Double) { Thread.sleep(forTimeInterval: seconds) }

      /// Starts three replicas without snapshots, so that each new opening reads the whole log.
      func begin(_ servers: [String]? = nil) throws {
        let servers = servers ?? cluster.urls
        replicas = try (1...3).map { try Child(["hurt-nats-replica", "\($0)", files.path("replica-\($0)")] + servers) }
        try expect(progress(), "replicas do not begin")
      }

      /// The reason why a replica has stopped, or nil. Its waiting writers get `.outcomeUnknown`.
      func stop(of replica: Child) -> String? {
        for line in replica.lines("error") {
          guard let stop = line.range(of: "Phase.stopped(Puredux.LogStop.") else { continue }
          return "stopped(.\(line[stop.upperBound...].prefix { $0 != "(" && $0 != ")" }))"
        }
        return nil
      }

      func hasStopped(_ replica: Child) -> Bool { stop(of: replica) != nil }

      /// Returns whether each running replica gets a number of further acknowledgements.
      func progress(_ count: Int = 500, within seconds: Double = 90) -> Bool {
        let goals = replicas.map { $0.acknowledged + count }
        let deadline = Date(timeIntervalSinceNow: seconds)
        while zip(replicas, goals).contains(where: { $0.acknowledged < $1 && !hasStopped($0) }) {
          guard Date() < deadline else { return false }
          wait(0.05)
        }
        return true
      }

      /// Ends the running replicas with an entry that all reach, and notes why the others have stopped.
      func end(_ outcome: inout FaultOutcome) throws {
        for stop in replicas.compactMap(stop) { outcome.note(stop) }
        let others = replicas.filter { !hasStopped($0) }
        for replica in others { replica.say("stop") }
        for replica in others { try expect(replica.waits(for: "stopped"), "a replica does not stop") }
        others.first?.say("end")
        for replica in others { try expect(replica.waits(for: "over"), "a replica does not reach the end") }
        for replica in replicas { replica.kill() }
      }

      /// Opens the log again and reads all of it. Notes a refusal and returns nil.
      func read(_ outcome: inout FaultOutcome) async throws -> String? {
        readers += 1
        let name = "reader-\(readers)"
        let replica = try RecordedReplica(name, history: files.path(name))
        do {
          let log = try await NATSLog(servers: cluster.urls)
          do {
            try await replica.read(by: 0, claiming: .linearizable) {
              var options = LogOptions()
              options.snapshotBytes = nil
              options.reporting = { _ in }
              let store = try await RootStore<Book, Entry>(
                following: log["book"], initialState: Book(),
                options: FollowingOptions(log: options, fingerprint: .hashed { $0.hash })
              ) { replica.enter($1, in: &$0) }
              let book = await store.state
              await store.shutdown()
              return book
            }
            await log.close()
          } catch {
            await log.close()
            throw error
          }
          outcome.note("opened")
          return name
        } catch {
          outcome.note(error)
          return nil
        }
      }

      let replicaNames = (1...3).map { "replica-\($0)" }

      /// Reads the log again, and judges all records.
      func finish(_ outcome: inout FaultOutcome) async throws {
        try end(&outcome)
        let reader = try await read(&outcome)
        try expect(reader != nil, "the log is refused: \(outcome.told)")
        outcome.add(try files.judge(replicaNames + [reader ?? ""], outcome.fault))
      }

      func leader() throws -> Int {
        let deadline = Date(timeIntervalSinceNow: 30)
        while true {
          do { return try cluster.leader() } catch  where Date() < deadline { wait(0.5) }
        }
      }

      /// Makes a server the stream's leader, if possible.
      func lead(_ server: Int) throws -> Bool {
        for _ in 1...5 {
          if try leader() == server { return true }
          _ = NATSRequest.answer(
            "$JS.API.STREAM.LEADER.STEPDOWN.puredux", #"{"placement":{"preferred":"s\#(server)"}}"#,
            port: cluster.clientPort(server))
          wait(2)
        }
        return false
      }
    }
  }

  // The faults and their required outcomes.
  extension HurtNATS.Trial {
    /// Bits of one stopped server's entries are flipped; then it leads the stream.
    func flippedBytes() async throws -> FaultOutcome {
      var outcome = FaultOutcome("bytes flipped on one server")
      try begin()
      let server = Int.random(in: 1...3, using: &chance)
      // A server that ended in an orderly way trusts its notes about its files.
      let endsByItself = Bool.random(using: &chance)
      if endsByItself { cluster.stop(server) } else { cluster.kill(server) }
      try expect(progress(), "no progress with two servers")
      let blocks = cluster.blocks(of: server)
      guard let block = blocks.randomElement(using: &chance) else { throw Problem(text: "no blocks") }
      let count = Int.random(in: Bool.random(using: &chance) ? 1...5 : 20...200, using: &chance)
      try HurtFile.Trial.flip(block, count: count, by: &chance)
      try cluster.start(server)
      try expect(progress(), "no progress after the start")
      let leads = try lead(server)
      outcome.details = """
        \(count) bits of server \(server), \(endsByItself ? "ended" : "crashed"), which \(leads ? "led" : "did not lead") \
        the stream then
        """
      try expect(progress(), "no progress with the damaged server")
      // With another server down, half of the reads go to the damaged one.
      let other = server % 3 + 1
      cluster.kill(other)
      // Two of three servers are up, which should suffice. With a damaged one, that depends on the engine.
      if !progress() { outcome.note("nothing acknowledged with the damaged server and another") }
      var readers: [String] = []
      for _ in 1...4 { if let reader = try await read(&outcome) { readers.append(reader) } }
      try cluster.start(other)
      wait(3)
      try expect(progress(), "no progress with all servers")
      try end(&outcome)
      for _ in 1...4 { if let reader = try await read(&outcome) { readers.append(reader) } }
      let verdict = try files.verdict(of: replicaNames + readers)
      outcome.add(verdict)
      let complaints = cluster.complaints(of: server)
      outcome.details += ", of which its log has \(complaints.count) lines"
      if !complaints.isEmpty { outcome.note("server's log(\(complaints.prefix(3)))") }
      for (kind, count) in verdict.counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
        outcome.details += ", \(kind) \(count)"
      }
      for violation in verdict.violations.prefix(3) { tell("    \(violation)") }
      return outcome
    }

    /// One server returns with an empty disk; then another one goes down, and the first is needed.
    func wipedDisk() async throws -> FaultOutcome {
      var outcome = FaultOutcome("a server's disk wiped")
      try begin()
      let server = Int.random(in: 1...3, using: &chance)
      cluster.kill(server)
      try cluster.wipe(server)
      try expect(progress(), "no progress with two servers")
      try cluster.start(server)
      wait(8)
      try expect(progress(), "no progress after the start")
      let other = (server + Int.random(in: 0...1, using: &chance)) % 3 + 1
      cluster.kill(other)
      try expect(progress(), "no progress with the wiped server and another")
      try cluster.start(other)
      wait(3)
      try expect(progress(), "no progress with all servers")
      outcome.details = "server \(server), then \(other) down"
      try await finish(&outcome)
      return outcome
    }

    /// The stream's leader is paused and continued, and then another server.
    func pausedBroker() async throws -> FaultOutcome {
      var outcome = FaultOutcome("a server paused")
      try begin()
      let first = try leader()
      cluster.pause(first)
      wait(15)
      cluster.proceed(first)
      try expect(progress(), "no progress when the leader went on")
      let second = try leader() % 3 + 1
      cluster.pause(second)
      wait(Double.random(in: 3...8, using: &chance))
      cluster.proceed(second)
      try expect(progress(), "no progress when another server went on")
      outcome.details = "the leader, server \(first), for 15 s, then server \(second)"
      try await finish(&outcome)
      return outcome
    }

    /// Between replicas and servers, messages are published twice or delayed, and connections are cut.
    func badProxy() async throws -> FaultOutcome {
      var outcome = FaultOutcome("a proxy that repeats, delays and cuts")
      let proxies = try (1...3).map {
        try Proxy(at: 4322 + $0, to: cluster.clientPort($0), Chance(seed: chance.next()))
      }
      defer { for proxy in proxies { proxy.end() } }
      try begin((1...3).map { "nats://127.0.0.1:\(4322 + $0)" })
      for proxy in proxies { proxy.set(bad: true) }
      for _ in 1...8 {
        wait(Double.random(in: 0.5...3, using: &chance))
        proxies.randomElement(using: &chance)?.cut()
      }
      for proxy in proxies { proxy.set(bad: false) }
      try expect(progress(), "no progress when the proxies are good again")
      let figures = proxies.map(\.figures)
      outcome.details = """
        \(figures.map(\.repeated).reduce(0, +)) messages repeated, \(figures.map(\.cut).reduce(0, +)) connections cut
        """
      try await finish(&outcome)
      return outcome
    }

    /// The stream is purged by hand, completely or up to its last entries. Stores with all purged entries continue, the
    /// others stop, and the log cannot be opened.
    func purged() async throws -> FaultOutcome {
      let keeps = Bool.random(using: &chance)
      var outcome = FaultOutcome(keeps ? "purged but for ten entries" : "purged")
      try begin()
      let answer = NATSRequest.answer(
        "$JS.API.STREAM.PURGE.puredux", keeps ? #"{"keep":10}"# : "", port: cluster.clientPort(1))
      try expect(answer?.contains(#""success":true"#) ?? false, "the stream is not purged: \(answer ?? "no answer")")
      wait(6)
      let stopped = replicas.count(where: hasStopped)
      for _ in stopped..<3 { outcome.note("a store that had all of it went on") }
      try expect(await read(&outcome) == nil, "a purged log is opened")
      try end(&outcome)
      try expect(await read(&outcome) == nil, "a purged log is opened")
      let verdict = try files.judge(replicaNames, outcome.fault)
      outcome.add(verdict)
      outcome.takenBack = verdict.figures.acknowledged
      return outcome
    }

    /// The replica with the lease is paused for three times the lease's duration, and continues.
    func pausedReplica() async throws -> FaultOutcome {
      var outcome = FaultOutcome("a replica paused for longer than the lease")
      replicas = try (1...3).map {
        try Child(["hurt-nats-lease", "\($0)", files.directory + "/jobs"] + cluster.urls)
      }
      try expect(progress(100), "no jobs")
      func holder() -> Int? { replicas.firstIndex { $0.lines("holds").count > $0.lines("lost").count } }
      for _ in 1...3 {
        guard let paused = holder() else { throw Problem(text: "nobody holds the lease") }
        replicas[paused].pause()
        let before = replicas.map { $0.lines("holds").count }
        wait(3)
        let others = replicas.indices.filter { $0 != paused }
        try expect(others.contains { replicas[$0].lines("holds").count > before[$0] }, "nobody takes the lease")
        replicas[paused].proceed()
        try expect(progress(100), "no jobs after the pause")
      }
      for replica in replicas { replica.say("stop") }
      for replica in replicas { try expect(replica.waits(for: "stopped"), "a replica does not stop") }
      replicas[0].say("end")
      for replica in replicas { try expect(replica.waits(for: "ended"), "jobs are not done") }
      try outcome.add(jobs: replicas.flatMap { $0.lines("over") })
      for replica in replicas { replica.kill() }
      outcome.add(try files.judge((1...3).map { "jobs-\($0)" }, outcome.fault))
      return outcome
    }
  }
#endif
