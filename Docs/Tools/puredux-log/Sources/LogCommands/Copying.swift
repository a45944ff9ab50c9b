import ArgumentParser
import Foundation
import PureduxLog

/// The logs that are copied.
struct Selection: ParsableArguments {
  @Option(parsing: .unconditional, help: "Only keys that begin with this text.")
  var prefix = ""

  @Option(parsing: .unconditional, help: "Only the log under this key.")
  var key: String?

  func validate() throws {
    if key != nil, !prefix.isEmpty { throw ValidationError("Either --key or --prefix.") }
  }

  func copy(_ logs: any LogDirectory, to target: any LogDirectory, reason: String) async throws {
    let console = Console.current
    if let key {
      try await exists(key, in: logs)
      try report(try await logs[key].copy(to: target[key], reason: reason, progress: progress(on: console)))
    } else {
      try report(try await logs.copy(to: target, prefix: prefix, reason: reason, progress: progress(on: console)))
    }
  }

  func exists(_ key: String, in logs: any LogDirectory) async throws {
    guard try await logs[key].head() > 0 else { throw Failure.refused("There is no log under the key \(column(key)).") }
  }

  func report(_ report: LogCopyReport) throws {
    if Console.current.showsProgress { Console.current.progress("") }
    Console.current.report("Logs: \(report.logs), entries: \(report.entries), added: \(report.added).")
    for failure in report.failures { Console.current.report(visible(failure.description)) }
    guard !report.failures.isEmpty else { return }
    // A failure without a key stands for all logs whose keys cannot be read.
    let count = (report.failures.contains { $0.key == nil } ? "at least " : "") + "\(report.failures.count)"
    throw Failure.wrong("Logs that were left out: \(count).")
  }
}

struct Export: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Copies logs to a file.")
  @OptionGroup var source: Source

  @Argument(help: "The file. An existing file is replaced when the new file is complete.")
  var file: String

  @OptionGroup var selection: Selection

  func run() async throws {
    try await source.log.withLogs(stream: source.stream) { logs in
      let console = Console.current
      if let key = selection.key {
        try await selection.exists(key, in: logs)
        try selection.report(try await logs[key].export(to: file, progress: progress(on: console)))
      } else {
        try selection.report(
          try await logs.export(to: file, prefix: selection.prefix, progress: progress(on: console)))
      }
    }
  }
}

struct Import: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies the logs of a file made by `export`.",
    discussion: """
      An interrupted import continues when it is called again. A log of the target that has other entries is refused.
      """)
  @Argument(help: "The file.")
  var file: String

  @Argument(help: "The directory, the cluster, or the database. A missing directory is made.")
  var log: Place

  @Option(
    name: [.long, .customLong("schema")],
    help: "On a cluster, the stream; in a database, the schema. It is made if it is missing.")
  var stream: String?

  @Option(help: "The number of servers for a new stream of a cluster: 1 to 5.")
  var replicas = 3

  @OptionGroup var selection: Selection

  @Option(parsing: .unconditional, help: "The reason, in the entry that begins the copy's epoch.")
  var reason = "imported"

  func run() async throws {
    var isDirectory: ObjCBool = false
    guard FileManager.default.fileExists(atPath: file, isDirectory: &isDirectory), !isDirectory.boolValue else {
      throw Failure.refused("There is no file at \(file).")
    }
    let archive = try await LogArchive(path: file)
    try await log.withLogs(stream: stream, .new(replicas: replicas)) { target in
      try await selection.copy(archive, to: target, reason: reason)
    }
  }
}

struct Copy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies logs to another place.",
    discussion: """
      An interrupted copy continues when it is called again. If the source has grown, its new entries are added. A \
      log of the target that is not a copy is refused and not changed. No store may follow the target meanwhile.
      """)
  @OptionGroup var source: Source

  @Argument(help: "The directory, the cluster, or the database to copy to. A missing directory is made.")
  var target: Place

  @Option(
    name: [.long, .customLong("target-schema")],
    help: "On a cluster, the stream to copy to; in a database, the schema. It is made if it is missing.")
  var targetStream: String?

  @Option(help: "The number of servers for a new stream of a cluster: 1 to 5.")
  var replicas = 3

  @OptionGroup var selection: Selection

  @Option(parsing: .unconditional, help: "The reason, in the entry that begins the copy's epoch.")
  var reason = "copied"

  func validate() throws {
    if target.isSame(as: source.log), (targetStream ?? Place.stream) == (source.stream ?? Place.stream) {
      throw ValidationError("\(target.text) is the source: choose another target.")
    }
  }

  func run() async throws {
    try await source.log.withLogs(stream: source.stream) { logs in
      try await target.withLogs(stream: targetStream, .new(replicas: replicas)) { target in
        try await selection.copy(logs, to: target, reason: reason)
      }
    }
  }
}
