import Foundation
import Puredux
import PureduxLog

/// A process with 16 writers on one log is ended by SIGKILL in the middle of it, fifty times; each time all that was
/// acknowledged has to be there, once, and each writer's in its order.
enum CrashFile {
  struct Entry: Codable, Sendable, Hashable {
    let run: Int
    let writer: Int
    let number: Int
  }

  struct Book: Codable, Sendable {
    /// The last number of each writer of each run.
    var last: [Int: Int] = [:]
    var count = 0
    /// Those that did not come right behind the one before.
    var wrong: [Entry] = []

    mutating func enter(_ entry: Entry) {
      let key = entry.run * 100 + entry.writer
      if entry.number != last[key, default: 0] + 1 { wrong.append(entry) }
      last[key] = entry.number
      count += 1
    }
  }

  static func open(_ log: FileLog) async throws -> RootStore<Book, Entry> {
    var options = LogOptions()
    options.snapshotBytes = 200_000
    options.truncatesBehindSnapshots = true
    return try await RootStore(following: log["book"], initialState: Book(), options: FollowingOptions(log: options)) {
      $0.enter($1)
    }
  }

  /// Writes until it is ended, and tells each entry that was acknowledged on its standard output.
  static func write(to directory: String) async throws {
    var options = FileLog.Options()
    options.segmentBytes = 300_000
    let store = try await open(FileLog(directory: directory, options: options))
    let run = Int.random(in: 0..<1_000_000)
    await withTaskGroup { tasks in
      for writer in 0..<16 {
        tasks.addTask {
          for number in 1... {
            guard (try? await store.send(Entry(run: run, writer: writer, number: number))) != nil else { return }
            FileHandle.standardOutput.write(Data("\(run) \(writer) \(number)\n".utf8))
          }
        }
      }
    }
  }

  static func run(rounds: Int) async throws {
    let directory = FileManager.default.temporaryDirectory.path + "/log-trials-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    var acknowledged: [Int: Int] = [:]
    var (total, torn) = (0, 0)
    for round in 1...rounds {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
      process.arguments = ["write-file", directory]
      let pipe = Pipe()
      process.standardOutput = pipe
      process.standardError = FileHandle.nullDevice
      try process.run()
      let ending = Task {
        try await Task.sleep(for: .milliseconds(Int.random(in: 60...400)))
        kill(process.processIdentifier, SIGKILL)
      }
      // Until the process is gone.
      let told = try pipe.fileHandleForReading.readToEnd() ?? Data()
      process.waitUntilExit()
      try await ending.value
      for line in String(decoding: told, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: true) {
        let numbers = line.split(separator: " ").compactMap { Int($0) }
        // A line that was being written when the process died is none.
        guard numbers.count == 3 else { continue }
        let key = numbers[0] * 100 + numbers[1]
        acknowledged[key] = max(acknowledged[key, default: 0], numbers[2])
        total += 1
      }
      let tails = Tails()
      let log = try FileLog(directory: directory) { _ in tails.count += 1 }
      let store = try await open(log)
      let book = await store.state
      let missing = acknowledged.filter { book.last[$0.key, default: 0] < $0.value }
      torn += tails.count
      guard missing.isEmpty, book.wrong.isEmpty else {
        print("round \(round): missing \(missing), wrong \(book.wrong)")
        exit(1)
      }
      await store.shutdown()
      await log.close()
    }
    print("SIGKILL \(rounds) times: \(total) acknowledged, 0 missing, 0 twice, \(torn) torn tails set aside")
  }

  /// Used by one thread at a time.
  private final class Tails: @unchecked Sendable { var count = 0 }
}
