#if NATS
  import PureduxLog

  /// What a reader has been sent, and whether it is still sent everything: a pure state machine.
  ///
  /// A consumer numbers what it sends. Where one is missing, or nothing is heard any more, a new consumer is made,
  /// which begins behind what has come.
  struct Consumption {
    enum Step {
      case records([LogRecord], after: UInt64)
      case makeConsumer(after: UInt64)
      case wait
    }

    /// The last position that has come.
    private var position: UInt64
    /// The last position that was handed out.
    private(set) var handedOut: UInt64
    private var records: [LogRecord] = []
    /// About how many bytes those have.
    private var bytes = 0
    /// What the present consumer's messages come under; nil where a new one has to be made.
    private(set) var token: UInt64?
    private var abandoned: [UInt64] = []
    /// The last number that the present consumer has sent.
    private var number: UInt64 = 0
    /// What the server waits for an answer to, before it sends more.
    private var question: String?
    private var heard: ContinuousClock.Instant?
    /// Since when nothing has come though there is more.
    private var behind: ContinuousClock.Instant?

    /// How many consumers in a row were alive, and said that they had sent everything, but sent none of the existing
    /// entries.
    private(set) var starvations = 0
    /// Whether the present consumer has said that it has sent everything, though more is known.
    private var isIdle = false
    /// Whether the servers have said that the present consumer is made.
    private var isMade = false
    /// How long existing entries may take to arrive: twice as long with each consumer that has sent nothing, as a slow
    /// connection is no reason to begin anew again and again.
    private var arrivalLimit = Consumption.shortestArrival
    private static let shortestArrival = Duration.seconds(1)

    /// After how many entries, or bytes, who waits is woken though more is right behind.
    private static let batchCount = 256
    private static let batchBytes = 256 << 10

    init(after position: UInt64) {
      self.position = position
      handedOut = position
    }

    /// A consumer is being made that begins behind what has come.
    mutating func begin(_ token: UInt64, at now: ContinuousClock.Instant) {
      lose()
      self.token = token
      number = 0
      question = nil
      heard = now
      behind = nil
      (isMade, isIdle) = (false, false)
    }

    /// The servers have made it. From now on it is to be heard.
    mutating func made(_ token: UInt64, at now: ContinuousClock.Instant) {
      guard token == self.token else { return }
      isMade = true
      heard = now
    }

    /// Something is missing, or may be: a new consumer is needed.
    mutating func lose() {
      if let token { abandoned.append(token) }
      token = nil
    }

    /// What nobody listens to any more.
    mutating func takeAbandoned() -> [UInt64] {
      defer { abandoned = [] }
      return abandoned
    }

    enum Effect { case nothing, hasQuestion, hasRecords, isLost }

    /// Takes in what has come.
    mutating func take(_ message: Inbox.Message, under token: UInt64, at now: ContinuousClock.Instant) -> Effect {
      guard token == self.token else { return .nothing }
      heard = now
      switch message.kind {
      case .answer: return .nothing
      case .status(_, let reply, let lastSent):
        if let lastSent, lastSent > number {
          lose()
          return .isLost
        }
        guard let reply else {
          // The heartbeat of an idle consumer. All its messages have arrived, as they keep their order.
          if lastSent == number, behind != nil { isIdle = true }
          return .nothing
        }
        question = reply
        // The server sends no more until what waits has been handed out.
        return records.isEmpty ? .hasQuestion : .hasRecords
      case .entry(let place):
        guard place.number == number + 1 else {
          lose()
          return .isLost
        }
        number = place.number
        behind = nil
        (starvations, isIdle) = (0, false)
        arrivalLimit = Self.shortestArrival
        guard place.position > position else { return .nothing }
        position = place.position
        records.append(LogRecord(position: position, bytes: message.bytes))
        bytes += message.bytes.count
        // Where more is right behind, who waits is not woken for each.
        let isEnough = place.pending == 0 || records.count >= Self.batchCount || bytes >= Self.batchBytes
        return isEnough ? .hasRecords : .nothing
      }
    }

    /// Whether something waits to be handed out.
    var hasRecords: Bool { !records.isEmpty }

    /// What the server waits for an answer to, where what has come has been handed out: otherwise it waits, so that
    /// what has not been is bounded.
    mutating func takeQuestion() -> String? { records.isEmpty ? question.take() : nil }

    /// What is to be done next. What is handed out at a time has about so many bytes.
    mutating func next(bytes limit: Int = 1 << 20) -> Step {
      if !records.isEmpty {
        var (count, bytes) = (0, 0)
        while count < records.count, bytes < limit {
          bytes += records[count].bytes.count + 64
          count += 1
        }
        let after = handedOut
        let some = count == records.count ? records : Array(records[..<count])
        if count == records.count { records = [] } else { records.removeFirst(count) }
        handedOut = some[some.count - 1].position
        self.bytes = records.isEmpty ? 0 : max(0, self.bytes - bytes)
        return .records(some, after: after)
      }
      return token == nil ? .makeConsumer(after: position) : .wait
    }

    /// Time has gone on. True where a new consumer is needed now, as nothing is heard or what is there does not come.
    ///
    /// - Parameter known: A position at which there is an entry.
    mutating func look(at now: ContinuousClock.Instant, known: UInt64, silence: Duration) -> Bool {
      guard token != nil, isMade, let heard else { return false }
      if known > position, records.isEmpty { behind = behind ?? now } else { behind = nil }
      let isLate = behind.map { now - $0 > arrivalLimit } ?? false
      guard isLate || now - heard > silence else { return false }
      if isLate { arrivalLimit = min(arrivalLimit * 2, .seconds(60)) }
      if isLate, isIdle { starvations += 1 }
      lose()
      return true
    }
  }
#endif
