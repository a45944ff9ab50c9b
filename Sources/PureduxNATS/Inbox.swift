#if NATS
  import Puredux
  import PureduxLog
  import Synchronization

  /// What consumers' messages are for.
  protocol InboxReader: AnyObject, Sendable {
    func received(_ message: Inbox.Message, under token: UInt64)
    /// Called from time to time.
    func look(at now: ContinuousClock.Instant)
    /// It gets no more, and ends behind what it has.
    func fail(_ error: LogError)
  }

  /// What comes to a connection: answers to requests, each of which is under a number, and entries for readers, each of
  /// whose consumers has a number, too.
  final class Inbox: Sendable {
    /// What comes.
    struct Message: Sendable {
      enum Kind: Sendable, Equatable {
        case answer
        case entry(Subjects.Place)
        /// What a server says of itself: 503 for nobody who would answer, 100 for a consumer's heartbeat or question.
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

    /// What begins the names of its subjects and consumers.
    private let name = "puredux-" + String(UInt64.random(in: .min ... .max), radix: 36)
    private let receivers = LockedValue(Receivers())
    private let limit = Atomic(1 << 20)

    var pattern: String { "_INBOX." + name + ".*" }
    var messageLimit: Int { limit.load(ordering: .relaxed) }

    /// The name of the consumer whose messages come under a number.
    func consumer(_ token: UInt64) -> String { name + "-" + String(token) }
    func subject(_ token: UInt64) -> String { "_INBOX." + name + "." + String(token) }
    func setMessageLimit(_ bytes: Int) { limit.store(bytes, ordering: .relaxed) }
    func onClose(_ body: @escaping @Sendable () -> Void) { receivers.withLock { $0.onClose = body } }

    // MARK: Who waits

    func expect(within limit: Duration, _ answer: @escaping Answer) -> UInt64 {
      let deadline = ContinuousClock.now + limit
      return add(.answer(answer, deadline: deadline))
    }

    /// What comes under the number goes to a reader, for as long as that exists.
    func add(_ reader: any InboxReader) -> UInt64 { add(.reader(WeakReader(reader: reader))) }

    private func add(_ receiver: Receiver) -> UInt64 {
      receivers.withLock { receivers in
        defer { receivers.nextToken += 1 }
        receivers.byToken[receivers.nextToken] = receiver
        return receivers.nextToken
      }
    }

    func remove(_ token: UInt64) {
      // What is removed is released outside the lock.
      _ = receivers.withLock { $0.byToken.removeValue(forKey: token) }
    }

    func fail(_ token: UInt64, _ error: LogError) {
      if case .answer(let answer, _)? = receivers.withLock({ $0.byToken.removeValue(forKey: token) }) {
        answer(.failure(error))
      }
    }

    /// Nothing of what is waited for will come: who waits is told. Readers end.
    func failAll(_ error: LogError) {
      let all = receivers.withLock { receivers in
        defer { receivers.byToken = [:] }
        return receivers.byToken
      }
      for receiver in all.values {
        switch receiver {
        case .answer(let answer, _): answer(.failure(error))
        case .reader(let weak): weak.reader?.fail(error)
        }
      }
    }

    // MARK: What happens

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

    /// The connection is lost, and libnats makes another one. What has been sent meanwhile has not arrived.
    func disconnected() { failAll(.unavailable("The connection was lost.")) }

    /// libnats has closed the connection.
    func closed() {
      receivers.withLock { $0.onClose }?()
    }

    /// From time to time: tells what has not been answered, and has readers look whether they still hear something.
    func sweep() {
      let now = ContinuousClock.now
      let late = receivers.withLock { receivers in
        let late = receivers.byToken.filter { receiver in
          if case .answer(_, let deadline) = receiver.value { deadline < now } else { false }
        }
        for token in late.keys { receivers.byToken[token] = nil }
        return late
      }
      for case .answer(let answer, _) in late.values { answer(.failure(.unavailable("There was no answer."))) }
      for reader in readers { reader.look(at: now) }
    }

    private var readers: [any InboxReader] {
      receivers.withLock { receivers in
        receivers.byToken.values.compactMap { if case .reader(let weak) = $0 { weak.reader } else { nil } }
      }
    }
  }
#endif
