#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import PureduxLog

  /// A process of a simulated world. A crash drops its tasks where they are, and releases nothing. Globals survive.
  ///
  /// SAFETY: used only by jobs of its simulation, which run on one thread, one at a time.
  public final class SimulatedProcess: @unchecked Sendable {
    /// Something that happens to a process at random times, as long as a client is at work. `every` is the mean of the
    /// times in between.
    public enum Fault: Sendable, Hashable {
      /// The process ends without cleanup, and restarts after one second.
      case crashing(every: Duration)
      /// The process does not run for a time, as in a debugger or on an overloaded machine.
      case pausing(every: Duration, for: Duration)
      /// The process does not reach the logs of its world for a time.
      case disconnecting(every: Duration, for: Duration)
      /// The wall clock of the process jumps, and is then wrong by at most `by`. Its other clocks do not jump.
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
    private var waiting: [Int: Caller] = [:]
    private var calls: [Int: (caller: Caller, task: Task<Void, Never>, process: Int)] = [:]
    private var callCount = 0

    init(
      _ name: String, _ faults: [Fault], in world: World,
      _ work: @escaping @Sendable (SimulatedProcess) async throws -> Void
    ) {
      self.name = name
      self.faults = faults
      self.world = world
      self.work = work
      for fault in faults where fault.period <= .zero { world.fail("\(name): the period of a fault is not positive") }
      for fault in faults { world.outside { await self.inject(fault) } }
    }

    var isDisconnected: Bool { disconnections > 0 }

    /// Ends all faults but a pause.
    func recover() {
      disconnections = 0
      Engine.shared.setClockError(of: incarnation, to: .zero)
    }

    /// Makes a service, such as a store, available to `call`.
    public func offer(_ service: some Sendable) {
      // A process that has crashed in this step.
      let current = Engine.shared.current
      guard isUp, current == incarnation || current == Engine.outside else { return }
      self.service = service
      let waiters = waiting.sorted { $0.key < $1.key }
      waiting = [:]
      for (_, waiter) in waiters { waiter.resume(.success(())) }
    }

    /// Calls the offered service within the process, as a request handler does. Waits until a service is offered.
    ///
    /// If the caller is cancelled, so is the closure's task.
    ///
    /// - Throws: The closure's error; `Crashed` if the process ends before the closure has returned; `CancellationError`
    ///   if the caller is cancelled before a service is offered; an error that names both types if the offered service
    ///   has another type.
    public func call<Service: Sendable, Result: Sendable>(
      _ body: @escaping @Sendable (Service) async throws -> Result
    ) async throws -> Result {
      callCount += 1
      let number = callCount
      let answer = Answer<Result>()
      try await withTaskCancellationHandler {
        while service == nil { try await untilOffered(number) }
        try await Caller.wait { caller in
          guard let service else { return caller.resume(.failure(Crashed())) }
          guard let service = service as? Service else {
            return caller.resume(
              .failure(ServiceMismatch(description: "\(name) offers a \(type(of: service)), and no \(Service.self)")))
          }
          Engine.shared.within(incarnation) {
            let task = Task(name: Task.name) { [self] in
              do {
                answer.result = .success(try await body(service))
              } catch {
                answer.result = .failure(error)
              }
              calls.removeValue(forKey: number)?.caller.resume(.success(()))
            }
            calls[number] = (caller, task, incarnation)
          }
          if Task.isCancelled { cancel(number) }
        }
      } onCancel: {
        cancel(number)
      }
      return try answer.result!.get()
    }

    private func untilOffered(_ number: Int) async throws {
      try await Caller.wait { caller in
        if Task.isCancelled { return caller.resume(.failure(CancellationError())) }
        if service == nil { waiting[number] = caller } else { caller.resume(.success(())) }
      }
    }

    private func cancel(_ number: Int) {
      waiting.removeValue(forKey: number)?.resume(.failure(CancellationError()))
      // The cancellation handlers of the request belong to its process.
      if let call = calls[number] { Engine.shared.within(call.process) { call.task.cancel() } }
    }

    /// Ends the process without cleanup. It restarts after one second. A task of the process that calls this continues
    /// until it waits for something.
    public func crash() {
      guard isUp else { return }
      world.note("\(name) crashes")
      isUp = false
      service = nil
      Engine.shared.drop(incarnation)
      let callers = calls.sorted { $0.key < $1.key }
      calls = [:]
      for (_, call) in callers { call.caller.resume(.failure(Crashed())) }
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
            guard isUp, self.incarnation == incarnation else { return }
            // An opening that did not reach the log in time.
            if case LogError.unavailable = error { return crash() }
            world.fail("\(name) threw an error", details: "\(error)")
          }
        }
      }
    }

    private func inject(_ fault: Fault) async {
      while true {
        // The mean of these times is the period.
        try? await Task.sleep(for: fault.period * Double.random(in: 0..<2))
        if world.haveFaultsEnded { return }
        if !isUp { continue }
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

    /// A waiting task with its process. The task is made ready in that process, so that a crash or a pause of the
    /// answering process does not stop an actor of the caller.
    private struct Caller {
      private let continuation: CheckedContinuation<Void, any Error>
      private let process: Int

      func resume(_ result: Swift.Result<Void, any Error>) {
        Engine.shared.within(process) { continuation.resume(with: result) }
      }

      static func wait(_ body: (Caller) -> Void) async throws {
        let process = Engine.shared.current
        try await withCheckedThrowingContinuation { body(Caller(continuation: $0, process: process)) }
      }
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
