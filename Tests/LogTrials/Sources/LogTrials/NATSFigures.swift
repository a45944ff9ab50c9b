#if NATS
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxNATS

  /// Stores on three servers that always sync, measured against raw libnats in one run.
  enum NATSFigures {
    static func run(rounds: Int, entries: Int) async throws {
      let cluster = try Cluster(isPartitionable: false)
      defer { withExtendedLifetime(cluster) {} }
      var options = NATSLog.Options()
      options.connectLimit = .seconds(60)
      let log = try await NATSLog(servers: cluster.urls, options: options)
      try RawNATS(cluster.urls).makeStream("raw")
      // First, as free memory of the process would hide what trees take.
      try await trees(log, 500)
      let long = "long-\(UUID().uuidString)"
      try await fill(log[long], entries)
      for round in 1...rounds {
        print("run \(round)")
        try await oneSender(cluster, log, count: 500)
        try await manyTrees(log, trees: 64, count: 200)
        try await flood(cluster, log, count: 40_000)
        try await replay(cluster, log, long, entries)
        try await snapshot(log)
      }
      await log.close()
    }

    private static func ratio(_ one: Duration, _ other: Duration) -> String { String(format: "%.2f", one / other) }
    private static func key() -> String { "tree-\(UUID().uuidString)" }
    /// A subject of the raw stream.
    private static func subject(_ key: String) -> String { "raw." + key }

    /// The bytes of an entry with one action.
    private static let bytes = [UInt8](repeating: 1, count: 68)

    private static func oneSender(_ cluster: Cluster, _ log: NATSLog, count: Int) async throws {
      let raw = try RawNATS(cluster.urls)
      let rawKey = key()
      try raw.follow(subject(rawKey), of: "raw")
      for _ in 0..<50 { raw.publishAndWait(subject(rawKey), bytes) }
      let store = try await FileFigures.store(following: log[key()])
      for _ in 0..<50 { try await store.send(1) }
      // The measurements alternate, as the machine's speed varies.
      var (rawTime, ownTime) = (Duration.zero, Duration.zero)
      for _ in 0..<5 {
        rawTime += ContinuousClock().measure {
          for _ in 0..<(count / 5) { raw.publishAndWait(subject(rawKey), bytes) }
        }
        ownTime += try await ContinuousClock().measure { for _ in 0..<(count / 5) { try await store.send(1) } }
      }
      print(
        "one sender: \(ownTime / count) a send, \(rawTime / count) a raw publish and its arrival: \(ratio(ownTime, rawTime))"
      )
      await store.shutdown()
    }

    /// One sender for each of many trees.
    private static func manyTrees(_ log: NATSLog, trees: Int, count: Int) async throws {
      let prefix = key()
      let stores = try await withThrowingTaskGroup { tasks in
        for number in 0..<trees { tasks.addTask { try await FileFigures.store(following: log["\(prefix)-\(number)"]) } }
        return try await tasks.reduce(into: []) { $0.append($1) }
      }
      let time = try await ContinuousClock().measure {
        try await withThrowingTaskGroup { tasks in
          for store in stores {
            tasks.addTask { for _ in 0..<count { try await store.send(1) } }
          }
          try await tasks.waitForAll()
        }
      }
      print("\(trees) trees, a sender each: \(Int(Double(trees * count) / (time / .seconds(1)))) sends a second")
      for store in stores { await store.shutdown() }
    }

    private static func flood(_ cluster: Cluster, _ log: NATSLog, count: Int) async throws {
      let raw = try RawNATS(cluster.urls)
      let rawKey = key()
      let rawTime = ContinuousClock().measure {
        for _ in 0..<count { raw.publish(subject(rawKey), bytes) }
        raw.finish()
      }
      let store = try await FileFigures.store(following: log[key()])
      let start = ContinuousClock.now
      for _ in 0..<(count * 4) {
        while store.dispatch(1) == .overloaded { await Task.yield() }
      }
      _ = await store.state
      let ownTime = start.duration(to: .now) / 4
      print(
        "flood: \(ownTime / count) an action, \(rawTime / count) a raw asynchronous publish: \(ratio(rawTime, ownTime)) times as many"
      )
      await store.shutdown()
    }

    /// Appends entries of one action each.
    private static func fill(_ log: any OrderedLog, _ count: Int) async throws {
      var options = LogOptions()
      options.actionsPerEntry = 1
      options.entriesUnderWay = 512
      options.snapshotBytes = nil
      options.patience = .seconds(60)
      let store = try await RootStore<UInt64, UInt64>(
        following: log, initialState: 0, codings: LogCodings(actions: FileFigures.numbers, states: nil),
        options: FollowingOptions(log: options, fingerprint: .unchecked)
      ) { $0 &+= $1 }
      let time = try await ContinuousClock().measure {
        for number in 0..<count {
          while store.dispatch(1) == .overloaded { await Task.yield() }
          if number % 512 == 0 { try await store.send(0) }
        }
        _ = await store.state
      }
      print("\(count) entries of one action written in \(time)")
      await store.shutdown()
    }

    private static func replay(_ cluster: Cluster, _ log: NATSLog, _ key: String, _ count: Int) async throws {
      let raw = try RawNATS(cluster.urls)
      let rawTime = try ContinuousClock().measure {
        try raw.follow("puredux.*.k" + key, of: "puredux")
        raw.wait(for: count)
      }
      let start = ContinuousClock.now
      let store = try await RootStore<UInt64, UInt64>(
        following: log[key], initialState: 0, codings: LogCodings(actions: FileFigures.numbers, states: nil),
        options: FollowingOptions(fingerprint: .unchecked)
      ) { $0 &+= $1 }
      let ownTime = start.duration(to: .now)
      print(
        "\(count) entries replayed in \(ownTime), read by libnats in \(rawTime): \(ratio(rawTime, ownTime)) of raw reading, \(await store.state) in all"
      )
      await store.shutdown()
    }

    private static func snapshot(_ log: NATSLog) async throws {
      let key = key()
      let opened = try await FileFigures.openTime(of: log[key]) { try await log[key].snapshots?.newest()?.position }
      print("from a snapshot of a state of 1 MB: \(opened)")
    }

    private static func trees(_ log: NATSLog, _ count: Int) async throws {
      let prefix = key()
      for number in 0..<count {
        let store = try await FileFigures.store(following: log["\(prefix)-\(number)"])
        try await store.send(1)
        await store.shutdown()
      }
      try await FileFigures.openTrees(count) { log["\(prefix)-\($0)"] }
    }
  }
#endif
