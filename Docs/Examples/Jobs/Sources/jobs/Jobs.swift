import ArgumentParser
import Foundation
import JobQueue
import Logging
import Puredux
import PureduxLog
import PureduxLogging
import PureduxServices
import ServiceLifecycle
import Subprocess

@main struct Jobs: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "A durable job queue.",
    discussion: "If standard output is full or closed, a command ends with exit code 1.",
    subcommands: [Work.self, Submit.self, Cancel.self, List.self])

  static func main() async {
    Output.prepare()
    await main(nil)
  }
}

struct Work: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs jobs until it gets SIGTERM or SIGINT.",
    discussion: "A job is a shell command. A line of output such as `40%` sets its progress.")
  @OptionGroup var place: Place
  @Option(help: "The number of jobs that run at the same time.") var slots = 1

  func validate() throws {
    if slots < 1 { throw ValidationError("A worker needs at least one slot.") }
  }

  func run() async throws {
    var logger = Logger(label: "jobs", factory: { StreamLogHandler.standardError(label: $0) })
    logger.logLevel = .warning
    let worker = Worker(slots: slots) { attempt, progress in try await Shell.run(attempt, progress) }
    let (queue, log) = try await place.open(worker, logger: logger)
    let store = StoreService(queue)
    try await ServiceGroup(
      services: [
        Display(states: queue.states(bufferingPolicy: .bufferingNewest(1))), Desk(place: place, queue: queue), store,
        LogService(after: store) { await log() },
      ], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger
    ).run()
  }
}

struct Submit: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Submits a shell command.")
  @OptionGroup var place: Place
  @Argument(help: "The command.") var command: String
  @Option(help: "The delay before the job may begin, in seconds.") var `in`: Int?
  @Option(help: "The time at which the job may begin, in seconds since 1970.") var at: Int?
  @Option(help: "The maximum number of attempts.") var attempts = 3
  @Option(help: "The time limit of an attempt, in seconds.") var limit = 3600
  @Option(help: "Makes the request idempotent: a second request with the same key adds no job.") var key: String?

  func run() async throws {
    let time = at.map { WallTime(since1970: .seconds($0)) } ?? `in`.map { WallTime.now + .seconds($0) }
    try await place.request(
      .submit(
        Request(
          key: key ?? "\(UInt64.random(in: 1 ... .max))", command: command, time: time, attempts: attempts,
          limit: limit)))
  }
}

struct Cancel: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Cancels a job.")
  @OptionGroup var place: Place
  @Argument(help: "The number of the job.") var job: Int

  func run() async throws { try await place.request(.cancel(job)) }
}

struct List: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Lists the jobs. Refused while a worker has the directory open: the worker shows them.")
  @OptionGroup var place: Place

  func run() async throws {
    let (queue, log) = try await place.open()
    for job in await queue.state.jobs { print(job.line) }
    await queue.shutdown()
    await log()
  }
}

enum Shell {
  struct Failure: Error, CustomStringConvertible { let description: String }

  /// Runs a command in a process group of its own. When the task is cancelled, the whole group is killed.
  static func run(_ attempt: Attempt, _ progress: @escaping @Sendable (Int) -> Void) async throws {
    var options = PlatformOptions()
    options.processGroupID = 0
    options.teardownSequence = [
      .send(signal: .kill, toProcessGroup: true, allowedDurationToNextStep: .zero)
    ]
    let result = try await Subprocess.run(
      .path("/bin/sh"), arguments: ["-c", attempt.command], platformOptions: options, input: .none, output: .sequence,
      error: .combinedWithOutput
    ) { execution in
      // The output may be of any length: only the beginning of each line and the last line are kept.
      var (line, last) = (Data(), "")
      for try await part in execution.standardOutput {
        for byte in Data(buffer: part) {
          if byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") {
            end(&line, &last, progress)
          } else if line.count < 1_000 {
            line.append(byte)
          }
        }
      }
      end(&line, &last, progress)
      return last
    }
    guard result.terminationStatus.isSuccess else {
      throw Failure(description: "\(result.terminationStatus): \(result.closureResult)")
    }
  }

  private static func end(_ line: inout Data, _ last: inout String, _ progress: (Int) -> Void) {
    let text = String(decoding: line, as: UTF8.self).trimmingPrefix(while: \.isWhitespace)
    if let end = text.firstIndex(of: "%"), let percent = Int(text[..<end]) { progress(percent) }
    if !text.isEmpty { last = String(text) }
    line = Data()
  }
}
