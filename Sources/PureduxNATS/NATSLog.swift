#if NATS
  import Puredux
  public import PureduxLog

  /// Logs on a NATS cluster: all trees in one JetStream stream, each under a subject of its own, for stores on any
  /// number of machines.
  ///
  ///     let log = try await NATSLog(servers: ["nats://10.0.0.1:4222", "nats://10.0.0.2:4222", "nats://10.0.0.3:4222"])
  ///     let board = try await RootStore(following: log["boards/17"], initialState: Board()) { $0.apply($1) }
  ///
  /// **What is safe.** An entry that is told to be appended is in the memory of most of the stream's replicas, and on
  /// their disks if the servers run with `sync_interval: always` in their `jetstream` section. Without that, NATS may
  /// lose what it has acknowledged, and change the order of the last entries, when most of the servers die at once; it
  /// cannot be asked for from here. NATS 2.10 or later is needed.
  ///
  /// **When servers die** the log takes and delivers nothing until the others have agreed, some seconds; then all goes
  /// on by itself, by another server if need be. `head()` is what the stream's leader says: for some seconds one that
  /// is cut off from the others can say what was before.
  ///
  /// **Truncation** removes entries ten seconds after it was asked for; if this process ends before, they go with the
  /// next truncation. A reader that has not come to them yet gets them until then, and is told afterwards that they are
  /// gone (`LogError.truncated`). The last entry always stays. A position that is not one of the tree's entries
  /// truncates nothing.
  ///
  /// **What others remove** from the stream is found by who needs it, and by all where nothing is left of a tree
  /// (`LogError.damaged`): it is noted in the bucket that a tree has entries, and with which it begins. That is looked
  /// at when a log has no entries; before a reader hands one out, if it has not looked in the last five seconds; and
  /// twice a minute. To look takes one round trip; with the first entry of a tree two more.
  ///
  /// One connection serves all trees, with about six threads in the whole process. No call to libnats is made on the
  /// cooperative pool, and JetStream is spoken by its own messages: libnats' functions for it wait for the answer, and
  /// have a thread for each subscription.
  public final class NATSLog: LogDirectory {
    /// How the stream is made, and the servers are spoken to.
    public struct Options: Sendable {
      /// The stream in which the trees are: letters, digits, `-` and `_`. It is made where it is not there, with the
      /// subjects `<stream>.<a number of its own>.*`; the snapshots are in the bucket `<stream>-snapshots`.
      public var stream = "puredux"
      /// Whether the stream is made where it is not there. Without it that is refused: for a tool that only looks.
      public var makesStream = true
      /// On how many servers the stream is, if it is made here: 1 to 5. One is for trying things out.
      public var replicas = 3
      /// What the client proves who it is with.
      public var credentials = Credentials.none
      /// What TLS is used with. It is used without this, too, for servers that are named `tls://…`, with the system's
      /// certificates.
      public var tls: TLS?
      /// For how long the first connection, and the stream, are tried before `init` throws; an answer that is waited
      /// for then may take `answerLimit` longer. Less than zero counts as zero, and more than a hundred years as that;
      /// so it does for the next.
      public var connectLimit = Duration.seconds(10)
      /// What a server has not answered after that long is `.unavailable`.
      public var answerLimit = Duration.seconds(5)
      /// How often the servers say that there is nothing new: between a tenth of a second and a minute. A reader that
      /// has not heard anything for 2.5 times as long begins anew.
      public var heartbeat = Duration.seconds(2)
      /// How long a truncation waits.
      var truncationGrace = Duration.seconds(10)
      /// For how long a reader hands out entries without looking whether some are missing: half of that.
      var lossCheck = Duration.seconds(5)
      /// After how long without a look it looks though nothing comes.
      var idleCheck = Duration.seconds(30)

      /// The defaults.
      public init() {}
    }

    /// What a client proves to the servers who it is with.
    public struct Credentials: Sendable, Hashable {
      enum Kind: Hashable {
        case none
        case user(String, password: String)
        case token(String)
        case file(String)
        case nkey(String, seedFile: String)
      }

      let kind: Kind

      /// Nothing: the servers let everybody in.
      public static let none = Credentials(kind: .none)

      /// A name and a password.
      public static func user(_ name: String, password: String) -> Credentials {
        Credentials(kind: .user(name, password: password))
      }

      /// A token that the servers know.
      public static func token(_ token: String) -> Credentials { Credentials(kind: .token(token)) }

      /// A file of credentials, as `nsc` writes it: a JWT and its key.
      public static func file(_ path: String) -> Credentials { Credentials(kind: .file(path)) }

      /// The public key of an NKey, and the file of its seed.
      public static func nkey(_ key: String, seedFile: String) -> Credentials {
        Credentials(kind: .nkey(key, seedFile: seedFile))
      }
    }

    /// Paths of files in PEM form.
    public struct TLS: Sendable, Hashable {
      /// The certificates that are trusted; those of the system by default.
      public var trusted: String?
      /// One's own certificate, and those that it is signed with, where the servers ask for one.
      public var certificate: String?
      /// The key of that certificate.
      public var key: String?
      /// The name in the server's certificate, where it is not the one that is connected to.
      public var hostname: String?

      /// With the system's certificates, and none of one's own, where nothing else is said.
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
    /// Asks the servers on behalf of all stores that wait for them.
    let probe: Probe
    let options: Options
    let heartbeat: Duration
    /// How many summaries are being saved.
    private let savings = LockedValue(0)
    private let saved = Arrivals()

    /// Connects, and makes the stream where it is not there.
    ///
    /// - Parameters:
    ///   - servers: Some servers of the cluster, each by its host, with the port where that is not 4222; the others are
    ///     learned from them.
    ///   - options: How the stream is made, and the servers are spoken to.
    /// - Throws: `LogError.unavailable` where no server, or not most of them, can be reached within `connectLimit`;
    ///   `.refused` where the options or the servers' names are wrong, or a stream is there that removes entries by
    ///   itself.
    public init(servers: [String], options: Options = Options()) async throws(LogError) {
      var options = options
      options.connectLimit = options.connectLimit.clamped
      options.answerLimit = options.answerLimit.clamped
      self.options = options
      heartbeat = min(max(options.heartbeat, .milliseconds(100)), .seconds(60))
      guard !servers.isEmpty else { throw .refused("No servers were named.") }
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
      guard connection.messageLimit >= 4096 else {
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

    /// The log of a tree. Asks nothing of the servers until it is used. If the log has no entry then, the bucket gets a
    /// value that marks it as used. The value stays until the tree is removed.
    ///
    /// - Parameter key: Any text: up to 1,000 bytes, where signs other than ASCII letters, digits, `-` and `_` count as
    ///   three. A longer one is refused when the log is used (`LogError.refused`). Texts that are equal are one key,
    ///   however their accents are written.
    public subscript(key: String) -> any OrderedLog { NATSTree(of: key, in: self) }

    /// Closes the connection, when the summaries that stores have written at their end are saved, or it is known that
    /// they cannot be: whoever follows one of the logs is told that it is unavailable, for good. Shut the stores down
    /// first. Without this call it is closed when nobody holds the log, or one of its trees, any more.
    public func close() async {
      // In a task that nobody cancels.
      await Task {
        while true {
          let count = saved.count
          if savings.withLock({ $0 == 0 }) { break }
          await saved.wait(after: count)
        }
      }.value
      await jetStream.connection.close()
    }

    /// Does something that who closes the log waits for.
    func saving(_ body: @escaping @Sendable () async -> Void) {
      savings.withLock { $0 += 1 }
      Task.detached { [self] in
        await body()
        savings.withLock { $0 -= 1 }
        saved.notify()
      }
    }

    /// In the order of their names on the servers, of which 100,000 are asked for and are in memory at a time; beside
    /// them are the names of those keys of which a tree has been removed.
    public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
      struct Found: Sendable {
        var pages = Pages()
        /// The last one first.
        var keys: [String] = []
        /// The names of the keys of which a tree has been removed.
        var removed: Set<String>?
        /// The names of the listed keys whose notes of removals are damaged.
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

    /// In the order in which they were saved, sent by one consumer of the bucket. In memory are what the servers send
    /// ahead, the keys that have come, and the names of those of which a tree has been removed. The summary of a
    /// tree whose removals cannot be read is left out.
    public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
      struct Found: Sendable {
        /// The last one first.
        var summaries: [LogSummary] = []
        /// One that is saved anew meanwhile comes once more.
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
          // Taken out, so that they are not copied for each batch.
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

    /// Whether the tree of a summary has not been removed. If the note of the removals is damaged, nobody knows which
    /// of a key's summaries is the present tree's: they are left out, as a removed tree's could hide it.
    private func isThere(_ stored: Bucket.StoredSummary, _ removed: Set<String>) async throws(LogError) -> Bool {
      guard let name = Subjects.token(of: stored.key), removed.contains(name) else { return stored.number == 0 }
      do throws(LogError) {
        return try await Bucket(jetStream, token: name).removals().removed == stored.number
      } catch {
        guard error.isDamage else { throw error }
        return false
      }
    }

    /// The names of the keys of which a tree has been removed.
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

    /// The key of a tree that there is, if it begins with a text.
    private func key(
      of token: some StringProtocol, _ removed: Set<String>, _ prefix: String, _ damaged: inout Set<String>
    ) async throws(LogError) -> String? {
      guard let (base, number) = Subjects.parts(ofToken: token), let key = Subjects.key(ofToken: base),
        key.isKey(beginningWith: prefix)
      else { return nil }
      // What is left of one that is removed goes later. An older version's name may be that of another spelling.
      let name = Subjects.token(of: key.composed) ?? base
      guard removed.contains(name) else { return number == 0 ? key : nil }
      do throws(LogError) {
        return try await Bucket(jetStream, token: name).removals().removed == number ? key : nil
      } catch {
        // Opening the log reports the damage.
        guard error.isDamage else { throw error }
        return damaged.insert(name).inserted ? key : nil
      }
    }

    /// Notes in the bucket that the tree is removed, unless nobody has used it. From then on the key names a new tree,
    /// under another name. Then an entry that says so is appended to the old one, behind which nobody reads, whoever
    /// follows it, and what lies before that is purged, as are the snapshots; that entry, and what others had on their
    /// way, ten seconds later. Who dies before that leaves it to whoever uses the key next. A process that does not know
    /// yet that the tree is gone may be told that an entry was appended, which is nobody's.
    public func remove(_ key: String) async throws(LogError) { try await NATSTree(of: key, in: self).remove() }

    /// Makes the stream and the bucket for the snapshots, where they are not there. Tries as long as it may: servers
    /// that have just started agree on nothing yet.
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
    /// Whether it may be otherwise later.
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
