public import Puredux

/// A job: a command and its progress.
public struct Job: Codable, Sendable, Equatable, Identifiable {
  public enum Phase: Codable, Sendable, Equatable {
    /// Waits for a worker; with a time, not before that time.
    case waiting(WallTime?)
    case running(by: UInt64)
    /// Failed; retried after a pause.
    case resting(error: String)
    case done
    case failed(error: String)
    case cancelled
  }

  public let id: Int
  public let request: Request
  public var phase: Phase
  public var attempt = 0
  /// In percent.
  public var progress = 0

  public var isOver: Bool {
    switch phase {
    case .done, .failed, .cancelled: true
    case .waiting, .running, .resting: false
    }
  }
}

/// A request to run a command.
public struct Request: Codable, Sendable, Equatable {
  /// Makes the request idempotent: a second request with the same key adds no job.
  public var key: String
  public var command: String
  public var time: WallTime?
  public var attempts: Int
  /// In seconds, for each attempt.
  public var limit: Int

  public init(key: String, command: String, time: WallTime? = nil, attempts: Int = 3, limit: Int = 3600) {
    self.key = key
    self.command = command
    self.time = time
    self.attempts = attempts
    self.limit = limit
  }
}

/// One attempt at a job by a worker.
public struct Attempt: Codable, Sendable, Hashable, Identifiable {
  public let id: Int
  public let number: Int
  public let command: String
  public let limit: Int
}

/// The jobs, in order of submission.
public struct JobQueue: Codable, Sendable, Equatable {
  public private(set) var jobs: [Job] = []
  /// The number of heartbeats of each worker.
  public private(set) var beats: [UInt64: Int] = [:]

  /// Above this number of workers, the heartbeats of idle ones are dropped.
  static let keptBeats = 100

  /// Above this number of jobs, the oldest finished job is dropped.
  static let kept = 1_000

  static let lost = "The worker is gone."

  public enum Action: Codable, Sendable {
    case submit(Request)
    case cancel(Int)
    /// The job's start time has come.
    case due(Int)
    /// A worker takes the job and begins this attempt.
    case claim(Int, attempt: Int, by: UInt64)
    case progress(Int, attempt: Int, percent: Int)
    case ended(Int, attempt: Int, error: String?)
    case retry(Int, attempt: Int)
    case alive(UInt64)
    /// The worker of this attempt has sent no heartbeat for a while.
    case lost(Int, attempt: Int, beats: Int)
    /// Sent at the start of the only process: no job is running.
    case started
  }

  public init() {}

  public mutating func reduce(_ action: Action) {
    switch action {
    case .submit(let request):
      if jobs.contains(where: { $0.request.key == request.key }) { return }
      jobs.append(Job(id: (jobs.last?.id ?? 0) + 1, request: request, phase: .waiting(request.time)))
      if jobs.count > Self.kept, let first = jobs.firstIndex(where: \.isOver) { jobs.remove(at: first) }
    case .cancel(let id): change(id) { $0.phase = .cancelled }
    case .due(let id): change(id) { if $0.time != nil { $0.phase = .waiting(nil) } }
    case .claim(let id, let attempt, let worker):
      // The first claim in the log wins.
      guard let job = jobs.first(where: { $0.id == id }), case .waiting = job.phase, job.attempt + 1 == attempt else {
        return
      }
      change(id) { job in
        job.phase = .running(by: worker)
        job.attempt = attempt
        job.progress = 0
      }
      beats[worker, default: 0] += 1
      if beats.count > Self.keptBeats { beats = beats.filter { !attempts(of: $0.key).isEmpty } }
    case .progress(let id, let attempt, let percent):
      change(id, attempt) { $0.progress = min(max(percent, 0), 100) }
    case .ended(let id, let attempt, nil):
      change(id, attempt) { job in
        job.phase = .done
        job.progress = 100
      }
    case .ended(let id, let attempt, let error?): change(id, attempt) { $0.fail(error) }
    case .retry(let id, let attempt):
      change(id) { job in
        if case .resting = job.phase, job.attempt == attempt { job.phase = .waiting(nil) }
      }
    case .alive(let worker): beats[worker, default: 0] += 1
    case .lost(let id, let attempt, let seen):
      let job = jobs.first { $0.id == id }
      guard case .running(let worker)? = job?.phase, beats[worker] == seen else { return }
      change(id, attempt) { $0.fail(Self.lost) }
    case .started:
      for index in jobs.indices { if case .running = jobs[index].phase { jobs[index].fail(Self.lost) } }
      beats = [:]
    }
  }

  private mutating func change(_ id: Int, _ attempt: Int? = nil, _ change: (inout Job) -> Void) {
    guard let index = jobs.firstIndex(where: { $0.id == id }), !jobs[index].isOver else { return }
    // Ignores reports of attempts that have ended or were taken over.
    if let attempt {
      guard case .running = jobs[index].phase, jobs[index].attempt == attempt else { return }
    }
    change(&jobs[index])
  }
}

extension Job {
  mutating func fail(_ error: String) {
    phase = attempt < request.attempts ? .resting(error: error) : .failed(error: error)
  }
}
