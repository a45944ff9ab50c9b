import Foundation
import Histories
import Puredux
import PureduxLog

/// A process with 16 writers on one log is killed by SIGKILL fifty times, and the log is opened after each time. Every
/// acknowledged entry must be there once, in its writer's order. One order must explain the records of all processes.
enum CrashFile {
  static func open(_ log: FileLog, _ replica: RecordedReplica) async throws -> RootStore<Book, Entry> {
    var options = LogOptions()
    options.snapshotBytes = 200_000
    options.truncatesBehindSnapshots = true
    return try await RootStore(
      following: log["book"], initialState: Book(), options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      replica.enter($1, in: &$0)
    }
  }

  /// Writes until the process is killed.
  static func write(to directory: String, run: Int, history: String) async throws {
    var options = FileLog.Options()
    options.segmentBytes = 300_000
    let replica = try RecordedReplica("writers \(run)", history: history)
    let store = try await open(FileLog(directory: directory, options: options), replica)
    await withTaskGroup { tasks in
      for writer in 0..<16 {
        tasks.addTask {
          for number in 1... {
            do {
              try await replica.send(Entry(run: run, writer: writer, number: number), to: store)
              guard number.isMultiple(of: 20) else { continue }
              try await replica.read(by: writer, claiming: .ownWrites) { await store.state }
            } catch {
              return
            }
          }
        }
      }
    }
  }

  static func run(rounds: Int, files: HistoryFiles) async throws {
    let directory = FileManager.default.temporaryDirectory.path + "/log-trials-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let tails = Tails()
    for round in 1...rounds {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
      process.arguments = ["write-file", directory, String(round), files.path("\(round)-writers")]
      process.standardError = FileHandle.nullDevice
      try process.run()
      try await Task.sleep(for: .milliseconds(Int.random(in: 60...400)))
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
      let replica = try RecordedReplica("afterwards \(round)", history: files.path("\(round)-afterwards"))
      let log = try FileLog(directory: directory) { _ in tails.count += 1 }
      // An opened store has all entries that were in the log before.
      try await replica.read(by: 0, claiming: .linearizable) {
        let store = try await open(log, replica)
        let book = await store.state
        await store.shutdown()
        return book
      }
      await log.close()
    }
    let figures = try files.judge().figures
    print(
      """
      SIGKILL \(rounds) times: \(figures.acknowledged) acknowledged, \(figures.missing) missing, \
      \(figures.twice) twice, \(tails.count) torn tails set aside
      """)
  }

  /// Used by one thread at a time.
  private final class Tails: @unchecked Sendable { var count = 0 }
}
