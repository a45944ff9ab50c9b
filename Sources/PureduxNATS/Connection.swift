#if NATS
  import CNATS
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

  /// A connection to a cluster. Publishes in call order, and passes incoming messages to its inbox.
  ///
  /// libnats is only called on one serial queue, where it may block.
  final class Connection: Sendable {
    fileprivate struct Outgoing: Sendable {
      let subject: String
      let reply: String?
      let header: (name: String, value: String)?
      let bytes: [UInt8]
      /// The request to fail if libnats refuses the message.
      let token: UInt64?
    }

    private enum Order: Sendable {
      case publish(Outgoing)
      case subscribe(UInt64)
      case unsubscribe(UInt64)
    }

    private enum Life { case open, reopening, closing }

    let inbox: Inbox
    private let servers: [String]
    private let options: NATSLog.Options
    private let queue = DispatchQueue(label: "puredux.nats")
    private let orders: BatchQueue<Order>
    private let life = LockedValue(Life.open)
    /// Used on the queue only.
    private let handle = LockedValue<Handle?>(nil)
    private let sweeper = LockedValue<Task<Void, Never>?>(nil)

    init(
      servers: [String], options: NATSLog.Options, deadline: ContinuousClock.Instant
    ) async throws(LogError) {
      self.servers = servers
      self.options = options
      inbox = Inbox()
      orders = BatchQueue(queue)
      inbox.onClose { [weak self] in self?.reopen() }
      while true {
        let failure = await onQueue { self.open() }
        guard let failure else { break }
        guard failure.isPassing, ContinuousClock.now < deadline else { throw failure }
        do {
          try await Task.sleep(for: .milliseconds(250))
        } catch {
          throw .unavailable("The task was cancelled.")
        }
      }
      let inbox = inbox
      sweeper.withLock {
        $0 = Task.detached {
          while (try? await Task.sleep(for: .milliseconds(250))) != nil { inbox.sweep() }
        }
      }
    }

    deinit {
      sweeper.withLock { $0 }?.cancel()
      inbox.failAll(.unavailable("The log is closed."))
      let handle = handle.withLock { $0.take() }
      queue.async { handle?.destroy() }
    }

    func close() async {
      life.withLock { $0 = .closing }
      sweeper.withLock { $0 }?.cancel()
      _ = await onQueue { () -> LogError? in
        self.handle.withLock { $0.take() }?.destroy()
        return nil
      }
      inbox.failAll(.unavailable("The log is closed."))
    }

    /// Without credentials, for error texts.
    static func withoutUser(_ address: String) -> String {
      let (scheme, place) = parts(address)
      return String(decoding: scheme + place, as: UTF8.self)
    }

    /// Without a host, libnats would connect to this machine.
    static func namesHost(_ address: String) -> Bool {
      let place = parts(address).place.drop { $0 <= UInt8(ascii: " ") }.prefix { $0 != UInt8(ascii: "/") }
      let (host, colon) = (place.first ?? 0, UInt8(ascii: ":"))
      // An IPv6 address may begin with a colon, and has more.
      return host > UInt8(ascii: " ") && (host != colon || place.dropFirst().contains(colon))
    }

    /// The scheme with `://`, and the rest after the user, up to the zero byte at which libnats stops.
    private static func parts(_ address: String) -> (scheme: ArraySlice<UInt8>, place: ArraySlice<UInt8>) {
      let bytes = Array(address.utf8.prefix { $0 != 0 })
      let start = bytes.firstRange(of: Array("://".utf8))?.upperBound ?? 0
      let place = bytes[start...]
      // Credentials may also precede the scheme.
      let scheme =
        bytes[..<start].contains(UInt8(ascii: "@")) || bytes[..<start].dropLast(3).contains(UInt8(ascii: ":"))
        ? [] : bytes[..<start]
      return (scheme, place.lastIndex(of: UInt8(ascii: "@")).map { place[($0 + 1)...] } ?? place)
    }

    var messageLimit: Int { inbox.messageLimit }

    private func onQueue(_ body: @escaping @Sendable () -> LogError?) async -> LogError? {
      await withCheckedContinuation { continuation in queue.async { continuation.resume(returning: body()) } }
    }

    /// Called on the queue.
    private func open() -> LogError? {
      guard life.withLock({ $0 != .closing }) else { return .unavailable("The log is closed.") }
      do throws(LogError) {
        let opened = try Handle(servers: servers, options: options, inbox: inbox)
        handle.withLock { $0 = opened }
        return nil
      } catch {
        return error
      }
    }

    /// libnats gives up after two refusals. A handle that never connected reports its end as well; then another one
    /// exists or is being made.
    private func reopen() {
      guard
        life.withLock({ life in
          guard life == .open else { return false }
          life = .reopening
          return true
        })
      else { return }
      queue.asyncAfter(deadline: .now() + 1) { [weak self] in
        guard let self,
          self.life.withLock({ life in
            guard life == .reopening else { return false }
            life = .open
            return true
          })
        else { return }
        guard self.handle.withLock({ $0?.isClosed ?? true }) else { return }
        self.handle.withLock { $0.take() }?.destroy()
        if self.open() != nil { self.reopen() }
      }
    }

    // MARK: Orders

    func publish(_ subject: String, _ bytes: [UInt8] = []) {
      enqueue(.publish(Outgoing(subject: subject, reply: nil, header: nil, bytes: bytes, token: nil)))
    }

    /// Calls the closure once, after this call, with the answer or a failure.
    func request(
      _ subject: String, _ bytes: [UInt8], header: (name: String, value: String)? = nil, limit: Duration,
      answer: @escaping @Sendable (Result<Inbox.Message, LogError>) -> Void
    ) {
      guard life.withLock({ $0 != .closing }) else {
        return queue.async { answer(.failure(.unavailable("The log is closed."))) }
      }
      let token = inbox.expect(within: limit, answer)
      enqueue(
        .publish(Outgoing(subject: subject, reply: inbox.subject(token), header: header, bytes: bytes, token: token)))
    }

    func subscribe(_ reader: any InboxReader) -> UInt64 {
      let token = inbox.add(reader)
      enqueue(.subscribe(token))
      return token
    }

    func unsubscribe(_ token: UInt64) {
      inbox.remove(token)
      enqueue(.unsubscribe(token))
    }

    private func enqueue(_ order: Order) {
      orders.add(order) { orders in
        for order in orders { self.perform(order) }
      }
    }

    private func perform(_ order: Order) {
      let failure = handle.withLock { handle -> LogError? in
        switch order {
        case .publish(let message): return handle?.publish(message) ?? (handle == nil ? .away : nil)
        // The reader notices a failure by the silence.
        case .subscribe(let token): _ = handle?.subscribe(inbox.subject(token), Mailbox(inbox, token))
        case .unsubscribe(let token): handle?.unsubscribe(token)
        }
        return nil
      }
      if let failure, case .publish(let message) = order, let token = message.token { inbox.fail(token, failure) }
    }
  }

  extension LogError {
    fileprivate static let away = LogError.unavailable("There is no connection.")
  }

  private final class Mailbox: Sendable {
    let inbox: Inbox
    /// A reader's number. If nil, a message's subject names its receiver.
    let token: UInt64?

    init(_ inbox: Inbox, _ token: UInt64?) {
      self.inbox = inbox
      self.token = token
    }
  }

  // SAFETY: libnats made the pointers, and its functions may be called from any thread. The connection is destroyed
  // once, with its subscriptions, by the caller that took the handle out of its `Connection`. Any other subscription is
  // destroyed by the caller that took it out of the table. All other use of a pointer precedes that.
  @safe private struct Handle: @unchecked Sendable {
    private let connection: OpaquePointer
    private var subscriptions: [UInt64: OpaquePointer]

    init(servers: [String], options: NATSLog.Options, inbox: Inbox) throws(LogError) {
      // SAFETY: the inbox that libnats passes back is retained until the closed callback. That is the last one, and is
      // called once if a connection was made.
      let owner = unsafe Unmanaged.passRetained(inbox).toOpaque()
      var connection: OpaquePointer?
      var status = NATS_OK
      do throws(LogError) {
        let made = unsafe try Self.options(servers, options, owner)
        // SAFETY: the out-parameter outlives the call, and libnats copies the options.
        status = unsafe natsConnection_Connect(&connection, made)
        unsafe natsOptions_Destroy(made)
      } catch {
        unsafe Unmanaged<Inbox>.fromOpaque(owner).release()
        throw error
      }
      guard status == NATS_OK, let connection = unsafe connection else {
        unsafe Unmanaged<Inbox>.fromOpaque(owner).release()
        throw Self.error(status, servers.map(Connection.withoutUser).joined(separator: ", "))
      }
      unsafe self.connection = connection
      unsafe subscriptions = [:]
      // SAFETY: the connection is valid, as nobody has destroyed it yet.
      inbox.setMessageLimit(Int(unsafe natsConnection_GetMaxPayload(connection)))
      if let failure = subscribe(inbox.pattern, Mailbox(inbox, nil)) {
        destroy()
        throw failure
      }
    }

    mutating func subscribe(_ subject: String, _ mailbox: Mailbox) -> LogError? {
      var subscription: OpaquePointer?
      // SAFETY: the mailbox that libnats passes back is retained until the completion callback. The message
      // callback owns the message.
      let context = unsafe Unmanaged.passRetained(mailbox).toOpaque()
      let status = unsafe natsConnection_Subscribe(
        &subscription, connection, subject,
        { _, _, message, context in
          guard let message = unsafe message, let context = unsafe context else { return }
          unsafe Handle.received(message, by: Unmanaged<Mailbox>.fromOpaque(context).takeUnretainedValue())
          unsafe natsMsg_Destroy(message)
        }, context)
      guard status == NATS_OK, let subscription = unsafe subscription else {
        // SAFETY: no subscription was made, so nothing calls back with the context.
        unsafe Unmanaged<Mailbox>.fromOpaque(context).release()
        return Self.error(status, "a subscription")
      }
      // SAFETY: as above. The completion is called at most once, after the last message, and releases the mailbox. If
      // the subscription ended before it is set, it is not called, and the mailbox leaks.
      unsafe natsSubscription_SetOnCompleteCB(
        subscription,
        { context in
          guard let context = unsafe context else { return }
          unsafe Unmanaged<Mailbox>.fromOpaque(context).release()
        }, context)
      unsafe natsSubscription_SetPendingLimits(subscription, -1, -1)
      unsafe subscriptions[mailbox.token ?? 0] = subscription
      return nil
    }

    mutating func unsubscribe(_ token: UInt64) {
      // SAFETY: the subscription is out of the table, and this is its last use.
      if let subscription = unsafe subscriptions.removeValue(forKey: token) {
        unsafe natsSubscription_Destroy(subscription)
      }
    }

    var isClosed: Bool {
      // SAFETY: the connection is valid, as `destroy` is called only after the handle was taken out.
      unsafe natsConnection_IsClosed(connection)
    }

    func destroy() {
      // SAFETY: this is the last use of the pointers, see the type. Subscriptions go first: the connection's end does
      // not free them.
      unsafe subscriptions.values.forEach { unsafe natsSubscription_Destroy($0) }
      unsafe natsConnection_Destroy(connection)
    }

    func publish(_ outgoing: Connection.Outgoing) -> LogError? {
      // SAFETY: libnats reads strings and bytes only within the calls and copies them. The message is destroyed here.
      let status = unsafe outgoing.bytes.withUnsafeBytes { bytes in
        let count = Int32(bytes.count)
        guard let reply = outgoing.reply else {
          return unsafe natsConnection_Publish(connection, outgoing.subject, bytes.baseAddress, count)
        }
        guard let header = outgoing.header else {
          return unsafe natsConnection_PublishRequest(connection, outgoing.subject, reply, bytes.baseAddress, count)
        }
        var message: OpaquePointer?
        var status = unsafe natsMsg_Create(
          &message, outgoing.subject, reply, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), count)
        if status == NATS_OK { status = unsafe natsMsgHeader_Set(message, header.name, header.value) }
        if status == NATS_OK { status = unsafe natsConnection_PublishMsg(connection, message) }
        unsafe natsMsg_Destroy(message)
        return status
      }
      return status == NATS_OK ? nil : Self.error(status, "a message of \(outgoing.bytes.count) bytes")
    }

    private static func received(_ message: OpaquePointer, by mailbox: Mailbox) {
      // SAFETY: the message, its subject, bytes and headers are valid until the caller destroys it, and are copied.
      let count = Int(unsafe natsMsg_GetDataLength(message))
      let bytes = unsafe [UInt8](UnsafeRawBufferPointer(start: natsMsg_GetData(message), count: count))
      let reply = unsafe natsMsg_GetReply(message)
      var kind = Inbox.Message.Kind.answer
      if mailbox.token != nil, let reply = unsafe reply,
        let place = unsafe Subjects.place(in: UnsafeBufferPointer(start: reply, count: strlen(reply)))
      {
        kind = .entry(place)
      } else if count == 0, let status = unsafe header("Status", of: message).flatMap({ Int($0) }) {
        let stalled = unsafe header("Nats-Consumer-Stalled", of: message)
        kind = .status(
          status, reply: unsafe reply.map { unsafe String(cString: $0) } ?? stalled,
          lastSent: unsafe header("Nats-Last-Consumer", of: message).flatMap { UInt64($0) })
      }
      if let token = unsafe mailbox.token ?? number(at: natsMsg_GetSubject(message)) {
        mailbox.inbox.received(Inbox.Message(kind: kind, bytes: bytes), under: token)
      }
    }

    private static func number(at subject: UnsafePointer<CChar>?) -> UInt64? {
      // SAFETY: the subject is zero-terminated, and belongs to a message that the caller keeps valid.
      guard let subject = unsafe subject else { return nil }
      return unsafe Subjects.lastNumber(of: UnsafeBufferPointer(start: subject, count: strlen(subject)))
    }

    private static func header(_ name: String, of message: OpaquePointer) -> String? {
      var value: UnsafePointer<CChar>?
      // SAFETY: the value belongs to a message that the caller keeps valid, and is copied.
      guard unsafe natsMsgHeader_Get(message, name, &value) == NATS_OK, let value = unsafe value else { return nil }
      return unsafe String(cString: value)
    }

    private static func error(_ status: natsStatus, _ what: String) -> LogError {
      // SAFETY: libnats' texts are constants.
      let text = unsafe String(cString: natsStatus_GetText(status)) + ": " + what
      return switch status {
      case NATS_MAX_PAYLOAD, NATS_INVALID_SUBJECT, NATS_INVALID_ARG, NATS_ADDRESS_MISSING, NATS_SSL_ERROR,
        NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED, NATS_NOT_FOUND, NATS_SECURE_CONNECTION_WANTED,
        NATS_SECURE_CONNECTION_REQUIRED:
        .refused(text)
      default: .unavailable(text)
      }
    }

    private static func options(
      _ servers: [String], _ options: NATSLog.Options, _ context: UnsafeMutableRawPointer
    ) throws(LogError) -> OpaquePointer {
      var made: OpaquePointer?
      // SAFETY: libnats copies the strings passed to it. Pointers to arguments are valid within the call.
      unsafe natsOptions_Create(&made)
      guard let made = unsafe made else { throw .unavailable("libnats could not be initialized.") }
      var failure: LogError?
      func set(_ what: String, _ status: natsStatus) {
        if status != NATS_OK, failure == nil { failure = .refused("\(what): \(error(status, "the options"))") }
      }
      // SAFETY: the copies of the names are freed after the call that reads them.
      var names = unsafe servers.map { unsafe UnsafePointer<CChar>(strdup($0)) }
      set("servers", unsafe natsOptions_SetServers(made, &names, Int32(names.count)))
      unsafe names.forEach { unsafe free(UnsafeMutablePointer(mutating: $0)) }
      set("name", unsafe natsOptions_SetName(made, "puredux"))
      set("sending", unsafe natsOptions_SetSendAsap(made, true))
      set("receiving", unsafe natsOptions_UseGlobalMessageDelivery(made, true))
      set("connecting", unsafe natsOptions_SetTimeout(made, 2000))
      set("writing", unsafe natsOptions_SetWriteDeadline(made, 5000))
      set("reconnecting", unsafe natsOptions_SetMaxReconnect(made, -1))
      set("reconnecting", unsafe natsOptions_SetReconnectWait(made, 100))
      set("reconnecting", unsafe natsOptions_SetReconnectJitter(made, 50, 50))
      set("pings", unsafe natsOptions_SetPingInterval(made, 1000))
      set("pings", unsafe natsOptions_SetMaxPingsOut(made, 2))
      switch options.credentials.kind {
      case .none: break
      case .user(let name, let password): set("user", unsafe natsOptions_SetUserInfo(made, name, password))
      case .token(let token): set("token", unsafe natsOptions_SetToken(made, token))
      case .file(let path): set(path, unsafe natsOptions_SetUserCredentialsFromFiles(made, path, nil))
      case .nkey(let key, let path): set(path, unsafe natsOptions_SetNKeyFromSeed(made, key, path))
      }
      if let tls = options.tls {
        set("TLS", unsafe natsOptions_SetSecure(made, true))
        if let path = tls.trusted { set(path, unsafe natsOptions_LoadCATrustedCertificates(made, path)) }
        if let path = tls.certificate {
          set(path, unsafe natsOptions_LoadCertificatesChain(made, path, tls.key ?? path))
        }
        if let name = tls.hostname { set(name, unsafe natsOptions_SetExpectedHostname(made, name)) }
      }
      // SAFETY: the context is the inbox, retained until the closed callback, the last of the three.
      set(
        "reconnecting",
        unsafe natsOptions_SetReconnectedCB(
          made,
          { connection, context in
            guard let context = unsafe context else { return }
            let limit = unsafe natsConnection_GetMaxPayload(connection)
            unsafe Unmanaged<Inbox>.fromOpaque(context).takeUnretainedValue().setMessageLimit(Int(limit))
          }, context))
      set(
        "disconnecting",
        unsafe natsOptions_SetDisconnectedCB(
          made,
          { _, context in
            guard let context = unsafe context else { return }
            unsafe Unmanaged<Inbox>.fromOpaque(context).takeUnretainedValue().disconnected()
          }, context))
      set(
        "closing",
        unsafe natsOptions_SetClosedCB(
          made,
          { _, context in
            guard let context = unsafe context else { return }
            unsafe Unmanaged<Inbox>.fromOpaque(context).takeRetainedValue().closed()
          }, context))
      if let failure {
        unsafe natsOptions_Destroy(made)
        throw failure
      }
      return unsafe made
    }
  }
#endif
