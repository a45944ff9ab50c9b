import Foundation
import Histories
import Puredux
import PureduxLog
import Synchronization

/// Faults of a log on files. Each run injects every fault once, in an order decided by a seed and each into a log of
/// its own. The checker judges the records.
enum HurtFile {
  enum Fault: CaseIterable {
    case olderBackup, copiedWhileWritten, powerCut, paused, twoProcesses, flippedBytes, fullDisk
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
        let trial = try Trial(files, own)
        defer { trial.remove() }
        do {
          guard let outcome = try await trial.outcome(of: fault) else { continue }
          outcome.printed(inFull: round == 0)
          totals.add(outcome)
          try files.remove()
        } catch {
          tell("  \(fault): \(error)\nThe history is in \(files.directory).")
          trial.remove()
          exit(1)
        }
      }
    }
    totals.printed()
  }

  // MARK: Processes

  static func open(
    _ log: FileLog, _ replica: RecordedReplica, savesSnapshots: Bool, limit: Duration = .seconds(1),
    reporting: (@Sendable (LogReport) -> Void)? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil
  ) async throws -> RootStore<Book, Entry> {
    var options = LogOptions()
    options.snapshotBytes = savesSnapshots ? 100_000 : nil
    options.truncatesBehindSnapshots = savesSnapshots
    options.openingLimit = limit
    options.endingLimit = .seconds(1)
    if let reporting { options.reporting = reporting }
    return try await RootStore(
      following: log["book"], initialState: Book(),
      options: FollowingOptions(log: options, fingerprint: .hashed { $0.hash }, onPhase: onPhase)
    ) { replica.enter($1, in: &$0) }
  }

  static func log(_ directory: String, onTornTail: (@Sendable (FileLog.TornTail) -> Void)? = nil) throws -> FileLog {
    var options = FileLog.Options()
    options.segmentBytes = 60_000
    options.preallocatedBytes = 16_384
    return try FileLog(directory: directory, options: options, onTornTail: onTornTail)
  }

  /// Runs 16 writers until the process is killed. Reports acknowledgements and the store's phases.
  static func write(to directory: String, run: Int, history: String, savesSnapshots: Bool) async throws {
    do {
      let replica = try RecordedReplica("writers \(run)", history: history)
      let store = try await open(
        log(directory), replica, savesSnapshots: savesSnapshots, reporting: { tell("report \($0)") },
        onPhase: { if case .recovering = $0 {} else { tell("phase \($0)") } })
      await withTaskGroup { tasks in
        for writer in 0..<16 {
          tasks.addTask {
            for number in 1... {
              do {
                try await replica.send(Entry(run: run, writer: writer, number: number), to: store)
                tell("acknowledged")
                guard number.isMultiple(of: 20) else { continue }
                try await replica.read(by: writer, claiming: .ownWrites) { await store.state }
              } catch {
                return tell("error \(error)")
              }
            }
          }
        }
      }
      tell("stopped")
      while true { try await Task.sleep(for: .seconds(60)) }
    } catch {
      tell("refused \(error)")
    }
  }

  /// Runs two replicas of one log in this process.
  static func lease(_ directory: String, history: String) async throws {
    try await LeaseWork.run(FileLog(directory: directory)["jobs"], as: 1, replicas: 2, history: history)
  }

  // MARK: The trial

  final class Trial {
    let files: HistoryFiles
    var chance: Chance
    let directory = FileManager.default.temporaryDirectory.path + "/log-trials-\(UUID().uuidString)"
    var data: String { directory + "/data" }
    private var runs = 0

    init(_ files: HistoryFiles, _ chance: Chance) throws {
      self.files = files
      self.chance = chance
      try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
    }

    func remove() { try? FileManager.default.removeItem(atPath: directory) }

    struct Problem: Error { let text: String }

    /// Nil, with a report, if the fault cannot be injected here.
    func outcome(of fault: Fault) async throws -> FaultOutcome? {
      switch fault {
      case .olderBackup: try await olderBackup()
      case .copiedWhileWritten: try await copiedWhileWritten()
      case .powerCut: try await powerCut()
      case .paused: try await paused()
      case .twoProcesses: try await twoProcesses()
      case .flippedBytes: try await flippedBytes()
      case .fullDisk: try await fullDisk()
      }
    }

    /// Starts a process of writers that records in the file of a name.
    func writers(
      _ name: String, in directory: String? = nil, savesSnapshots: Bool = true, environment: [String: String] = [:]
    ) throws -> Child {
      runs += 1
      let kind = savesSnapshots ? "snapshots" : "entries"
      return try Child(
        ["hurt-file-write", directory ?? data, String(runs), files.path(name), kind], environment: environment)
    }

    /// The same, killed by SIGKILL after some acknowledgements.
    func write(_ name: String, savesSnapshots: Bool = true, environment: [String: String] = [:]) throws {
      let child = try writers(name, savesSnapshots: savesSnapshots, environment: environment)
      let count = Int.random(in: 500...4000, using: &chance)
      try expect(child.waits(forAcknowledged: count), "writers do not write", child)
      child.kill()
    }

    func expect(_ condition: Bool, _ text: String, _ child: Child? = nil) throws {
      if !condition { throw Problem(text: "\(text): \(child?.lines.suffix(5).joined(separator: "\n") ?? "")") }
    }

    /// Opens a log, reads all of it, and appends. Notes a refusal and returns false.
    func reopens(
      _ directory: String, _ name: String, claiming claim: Claim = .linearizable, writes: Bool = true,
      _ outcome: inout FaultOutcome
    ) async throws -> Bool {
      runs += 1
      let replica = try RecordedReplica(name, history: files.path(name))
      let tails = Atomic(0)
      let run = runs
      do {
        let log = try HurtFile.log(directory) { _ in tails.add(1, ordering: .relaxed) }
        do {
          try await replica.read(by: 0, claiming: claim) {
            let store = try await HurtFile.open(log, replica, savesSnapshots: false, reporting: { _ in })
            let book = await store.state
            if writes {
              for number in 1...3 { try await replica.send(Entry(run: run, writer: 90, number: number), to: store) }
            }
            await store.shutdown()
            return book
          }
          await log.close()
          outcome.note("opened")
        } catch {
          await log.close()
          throw error
        }
        if tails.load(ordering: .relaxed) > 0 { outcome.note("a tail set aside") }
        return true
      } catch {
        outcome.note(error)
        return false
      }
    }

    func copy(_ source: String, _ name: String) throws -> String {
      let path = directory + "/" + name
      try FileManager.default.copyItem(atPath: source, toPath: path)
      return path
    }

    /// The directory of the tree.
    func tree(in directory: String) -> String { directory + "/=book" }

    func names(in directory: String) throws -> [String] {
      try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
    }

    /// Replaces a file by that of another directory.
    func replace(_ name: String, in directory: String, with other: String) throws {
      try? FileManager.default.removeItem(atPath: directory + "/" + name)
      if FileManager.default.fileExists(atPath: other + "/" + name) {
        try FileManager.default.copyItem(atPath: other + "/" + name, toPath: directory + "/" + name)
      }
    }
  }
}
