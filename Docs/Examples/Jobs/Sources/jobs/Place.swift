import ArgumentParser
import Foundation
import JobQueue
import Logging
import Puredux
import PureduxLog
import PureduxLogging
import ServiceLifecycle

#if NATS
  import PureduxNATS
#endif

typealias Queue = RootStore<JobQueue, JobQueue.Action>

/// Where the queue is kept.
struct Place: ParsableArguments {
  @Option(help: "The directory that keeps the queue, of one worker at a time.") var data = "jobs"
  @Option(help: "Instead of a directory, a cluster that several workers share: nats://a:4222,nats://b:4222.")
  var log: String?

  var desk: URL { URL(fileURLWithPath: data).appendingPathComponent("desk", isDirectory: true) }

  /// Opens the queue. The closure closes its log.
  func open(
    _ worker: Worker? = nil, logger: Logger? = nil
  ) async throws -> (Queue, @Sendable () async -> Void) {
    var options = FollowingOptions<JobQueue, JobQueue.Action>()
    if let logger {
      options.store.log(to: logger)
      options.log.log(to: logger)
    }
    let interceptors = worker.map(\.interceptor) ?? Interceptor(combining: [])
    if let log {
      #if NATS
        let nats = try await NATSLog(servers: log.split(separator: ",").map(String.init))
        let queue = try await Queue(
          following: nats["jobs"], initialState: JobQueue(), options: options, interceptors: interceptors
        ) { $0.reduce($1) }
        return (queue, { await nats.close() })
      #else
        throw ValidationError("\(log): this was built without its trait NATS.")
      #endif
    }
    if worker != nil { options.atStart = .started }
    let files = try FileLog(directory: URL(fileURLWithPath: data).appendingPathComponent("log").path)
    let queue = try await Queue(
      following: files["jobs"], initialState: JobQueue(), options: options, interceptors: interceptors
    ) { $0.reduce($1) }
    return (queue, { await files.close() })
  }

  /// Gives the queue an action; where a worker has the directory, by way of its desk.
  func request(_ action: JobQueue.Action) async throws {
    do {
      let (queue, log) = try await open()
      try await queue.send(action)
      await queue.shutdown()
      await log()
    } catch LogError.inUse {
      try FileManager.default.createDirectory(at: desk, withIntermediateDirectories: true)
      let name = String(
        format: "%020.0f-%016llx.json", Date().timeIntervalSince1970 * 1e6, UInt64.random(in: 0 ... .max))
      try JSONEncoder().encode(action).write(to: desk.appendingPathComponent(name), options: .atomic)
    }
  }
}

/// Takes what other processes ask for while this one has the directory: a file each, removed when it is committed. One
/// that is taken twice, as the process died in between, changes nothing.
struct Desk: Service {
  let place: Place
  let queue: Queue

  func run() async throws {
    if place.log != nil { return try await gracefulShutdown() }
    try? await cancelWhenGracefulShutdown {
      while true {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: place.desk.path)) ?? []
        for name in names.sorted() where name.hasSuffix(".json") {
          let file = place.desk.appendingPathComponent(name)
          if let action = try? JSONDecoder().decode(JobQueue.Action.self, from: Data(contentsOf: file)) {
            try await queue.send(action)
          }
          try FileManager.default.removeItem(at: file)
        }
        try await Task.sleep(for: .milliseconds(200))
      }
    }
  }
}
