#if NATS
  import Puredux
  import PureduxLog

  /// Follows one tree's subject: a shell around `Consumption`.
  final class Reader: Sendable {
    private struct State: Sendable {
      var consumption: Consumption
      var failure: LogError?
      /// Whether there has been a consumer.
      var hasConsumed = false
      /// When it was last asked for how far the log is truncated.
      var checked: ContinuousClock.Instant?
    }

    /// How old that may be: half of what a truncation waits before it removes anything.
    static let truncationCheck = Duration.seconds(5)

    private let tree: NATSTree
    private let subject: String
    private let state: LockedValue<State>
    private let arrivals = Arrivals()

    init(_ tree: NATSTree, subject: String, after position: UInt64) {
      self.tree = tree
      self.subject = subject
      state = LockedValue(State(consumption: Consumption(after: position)))
    }

    deinit {
      state.withLock { $0.consumption.lose() }
      dropAbandoned()
    }

    private var jetStream: JetStream { tree.owner.jetStream }

    /// Has the servers forget the consumers that nobody listens to any more. They would by themselves, after a while.
    private func dropAbandoned() {
      let connection = jetStream.connection
      for token in state.withLock({ $0.consumption.takeAbandoned() }) {
        connection.unsubscribe(token)
        jetStream.drop(connection.inbox.consumer(token))
      }
    }

    /// The next entries; nil where the task is cancelled.
    func next() async throws(LogError) -> [LogRecord]? {
      if let damage = tree.damage { throw damage }
      try await checkTruncation(after: state.withLock { $0.consumption.handedOut })
      while !Task.isCancelled {
        let count = arrivals.count
        if let damage = tree.damage { throw damage }
        let (step, failure) = state.withLock { ($0.consumption.next(), $0.failure) }
        answerQuestion()
        switch step {
        case .records(let records, let after):
          try await checkTruncation(after: after)
          tree.saw(records[records.count - 1].position)
          return records
        case .makeConsumer(let position):
          if let failure { throw failure }
          try await makeConsumer(after: position)
        case .wait:
          if let failure { throw failure }
          await arrivals.wait(after: count)
        }
      }
      return nil
    }

    private func answerQuestion() {
      if let question = state.withLock({ $0.consumption.takeQuestion() }) { jetStream.connection.publish(question) }
    }

    private func makeConsumer(after position: UInt64) async throws(LogError) {
      // After a silence the stream may be another one.
      if state.withLock({ $0.hasConsumed }) { try await tree.checkIdentity() }
      let connection = jetStream.connection
      let token = connection.subscribe(self)
      let now = ContinuousClock.now
      state.withLock { $0.consumption.begin(token, at: now) }
      dropAbandoned()
      do throws(LogError) {
        try await jetStream.consume(
          subject, from: position == .max ? .max : position + 1, as: connection.inbox.consumer(token),
          to: connection.inbox.subject(token), heartbeat: tree.owner.heartbeat)
      } catch {
        state.withLock { $0.consumption.lose() }
        dropAbandoned()
        // Whatever it is, it may be otherwise later.
        throw .unavailable("\(error)")
      }
      let made = ContinuousClock.now
      state.withLock { state in
        state.hasConsumed = true
        state.consumption.made(token, at: made)
      }
    }

    /// Throws where entries have been removed that come behind a position.
    private func checkTruncation(after position: UInt64) async throws(LogError) {
      let now = ContinuousClock.now
      let isDue = state.withLock { $0.checked.map { now - $0 > Self.truncationCheck } ?? true }
      guard isDue else { return }
      if let mark = try await tree.truncation(), mark.position > position { throw .truncated(first: mark.first) }
      state.withLock { $0.checked = now }
    }

    // MARK: From the inbox

    func received(_ message: Inbox.Message, under token: UInt64) {
      let now = ContinuousClock.now
      switch state.withLock({ $0.consumption.take(message, under: token, at: now) }) {
      case .nothing: break
      case .hasQuestion: answerQuestion()
      case .hasRecords: arrivals.notify()
      case .isLost:
        dropAbandoned()
        arrivals.notify()
      }
    }

    func look(at now: ContinuousClock.Instant) {
      let (known, silence) = (tree.known, tree.owner.heartbeat * 2.5)
      let (isLost, hasRecords) = state.withLock { state in
        (state.consumption.look(at: now, known: known, silence: silence), state.consumption.hasRecords)
      }
      if isLost { dropAbandoned() }
      // What was right behind may not come.
      if isLost || hasRecords || tree.damage != nil { arrivals.notify() }
    }

    /// It gets no more, and ends behind what it has.
    func fail(_ error: LogError) {
      state.withLock { $0.failure = error }
      arrivals.notify()
    }
  }
#endif
