import Foundation
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@Suite struct OrderedLogTests {
  @Test("the log in memory keeps the contract of logs", .timeLimit(.minutes(15)))
  func memory() async throws {
    let logs = Logs()
    try await checkOrderedLog(within: .seconds(800)) { await logs[$0] }
  }

  @Test("the log in files keeps the contract of logs", .timeLimit(.minutes(15)), arguments: [200, 8 << 20])
  func files(segmentBytes: Int) async throws {
    let directory = try TemporaryDirectory()
    var options = FileLog.Options()
    options.segmentBytes = segmentBytes
    let log = try FileLog(directory: directory.path, options: options)
    try await checkOrderedLog(within: .seconds(800)) { log[$0] }
  }

  actor Logs {
    private var logs: [String: MemoryLog] = [:]

    subscript(key: String) -> MemoryLog {
      if let log = logs[key] { return log }
      let log = MemoryLog()
      logs[key] = log
      return log
    }
  }
}
