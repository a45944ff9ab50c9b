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

/// The location of the queue.
struct Place: ParsableArguments {
  @Option(help: "The directory of the queue. One worker at a time can open it.") var data = "jobs"
  @Option(help: "Instead of a directory, a cluster that several workers share: nats://a:4222,nats://b:4222.")
  var log: String?

  /// While a worker has the directory open, other processes put their requests here.
  var desk: URL { URL(fileURLWithPath: data).appendingPathComponent("desk", isDirectory: true) }

  /// Opens the queue. The closure closes its log.
  func open(
    _ worker: Worker? = nil, logger: Logger? = nil
  ) async throws -> (Queue, @Sendable () async -> Void) {
    var options = FollowingOptions<JobQueue, JobQueue.Action>(fingerprint: .encoded)
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
        // Without the address, which may have credentials.
        throw ValidationError("This program was built without the trait NATS and cannot use a cluster.")
      #endif
    }
    if worker != nil { options.atStart = .started }
    let files = try await files()
    let queue = try await Queue(
      following: files["jobs"], initialState: JobQueue(), options: options, interceptors: interceptors
    ) { $0.reduce($1) }
    return (queue, { await files.close() })
  }

  private func files() async throws -> FileLog {
    let directory = URL(fileURLWithPath: data).appendingPathComponent("log").path
    do {
      // Another command may have it open for a moment.
      return try await FileLog(directory: directory, waitingFor: .milliseconds(200))
    } catch LogError.inUse {
      throw InUse(
        description: "A worker has \(data), and shows the jobs. Look there, end it first, or pass another --data.")
    }
  }

  struct InUse: Error, CustomStringConvertible { let description: String }

  /// Sends an action to the queue and prints the result. If a worker has the directory open, the request goes through
  /// its desk.
  func request(_ action: JobQueue.Action) async throws {
    do {
      let (queue, log) = try await open()
      print(try await queue.send(action) { $0.answer(to: action) })
      await queue.shutdown()
      await log()
    } catch is InUse {
      try FileManager.default.createDirectory(at: desk, withIntermediateDirectories: true)
      let name = String(
        format: "%020.0f-%016llx.json", Date().timeIntervalSince1970 * 1e6, UInt64.random(in: 0 ... .max))
      let file = desk.appendingPathComponent(name)
      try JSONEncoder().encode(action).write(to: file, options: .atomic)
      for _ in 0..<100 {
        try await Task.sleep(for: .milliseconds(50))
        guard let answer = try? String(contentsOf: file.answer, encoding: .utf8) else { continue }
        print(answer)
        // The action is committed, even if the file cannot be removed.
        try? FileManager.default.removeItem(at: file.answer)
        return
      }
      print("The worker has not answered yet. It, or the next worker, handles the request in \(file.path).")
    }
  }
}

extension URL { var answer: URL { appendingPathExtension("answer") } }

extension JobQueue {
  func answer(to action: Action) -> String {
    let job = jobs.last { job in
      switch action {
      case .submit(let request): job.request.key == request.key
      case .cancel(let id): job.id == id
      default: false
      }
    }
    return job?.line ?? "There is no such job."
  }
}

/// Handles the requests of other processes while this process has the directory open. Each request is a file, removed
/// after its action is committed and answered. If the answer cannot be written, or the file cannot be removed, only
/// these two steps are retried. If the process dies in between, the next worker commits the action again: a `submit`
/// then adds no second job, unless the queue has dropped the first one (`JobQueue.kept`). A request that cannot be
/// decoded, or that the queue rejects, is set aside, so that it does not block the others.
struct Desk: Service {
  /// The requests whose files exist and whose handling has not succeeded, by the file's name.
  struct Pending {
    enum Progress {
      /// The action must not be committed again.
      case committed(answer: String)
      /// The file remains to be removed.
      case answered
    }

    var progress: [String: Progress] = [:]
    /// The requests whose problem is printed.
    var reported: Set<String> = []

