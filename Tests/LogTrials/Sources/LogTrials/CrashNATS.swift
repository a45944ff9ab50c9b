#if NATS
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxNATS

  /// Three replicas on three servers, each with 16 writers; servers and replicas crash and are cut off while they
  /// write. In the end all that was acknowledged has to be there, once, in each writer's order, and in the same order
  /// everywhere.
  enum CrashNATS {
    struct Entry: Codable, Sendable, Hashable {
      let run: Int
      let writer: Int
      let number: Int

      static let end = Entry(run: -1, writer: 0, number: 1)
    }

    struct Book: Codable, Sendable {
      /// The last number of each writer of each run.
      var last: [Int: Int] = [:]
      var count = 0
      /// Those that did not come right behind the one before.
      var wrong = 0
      /// Of all entries, in order.
      var hash: UInt64 = 0

      mutating func enter(_ entry: Entry) {
        let key = entry.run * 100 + entry.writer
        if entry.number != last[key, default: 0] + 1 { wrong += 1 }
        last[key] = entry.number
        count += 1
        hash = (hash ^ UInt64(bitPattern: Int64(key &* 1_000_003 &+ entry.number))) &* 1_099_511_628_211
        hash ^= hash >> 29
      }

      var hasEnded: Bool { last[-100] != nil }
    }

    // MARK: A replica

    /// Writes until it is told to stop, and tells each entry that was acknowledged on its standard output.
    static func replica(_ run: Int, servers: [String]) async throws {
      var options = NATSLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await NATSLog(servers: servers, options: options)
      var following = LogOptions()
      following.snapshotBytes = 2_000_000
      following.endingLimit = .seconds(60)
      let store = try await RootStore<Book, Entry>(
        following: log["book"], initialState: Book(),
        options: FollowingOptions(log: following, fingerprint: { $0.hash })
      ) { $0.enter($1) }
      let isStopped = Flag()
      Thread.detachNewThread {
        while let line = readLine() {
          if line == "stop" { isStopped.raise() }
          if line == "end" { _ = store.dispatch(.end) }
        }
        exit(0)
      }
      await withTaskGroup { tasks in
        for writer in 0..<16 {
          tasks.addTask {
            for number in 1... where !isStopped.isRaised {
              do {
                try await store.send(Entry(run: run, writer: writer, number: number))
                tell("\(run) \(writer) \(number)")
              } catch {
                return tell("error \(error) \(String(describing: await store.statistics.log))")
              }
              if isStopped.isRaised { return }
            }
          }
        }
      }
      tell("stopped")
      for await book in store.states() where book.hasEnded {
        tell("book \(book.count) \(book.wrong) \(book.hash)")
        for (key, number) in book.last { tell("last \(key) \(number)") }
        tell("over")
        return
      }
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
      private var acknowledged: [Int: Int] = [:]
      private var total = 0
      private var lines: [String] = []
      private var isOver = false
      private var lastTime = ContinuousClock.now
      private var longest = Duration.zero

      init(_ run: Int, on host: Int, of cluster: Cluster) throws {
        process = cluster.process(
          on: host, Bundle.main.executablePath ?? CommandLine.arguments[0],
          ["replica-nats", String(run)] + cluster.urls)
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
          let numbers = line.split(separator: " ").compactMap { Int($0) }
          if numbers.count == 3, line.first?.isNumber == true {
            acknowledged[numbers[0] * 100 + numbers[1]] = numbers[2]
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

      /// What was acknowledged, how many that are, and the longest time without one.
      var told: (acknowledged: [Int: Int], total: Int, longest: Duration) {
        lock.withLock { (acknowledged, total, longest) }
      }

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

    static func run(rounds: Int, isPartitionable: Bool) throws {
      var (all, worst) = (0, Duration.zero)
      for round in 1...rounds {
        let (total, longest) = try one(round, isPartitionable: isPartitionable)
        all += total
        worst = max(worst, longest)
      }
      tell("\(rounds) runs: \(all) acknowledged, 0 missing, 0 twice, the same on all, longest stall \(worst)")
    }

    private static func one(_ round: Int, isPartitionable: Bool) throws -> (Int, Duration) {
      let cluster = try Cluster(isPartitionable: isPartitionable)
      defer { withExtendedLifetime(cluster) {} }
      var replicas = try (1...3).map { try Replica(round * 10 + $0, on: 10 + $0, of: cluster) }
      var gone: [Replica] = []
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
        gone.append(replicas[1])
        wait(1)
        replicas[1] = try Replica(round * 10 + 4, on: 12, of: cluster)
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
      let books = replicas.map { $0.lines(until: "over") ?? [] }
      let summaries = books.map { $0.first { $0.hasPrefix("book") } ?? "none" }
      let last = Dictionary(
        uniqueKeysWithValues: (books[0].filter { $0.hasPrefix("last") }).map { line in
          let numbers = line.split(separator: " ").compactMap { Int($0) }
          return (numbers[0], numbers[1])
        })
      let told = (replicas + gone).map(\.told)
      let missing = told.reduce(0) { $0 + $1.acknowledged.reduce(0) { $0 + max(0, $1.value - (last[$1.key] ?? 0)) } }
      let total = told.reduce(0) { $0 + $1.total }
      let longest = told.map(\.longest).max() ?? .zero
      tell("run \(round): \(total) acknowledged, \(missing) missing, longest stall \(longest): \(summaries)")
      let wrong = summaries[0].split(separator: " ").dropFirst(2).first
      guard missing == 0, Set(summaries).count == 1, wrong == "0" else {
        throw Cluster.Problem(text: "round \(round): something is missing, twice or not the same")
      }
      for replica in replicas { replica.kill() }
      return (total, longest)
    }
  }
#endif
