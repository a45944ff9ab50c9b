#if Simulation
  import Puredux
  import PureduxLog
  import PureduxSimulation
  import Testing

  @testable import JobQueue

  /// Two workers on two machines that crash, pause and lose their connection to the log, and clients that submit jobs.
  @Suite(.timeLimit(.minutes(10))) struct JobSimulation {
    /// The attempts that a worker has begun.
    ///
    /// SAFETY: used only by jobs of one simulation, which run on one thread.
    private final class Begun: @unchecked Sendable { var attempts: Set<Attempt> = [] }

    private typealias Queue = RootStore<JobQueue, JobQueue.Action>

    private static func queue(on log: any OrderedLog, _ worker: Worker? = nil) async throws -> Queue {
      try await RootStore(
        following: log, initialState: JobQueue(), options: FollowingOptions(fingerprint: .encoded),
        interceptors: worker.map(\.interceptor) ?? Interceptor(combining: [])
      ) { $0.reduce($1) }
    }

    @Test func `every job is done, whatever happens to the workers`() async throws {
      let report = try await Simulation(seeds: 1...200) { world in
        world.sometimes("a machine crashes during a request", false)
        let log = world.log(.unreliable)
        let begun = Begun()
        let faults: [SimulatedProcess.Fault] = [
          .crashing(every: .seconds(60)), .pausing(every: .seconds(60), for: .seconds(30)),
          .disconnecting(every: .seconds(60), for: .seconds(8)), .clockJumping(every: .seconds(60), by: .seconds(5)),
        ]
        let machines = (1...2).map { number in
          world.process("machine \(number)", faults) { machine in
            let worker = Worker { attempt, _ in
              if !begun.attempts.insert(attempt).inserted { world.fail("an attempt begins twice") }
              try await Task.sleep(for: .seconds(Int.random(in: 1..<20)))
            }
            let queue = try await Self.queue(on: log, worker)
            machine.offer(queue)
            for await case .stopped in queue.logPhases() { break }
          }
        }
        for number in 1...10 {
          world.client {
            try await Task.sleep(for: .seconds(Int.random(in: 0..<120)))
            let time = Bool.random() ? WallTime.now + .seconds(30) : nil
            let request = Request(key: "\(number)", command: "x", time: time, attempts: 100)
            while true {
              do {
                return try await machines.randomElement()!.call { (queue: Queue) in
                  try await queue.send(.submit(request))
                }
              } catch is SimulatedProcess.Crashed {
                world.sometimes("a machine crashes during a request", true)
              } catch is StoreError {}
              try await Task.sleep(for: .seconds(1))
            }
          }
        }
        world.eventually("every job is done", in: { try await Self.queue(on: log.reliable) }) { queue in
          queue.jobs.count == 10 && queue.jobs.allSatisfy { $0.phase == .done }
        }
        world.always("a finished job was begun", in: { try await Self.queue(on: log.reliable) }) { queue in
          queue.jobs.allSatisfy { $0.phase != .done || begun.attempts.contains($0.current) }
        }
      }.run()
      // A repeated seed is one world, which need not reach this.
      if report.worlds > 1 { #expect(report.neverReached == []) }
    }
  }
#endif
