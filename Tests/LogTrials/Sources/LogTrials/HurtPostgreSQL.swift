#if PostgreSQL
  import Foundation
  import Histories
  import Puredux
  import PureduxLog
  import PureduxPostgreSQL

  /// Three replicas on PostgreSQL, each with 16 writers, during one fault at a time. Each fault has a tree and a
  /// history of its own; the servers are shared. The seed decides the order and the times.
  enum HurtPostgreSQL {
    // MARK: A replica

    /// - Parameter snapshotBytes: The replayed bytes after which a snapshot is saved; 0 for none.
    static func replica(
      _ run: Int, history: String, connection: String, schema: String, snapshotBytes: Int
    ) async throws {
      do {
        try await write(run, history, connection, schema, snapshotBytes)
      } catch {
        tell("error \(error)")
        exit(1)
      }
    }

    private static func write(
      _ run: Int, _ history: String, _ connection: String, _ schema: String, _ snapshotBytes: Int
    ) async throws {
      let replica = try RecordedReplica("replica \(run)", history: history)
      var options = PostgreSQLLog.Options()
      options.connectLimit = .seconds(60)
      options.schema = schema
      let log = try await PostgreSQLLog(connection, options: options)
      var following = LogOptions()
      following.snapshotBytes = snapshotBytes > 0 ? snapshotBytes : nil
      following.openingLimit = .seconds(60)
      following.endingLimit = .seconds(60)
      following.reporting = { tell("report \($0)") }
      let store = try await RootStore<Book, Entry>(
        following: log["book"], initialState: Book(),
        options: FollowingOptions(
          log: following, fingerprint: .hashed { $0.hash }, onPhase: { tell("phase \($0)") })
      ) { replica.enter($1, in: &$0) }
      try await ReplicaWork.write(run, replica, to: store)
    }

    // MARK: The trial

    private struct Fault {
      let name: String
      let text: String
      /// The reason why the fault cannot be injected here.
      var missing: String?
      let run: (Run, Fault) throws -> Row
    }

    struct Row {
      var text: String
      var acknowledged: Int
      var missing: Int
      var twice: Int
      var stall: Duration
      var told: [String]
      var seen: String

      var line: String {
        """
        | \(text) | \(acknowledged) | \(missing) | \(twice) | \(seconds(stall)) s | \(told.joined(separator: "; ")) \
        | \(seen) |
        """
      }
    }

    static func seconds(_ time: Duration) -> String { String(format: "%.1f", time / .seconds(1)) }

    struct Seeded: RandomNumberGenerator {
      var state: UInt64

      mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
      }
    }

    private final class Run {
      let pair: PostgreSQLPair
      let pause: Duration
      let history: String?
      var random: Seeded

      init(_ seed: UInt64, pause: Duration, history: String?) throws {
        pair = try PostgreSQLPair(settings: HurtPostgreSQL.settings)
        self.pause = pause
        self.history = history
        random = Seeded(state: seed)
      }

      func wait(_ range: ClosedRange<Double>) { Thread.sleep(forTimeInterval: .random(in: range, using: &random)) }
    }

    private static let settings = [
      "max_connections=30", "superuser_reserved_connections=3", "max_wal_size=256MB",
      // The trial's queries of a standby must not be cancelled.
      "max_standby_streaming_delay=-1", "max_standby_archive_delay=-1",
    ]

    static func run(rounds: Int, seed: UInt64?, pause: Int?, only: [String], history: String?) throws {
      // A program may be written to after its end.
      _ = signal(SIGPIPE, SIG_IGN)
      let first = seed ?? .random(in: 0..<1_000_000)
      // The issue's minute, unless it would be repeated too often.
      let pause = Duration.seconds(pause ?? (rounds > 1 ? 15 : 60))
      var totals: [String: Row] = [:]
      for round in 0..<rounds {
        let seed = first + UInt64(round)
        tell("run \(round + 1), seed \(seed)")
        let run = try Run(seed, pause: pause, history: history.map { "\($0)/\(round + 1)" })
        for fault in faults.shuffled(using: &run.random) where only.isEmpty || only.contains(fault.name) {
          if let missing = fault.missing {
            tell("| \(fault.text) | left out: \(missing) |")
            continue
          }
          let row: Row
          do {
            row = try fault.run(run, fault)
          } catch {
            tell("\(fault.name), seed \(seed): \(error)")
            exit(1)
          }
          tell(row.line)
          guard var total = totals[fault.name] else {
            totals[fault.name] = row
            continue
          }
          total.acknowledged += row.acknowledged
          total.missing += row.missing
          total.twice += row.twice
          total.stall = max(total.stall, row.stall)
          total.told += row.told.filter { !total.told.contains($0) }
          if !total.seen.contains(row.seen) { total.seen += "; " + row.seen }
          totals[fault.name] = total
        }
      }
      tell("\(rounds) runs:")
      for fault in faults { if let total = totals[fault.name] { tell(total.line) } }
    }

    // MARK: Replicas

    private final class Trio {
      let files: HistoryFiles
      let run: Run
      let schema: String
      let snapshotBytes: Int
      private(set) var all: [ReplicaProcess] = []
      private var ended: [ReplicaProcess] = []
      private var number = 0

      init(_ run: Run, _ name: String, schema: String? = nil, snapshotBytes: Int = 2_000_000) throws {
        self.run = run
        self.snapshotBytes = snapshotBytes
        self.schema = schema ?? "hurt_\(UInt32.random(in: 0 ... .max))"
        files = try HistoryFiles(directory: run.history.map { "\($0)/\(name)" })
      }

      deinit { for replica in all { replica.kill() } }

      func begin(_ address: String, first: Int = 0) {
        number = first
        for _ in 0..<3 { add(address) }
      }

      @discardableResult func add(_ address: String, _ environment: [String: String] = [:]) -> ReplicaProcess {
        number += 1
        let process = Process()
        process.executableURL = URL(
          fileURLWithPath: Bundle.main.executablePath ?? CommandLine.arguments[0])
        process.arguments = [
          "replica-postgres", String(number), files.path("replica-\(number)"), address, schema, String(snapshotBytes),
        ]
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        do {
          let replica = try ReplicaProcess(process, showsErrors: false)
          all.append(replica)
          return replica
        } catch {
          fatalError("\(error)")
        }
      }

      func kill(_ index: Int) {
        let replica = all.remove(at: index)
        replica.kill()
        ended.append(replica)
      }

      var acknowledged: Int { all.reduce(0) { $0 + $1.told.total } }

      /// Waits until each replica has a number of further acknowledgements.
      func progress(_ count: Int = 1000) throws {
        let goals = all.map { $0.told.total + count }
        let deadline = Date(timeIntervalSinceNow: 180)
        while zip(all, goals).contains(where: { $0.told.total < $1 }) {
          guard Date() < deadline, !all.contains(where: \.hasEnded) else {
            throw PostgreSQLNode.Problem(
              text: "no progress: \(all.map { $0.told.total }) of \(goals): \(all.map { $0.said.suffix(3) })")
          }
          usleep(20_000)
        }
      }

      /// Stops the replicas, waits until all have reached the end, and judges their records.
      func end() throws -> Verdict {
        for replica in all { replica.say("stop") }
        for replica in all where replica.lines(until: "stopped") == nil {
          throw PostgreSQLNode.Problem(text: "a replica does not stop: \(replica.said.suffix(3))")
        }
        all[0].say("end")
        for replica in all where replica.lines(until: "over") == nil {
          throw PostgreSQLNode.Problem(text: "a replica does not reach the end: \(replica.said.suffix(3))")
        }
        while !all.isEmpty { kill(0) }
        return try files.judge()
      }

      func stops() throws {
        for replica in all where replica.lines(until: "phase stopped") == nil {
          throw PostgreSQLNode.Problem(text: "a store goes on: \(replica.said.suffix(3))")
        }
      }

      /// The stores' reports about their log.
      var told: [String] {
        var all: [String] = []
        for line in (ended + self.all).flatMap(\.said) {
          var text = line
          if line.hasPrefix("phase stopped") {
            text = line.contains("unreadable") ? "stopped: unreadable" : String(line.dropFirst(6))
          } else if line.hasPrefix("phase waiting") {
            text = "waiting: " + line.split(separator: ".").last.map { $0.replacing(")", with: "") }.map(String.init)!
          } else if line.hasPrefix("report") {
            // Without the parts that differ each time.
            let said = line.dropFirst(7).replacing(/(hurt_)?\b[0-9]+\b/, with: "…").replacing(/hurt_[0-9]+/, with: "…")
            text = String(said.replacing("A store stops following its log: The log \"book\": ", with: "").prefix(120))
          } else {
            continue
          }
          if !all.contains(text) { all.append(text) }
        }
        return all
      }

      func row(_ fault: Fault, _ seen: String) throws -> Row {
        let verdict = try end()
        let figures = verdict.figures
        return Row(
          text: fault.text, acknowledged: figures.acknowledged, missing: figures.missing, twice: figures.twice,
          stall: verdict.longestStall, told: told, seen: seen)
      }

      /// Copies the calls, without outcomes, to the history of the tree that lost its end, which may contain their
      /// actions. Returns the acknowledged actions.
      func copyCalls(to other: Trio) throws -> Set<String> {
        var acknowledged: Set<String> = []
        for name in try FileManager.default.contentsOfDirectory(atPath: files.directory).sorted() {
          let text = try Data(contentsOf: URL(fileURLWithPath: files.directory + "/" + name))
          var calls: [Int: String] = [:]
          var kept = Data()
          for line in text.split(separator: 10) {
            switch Event(line: ArraySlice(line)) {
            case .process?: kept += line + [10]
            case .invocation(let call, _, let action, _)?:
              calls[call] = action
              kept += line + [10]
            case .response(let call, .acknowledged, _, _, _)?:
              if let action = calls[call] { acknowledged.insert(action) }
            default: continue
            }
          }
          try kept.write(to: URL(fileURLWithPath: other.files.directory + "/earlier-" + name))
        }
        return acknowledged
      }

      func applied() throws -> Set<String> {
        var all: Set<String> = []
        for name in try FileManager.default.contentsOfDirectory(atPath: files.directory) {
          let text = try Data(contentsOf: URL(fileURLWithPath: files.directory + "/" + name))
          for line in text.split(separator: 10) {
            if case .applied(_, _, let actions, _)? = Event(line: ArraySlice(line)) { all.formUnion(actions) }
          }
        }
        return all
      }
    }

    /// A fault that loses entries: stores that have seen them stop, and the next ones begin with the remaining entries.
    private static func losing(
      _ run: Run, _ fault: Fault, _ address: () -> String, _ hurt: (Trio) throws -> Void
    ) throws -> Row {
      let before = try Trio(run, fault.name + "-before", snapshotBytes: 0)
      before.begin(address())
      try before.progress()
      try hurt(before)
      try before.stops()
      while !before.all.isEmpty { before.kill(0) }
      let after = try Trio(run, fault.name + "-after", schema: before.schema, snapshotBytes: 0)
      let acknowledged = try before.copyCalls(to: after)
      let verdict = try before.files.judge()
      after.begin(address(), first: 10)
      try after.progress()
      for replica in after.all { replica.say("stop") }
      for replica in after.all where replica.lines(until: "stopped") == nil {
        throw PostgreSQLNode.Problem(text: "a replica does not stop: \(replica.said.suffix(3))")
      }
      let lost = acknowledged.subtracting(try after.applied()).count
      let next = try after.end()
      return Row(
        text: fault.text, acknowledged: verdict.figures.acknowledged, missing: lost,
        twice: verdict.figures.twice + next.figures.twice, stall: verdict.longestStall, told: before.told,
        seen: "new replicas continue after the remaining entries, \(next.figures.acknowledged) acknowledged")
    }

    // MARK: Faults

    private static let faketime: String? = [
      "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    ].first { FileManager.default.fileExists(atPath: $0) }

    private static let hasPgbouncer = (try? PostgreSQLNode.run(["pgbouncer", "--version"])) != nil

    static var names: [String] { faults.map(\.name) }

    private static var faults: [Fault] {
      [
        Fault(
          name: "crash", text: "the primary ended by SIGKILL, and its synchronous standby promoted"
        ) { run, fault in
          try run.pair.addStandby(isSynchronous: true)
          let trio = try Trio(run, fault.name)
          trio.begin(run.pair.address)
          try trio.progress()
          run.wait(0...1)
          run.pair.primary.crash()
          run.wait(0...2)
          try run.pair.promote()
          try trio.progress()
          return try trio.row(fault, "goes on at the new primary")
        },
        Fault(
          name: "pause", text: "the primary paused, its synchronous standby promoted, the primary continued",
          run: paused),
        Fault(
          name: "asynchronous", text: "the primary ended by SIGKILL, and a standby promoted that is behind"
        ) { run, fault in
          try run.pair.addStandby(isSynchronous: false)
          return try losing(run, fault) {
            run.pair.address
          } _: { trio in
            // From here on the standby is behind the acknowledgements.
            run.pair.standby.pause()
            try trio.progress()
            run.wait(0...1)
            run.pair.primary.crash()
            run.pair.standby.resume()
            try run.pair.promote()
          }
        },
        Fault(name: "restored", text: "the server restored from a pg_basebackup of an older position") { run, fault in
          try losing(run, fault) {
            run.pair.primary.address("boards")
          } _: { trio in
            try run.pair.primary.backUp()
            run.wait(0...1)
            try trio.progress()
            run.pair.primary.crash()
            try run.pair.primary.restore()
            try run.pair.primary.start()
          }
        },
        Fault(name: "schema", text: "the schema dropped") { run, fault in
          try losing(run, fault) {
            run.pair.primary.address("boards")
          } _: { trio in
            run.wait(0...1)
            try run.pair.primary.execute("DROP SCHEMA \(trio.schema) CASCADE")
          }
        },
        Fault(
          name: "full", text: "no room for tables for a while", missing: geteuid() == 0 ? nil : "only root can mount"
        ) { run, fault in
          try full(run, fault, isLog: false)
        },
        Fault(
          name: "full-wal", text: "no room for the write-ahead log for a while",
          missing: geteuid() == 0 ? nil : "only root can mount"
        ) { run, fault in
          try full(run, fault, isLog: true)
        },
        Fault(name: "terminated", text: "connections terminated by the server, 20 times") { run, fault in
          let trio = try Trio(run, fault.name)
          trio.begin(run.pair.primary.address("boards"))
          try trio.progress()
          for _ in 0..<20 {
            run.wait(0...0.5)
            try run.pair.primary.execute(terminate)
          }
          try trio.progress()
          return try trio.row(fault, "")
        },
        Fault(
          name: "session", text: "pgbouncer between, in session mode, ended by SIGKILL and begun again",
          missing: hasPgbouncer ? nil : "pgbouncer is not installed"
        ) { run, fault in
          try pooled(run, fault, "session", connections: 20)
        },
        Fault(
          name: "transaction", text: "pgbouncer between, in transaction mode, ended by SIGKILL and begun again",
          missing: hasPgbouncer ? nil : "pgbouncer is not installed"
        ) { run, fault in
          try pooled(run, fault, "transaction", connections: 3)
        },
        Fault(
          name: "clock", text: "the server's clock set back by an hour, and forward by two",
          missing: faketime == nil ? "libfaketime is not installed" : nil, run: clock),
        Fault(name: "connections", text: "max_connections reached when all have to connect anew") { run, fault in
          let trio = try Trio(run, fault.name)
          trio.begin(run.pair.primary.address("boards"))
          try trio.progress()
          var others: [RawPostgreSQL] = []
          while let other = try? RawPostgreSQL(run.pair.primary.address("boards")) { others.append(other) }
          try run.pair.primary.execute(terminate)
          // Connection slots go to the fastest client. Freed ones are taken too, until the replicas have none.
          let deadline = Date(timeIntervalSinceNow: 5)
          while Date() < deadline {
            while let other = try? RawPostgreSQL(run.pair.primary.address("boards")) { others.append(other) }
            try run.pair.primary.execute(terminate)
            usleep(10_000)
          }
          let count = others.count
          run.wait(3...6)
          others = []
          try trio.progress()
          return try trio.row(fault, "\(count) others had a connection")
        },
        Fault(name: "replica", text: "a replica paused, another ended by SIGKILL and begun anew") { run, fault in
          let trio = try Trio(run, fault.name)
          let address = run.pair.primary.address("boards")
          trio.begin(address)
          try trio.progress()
          let paused = trio.all[2]
          kill(paused.process.processIdentifier, SIGSTOP)
          let start = ContinuousClock.now
          run.wait(0...1)
          trio.kill(1)
          trio.add(address)
          let others = Array(trio.all.prefix(1))
          let before = others[0].told.total
          Thread.sleep(forTimeInterval: max(0, (run.pause - start.duration(to: .now)) / .seconds(1)))
          let meanwhile = others[0].told.total - before
          kill(paused.process.processIdentifier, SIGCONT)
          try trio.progress()
          return try trio.row(fault, "another one was acknowledged \(meanwhile) in the \(run.pause) of the pause")
        },
      ]
    }

    private static let terminate =
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'puredux'"

    private static func paused(_ run: Run, _ fault: Fault) throws -> Row {
      try run.pair.addStandby(isSynchronous: true)
      let old = run.pair.primary
      let trio = try Trio(run, fault.name)
      trio.begin(run.pair.address)
      try trio.progress()
      run.wait(0...1)
      old.pause()
      let start = ContinuousClock.now
      run.wait(0...2)
      try run.pair.promote()
      try trio.progress()
      let back = start.duration(to: .now)
      Thread.sleep(forTimeInterval: max(0, (run.pause - back) / .seconds(1)))
      old.resume()
      // The old server still takes a connection that writes, and another replica that names it first.
      let isPrimary = try old.execute("SELECT NOT pg_is_in_recovery()") == "t"
      let commits =
        (try? PostgreSQLNode.run(
          [
            "timeout", "-s", "9", "5", PostgreSQLNode.program("psql"), "-h", old.directory, "-U", "boards", "-d",
            "postgres", "-qAtX", "-c", "CREATE SCHEMA probe",
          ])) != nil
      trio.add("host=\(old.directory),\(run.pair.primary.directory) user=boards dbname=postgres")
      let named = ContinuousClock.now
      // Replicas must make progress while the old server runs.
      try trio.progress()
      let heads = try [old, run.pair.primary].map { try $0.execute("SELECT max(head) FROM \(trio.schema).trees") }
      let wait = named.duration(to: .now)
      old.crash()
      try trio.progress()
      return try trio.row(
        fault,
        """
        back after \(seconds(back)) s; continued, the old primary \(isPrimary ? "still is one, lets in" : "is none"), \
        \(commits ? "commits" : "shows \(heads[0]) of \(heads[1]) entries, and commits nothing"): a replica that it \
        misleads goes on at the new one within \(seconds(wait)) s
        """)
    }

    private static func full(_ run: Run, _ fault: Fault, isLog: Bool) throws -> Row {
      let node = try PostgreSQLNode(
        settings: ["max_connections=30", "max_wal_size=8MB", "min_wal_size=2MB", "autovacuum=off"])
      let place = try node.mount(isLog ? "small" : "data", megabytes: isLog ? 32 : 160)
      defer { node.unmount(place) }
      let log = isLog ? place + "/wal" : node.directory + "/wal"
      try node.initialize(log: log, more: ["--wal-segsize", "1"])
      try node.start()
      try PostgreSQLPair.makeRole(node)
      let trio = try Trio(run, fault.name)
      trio.begin(node.address("boards"))
      try trio.progress()
      run.wait(0...1)
      let ballast = place + "/ballast"
      _ = FileManager.default.createFile(atPath: ballast, contents: nil)
      let file = try FileHandle(forWritingTo: URL(fileURLWithPath: ballast))
      for size in [1 << 20, 1 << 12] {
        while (try? file.write(contentsOf: Data(count: size))) != nil {}
      }
      try? file.close()
      // Until no further action is acknowledged.
      var last = -1
      for _ in 0..<60 where last != trio.acknowledged {
        last = trio.acknowledged
        // Deleted rows free no space meanwhile.
        if let file = FileHandle(forWritingAtPath: ballast) {
          _ = try? file.seekToEnd()
          while (try? file.write(contentsOf: Data(count: 4096))) != nil {}
        }
        Thread.sleep(forTimeInterval: 1)
      }
      run.wait(1...4)
      let isAlive = (try? node.execute("SELECT 1")) != nil
      try FileManager.default.removeItem(atPath: ballast)
      Thread.sleep(forTimeInterval: 2)
      var restarts = false
      if (try? node.execute("SELECT 1")) == nil {
        restarts = true
        node.stop()
        try node.start()
      }
      try trio.progress()
      let seen = restarts ? "the server ends, and is started again" : "the server crashes, and starts by itself"
      return try trio.row(fault, isAlive ? "the server lets in, and takes nothing" : seen)
    }

    private static func pooled(_ run: Run, _ fault: Fault, _ mode: String, connections: Int) throws -> Row {
      var (address, pooler) = try run.pair.primary.pool(mode, connections: connections)
      func endPooler() {
        kill(pooler.processIdentifier, SIGKILL)
        pooler.waitUntilExit()
      }
      defer { endPooler() }
      let trio = try Trio(run, fault.name)
      trio.begin(address)
      try trio.progress()
      run.wait(0...1)
      endPooler()
      run.wait(0...2)
      (address, pooler) = try run.pair.primary.pool(mode, connections: connections)
      try trio.progress()
      run.wait(0...1)
      // The pooler's own connections.
      try run.pair.primary.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'boards'")
      try trio.progress()
      return try trio.row(fault, "then the server's connections terminated, too")
    }

    private static func clock(_ run: Run, _ fault: Fault) throws -> Row {
      let node = run.pair.primary
      let file = FileManager.default.temporaryDirectory.path + "/clock-\(UUID().uuidString.prefix(8))"
      func set(_ offset: String) throws {
        try offset.write(toFile: file, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
      }
      try set("+0")
      defer { try? FileManager.default.removeItem(atPath: file) }
      let environment = [
        "LD_PRELOAD": faketime ?? "", "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
      ]
      node.stop()
      try node.start(environment)
      let trio = try Trio(run, fault.name)
      trio.begin(node.address("boards"))
      try trio.progress()
      let before = try node.execute("SELECT extract(epoch FROM clock_timestamp())::bigint")
      run.wait(0...1)
      try set("-3600")
      try trio.progress()
      let set1 = try node.execute("SELECT extract(epoch FROM clock_timestamp())::bigint")
      run.wait(0...1)
      try set("+3600")
      try trio.progress()
      let row = try trio.row(fault, "the server's clock went \((Int(set1) ?? 0) - (Int(before) ?? 0)) s")
      node.stop()
      try node.start()
      return row
    }
  }
#endif