    mutating func forget(allBut names: [String]) {
      if progress.isEmpty, reported.isEmpty { return }
      let names = Set(names)
      progress = progress.filter { names.contains($0.key) }
      reported.formIntersection(names)
    }
  }

  let place: Place
  let queue: Queue
  var report: @Sendable (_ line: String) -> Void = { line in
    try? FileHandle.standardError.write(contentsOf: Data("\(line)\n".utf8))
  }

  /// In seconds. No process waits for its answer that long.
  static let answerAge = 60.0

  func run() async throws {
    if place.log != nil { return try await gracefulShutdown() }
    removeOldAnswers()
    try await cancelWhenGracefulShutdown {
      var pending = Pending()
      while !Task.isCancelled {
        try await takeAll(&pending)
        try? await Task.sleep(for: .milliseconds(200))
      }
    }
  }

  /// Removes the answers that came too late for the processes that asked.
  func removeOldAnswers() {
    let files = try? FileManager.default.contentsOfDirectory(
      at: place.desk, includingPropertiesForKeys: [.contentModificationDateKey])
    for file in files ?? [] where file.pathExtension == "answer" {
      let date = try? file.resourceValues(forKeys: [.contentModificationDateKey]).contentModificationDate
      if let date, date.timeIntervalSinceNow < -Self.answerAge { try? FileManager.default.removeItem(at: file) }
    }
  }

  func takeAll(_ pending: inout Pending) async throws {
    // An error says nothing about the files: the directory may not exist yet.
    guard let names = try? FileManager.default.contentsOfDirectory(atPath: place.desk.path) else { return }
    pending.forget(allBut: names)
    for name in names.sorted() where name.hasSuffix(".json") {
      try await take(place.desk.appendingPathComponent(name), &pending)
    }
  }

  func take(_ file: URL, _ pending: inout Pending) async throws {
    let name = file.lastPathComponent
    if pending.progress[name] == nil {
      guard let answer = try await commit(file, &pending) else { return }
      pending.progress[name] = .committed(answer: answer)
      pending.reported.remove(name)
    }
    do {
      if case .committed(let answer)? = pending.progress[name] {
        try Data(answer.utf8).write(to: file.answer, options: .atomic)
        pending.progress[name] = .answered
      }
      do {
        try FileManager.default.removeItem(at: file)
      } catch let error as CocoaError where error.code == .fileNoSuchFile {
        // Somebody has removed the request meanwhile.
      }
      pending.progress[name] = nil
      pending.reported.remove(name)
    } catch {
      guard pending.reported.insert(name).inserted else { return }
      report("The request in \(file.path) is committed, but cannot be answered or removed: \(error).")
    }
  }

  /// Returns the answer; nil if the action is not committed, or if its commit is uncertain.
  private func commit(_ file: URL, _ pending: inout Pending) async throws -> String? {
    let bytes: Data
    do {
      bytes = try Data(contentsOf: file)
    } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
      // Somebody may have withdrawn the request.
      return nil
    } catch {
      if pending.reported.insert(file.lastPathComponent).inserted {
        report("The request in \(file.path) cannot be read: \(error).")
      }
      return nil
    }
    let action: JobQueue.Action
    do {
      action = try JSONDecoder().decode(JobQueue.Action.self, from: bytes)
    } catch {
      setAside(file, because: error)
      return nil
    }
    do {
      let answer = try await queue.send(action) { $0.answer(to: action) }
      return answer
    } catch StoreError.stopped(let reason) {
      throw StoreError.stopped(reason)
    } catch StoreError.rejected(let reason) {
      setAside(file, because: StoreError.rejected(reason: reason))
      return nil
    } catch {
      // The request stays for the next round, or for the next worker: the action may be committed, now or later.
      return nil
    }
  }

  private func setAside(_ file: URL, because error: any Error) {
    let kept = file.appendingPathExtension("refused")
    guard (try? FileManager.default.moveItem(at: file, to: kept)) != nil else { return }
    report("\(error). The request is in \(kept.path).")
  }
}
