#if PostgreSQL
  import Dispatch
  #if canImport(Darwin)
    import Darwin
  #elseif canImport(Musl)
    import Musl
  #else
    import Glibc
  #endif
  import Puredux
  import PureduxLog

  /// One connection to the database, made when needed and replaced when lost. All work runs in order on a serial queue,
  /// which may block.
  final class Session: Sendable {
    /// Reports incoming data while no statement runs.
    // SAFETY: Dispatch sources may be used from any thread, although the type is not `Sendable`.
    private final class Watch: @unchecked Sendable {
      private let source: any DispatchSourceRead

      init?(_ connection: Connection, _ queue: DispatchQueue, _ come: @escaping @Sendable () -> Void) {
        // A duplicate: when libpq closes its own descriptor, the next connection reuses the number, for which Dispatch
        // would still watch the old one.
        let descriptor = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0)
        if descriptor < 0 { return nil }
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler(handler: come)
        source.setCancelHandler { shut(descriptor) }
        source.activate()
      }

      deinit { source.cancel() }
    }

    private struct State: Sendable {
      var connection: Connection?
      var watch: Watch?
      var failures = 0
      /// The index of the host to try first.
      var host = 0
      var nextAttempt = ContinuousClock.now
      var failure: LogError?
      var isClosed = false
      /// From then on a refusal counts as temporary.
      var isOpened: Bool
    }

    /// An error fails the attempt to connect.
    typealias Opening = @Sendable (Connection) throws(LogError) -> Void

    static let longestPause = Duration.seconds(5)

    let queue: DispatchQueue
    private let text: String
    private let limit: Duration
    private let settings: Settings
    private let opening: Opening
    /// Called on the queue.
    private let notified: (@Sendable (_ texts: [String]) -> Void)?
    /// Used on the queue only.
    private let state: LockedValue<State>

    /// - Parameters:
    ///   - limitsStatements: Whether no caller waits longer than the limit for any statement.
    ///   - isOpened: Whether another session has opened the log.
    init(
      _ text: String, label: String, limit: Duration, limitsStatements: Bool, isOpened: Bool,
      notified: (@Sendable ([String]) -> Void)? = nil, opening: @escaping Opening
    ) {
      state = LockedValue(State(isOpened: isOpened))
      self.text = text
      self.limit = limit
      settings = Settings(answerLimit: limit, limitsStatements: limitsStatements)
      self.notified = notified
      self.opening = opening
      queue = DispatchQueue(label: label)
    }

    func close() async {
      await withCheckedContinuation { continuation in
        queue.async {
          self.drop()
          self.state.withLock { $0.isClosed = true }
          continuation.resume()
        }
      }
    }

    func run<Result: Sendable>(
      _ body: @escaping @Sendable (Connection) throws(LogError) -> Result
    ) async throws(LogError) -> Result {
      let result: Swift.Result<Result, LogError> = await withCheckedContinuation { continuation in
        queue.async { continuation.resume(returning: self.perform(body)) }
      }
      return try result.get()
    }

    /// Must be called on the queue.
    func perform<Result>(_ body: (Connection) throws(LogError) -> Result) -> Swift.Result<Result, LogError> {
      Swift.Result { () throws(LogError) in
        let connection = try connected()
        defer {
          if connection.isLeft { state.withLock { $0.host += 1 } }
          if connection.isBroken || connection.isLeft { drop() } else { receive() }
        }
        return try body(connection)
      }
    }

    // MARK: On the queue

    private func connected() throws(LogError) -> Connection {
      let (present, host) = try state.withLock { state throws(LogError) -> (Connection?, Int) in
        if state.isClosed { throw .unavailable("The log is closed.") }
        if let connection = state.connection { return (connection, 0) }
        if let failure = state.failure, ContinuousClock.now < state.nextAttempt { throw failure }
        return (nil, state.host)
      }
      if let present { return present }
      do throws(LogError) {
        let connection = try Connection.open(
          text, settings: settings, beginningWith: host, for: ObjectIdentifier(self), limit: limit)
        try connection.checkSettings(settings, Connection.Patience(limit: limit))
        try opening(connection)
        let watch = notified.flatMap { _ in Watch(connection, queue) { [weak self] in self?.receive() } }
        state.withLock { state in
          connection.isOpened = true
          state.connection = connection
          state.watch = watch
          state.isOpened = true
          state.failures = 0
          state.failure = nil
        }
        return connection
      } catch {
        throw state.withLock { state in
          let error = state.isOpened ? error.passing : error
          state.failures += 1
          state.host += 1
          state.failure = error
          let pause = min(Self.longestPause, .milliseconds(50) * (1 << min(state.failures, 7)))
          state.nextAttempt = ContinuousClock.now + pause * Double.random(in: 0.5...1)
          return error
        }
      }
    }

    private func drop() {
      let last = state.withLock { state in (state.connection.take(), state.watch.take()) }
      withExtendedLifetime(last) {}
    }

    private func receive() {
      guard let notified, let connection = state.withLock({ $0.connection }) else { return }
      do throws(LogError) {
        let texts = try connection.notifications()
        if !texts.isEmpty { notified(texts) }
      } catch {
        drop()
      }
    }
  }

  /// `close`, which is shadowed in `Session`.
  private func shut(_ descriptor: Int32) { _ = close(descriptor) }
#endif
