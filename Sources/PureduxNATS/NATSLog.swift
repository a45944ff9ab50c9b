#if NATS
  import Puredux
  public import PureduxLog

  /// Logs on a NATS cluster. Each tree is a subject of one JetStream stream.
  ///
  ///     let log = try await NATSLog(servers: ["nats://10.0.0.1:4222", "nats://10.0.0.2:4222", "nats://10.0.0.3:4222"])
  ///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
  ///
  /// Requires NATS 2.10 or later. One connection serves all trees, with about six threads in the process. libnats is
  /// never called on the cooperative thread pool.
  ///
  /// **Durability.** An acknowledged entry is in the memory of most of the stream's replicas. It is on their disks if
  /// the servers' `jetstream` section has `sync_interval: always`, which a client cannot request. Otherwise, NATS may
  /// lose acknowledged entries and reorder the last ones if most servers die at once.
  ///
  /// **Server failures.** Until the other servers agree, for some seconds, the log accepts and delivers nothing; it
  /// then continues by itself. For some seconds, a leader that is cut off may return an old position for `head()`.
  ///
  /// **Truncation** purges entries ten seconds after the call, or at the next truncation if this process ends earlier.
  /// A reader that has not reached them by then throws `LogError.truncated`. The last entry always stays. A position
  /// without an entry of the tree truncates nothing.
  ///
  /// **Loss.** If entries were removed by other means, a reader that needs them throws `LogError.damaged`; if none is
  /// left, every reader does. Readers check the tree's first entry twice a minute, and before a delivery if the last
  /// check is more than five seconds old. Opening an empty log checks it too. A check takes one round trip, and three
  /// more at the first entry.
  public final class NATSLog: LogDirectory {
    /// Settings of the stream and the connection.
    public struct Options: Sendable {
      /// The name of the stream: up to 200 letters, digits, `-` and `_`. A new stream has the subjects
      /// `<stream>.<random number>.*`. Snapshots are in the bucket `<stream>-snapshots`.
      public var stream = "puredux"
      /// Whether a missing stream is created. If false, `init` throws `.refused` instead, for tools that only read.
      public var makesStream = true
      /// The replicas of a stream that is created here, 1 to 5. One is for experiments.
      public var replicas = 3
      /// The client's credentials.
      public var credentials = Credentials.none
      /// The certificates for TLS. If nil, servers named `tls://…` are still reached by TLS.
      public var tls: TLS?
      /// How long `init` tries to connect and to find or create the stream; a pending request may take `answerLimit`
      /// longer. Both limits are clamped to between zero and a hundred years.
      public var connectLimit = Duration.seconds(10)
      /// The time after which an unanswered request fails with `.unavailable`.
      public var answerLimit = Duration.seconds(5)
      /// The interval of the servers' heartbeats while nothing is new, a tenth of a second to a minute. A reader that
      /// receives nothing for 2.5 intervals starts a new consumer.
      public var heartbeat = Duration.seconds(2)
      /// The delay between a truncation and its purge.
      var truncationGrace = Duration.seconds(10)
      /// How long readers deliver without a check for missing entries: half of `truncationGrace`.
      var lossCheck = Duration.seconds(5)
      /// The interval of an idle reader's checks.
      var idleCheck = Duration.seconds(30)

      /// The defaults.
      public init() {}
    }

    /// The credentials of a client.
    public struct Credentials: Sendable, Hashable {
      enum Kind: Hashable {
        case none
        case user(String, password: String)
        case token(String)
        case file(String)
        case nkey(String, seedFile: String)
      }

      let kind: Kind

      /// No credentials.
      public static let none = Credentials(kind: .none)

      /// A user name and a password.
      public static func user(_ name: String, password: String) -> Credentials {
        Credentials(kind: .user(name, password: password))
      }

      /// A token that the servers know.
      public static func token(_ token: String) -> Credentials { Credentials(kind: .token(token)) }

      /// A credentials file as written by `nsc`: a JWT and its key.
      public static func file(_ path: String) -> Credentials { Credentials(kind: .file(path)) }

      /// The public key of an NKey, and the path of its seed file.
      public static func nkey(_ key: String, seedFile: String) -> Credentials {
        Credentials(kind: .nkey(key, seedFile: seedFile))
      }
    }

    /// Certificates for TLS, as paths of PEM files.
    public struct TLS: Sendable, Hashable {
      /// The trusted certificates; by default the system's.
      public var trusted: String?
      /// The client's certificate chain, if the servers require one.
      public var certificate: String?
      /// The private key of `certificate`, if that file does not have it.
      public var key: String?
      /// The host name in the server's certificate, if it differs from the address.
      public var hostname: String?

      /// Creates TLS settings.
      public init(
        trusted: String? = nil, certificate: String? = nil, key: String? = nil, hostname: String? = nil
      ) {
        self.trusted = trusted
        self.certificate = certificate
        self.key = key
        self.hostname = hostname
      }
    }

    let jetStream: JetStream
    let probe: Probe
    let options: Options
    let heartbeat: Duration
    private let savings = LockedValue(0)
    private let saved = Arrivals()

    /// Connects to a cluster, and creates the stream if it does not exist.
    ///
    /// - Parameters:
    ///   - servers: Some hosts of the cluster, each with a port unless that is 4222.
    ///   - options: Settings of the stream and the connection.
    /// - Throws: `LogError.unavailable` if no majority of the servers answers within `connectLimit`, or if the task is
    ///   cancelled; `.full` if the servers have no room for the stream; `.refused` if an option or address is invalid,
    ///   or an existing stream is unsuitable, such as one that removes entries by itself.
    public init(servers: [String], options: Options = Options()) async throws(LogError) {
      var options = options
      options.connectLimit = options.connectLimit.clamped
      options.answerLimit = options.answerLimit.clamped
      self.options = options
      heartbeat = min(max(options.heartbeat, .milliseconds(100)), .seconds(60))
      guard !servers.isEmpty else { throw .refused("No servers were named.") }
      // Perhaps an address that was cut at a comma of its password: no error may show a part.
      guard
        !servers.dropFirst().contains(where: { server in
          server.contains("@") && !["nats://", "tls://"].contains { server.lowercased().hasPrefix($0) }
        })
      else {
        throw .refused(
          "An address with a user has a scheme, such as nats://. Set a password with a comma in Options.credentials.")
      }
      if let server = servers.first(where: { !Connection.namesHost($0) }) {
        throw .refused(
          "A server's address names its host, as nats://10.0.0.1:4222 does: \(Connection.withoutUser(server))")
      }
      guard (1...5).contains(options.replicas) else {
        throw .refused("A stream has 1 to 5 replicas, not \(options.replicas).")
      }
      guard Subjects.isName(options.stream) else {
        throw .refused("A stream's name has letters, digits, - and _ only: \(options.stream)")
      }
      let deadline = ContinuousClock.now + options.connectLimit
      let connection = try await Connection(servers: servers, options: options, deadline: deadline)
      guard connection.messageLimit >= JetStream.leastMessageLimit else {
        await connection.close()
        throw .refused("The servers take messages of \(connection.messageLimit) bytes only.")
      }
      let jetStream = JetStream(connection, stream: options.stream, answerLimit: options.answerLimit)
      self.jetStream = jetStream
      probe = Probe { [weak jetStream] in
        do throws(LogError) {
          try await jetStream?.checkIdentity()
          return true
        } catch {
          // Each store finds a lasting error by itself.
          return !error.isPassing && !error.isFull
        }
      }
      do {
        try await prepare(until: deadline)
      } catch {
        await connection.close()
        throw error
      }
    }

    /// The log of a tree. Contacts no server until it is used. If the log is empty then, the bucket notes until the
    /// tree's removal that it is in use.
    ///
    /// - Parameter key: Any text of up to 1,000 bytes, where each byte other than an ASCII letter, digit, `-` or `_`
    ///   counts as three. Uses of a log with a longer key throw `LogError.refused`. Equal texts are one key, however
    ///   their accents are encoded.
    public subscript(key: String) -> any OrderedLog { NATSTree(of: key, in: self) }

    /// Closes the connection, after the summaries of ended stores are saved or have failed. Every follower then gets
    /// `LogError.unavailable`, for good: shut the stores down first. Otherwise, the connection closes when the log and
    /// its trees are released.
    public func close() async {
      // Not cancelled with the caller's task.
      await Task {
        while true {
          let count = saved.count
          if savings.withLock({ $0 == 0 }) { break }
          await saved.wait(after: count)
        }
      }.value
      await jetStream.connection.close()
    }

    /// `close` waits for the work.
    func saving(_ body: @escaping @Sendable () async -> Void) {
      savings.withLock { $0 += 1 }
      Task.detached { [self] in
        await body()
        savings.withLock { $0 -= 1 }
        saved.notify()
      }
    }

    /// Lists keys in the order of their names on the servers. In memory are up to 100,000 names, and those of all keys
    /// with removed trees.
    public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
      struct Found: Sendable {
        var pages = Pages()
        /// In reverse order.
        var keys: [String] = []
        var removed: Set<String>?
        var damaged: Set<String> = []
        var isWhole = false
      }
      let found = LockedValue(Found())
      return AsyncThrowingStream { [self] () async throws -> String? in
        while true {
          if let key = found.withLock({ $0.keys.popLast() }) { return key }
          if found.withLock({ $0.isWhole }) { return nil }
          let known = found.withLock { $0.removed }
          var pages = found.withLock { $0.pages }
          let removed = if let known { known } else { try await removedNames() }
          let tokens = try await pages.next { [jetStream] offset throws(LogError) in
            let (subjects, total) = try await jetStream.page(
              of: jetStream.prefix + "*", from: offset, in: jetStream.stream)
            return (subjects, total)
          }
          var keys: [String] = []
          var damaged = found.withLock { $0.damaged }
          for token in tokens {
            let name = token.dropFirst(jetStream.prefix.count)
            if let key = try await key(of: name, removed, prefix, &damaged) { keys.append(key) }
          }
          let next = Found(
            pages: pages, keys: keys.reversed(), removed: removed, damaged: damaged, isWhole: tokens.isEmpty)
          found.withLock { $0 = next }
        }
      }
    }

    /// Lists summaries in the order in which they were saved. In memory are the server's read-ahead, the listed keys,
    /// and the names of keys with removed trees. A summary is left out if its tree's removal note is unreadable.
    public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
      struct Found: Sendable {
        /// In reverse order.
        var summaries: [LogSummary] = []
        /// A summary saved during the listing is sent again.
        var keys: Set<String> = []
        var removed: Set<String>?
      }
      let found = LockedValue(Found())
      let values = LastValues(of: jetStream.bucketSubject(Bucket.summaries), in: self)
      return AsyncThrowingStream { [self] () async throws -> LogSummary? in
        while true {
          if let summary = found.withLock({ $0.summaries.popLast() }) { return summary }
          let known = found.withLock { $0.removed }
          let removed = if let known { known } else { try await removedNames() }
          guard let records = try await values.next() else { return nil }
          // Moved out, so that no batch copies the keys.
          var now = found.withLock { found in
            defer { found.keys = [] }
            return Found(keys: found.keys, removed: removed)
          }
          for record in records {
            guard let stored = Bucket.summary(in: record.bytes, of: jetStream.prefix),
              stored.key.isKey(beginningWith: prefix), try await isThere(stored, removed),
              now.keys.insert(stored.key).inserted
            else { continue }
            now.summaries.append(stored.value)
          }
          now.summaries.reverse()
          found.withLock { [now] in $0 = now }
        }
      }
    }

    /// False if the removal note is damaged.
    private func isThere(_ stored: Bucket.StoredSummary, _ removed: Set<String>) async throws(LogError) -> Bool {
      guard let name = Subjects.token(of: stored.key), removed.contains(name) else { return stored.number == 0 }
      do throws(LogError) {
        return try await Bucket(jetStream, token: name).removals().removed == stored.number
      } catch {
        guard error.isDamage else { throw error }
        return false
      }
    }

    private func removedNames() async throws(LogError) -> Set<String> {
      var (names, pages) = (Set<String>(), Pages())
      while true {
        let subjects = try await pages.next { [jetStream] offset throws(LogError) in
          let (subjects, total) = try await jetStream.page(
            of: jetStream.bucketSubject("*"), from: offset, in: jetStream.bucketStream)
          return (subjects, total)
        }
        if subjects.isEmpty { return names }
        for subject in subjects {
          let name = subject.dropFirst(jetStream.bucketSubject("").count)
          if let base = name.split(separator: "/").first, name == Bucket.removalsKey(of: String(base)) {
            names.insert(String(base))
          }
        }
      }
    }

    private func key(
      of token: some StringProtocol, _ removed: Set<String>, _ prefix: String, _ damaged: inout Set<String>
    ) async throws(LogError) -> String? {
      guard let (base, number) = Subjects.parts(ofToken: token), let key = Subjects.key(ofToken: base),
        key.isKey(beginningWith: prefix)
      else { return nil }
      // A name by an older version may have another spelling.
      let name = Subjects.token(of: key.composed) ?? base
      guard removed.contains(name) else { return number == 0 ? key : nil }
      do throws(LogError) {
        return try await Bucket(jetStream, token: name).removals().removed == number ? key : nil
      } catch {
        // Opening the log will report the damage.
        guard error.isDamage else { throw error }
        return damaged.insert(name).inserted ? key : nil
      }
    }

    /// Removes the tree of a key, unless nobody has used it.
    ///
    /// From a note in the bucket on, the key names a new tree, under another name. A final entry stops the old tree's
    /// readers, and its other data is purged. Ten seconds later, so are the final entry and entries that were in
    /// flight, by the key's next user if this process has died.
    ///
    /// A process that has not noticed the removal may get an acknowledgement for an entry of no tree.
    public func remove(_ key: String) async throws(LogError) { try await NATSTree(of: key, in: self).remove() }

    /// Retries, as servers that have just started have not agreed yet.
    private func prepare(until deadline: ContinuousClock.Instant) async throws(LogError) {
      while true {
        do {
          let entries = try await jetStream.ensure(
            .entries(of: options.stream, replicas: options.replicas), making: options.makesStream)
          let snapshots = try await jetStream.ensure(
            .snapshots(of: options.stream, replicas: options.replicas), making: options.makesStream)
          return jetStream.found(entries, snapshots)
        } catch {
          guard error.isPassing || error.isFull, ContinuousClock.now < deadline else { throw error }
        }
        do {
          try await Task.sleep(for: .milliseconds(250))
        } catch {
          throw .unavailable("The task was cancelled.")
        }
      }
    }
  }

  extension LogError {
    var isPassing: Bool {
      if case .unavailable = self { true } else { false }
    }

    var isFull: Bool { if case .full = self { true } else { false } }

    var isDamage: Bool { if case .damaged = self { true } else { false } }
  }
#else
  @available(
    *, unavailable, message: "PureduxNATS is behind a trait: add traits: [\"NATS\"] to the dependency on Puredux."
  )
  public final class NATSLog {}
#endif
