#if NATS
  import PureduxLog

  /// A reader's received entries and the health of its consumer: a pure state machine.
  ///
  /// A consumer numbers its messages. If one is missing, or nothing is heard, a new consumer continues.
  struct Consumption {
    enum Step {
      case records([LogRecord], after: UInt64)
      case makeConsumer(after: UInt64)
      case wait
    }

    private var position: UInt64
    private(set) var handedOut: UInt64
    private var records: [LogRecord] = []
    private var bytes = 0
    /// The present consumer. If nil, a new one is needed.
    private(set) var token: UInt64?
    private var abandoned: [UInt64] = []
    private var number: UInt64 = 0
    /// The subject of a flow control request: the server sends no more until it is answered.
    private var question: String?
    private var heard: ContinuousClock.Instant?
    /// The time since which existing entries have not arrived.
    private var behind: ContinuousClock.Instant?

    /// Consecutive consumers that claimed to have sent everything, but sent none of the existing entries.
    private(set) var starvations = 0
    /// Whether the present consumer claims to have sent everything.
    private var isIdle = false
    private var isMade = false
    /// How long existing entries may take to arrive. Doubles with each consumer that sent nothing, as a new one
    /// does not help a slow connection.
    private var arrivalLimit = Consumption.shortestArrival
    private static let shortestArrival = Duration.seconds(1)

    /// Wakes a waiting reader even if more entries are about to arrive.
    private static let batchCount = 256
    private static let batchBytes = 256 << 10

    init(after position: UInt64) {
      self.position = position
      handedOut = position
    }

    mutating func begin(_ token: UInt64, at now: ContinuousClock.Instant) {
      lose()
      self.token = token
      number = 0
      question = nil
      heard = now
      behind = nil
      (isMade, isIdle) = (false, false)
    }

    /// From now on the consumer must be heard.
    mutating func made(_ token: UInt64, at now: ContinuousClock.Instant) {
      guard token == self.token else { return }
      isMade = true
      heard = now
    }

    mutating func lose() {
      if let token { abandoned.append(token) }
      token = nil
    }

    mutating func takeAbandoned() -> [UInt64] {
      defer { abandoned = [] }
      return abandoned
    }

    enum Effect { case nothing, hasQuestion, hasRecords, isLost }

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
          // An idle consumer's heartbeat, which arrives after its other messages.
          if lastSent == number, behind != nil { isIdle = true }
          return .nothing
        }
        question = reply
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
        let isEnough = place.pending == 0 || records.count >= Self.batchCount || bytes >= Self.batchBytes
        return isEnough ? .hasRecords : .nothing
      }
    }

    var hasRecords: Bool { !records.isEmpty }

    /// Nil until all entries are delivered, which bounds the buffer.
    mutating func takeQuestion() -> String? { records.isEmpty ? question.take() : nil }

    /// A step delivers about `limit` bytes.
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

    /// Returns whether a new consumer is needed.
    ///
    /// - Parameter known: A position that has an entry.
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
