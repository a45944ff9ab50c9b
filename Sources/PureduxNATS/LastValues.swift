#if NATS
  import Puredux
  import PureduxLog

  /// Reads the values of the bucket's keys that match a pattern.
  final class LastValues: InboxReader {
    private struct State: Sendable {
      var consumption = Consumption(after: 0)
      var failure: LogError?
      /// Values that have not arrived; nil until known.
      var pending: UInt64?
      var heard = ContinuousClock.now
      /// After this silence a new consumer counts the values again, as some may have been removed.
      var silence = Duration.seconds(2)
    }

    private let subjects: String
    private let owner: NATSLog
    private let state = LockedValue(State())
    private let arrivals = Arrivals()

    init(of subjects: String, in owner: NATSLog) {
      self.subjects = subjects
      self.owner = owner
    }

    deinit {
      state.withLock { $0.consumption.lose() }
      dropAbandoned()
    }

    private var jetStream: JetStream { owner.jetStream }

    private func dropAbandoned() {
      let connection = jetStream.connection
      for token in state.withLock({ $0.consumption.takeAbandoned() }) {
        connection.unsubscribe(token)
        jetStream.drop(connection.inbox.consumer(token), of: jetStream.bucketStream)
      }
    }

    /// Nil at the end, or if the task is cancelled. A value written meanwhile may be repeated.
    func next() async throws(LogError) -> [LogRecord]? {
      while !Task.isCancelled {
        let count = arrivals.count
        let (step, failure, isWhole) = state.withLock { ($0.consumption.next(), $0.failure, $0.pending == 0) }
        answerQuestion()
        if case .records(let records, _) = step { return records }
        if isWhole { return nil }
        if let failure { throw failure }
        if case .makeConsumer(let position) = step {
          try await makeConsumer(after: position)
        } else {
          await arrivals.wait(after: count)
        }
      }
      return nil
    }

    private func answerQuestion() {
      if let question = state.withLock({ $0.consumption.takeQuestion() }) { jetStream.connection.publish(question) }
    }

    private func makeConsumer(after position: UInt64) async throws(LogError) {
      let connection = jetStream.connection
      let token = connection.subscribe(self)
      let now = ContinuousClock.now
      state.withLock { $0.consumption.begin(token, at: now) }
      dropAbandoned()
      let pending = try await jetStream.consume(
        subjects, of: jetStream.bucketStream, from: position + 1, as: connection.inbox.consumer(token),
        to: connection.inbox.subject(token), heartbeat: owner.heartbeat)
      let made = ContinuousClock.now
      state.withLock { state in
        state.heard = made
        state.consumption.made(token, at: made)
        // Otherwise the last value reports the end.
        if pending == 0 { state.pending = 0 }
      }
    }

    // MARK: From the inbox

    func received(_ message: Inbox.Message, under token: UInt64) {
      let now = ContinuousClock.now
      let effect = state.withLock { state in
        let isCurrent = token == state.consumption.token
        let effect = state.consumption.take(message, under: token, at: now)
        if case .entry(let place) = message.kind, isCurrent, state.consumption.token == token {
          state.pending = place.pending
          state.heard = now
        }
        return effect
      }
      switch effect {
      case .nothing: break
      case .hasQuestion: answerQuestion()
      case .hasRecords: arrivals.notify()
      case .isLost:
        dropAbandoned()
        arrivals.notify()
      }
    }

    func look(at now: ContinuousClock.Instant) {
      let isSilent = state.withLock { state in
        if state.consumption.hasRecords { return true }
        guard state.consumption.token != nil, state.pending != 0, now - state.heard > state.silence else {
          return false
        }
        state.silence = min(state.silence * 2, .seconds(60))
        state.consumption.lose()
        return true
      }
      guard isSilent else { return }
      dropAbandoned()
      arrivals.notify()
    }

    func fail(_ error: LogError) {
      state.withLock { $0.failure = error }
      arrivals.notify()
    }
  }
#endif
