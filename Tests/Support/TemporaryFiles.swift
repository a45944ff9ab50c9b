import Foundation
import PureduxLog

/// A directory that is deleted when this object is released.
package final class TemporaryDirectory: Sendable {
  package let path: String

  package init() throws {
    path = FileManager.default.temporaryDirectory.path + "/puredux-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// A log in files that are deleted with this object or at the process's exit: some tests end before their stores do.
package final class TemporaryLog: OrderedLog {
  private static let folder: String = {
    atexit { try? FileManager.default.removeItem(atPath: TemporaryLog.folder) }
    return FileManager.default.temporaryDirectory.path + "/puredux-\(UUID().uuidString)"
  }()

  private let directory: String
  private let log: any OrderedLog

  package init() {
    directory = Self.folder + "/\(UUID().uuidString)"
    // The tests must fail if this does.
    log = try! FileLog(directory: directory)["tree"]
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  package func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry, outcome: outcome)
  }

  package func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    log.records(after: position)
  }
  package func head() async throws(LogError) -> UInt64 { try await log.head() }
  package func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}

extension LogOptions {
  /// Retries almost at once, and prints nothing.
  package static var quick: LogOptions {
    var options = LogOptions()
    options.reporting = { _ in }
    options.retryInterval = .milliseconds(5)
    options.patience = .milliseconds(50)
    options.endingLimit = .seconds(600)
    return options
  }
}
