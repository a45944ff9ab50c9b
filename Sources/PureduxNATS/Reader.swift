#if NATS
  import Puredux
  import PureduxLog

  final class Reader: InboxReader {
    private struct State: Sendable {
      var consumption: Consumption
      var failure: LogError?
      var hasConsumed = false
      /// The last time that no entry was missing, and the truncated position then.
      var checked: ContinuousClock.Instant?
      var truncated: UInt64 = 0
      var looked = ContinuousClock.now

      func isIdle(at now: ContinuousClock.Instant, _ options: NATSLog.Options) -> Bool {
        now - looked > options.idleCheck
      }
    }

    private let tree: NATSTree
    private let state: LockedValue<State>
    private let arrivals = Arrivals()

    init(_ tree: NATSTree, after position: UInt64) {
      self.tree = tree
      state = LockedValue(State(consumption: Consumption(after: position)))
    }

    deinit {
      state.withLock { $0.consumption.lose() }
      dropAbandoned()
    }

    private var jetStream: JetStream { tree.owner.jetStream }

    private func dropAbandoned() {
      let connection = jetStream.connection
      for token in state.withLock({ $0.consumption.takeAbandoned() }) {
        connection.unsubscribe(token)
        jetStream.drop(connection.inbox.consumer(token), of: jetStream.stream)
      }
    }

    /// Nil if the task is cancelled.
    func next() async throws(LogError) -> [LogRecord]? {
      while !Task.isCancelled {
        let count = arrivals.count
        if let damage = tree.damage { throw damage }
        let (step, failure) = state.withLock { ($0.consumption.next(), $0.failure) }
        answerQuestion()
        switch step {
        case .records(let all, let after):
          let records = all.prefix { $0.bytes != NATSTree.end }
          if records.count < all.count { tree.noteRemoved() }
          guard let last = records.last else { throw .removed }
          try await checkEntries(behind: after)
          tree.saw(last.position)
          return Array(records)
        case .makeConsumer(let position):
          if let failure { throw failure }
          try checkStarvation(behind: position)
          try await makeConsumer(after: position)
        case .wait:
          if let failure { throw failure }
          try await checkInSilence()
          await arrivals.wait(after: count)
        }
      }
      return nil
    }

    private func answerQuestion() {
      if let question = state.withLock({ $0.consumption.takeQuestion() }) { jetStream.connection.publish(question) }
    }

    /// Throws if several consumers in a row sent none of the existing entries: a consumer's random server may have
    /// damaged files.
    private func checkStarvation(behind position: UInt64) throws(LogError) {
      guard state.withLock({ $0.consumption.starvations > 2 }) else { return }
      throw .unavailable(
        "The log \(tree.name ?? "") has an entry at \(tree.known), and the servers send nothing behind \(position).")
    }

    private func makeConsumer(after position: UInt64) async throws(LogError) {
      try await tree.learn()
      // After a silence, another stream may have replaced this one.
      if state.withLock({ $0.hasConsumed }) { try await tree.checkIdentity() }
      let connection = jetStream.connection
      let token = connection.subscribe(self)
      let now = ContinuousClock.now
      state.withLock { $0.consumption.begin(token, at: now) }
      dropAbandoned()
      do throws(LogError) {
        try await jetStream.consume(
          tree.subject(), of: jetStream.stream, from: position == .max ? .max : position + 1,
          as: connection.inbox.consumer(token), to: connection.inbox.subject(token), heartbeat: tree.owner.heartbeat)
      } catch {
        state.withLock { $0.consumption.lose() }
        dropAbandoned()
        // Every failure here may be temporary.
        throw .unavailable("\(error)")
      }
      let made = ContinuousClock.now
      state.withLock { state in
        state.hasConsumed = true
        state.consumption.made(token, at: made)
      }
    }

    /// Throws if an entry after a position is missing. Called before the entries after it are delivered.
    ///
    /// A truncation is noted twice `lossCheck` before its purge, so an occasional check is enough. Already truncated
    /// entries may be purged at any moment, and are checked each time.
    private func checkEntries(behind position: UInt64, isIdle: Bool = false) async throws(LogError) {
      let now = ContinuousClock.now
      let isDue = state.withLock { state in
        guard let checked = state.checked, !isIdle else { return true }
        return now - checked > tree.owner.options.lossCheck || position < state.truncated
      }
      guard isDue else { return }
      state.withLock { $0.looked = now }
      let truncated = try await tree.checkEntries(behind: position)
      state.withLock { ($0.checked, $0.truncated) = (now, truncated) }
    }

    /// An unavailable server does not end an idle reader.
    private func checkInSilence() async throws(LogError) {
      let (isDue, position) = state.withLock { ($0.isIdle(at: .now, tree.owner.options), $0.consumption.handedOut) }
      guard isDue else { return }
      do throws(LogError) {
        try await checkEntries(behind: position, isIdle: true)
      } catch {
        guard error.isPassing else { throw error }
      }
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
      let (isLost, hasRecords, isIdle) = state.withLock { state in
        (
          state.consumption.look(at: now, known: known, silence: silence), state.consumption.hasRecords,
          state.isIdle(at: now, tree.owner.options)
        )
      }
      if isLost { dropAbandoned() }
      // The entries that the batch waits for may not arrive.
      if isLost || hasRecords || isIdle || tree.damage != nil { arrivals.notify() }
    }

    func fail(_ error: LogError) {
      state.withLock { $0.failure = error }
      arrivals.notify()
    }
  }
#endif
