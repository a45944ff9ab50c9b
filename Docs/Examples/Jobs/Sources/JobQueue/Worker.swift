public import Puredux

/// Runs jobs. All work consists of effects of the queue's state, so it follows from the log, in every process and after
/// every crash.
public struct Worker: Sendable {
  public typealias Perform = @Sendable (Attempt, _ progress: @escaping @Sendable (Int) -> Void) async throws -> Void

  /// The interval of heartbeats while a worker runs jobs. A worker without a heartbeat for `patience` counts as lost.
  static let beat = Duration.seconds(5)
  static let patience = Duration.seconds(20)

  public let id: UInt64
  let slots: Int
  let perform: Perform

  public init(id: UInt64 = .random(in: 1 ... .max), slots: Int = 1, perform: @escaping Perform) {
    self.id = id
    self.slots = slots
    self.perform = perform
  }

  public var interceptor: Interceptor<JobQueue, JobQueue.Action> {
    .effects(
      ofState:
        .onChange(of: { $0.next(for: self) }) { next in
          next.map { job in .run { try await $0.commit(.claim(job.id, attempt: job.attempt + 1, by: id)) } }
        },
      // Queues a job at its start time. Every worker does this; the first commit counts.
      .onChange(of: \.soonest) { job in
        guard let job, let time = job.time else { return nil }
        return .run { dispatch in
          try await dispatch.sleep(until: time)
          try await dispatch.commit(.due(job.id))
        }
      },
      // Runs the attempts that this worker has claimed. An attempt that leaves the state is cancelled.
      .forEach({ $0.attempts(of: id) }) { attempt in
        .run { dispatch in
          var failure: String?
          do {
            try await perform(attempt) { dispatch(.progress(attempt.id, attempt: attempt.number, percent: $0)) }
          } catch {
            failure = "\(error)"
          }
          try await dispatch.commit(.ended(attempt.id, attempt: attempt.number, error: failure))
        }
      },
      // The time limit. The commit of this action cancels the attempt.
      .forEach({ $0.attempts(of: id) }) { attempt in
        .run { dispatch in
          let failure = "It took longer than \(attempt.limit) s."
          try await dispatch.commit(.ended(attempt.id, attempt: attempt.number, error: failure))
        }.after(.seconds(attempt.limit))
      },
      // Retries. Every worker does this; the first commit counts.
      .forEach(\.resting) { attempt in
        .run { try await $0.commit(.retry(attempt.id, attempt: attempt.number)) }
          .after(.seconds(min(300, 1 << min(attempt.number - 1, 9))))
      },
      .while({ !$0.attempts(of: id).isEmpty }) {
        .run { dispatch in
          while true {
            try await dispatch.sleep(for: Self.beat)
            dispatch(.alive(id))
          }
        }
      },
      // Each heartbeat restarts the wait.
      .forEach({ $0.beats(ofOthersThan: id) }) { attempt, beats in
        .run { try await $0.commit(.lost(attempt.id, attempt: attempt.number, beats: beats)) }.after(Self.patience)
      })
  }
}

extension Dispatch<JobQueue.Action> {
  /// Repeats the action until its commit is certain. A second commit changes nothing: the reducer compares attempt
  /// numbers, and a job becomes due once. `dispatch` would lose the action if the buffer for the log is full, or if the
  /// log is sealed before it.
  fileprivate func commit(_ action: JobQueue.Action) async throws {
    while true {
      do {
        return try await send(action)
      } catch StoreError.outcomeUnknown, StoreError.withdrawn {
        try await sleep(for: .seconds(1))
      }
    }
  }
}

extension JobQueue {
  /// The first queued job, if the worker has a free slot.
  func next(for worker: Worker) -> Job? {
    attempts(of: worker.id).count < worker.slots ? jobs.first { $0.phase == .waiting(nil) } : nil
  }

  /// The job with the earliest start time.
  var soonest: Job? {
    jobs.filter { $0.time != nil }.min { $0.time! < $1.time! }
  }

  func attempts(of worker: UInt64) -> [Attempt] {
    jobs.filter { $0.phase == .running(by: worker) }.map(\.current)
  }

  /// The attempts of other workers, with the heartbeat count of each worker.
  func beats(ofOthersThan worker: UInt64) -> [Attempt: Int] {
    var result: [Attempt: Int] = [:]
    for job in jobs {
      if case .running(let other) = job.phase, other != worker { result[job.current] = beats[other] }
    }
    return result
  }

  var resting: [Attempt] {
    jobs.filter { if case .resting = $0.phase { true } else { false } }.map(\.current)
  }
}

extension Job {
  /// The start time that the job waits for.
  var time: WallTime? { if case .waiting(let time) = phase { time } else { nil } }

  var current: Attempt { Attempt(id: id, number: attempt, command: request.command, limit: request.limit) }
}
