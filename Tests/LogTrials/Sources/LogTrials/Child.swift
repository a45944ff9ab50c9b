import Foundation

/// A child process that runs this program, and its output: lines by their first word, acknowledgements only by their
/// number.
final class Child: @unchecked Sendable {
  private let process = Process()
  private let input = Pipe()
  private let lock = NSCondition()
  private var told: [String] = []
  private var total = 0
  private var isOver = false

  init(_ arguments: [String], environment: [String: String] = [:]) throws {
    let pipe = Pipe()
    process.executableURL = URL(fileURLWithPath: Bundle.main.executablePath ?? CommandLine.arguments[0])
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = input
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    Thread.detachNewThread { [self] in
      var rest = Data()
      while true {
        let data = pipe.fileHandleForReading.availableData
        if data.isEmpty { break }
        rest += data
        while let end = rest.firstIndex(of: 10) {
          take(String(decoding: rest[rest.startIndex..<end], as: UTF8.self))
          rest = Data(rest[(end + 1)...])
        }
      }
      lock.withLock {
        isOver = true
        lock.broadcast()
      }
    }
  }

  deinit { if process.isRunning { kill() } }

  private func take(_ line: String) {
    lock.withLock {
      if line.hasPrefix("acknowledged") { total += 1 } else { told.append(line) }
      lock.broadcast()
    }
  }

  var acknowledged: Int { lock.withLock { total } }

  var lines: [String] { lock.withLock { told } }

  func lines(_ word: String) -> [String] {
    lines.filter { $0.hasPrefix(word + " ") || $0 == word }.map { String($0.dropFirst(word.count + 1)) }
  }

  /// Waits for a line with a prefix. Returns false at the time limit or the end of the process.
  func waits(for beginning: String, within seconds: Double = 60) -> Bool {
    lock.withLock {
      let deadline = Date(timeIntervalSinceNow: seconds)
      while !told.contains(where: { $0.hasPrefix(beginning) }), !isOver, lock.wait(until: deadline) {}
      return told.contains { $0.hasPrefix(beginning) }
    }
  }

  func waits(forAcknowledged count: Int, within seconds: Double = 60) -> Bool {
    lock.withLock {
      let (deadline, goal) = (Date(timeIntervalSinceNow: seconds), total + count)
      while total < goal, !isOver, lock.wait(until: deadline) {}
      return total >= goal
    }
  }

  func say(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

  func pause() { Foundation.kill(process.processIdentifier, SIGSTOP) }
  func proceed() { Foundation.kill(process.processIdentifier, SIGCONT) }

  func kill() {
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}

/// Writes a line to the parent process, unbuffered. If the output fails, the process exits with code 3.
func tell(_ line: String) {
  do {
    try FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
  } catch {
    try? FileHandle.standardError.write(contentsOf: Data("Standard output takes nothing.\n".utf8))
    _exit(3)
  }
}

func succeeds(_ command: [String]) -> Bool {
  let process = Process()
  process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  process.arguments = command
  process.standardOutput = FileHandle.nullDevice
  process.standardError = FileHandle.nullDevice
  guard (try? process.run()) != nil else { return false }
  process.waitUntilExit()
  return process.terminationStatus == 0
}
