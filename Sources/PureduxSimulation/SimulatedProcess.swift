#if Simulation && compiler(>=6.3) && os(Linux)
  /// A process of a simulated world. A crash drops its tasks where they are, and releases nothing. Globals survive.
  ///
  /// SAFETY: used only by jobs of its simulation, which run on one thread, one at a time.
  public final class SimulatedProcess: @unchecked Sendable {
    /// Something that happens to a process, again and again, at random times.
    public enum Fault: Sendable, Hashable {
      /// The process ends without cleanup, and restarts after one second.
      case crashing(every: Duration)
      /// The process does not run for a time, as in a debugger or on an overloaded machine.
      case pausing(every: Duration, for: Duration)
      /// The process does not reach any log for a time.
      case disconnecting(every: Duration, for: Duration)
      /// The wall clock of the process jumps, and is then wrong by at most this. Its other clocks do not jump.
      case clockJumping(every: Duration, by: Duration)
    }

    /// The process crashed before it answered. The request may have taken effect.
    public struct Crashed: Error, Sendable {}

    /// The name in reports.
    public let name: String
    private unowned let world: World
    private let faults: [Fault]
    private let work: @Sendable (SimulatedProcess) async throws -> Void
    private(set) var incarnation = -1
    private(set) var isUp = false
    private var disconnections = 0
    private var service: (any Sendable)?
    private var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    private var calls: [Int: (caller: CheckedContinuation<Void, any Error>, task: Task<Void, Never>)] = [:]
    private var callCount = 0

    init(
      _ name: String, _ faults: [Fault], in world: World,
      _ work: @escaping @Sendable (SimulatedProcess) async throws -> Void
    ) {
      self.name = name
      self.faults = faults
      self.world = world
      self.work = work
      for fault in faults { world.outside { await self.suffer(fault) } }
    }

    var isDisconnected: Bool { disconnections > 0 }

    /// Ends all faults but a pause.
    func recover() {
      disconnections = 0
      Engine.shared.setClockError(of: incarnation, to: .zero)
    }

    /// Makes a service, such as a store, available to `call`.
    public func offer(_ service: some Sendable) {
      self.service = service
      let waiters = waiting.sorted { $0.key < $1.key }
      waiting = [:]
      for (_, waiter) in waiters { waiter.resume() }
    }

    /// Calls the offered service within the process, as a request handler does. Waits until a service is offered.
    ///
    /// If the caller is cancelled, so is the closure's task.
    ///
    /// - Throws: The closure's error; `Crashed` if the process ends before the closure has returned; `CancellationError`
    ///   if the caller is cancelled before a service is offered.
    public func call<Service: Sendable, Result: Sendable>(
      _ body: @escaping @Sendable (Service) async throws -> Result
    ) async throws -> Result {
      callCount += 1
      let number = callCount
      let answer = Answer<Result>()
      try await withTaskCancellationHandler {
        while service == nil { try await untilOffered(number) }
        try await withCheckedThrowingContinuation { (caller: CheckedContinuation<Void, any Error>) in
          guard let service else { return caller.resume(throwing: Crashed()) }
          guard let service = service as? Service else {
            return caller.resume(throwing: ServiceMismatch(description: "\(name) offers no \(Service.self)"))
          }
          Engine.shared.within(incarnation) {
            let task = Task { [self] in
              do {
                answer.result = .success(try await body(service))
              } catch {
                answer.result = .failure(error)
              }
              calls.removeValue(forKey: number)?.caller.resume()
            }
            calls[number] = (caller, task)
          }
          if Task.isCancelled { cancel(number) }
        }
      } onCancel: {
        cancel(number)
      }
      return try answer.result!.get()
    }

    private func untilOffered(_ number: Int) async throws {
      try await withCheckedThrowingContinuation { (caller: CheckedContinuation<Void, any Error>) in
        if Task.isCancelled { return caller.resume(throwing: CancellationError()) }
        if service == nil { waiting[number] = caller } else { caller.resume() }
      }
    }

    private func cancel(_ number: Int) {
      waiting.removeValue(forKey: number)?.resume(throwing: CancellationError())
      calls[number]?.task.cancel()
    }

    /// Ends the process without cleanup. It restarts after one second. A task of the process that calls this runs on up
    /// to its next `await` that waits.
    public func crash() {
      guard isUp else { return }
      world.note("\(name) crashes")
      isUp = false
      service = nil
      Engine.shared.drop(incarnation)
      let callers = calls.sorted { $0.key < $1.key }
      calls = [:]
      for (_, call) in callers { call.caller.resume(throwing: Crashed()) }
      world.outside { [self] in
        try? await Task.sleep(for: .seconds(1))
        start()
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
            if isUp, self.incarnation == incarnation { world.fail("\(name) returned") }
          } catch {
            if isUp, self.incarnation == incarnation { world.fail("\(name) threw an error", details: "\(error)") }
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
          world.note("\(name) pauses for \(time)")
          Engine.shared.pause(incarnation, for: time)
        case .disconnecting(_, let time):
          world.note("\(name) loses the log for \(time)")
          disconnections += 1
          try? await Task.sleep(for: time)
          disconnections = max(0, disconnections - 1)
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
      case .crashing(let period), .pausing(let period, _), .disconnecting(let period, _), .clockJumping(let period, _):
        period
      }
    }
  }
#endif
