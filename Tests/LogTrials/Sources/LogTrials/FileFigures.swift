import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting

/// Stores on files, measured against the raw disk in one run.
enum FileFigures {
  static func run(rounds: Int) async throws {
    for round in 1...rounds {
      print("run \(round)")
      try await trees(500)
      let raw = try rawSync(count: 300)
      let one = try await senders(1, count: 300)
      print("one sender: \(one.each) a send, \(raw) a raw fdatasync: \(ratio(one.each, raw))")
      let many = try await senders(64, count: 200)
      print("64 senders: \(many.each) a send, raw fdatasyncs a second times \(ratio(raw, many.each))")
      try await replay(1_000_000)
      try await snapshot()
    }
  }

  static func ratio(_ one: Duration, _ other: Duration) -> String { String(format: "%.2f", one / other) }

  private static func withDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let directory = FileManager.default.temporaryDirectory.path + "/log-trials-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    return try await body(directory)
  }

  /// Writes and syncs one entry after the other.
  private static func rawSync(count: Int) throws -> Duration {
    let path = FileManager.default.temporaryDirectory.path + "/log-trials-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let file = unsafe open(path, O_RDWR | O_CREAT, 0o644)
    defer { close(file) }
    let bytes = [UInt8](repeating: 1, count: 100)
    return ContinuousClock().measure {
      for number in 0..<count {
        _ = unsafe bytes.withUnsafeBytes { unsafe pwrite(file, $0.baseAddress, 100, off_t(number * 100)) }
        fdatasync(file)
      }
    } / count
  }

  static let numbers = LogCoding<UInt64> { value in
    (0..<8).map { UInt8(truncatingIfNeeded: value >> (8 * UInt64($0))) }
  } decode: { bytes, _ in
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  static func store(following log: any OrderedLog) async throws -> RootStore<UInt64, UInt64> {
    try await RootStore(
      following: log, initialState: 0, codings: LogCodings(actions: numbers, states: numbers),
      options: FollowingOptions(fingerprint: .unchecked)
    ) {
      $0 &+= $1
    }
  }

  private static func senders(_ senders: Int, count: Int) async throws -> (each: Duration, total: Int) {
    try await withDirectory { directory in
      let store = try await Self.store(following: FileLog(directory: directory)["tree"])
      let start = ContinuousClock.now
      await withTaskGroup { tasks in
        for _ in 0..<senders {
          tasks.addTask { for _ in 0..<count { try? await store.send(1) } }
        }
      }
      let time = start.duration(to: .now)
      await store.shutdown()
      return (time / (senders * count), senders * count)
    }
  }

  /// The largest possible number of entries of one action each.
  private static func replay(_ count: Int) async throws {
    try await withDirectory { directory in
      let log = try FileLog(directory: directory)
      var options = LogOptions()
      options.actionsPerEntry = 1
      options.entriesUnderWay = 1024
      options.snapshotBytes = nil
      let store = try await RootStore<UInt64, UInt64>(
        following: log["tree"], initialState: 0, codings: LogCodings(actions: numbers, states: nil),
        options: FollowingOptions(log: options, fingerprint: .unchecked)
      ) { $0 &+= $1 }
      for number in 0..<count {
        while store.dispatch(1) == .overloaded { await Task.yield() }
        if number % 1024 == 0 { try await store.send(0) }
      }
      _ = await store.state
      await store.shutdown()
      await log.close()
      let again = try FileLog(directory: directory)
      // Reads the files once before the measurement.
      let program = ReplayedProgram<UInt64, UInt64>(
        initialState: 0, reducers: [Reducer { $0 &+= $1 }], codings: LogCodings(actions: numbers, states: nil))
      _ = try await verifyReplay(of: again["tree"], by: program)
      let verifying = try await ContinuousClock().measure {
        guard try await verifyReplay(of: again["tree"], by: program).stop == nil else { throw CancellationError() }
      }
      let start = ContinuousClock.now
      let replayed = try await Self.store(following: again["tree"])
      let time = start.duration(to: .now)
      let total = await replayed.state
      print("\(count) entries replayed in \(time), \(total) in all; verified in \(ratio(verifying, time)) of that")
      await replayed.shutdown()
      await again.close()
    }
  }

  private static func snapshot() async throws {
    try await withDirectory { directory in
      let log = try FileLog(directory: directory)
      print(
        "from a snapshot of a state of 1 MB: \(try await openTime(of: log["tree"]) { try await log["tree"].snapshots?.newest()?.position })"
      )
      await log.close()
    }
  }

  /// The time to open a store by a snapshot of a state of 1 MB.
  static func openTime(of log: any OrderedLog, saved: () async throws -> UInt64?) async throws -> Duration {
    let bytes = LogCoding<[UInt8]> {
      $0
    } decode: { bytes, _ in
      Array(bytes)
    }
    var options = LogOptions()
    options.snapshotBytes = 1
    let store = try await RootStore<[UInt8], [UInt8]>(
      following: log, initialState: [], codings: LogCodings(actions: bytes, states: bytes),
      options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) { $0 += $1 }
    for _ in 0..<4 { try await store.send([UInt8](repeating: 1, count: 1 << 18)) }
    try await store.send([1])
    let position = await store.statistics.log?.position ?? 0
    while try await saved() ?? 0 < position - 1 { await Task.yield() }
    await store.shutdown()
    let start = ContinuousClock.now
    let opened = try await RootStore<[UInt8], [UInt8]>(
      following: log, initialState: [], codings: LogCodings(actions: bytes, states: bytes),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0 += $1 }
    let time = start.duration(to: .now)
    await opened.shutdown()
    return time
  }

  private static func trees(_ count: Int) async throws {
    try await withDirectory { directory in
      let log = try FileLog(directory: directory)
      for number in 0..<count {
        let store = try await Self.store(following: log["\(number)"])
        try await store.send(1)
        await store.shutdown()
      }
      await log.close()
      let again = try FileLog(directory: directory)
      try await openTrees(count) { again["\($0)"] }
      await again.close()
    }
  }

  /// Opens stores concurrently, and prints the time and memory.
  static func openTrees(_ count: Int, _ log: @escaping @Sendable (Int) -> any OrderedLog) async throws {
    let before = used()
    let start = ContinuousClock.now
    let stores = try await withThrowingTaskGroup { tasks in
      for number in 0..<count { tasks.addTask { try await Self.store(following: log(number)) } }
      return try await tasks.reduce(into: []) { $0.append($1) }
    }
    let time = start.duration(to: .now)
    let after = used()
    print(
      "\(count) trees opened in \(time), \((after.kilobytes - before.kilobytes) / count) KB each, "
        + "\(after.threads - before.threads) threads more, \(after.threads) in the process")
    for store in stores { await store.shutdown() }
  }

  private struct Summary: Codable, Sendable {
    var title: String
    var highest, bids: Int
  }

  /// Lists the trees' summaries twice, in a process that has opened none of the trees.
  static func list(trees: Int) async throws {
    try await withDirectory { directory in
      var options = FileLog.Options()
      (options.syncs, options.preallocatedBytes) = (false, 0)
      let log = try FileLog(directory: directory, options: options)
      try await withThrowingTaskGroup { tasks in
        for writer in 0..<16 {
          tasks.addTask {
            for number in stride(from: writer, to: trees, by: 16) {
              let store = try await RootStore(
                following: log["auctions/\(number)"], initialState: UInt64(0),
                codings: LogCodings(actions: numbers, states: numbers),
                options: FollowingOptions(
                  fingerprint: .unchecked,
                  summary: {
                    Summary(title: "What is sold under the number \(number)", highest: Int($0), bids: 1)
                  })
              ) { $0 += $1 }
              try await store.send(UInt64(number))
              await store.shutdown()
            }
          }
        }
        try await tasks.waitForAll()
      }
      await log.close()
      let again = try FileLog(directory: directory, options: options)
      for _ in 0..<2 {
        let before = used()
        var (count, most, sum) = (0, 0, 0)
        let start = ContinuousClock.now
        for try await auction in again.summaries(of: Summary.self, prefix: "auctions/") {
          count += 1
          sum += auction.value.highest
          if count % 10_000 == 0 { most = max(most, used().kilobytes) }
        }
        let time = start.duration(to: .now)
        guard sum == trees * (trees - 1) / 2 else { fatalError("\(count) of \(trees) were listed") }
        let raw = try await ContinuousClock().measure { for try await _ in again.summaries(prefix: "") {} }
        print(
          "\(count) summaries listed in \(time), \(raw) as bytes, at most \((most - before.kilobytes) / 1024) MB more")
      }
      await again.close()
    }
  }

  /// The process' resident kilobytes and threads.
  static func used() -> (kilobytes: Int, threads: Int) {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    func value(_ name: String) -> Int {
      let line = status.split(separator: "\n").first { $0.hasPrefix(name) } ?? ""
      return Int(line.split(whereSeparator: { !$0.isNumber }).first ?? "") ?? 0
    }
    return (value("VmRSS:"), value("Threads:"))
  }
}
