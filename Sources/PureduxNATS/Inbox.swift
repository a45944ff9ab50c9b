#if NATS
  import Puredux
  import PureduxLog
  import Synchronization

  protocol InboxReader: AnyObject, Sendable {
    func received(_ message: Inbox.Message, under token: UInt64)
    /// Called every quarter of a second.
    func look(at now: ContinuousClock.Instant)
    /// No more messages will arrive.
    func fail(_ error: LogError)
  }

  /// The receivers of a connection's messages, by number.
  final class Inbox: Sendable {
    struct Message: Sendable {
      enum Kind: Sendable, Equatable {
        case answer
        case entry(Subjects.Place)
        /// 503 if nobody answers, 100 for a consumer's heartbeat or flow control request.
        case status(Int, reply: String?, lastSent: UInt64?)
      }

      var kind: Kind
      var bytes: [UInt8] = []
    }

    typealias Answer = @Sendable (Result<Message, LogError>) -> Void

    private enum Receiver: Sendable {
      case answer(Answer, deadline: ContinuousClock.Instant)
      case reader(WeakReader)
    }

    private struct WeakReader: Sendable { weak var reader: (any InboxReader)? }

    private struct Receivers: Sendable {
      var byToken: [UInt64: Receiver] = [:]
      var nextToken: UInt64 = 1
      var onClose: (@Sendable () -> Void)?
    }

    /// The prefix of the connection's subjects and consumers.
    private let name = "puredux-" + String(UInt64.random(in: .min ... .max), radix: 36)
    private let receivers = LockedValue(Receivers())
    private let limit = Atomic(1 << 20)

    var pattern: String { "_INBOX." + name + ".*" }
    var messageLimit: Int { limit.load(ordering: .relaxed) }

    func consumer(_ token: UInt64) -> String { name + "-" + String(token) }
    func subject(_ token: UInt64) -> String { "_INBOX." + name + "." + String(token) }
    func setMessageLimit(_ bytes: Int) { limit.store(bytes, ordering: .relaxed) }
    func onClose(_ body: @escaping @Sendable () -> Void) { receivers.withLock { $0.onClose = body } }

    // MARK: Receivers

    func expect(within limit: Duration, _ answer: @escaping Answer) -> UInt64 {
      let deadline = ContinuousClock.now + limit
      return add(.answer(answer, deadline: deadline))
    }

    /// Does not retain the reader.
    func add(_ reader: any InboxReader) -> UInt64 { add(.reader(WeakReader(reader: reader))) }

    private func add(_ receiver: Receiver) -> UInt64 {
      receivers.withLock { receivers in
        defer { receivers.nextToken += 1 }
        receivers.byToken[receivers.nextToken] = receiver
        return receivers.nextToken
      }
    }

    func remove(_ token: UInt64) {
      // The receiver is released outside the lock.
      _ = receivers.withLock { $0.byToken.removeValue(forKey: token) }
    }

    func fail(_ token: UInt64, _ error: LogError) {
      if case .answer(let answer, _)? = receivers.withLock({ $0.byToken.removeValue(forKey: token) }) {
        answer(.failure(error))
      }
    }

    func failAll(_ error: LogError) {
      let all = receivers.withLock { receivers in
        defer { receivers.byToken = [:] }
        return receivers.byToken
      }
      for (_, receiver) in all.sorted(by: { $0.key < $1.key }) {
        switch receiver {
        case .answer(let answer, _): answer(.failure(error))
        case .reader(let weak): weak.reader?.fail(error)
        }
      }
    }

    // MARK: Events

    func received(_ message: Message, under token: UInt64) {
      let receiver = receivers.withLock { receivers -> Receiver? in
        guard let receiver = receivers.byToken[token] else { return nil }
        if case .answer = receiver { receivers.byToken[token] = nil }
        return receiver
      }
      switch receiver {
      case nil: break
      case .answer(let answer, _)?: answer(.success(message))
      case .reader(let weak)?: weak.reader?.received(message, under: token)
      }
    }

    /// libnats connects again. Messages in flight are lost.
    func disconnected() { failAll(.unavailable("The connection was lost.")) }

    func closed() {
      receivers.withLock { $0.onClose }?()
    }

    func sweep() {
      let now = ContinuousClock.now
      let late = receivers.withLock { receivers in
        let late = receivers.byToken.filter { receiver in
          if case .answer(_, let deadline) = receiver.value { deadline < now } else { false }
        }
        for token in late.keys { receivers.byToken[token] = nil }
        return late
      }
      for case .answer(let answer, _) in late.sorted(by: { $0.key < $1.key }).map(\.value) {
        answer(.failure(.unavailable("There was no answer.")))
      }
      for reader in readers { reader.look(at: now) }
    }

    private var readers: [any InboxReader] {
      let numbered = receivers.withLock { receivers in
        receivers.byToken.compactMap { token, receiver in
          if case .reader(let weak) = receiver { weak.reader.map { (token: token, reader: $0) } } else { nil }
        }
      }
      return numbered.sorted { $0.token < $1.token }.map(\.reader)
    }
  }
#endif
