import Foundation
import Histories
import Puredux

/// The work of a replica's process, and its reports on standard output.
enum ReplicaWork {
  /// Writes until it is told to stop, and reports acknowledgements. Then waits for the trial's last entry.
  static func write(_ run: Int, _ replica: RecordedReplica, to store: RootStore<Book, Entry>) async throws {
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
    // All replicas have stopped before the last entry: its state has everything acknowledged.
    try await replica.read(by: 0, claiming: .linearizable) {
      for await book in store.states() where book.hasEnded { return book }
      throw StoreError.terminated
    }
    tell("over")
  }

  private final class Flag: @unchecked Sendable {
    private let lock = NSLock()
    private var value = false
    var isRaised: Bool { lock.withLock { value } }
    func raise() { lock.withLock { value = true } }
  }
}

/// A replica's process and its reports.
final class ReplicaProcess: @unchecked Sendable {
  let process: Process
  private let input = Pipe()
  private let lock = NSCondition()
  private var total = 0
  private var lines: [String] = []
  private var isOver = false
  private var lastTime = ContinuousClock.now
  private var longest = Duration.zero

  /// - Parameters:
  ///   - process: The process to run.
  ///   - showsErrors: Whether the replica's errors are printed at once.
  init(_ process: Process, showsErrors: Bool = true) throws {
    self.process = process
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
          self.take(String(decoding: rest[rest.startIndex..<end], as: UTF8.self), showsErrors)
          rest = Data(rest[(end + 1)...])
        }
      }
      self.lock.withLock {
        self.isOver = true
        self.lock.broadcast()
      }
    }
  }

  private func take(_ line: String, _ showsErrors: Bool) {
    lock.withLock {
      if line == "acknowledged" {
        let now = ContinuousClock.now
        if total > 0 { longest = max(longest, lastTime.duration(to: now)) }
        lastTime = now
        total += 1
      } else {
        if showsErrors, line.hasPrefix("error") { tell(line) }
        lines.append(line)
        lock.broadcast()
      }
    }
  }

  /// The number of acknowledgements, and the longest time without one.
  var told: (total: Int, longest: Duration) { lock.withLock { (total, longest) } }

  var hasEnded: Bool { lock.withLock { isOver } }

  var said: [String] { lock.withLock { lines } }

  func say(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

  /// The lines up to one with a prefix. Nil if that does not arrive.
  func lines(until last: String) -> [String]? {
    lock.withLock {
      let deadline = Date(timeIntervalSinceNow: 120)
      func isThere() -> Bool { lines.contains { $0.hasPrefix(last) } }
      while !isThere(), !isOver, lock.wait(until: deadline) {}
      return isThere() ? lines : nil
    }
  }

  func kill() {
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}
