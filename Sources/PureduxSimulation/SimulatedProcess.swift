#if Simulation && compiler(>=6.3) && os(Linux)
  /// A process of a simulated world. A crash drops its tasks where they are, and releases nothing. Globals survive.
  ///
  /// SAFETY: used only by jobs of its simulation, which run on one thread, one at a time.
  public final class SimulatedProcess: @unchecked Sendable {
    /// Something that happens to a process, again and again, at random times.
    public enum Fault: Sendable, Hashable {
      /// It ends without a word, and starts again after a second.
      case crashing(every: Duration)
      /// It stands still for a time, as in a debugger or on an overloaded machine.
      case pausing(every: Duration, for: Duration)
      /// It does not reach any log for a time.
      case partitioned(every: Duration, for: Duration)
      /// Its wall clock jumps, and is then wrong by at most this. Other clocks do not jump.
      case clockJumping(every: Duration, by: Duration)
    }

    /// The process has crashed before it has answered. Its answer is unknown.
    public struct Crashed: Error, Sendable {}

    /// The name in reports.
    public let name: String
    private unowned let world: World
    private let faults: [Fault]
    private let work: @Sendable (SimulatedProcess) async throws -> Void
    private(set) var incarnation = -1
    private(set) var isUp = false
    private(set) var isCutOff = false
    private var service: (any Sendable)?
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var calls: [Int: CheckedContinuation<Void, any Error>] = [:]
    private var callCount = 0

    init(
      _ name: String, _ faults: [Fault], in world: World,
      _ work: @escaping @Sendable (SimulatedProcess) async throws -> Void
    ) {
      self.name = name
      self.faults = faults
      self.world = world
      self.work = work
      for fault in faults { Task { await self.suffer(fault) } }
    }

    /// Makes a service, such as a store, available to `call`.
    public func offer(_ service: some Sendable) {
      self.service = service
      let waiters = waiting
      waiting = []
      for waiter in waiters { waiter.resume() }
    }

    /// Calls the offered service within the process, as a request handler does. Waits until a service is offered.
    ///
    /// - Throws: The closure's error; `Crashed` if the process ends before the closure has returned.
    public func call<Service: Sendable, Result: Sendable>(
      _ body: @escaping @Sendable (Service) async throws -> Result
    ) async throws -> Result {
      let answer = Answer<Result>()
      while service == nil {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
          if service == nil { waiting.append(continuation) } else { continuation.resume() }
        }
      }
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        guard let service else { return continuation.resume(throwing: Crashed()) }
        guard let service = service as? Service else {
          return continuation.resume(throwing: ServiceMismatch(description: "\(name) offers no \(Service.self)"))
        }
        callCount += 1
        let number = callCount
        calls[number] = continuation
        Engine.shared.within(incarnation) {
          _ = Task { [self] in
            do {
              answer.result = .success(try await body(service))
            } catch {
              answer.result = .failure(error)
            }
            calls.removeValue(forKey: number)?.resume()
          }
        }
      }
      return try answer.result!.get()
    }

    /// Ends the process without a word. It starts again after a second.
    public func crash() {
      guard isUp else { return }
      world.note("\(name) crashes")
      isUp = false
      service = nil
      Engine.shared.drop(incarnation)
      let callers = calls.sorted { $0.key < $1.key }
      calls = [:]
      Engine.shared.within(Engine.outside) {
        for (_, caller) in callers { caller.resume(throwing: Crashed()) }
        _ = Task { [self] in
          try await Task.sleep(for: .seconds(1))
          start()
        }
      }
    }

    func start() {
      incarnation = world.nextIncarnation()
      isUp = true
      world.note("\(name) starts")
      Engine.shared.within(incarnation) {
        _ = Task { [self, incarnation] in
          do {
            try await work(self)
            if self.incarnation == incarnation { world.fail("\(name) returned") }
          } catch {
            if self.incarnation == incarnation { world.fail("\(name) threw \(error)") }
          }
        }
      }
    }

    private func suffer(_ fault: Fault) async {
      while true {
        // With this mean.
        try? await Task.sleep(for: fault.period * Double.random(in: 0..<2))
        if world.isQuiet { return }
        switch fault {
        case .crashing: crash()
        case .pausing(_, let time):
          world.note("\(name) stands still")
          Engine.shared.pause(incarnation, for: time)
        case .partitioned(_, let time):
          world.note("\(name) is cut off")
          isCutOff = true
          try? await Task.sleep(for: time)
          isCutOff = false
        case .clockJumping(_, let limit):
          let error = limit * Double.random(in: -1...1)
          world.note("the clock of \(name) jumps, and is wrong by \(error)")
          Engine.shared.setClockError(of: incarnation, to: error)
        }
      }
    }

    private struct ServiceMismatch: Error, CustomStringConvertible {
      let description: String
    }

    private final class Answer<Result: Sendable>: @unchecked Sendable {
      // SAFETY: used only on the thread of the simulation.
      var result: Swift.Result<Result, any Error>?
    }
  }

  extension SimulatedProcess.Fault {
    fileprivate var period: Duration {
      switch self {
      case .crashing(let period), .pausing(let period, _), .partitioned(let period, _), .clockJumping(let period, _):
        period
      }
    }
  }
#endif
