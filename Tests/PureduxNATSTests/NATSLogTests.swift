#if NATS
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxNATS

  typealias ListStore = RootStore<[String], String>

  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(15)))
  struct NATSLogTests {
    static func options(_ change: (inout NATSLog.Options) -> Void = { _ in }) -> NATSLog.Options {
      var options = NATSLog.Options()
      options.replicas = 1
      options.connectLimit = .seconds(60)
      change(&options)
      return options
    }

    static func open(_ server: NATSServer, _ change: (inout NATSLog.Options) -> Void = { _ in }) async throws -> NATSLog
    {
      try await NATSLog(servers: [server.url], options: options(change))
    }

    func list(
      _ log: any OrderedLog, options: LogOptions = .silent,
      onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil
    ) async throws -> ListStore {
      try await ListStore(
        following: log, initialState: [],
        options: FollowingOptions(log: options, fingerprint: .unchecked, onPhase: onPhase)
      ) {
        $0.append($1)
      }
    }

    @Test("the log on NATS keeps the contract of logs")
    func contract() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server) { $0.truncationGrace = .zero }
      try await checkOrderedLog(within: .seconds(800)) { log[$0] }
      await log.close()
    }

    @Test(
      "no duration traps, however long or short",
      arguments: [Duration(attoseconds: .max), Duration(attoseconds: .min), .zero, .nanoseconds(-1)])
    func durations(duration: Duration) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      var options = NATSLog.Options()
      options.replicas = 1
      (options.connectLimit, options.answerLimit, options.heartbeat) = (duration, duration, duration)
      if duration > .zero {
        let log = try await NATSLog(servers: [server.url], options: options)
        #expect(try await log["a"].head() == 0)
        await log.close()
      } else {
        // The outcome depends on timing.
        if let log = try? await NATSLog(servers: [server.url], options: options) { await log.close() }
      }
    }

    @Test("equal texts are one log, under the spelling that has entries; two such spellings are an error")
    func spellings() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
      let one = try await list(log[composed])
      try await one.send("a")
      let other = try await list(log[decomposed])
      #expect(await other.state == ["a"])
      try await other.send("b")
      for await list in one.states() where list == ["a", "b"] { break }
      await one.shutdown()
      await other.shutdown()
      // An entry of an older version, which used the bytes of the key.
      let prefix = log.jetStream.prefix
      let position = try await log.jetStream.put(prefix + "kn=cc=81e", [1]).get()
      for key in ["n\u{301}e", "\u{144}e"] {
        let tree = log[key]
        #expect(try await tree.head() == position)
        #expect(try await tree.snapshots?.newest() == nil)
      }
      let both = try #require(log[decomposed] as? NATSTree)
      _ = try await log.jetStream.put(prefix + "kcafe=cc=81", [1]).get()
      for key in [composed, decomposed] {
        do {
          _ = try await list(log[key])
          Issue.record("It was opened.")
        } catch LogError.refused(let text) {
          #expect(text.contains("\(prefix)kcaf=c3=a9, \(prefix)kcafe=cc=81"))
        }
      }
      await #expect(throws: LogError.self) { try await both.head() }
      await log.close()
    }

    @Test("stores wait while the server is away, and continue by themselves when it returns")
    func serverKilled() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let (states, isAccepted) = try await statesAfterOutages(
        of: log["list"], stopping: { server.kill() }, starting: { try server.start() })
      #expect(isAccepted && states[0] == states[1] && Set(states[0]).count == 9)
      await log.close()
    }

    @Test("stores that wait for a server do not poll", arguments: [false, true])
    func noPolling(isBusy: Bool) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let (attempts, haveAll) = try await attemptsWhileAway(
        of: { log[$0] }, stores: 20, isBusy: isBusy, stopping: { server.kill() }, starting: { try server.start() })
      #expect(attempts <= (isBusy ? 6 : 1))
      #expect(haveAll == 20)
      await log.close()
    }

    @Test("a server found later with a small max_payload costs neither a trap nor the snapshot", arguments: [0, 1024])
    func smallPayload(limit: Int) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let tree = log["tree"]
      _ = try await tree.append([[1], [2], [3]])
      log.jetStream.connection.inbox.setMessageLimit(limit)
      let snapshot = LogSnapshot(position: 2, bytes: [UInt8](repeating: 7, count: 10_000))
      try await tree.snapshots?.save(snapshot)
      #expect(try await tree.snapshots?.newest() == snapshot)
      #expect(try await tree.append([4]) == 4)
      await log.close()
    }

    @Test("a log that has lost acknowledged entries stops the stores that append to it")
    func beginsAnew() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let store = try await list(log["list"])
      for number in 0..<5 { try await store.send("\(number)") }
      server.kill()
      try server.removeData()
      try server.start()
      // With the same subjects, as from an old backup: positions begin again.
      let another = try await Self.open(server) { $0.stream = "another" }
      var old = JetStream.StreamConfiguration.entries(of: "puredux", replicas: 1)
      old.subjects = [log.jetStream.prefix + "*"]
      try await another.jetStream.ensure(old)
      await #expect(throws: StoreError.self) { try await store.send("lost") }
      guard case .stopped(.unreadable(position: _)) = await store.statistics.log?.phase else {
        Issue.record("\(String(describing: await store.statistics.log))")
        return
      }
      #expect(await store.state == (0..<5).map(String.init))
      await store.shutdown()
      await another.close()
      await log.close()
    }

    @Test("a store ahead of a restored backup stops, and the next one begins with the restored entries")
    func restored() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let store = try await list(log["list"])
      for number in 0..<3 { try await store.send("\(number)") }
      server.kill()
      try server.backUp()
      try server.start()
      for number in 3..<6 { try await store.send("\(number)") }
      let position = try #require(await store.statistics.log?.position)
      server.kill()
      try server.restore()
      try server.start()
      await #expect(throws: StoreError.self) { try await store.send("lost") }
      #expect(await store.statistics.log?.phase == .stopped(.unreadable(position: position + 1)))
      #expect(await store.state.count == 6)
      await store.shutdown()
      // The store has written entries that follow lost ones. No store continues before a decision about them.
      await #expect(throws: StoreError.stopped(.diverged(position: position))) { try await list(log["list"]) }
      // The store may have appended its entry more than once.
      for case .diverged(let entry, _) in try await log["list"].verifyEntries().problems {
        try await log["list"].skip(position: entry, reason: "of one that was ahead of the backup")
      }
      // Clients have seen another history.
      let epoch = try await log["list"].beginEpoch(reason: "restored")
      let next = try await list(log["list"])
      #expect(await next.state == ["0", "1", "2"])
      #expect(await next.statistics.log?.epoch == epoch)
      try await next.send("on")
      #expect(await next.state.last == "on")
      await next.shutdown()
      await log.close()
    }

    @Test("truncated entries are removed after a while, and readers that need them get an error")
    func truncation() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server) { $0.truncationGrace = .milliseconds(1) }
      let tree = try #require(log["tree"] as? NATSTree)
      let positions = try await tree.append((0..<10).map { [UInt8($0)] })
      let other = log["other"]
      _ = try await other.append([1])
      #expect(try await tree.extent() == nil)
      #expect(try await tree.read(after: 0, through: positions[9]).count == 10)
      // Neither a position of no entry nor the last one truncates anything.
      for position in [0, positions[9], positions[9] + 1, .max] {
        try await tree.truncate(through: position)
        #expect(
          try await tree.extent() == NATSTree.Extent(truncated: 0, first: positions[0], start: positions[0]))
      }
      try await tree.truncate(through: positions[6])
      // Entries are purged in the background.
      try await untilFirst(positions[7], of: log.jetStream.prefix + "ktree", in: log)
      await #expect(throws: LogError.truncated(first: positions[7])) {
        try await tree.read(after: positions[5], through: positions[9])
      }
      #expect(try await tree.read(after: positions[6], through: positions[9]).count == 3)
      #expect(try await other.read(after: 0, through: other.head()).count == 1)
      try await tree.truncate(through: positions[2])
      #expect(
        try await tree.extent()
          == NATSTree.Extent(truncated: positions[6], first: positions[7], start: positions[0]))
      await log.close()
    }

    /// Waits until a subject's first entry is at a position or a later one.
    func untilFirst(_ position: UInt64, of subject: String, in log: NATSLog) async throws {
      while try await log.jetStream.first(of: subject, from: 1, in: log.options.stream)?.seq ?? 0 < position {}
    }

    @Test("a snapshot larger than a message is stored in parts, and parts of old snapshots are removed")
    func snapshots() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let tree = try #require(log["a_tree b"] as? NATSTree)
      _ = try await tree.append((0..<9).map { [$0] })
      for position in [5, 9, 7] as [UInt64] {
        try await tree.save(
          LogSnapshot(position: position, bytes: [UInt8](repeating: UInt8(position), count: 2_500_000)))
      }
      #expect(
        try await tree.newest() == LogSnapshot(position: 9, bytes: [UInt8](repeating: 9, count: 2_500_000)))
      let stream = log.jetStream.bucketStream
      #expect(try await log.jetStream.subjects(log.jetStream.bucketSubject("ka_tree=20b.*.*"), in: stream).count == 3)
      // A snapshot with lost parts is ignored.
      try await log.jetStream.purge(log.jetStream.bucketSubject("ka_tree=20b.*.1"), in: stream)
      #expect(try await tree.newest() == nil)
      await log.close()
    }

    @Test("a store begins with a snapshot, and truncates up to the previous one")
    func snapshotOfStore() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server) { $0.truncationGrace = .milliseconds(1) }
      var options = LogOptions.silent
      options.snapshotBytes = 500
      options.truncatesBehindSnapshots = true
      let store = try await list(log["list"], options: options)
      for number in 0..<200 { try await store.send("\(number)") }
      await store.shutdown()
      try await untilFirst(2, of: log.jetStream.prefix + "klist", in: log)
      let again = try await list(log["list"], options: options)
      #expect(await again.state == (0..<200).map(String.init))
      await #expect(throws: LogError.self) {
        var options = LogOptions.silent
        options.ignoresSnapshots = true
        _ = try await list(log["list"], options: options)
      }
      await again.shutdown()
      await log.close()
    }

    @Test("a snapshot that is of another log, beyond the head, or incomplete is replaced")
    func foreignSnapshot() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let tree = try #require(log["list"] as? NATSTree)
      var options = LogOptions.silent
      options.snapshotBytes = 500
      // A snapshot of more than the log has, and no state: it stays until it is replaced.
      let stray = LogSnapshot(position: 1_000_000, bytes: [1, 2, 3])
      for count in [200, 400] {
        let store = try await list(tree, options: options)
        try await tree.save(stray)
        for number in 0..<200 { try await store.send("\(number)") }
        #expect(await store.state.count == count)
        await store.shutdown()
        #expect(try await tree.newest() == stray)
        await #expect(throws: StoreError.stopped(.undecodable(position: 1_000_000))) {
          try await list(tree, options: options)
        }
        options.ignoresSnapshots = true
        await (try list(tree, options: options)).shutdown()
        options.ignoresSnapshots = false
      }
      let (newest, head) = (try #require(try await tree.newest()), try await tree.head())
      #expect(newest.position == head)
      let parts = try await log.jetStream.subjects(
        log.jetStream.bucketSubject("klist.*.*"), in: log.jetStream.bucketStream)
      #expect(parts.count == 1)
      // A snapshot of an earlier stream.
      let name = log.jetStream.bucketSubject("klist.snapshot")
      let manifest = #"{"stream":"before","position":1000000,"name":"1000000-a","parts":0,"bytes":0}"#
      _ = try await log.jetStream.put(name, Array(manifest.utf8)).get()
      #expect(try await tree.newest() == nil)
      let store = try await list(tree, options: options)
      for number in 0..<200 { try await store.send("\(number)") }
      #expect(await store.state.count == 600)
      await store.shutdown()
      let other = try #require(log["other"] as? NATSTree)
      let large = [UInt8](repeating: 1, count: 2_500_000)
      try await other.save(LogSnapshot(position: 10, bytes: large))
      try await log.jetStream.purge(log.jetStream.bucketSubject("kother.*.1"), in: log.jetStream.bucketStream)
      #expect(try await other.newest() == nil)
      try await other.save(LogSnapshot(position: 9, bytes: [7]))
      #expect(try await other.newest() == LogSnapshot(position: 9, bytes: [7]))
      await log.close()
    }

    @Test("a mere follower detects a replaced stream")
    func followsAnotherStream() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let writer = try await list(log["list"])
      for number in 0..<20 { try await writer.send("\(number)") }
      await writer.shutdown()
      let follower = try await list(log["list"])
      server.kill()
      try server.removeData()
      try server.start()
      let another = try await Self.open(server)
      for await phase in follower.logPhases() { if case .stopped(.unreadable) = phase { break } }
      #expect(await follower.state.count == 20)
      await follower.shutdown()
      await another.close()
      await log.close()
    }

    @Test("entries meant for a deleted stream do not enter the next one of its name")
    func pendingForAnotherStream() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let old = try await list(log["list"])
      for number in 0..<5 { try await old.send("\(number)") }
      // The old stream's truncation does not apply to the next one.
      try await log["list"].truncate(through: 3)
      _ = try await log.jetStream.request("STREAM.DELETE.puredux", JetStream.Empty(), for: JetStream.Empty.self).get()
      #expect(old.dispatch("pending") == .enqueued)
      for await phase in old.logPhases() { if case .waiting = phase { break } }
      let next = try await Self.open(server)
      let new = try await list(next["list"])
      try await new.send("new")
      await #expect(throws: StoreError.self) { try await old.send("late") }
      try await new.send("newer")
      #expect(await new.state == ["new", "newer"])
      await old.shutdown()
      await new.shutdown()
      let again = try await list(next["list"])
      #expect(await again.state == ["new", "newer"])
      await again.shutdown()
      await next.close()
      await log.close()
    }

    @Test("the entry limit is that of the stream and the servers, also after they lower it")
    func smallerMessages() async throws {
      let server = try NATSServer("max_payload: 65536")
      defer { server.kill() }
      let log = try await Self.open(server)
      var small = JetStream.StreamConfiguration.entries(of: "small", replicas: 1)
      small.maxMsgSize = 5000
      try await log.jetStream.ensure(small)
      small.name = "tiny"
      small.subjects = ["tiny.*"]
      small.maxMsgSize = 1000
      _ = try await log.jetStream.request("STREAM.CREATE.tiny", small, for: JetStream.Empty.self).get()
      await #expect(throws: LogError.refused("The stream tiny cannot be used: it takes messages of 1000 bytes only.")) {
        try await Self.open(server) { $0.stream = "tiny" }
      }
      let inSmall = try await Self.open(server) { $0.stream = "small" }
      #expect(inSmall["list"].entryLimit == 5000 - 1024)
      let store = try await list(inSmall["list"])
      let other = try await list(log["list"])
      for number in 0..<200 {
        #expect(store.dispatch("\(number)" + String(repeating: "x", count: 100)) == .enqueued)
      }
      try await store.send("last")
      server.kill()
      server.configuration = "max_payload: 4096"
      try server.start()
      for number in 0..<200 {
        #expect(other.dispatch("\(number)" + String(repeating: "x", count: 100)) == .enqueued)
      }
      try await other.send("last")
      #expect(await other.state.count == 201)
      #expect(log["list"].entryLimit == 4096 - 1024)
      await store.shutdown()
      await other.shutdown()
      await inSmall.close()
      await log.close()
    }

    @Test("credentials: users, tokens, and clear errors")
    func credentials() async throws {
      let named = try NATSServer(#"authorization { user: "store", password: "s3cret" }"#)
      defer { named.kill() }
      let log = try await Self.open(named) { $0.credentials = .user("store", password: "s3cret") }
      await #expect(throws: LogError.refused("Authentication Violation: nats://127.0.0.1:\(named.port ?? 0)")) {
        try await NATSLog(servers: ["nats://store:guess@127.0.0.1:\(named.port ?? 0)"], options: Self.options())
      }
      _ = try await log["tree"].append([1])
      await log.close()
      for credentials in [NATSLog.Credentials.none, .user("store", password: "guess")] {
        await #expect {
          try await Self.open(named) { $0.credentials = credentials }
        } throws: { error in
          if case LogError.refused = error { true } else { false }
        }
      }
      let withToken = try NATSServer(#"authorization { token: "t0ken" }"#)
      defer { withToken.kill() }
      let other = try await Self.open(withToken) { $0.credentials = .token("t0ken") }
      _ = try await other["tree"].append([1])
      await other.close()
      for credentials in [NATSLog.Credentials.file("/nowhere"), .nkey("key", seedFile: "/nowhere")] {
        await #expect(throws: LogError.self) {
          try await Self.open(named) {
            $0.credentials = credentials
            $0.connectLimit = .zero
          }
        }
      }
    }

    @Test("TLS with client certificates")
    func tls() async throws {
      let certificates = try Certificates()
      let server = try NATSServer(
        #"tls { cert_file: "\#(certificates.path)/server.pem", key_file: "\#(certificates.path)/server.key" }"#)
      defer { server.kill() }
      let log = try await Self.open(server) {
        $0.tls = NATSLog.TLS(trusted: certificates.path + "/server.pem", hostname: "localhost")
      }
      _ = try await log["tree"].append([1])
      await log.close()
      await #expect(throws: LogError.self) {
        try await Self.open(server) {
          $0.tls = NATSLog.TLS(hostname: "localhost")
          $0.connectLimit = .milliseconds(1)
        }
      }
    }

    @Test("a missing server, an invalid stream name, too long a key and a stream that expires messages are errors")
    func refusals() async throws {
      await #expect {
        try await NATSLog(servers: ["nats://127.0.0.1:1"], options: Self.options { $0.connectLimit = .zero })
      } throws: { error in
        if case LogError.unavailable = error { true } else { false }
      }
      for servers in [[], ["nats://127.0.0.1:port"]] {
        await #expect(throws: LogError.self) {
          try await NATSLog(servers: servers, options: Self.options { $0.connectLimit = .zero })
        }
      }
      // libnats takes some of these addresses for a server on this machine, which may exist.
      for (server, shown) in [
        ("", ""), (" ", " "), ("nats://", "nats://"), ("nats://:4222", "nats://:4222"), ("tls://ann:secret@", "tls://"),
        ("ann:secret@:4222", ":4222"), ("nats:///4222", "nats:///4222"), ("ann:sec://ret@:4222", ":4222"),
        ("nats://ann:secret@\u{200D}:@", "nats://"), ("nats://\0a", "nats://"),
      ] {
        let text = "A server's address names its host, as nats://10.0.0.1:4222 does: \(shown)"
        await #expect(throws: LogError.refused(text)) {
          try await NATSLog(servers: [server, "nats://127.0.0.1:1"])
        }
      }
      let cut =
        "An address with a user has a scheme, such as nats://. Set a password with a comma in Options.credentials."
      for address in [
        "nats://ann:sec,ret@127.0.0.1:1", "nats://ann:sec,:re,t@127.0.0.1:1", "nats://:sec,ret@127.0.0.1:1",
        "nats://ann:sec,re://t@127.0.0.1:1",
      ] {
        await #expect(throws: LogError.refused(cut)) {
          try await NATSLog(servers: address.split(separator: ",").map(String.init))
        }
      }
      for server in ["a", "a:4222", "nats://a", "tls://ann:secret@a:4222", "nats://[::1]:4222", "::1:4222", "[::1]"] {
        #expect(Connection.namesHost(server))
      }
      await #expect(throws: LogError.refused("A stream's name has letters, digits, - and _ only: a.b")) {
        try await NATSLog(servers: ["nats://127.0.0.1:1"], options: Self.options { $0.stream = "a.b" })
      }
      for replicas in [0, -1, 6, .max] {
        await #expect(throws: LogError.refused("A stream has 1 to 5 replicas, not \(replicas).")) {
          try await NATSLog(servers: ["nats://127.0.0.1:1"], options: Self.options { $0.replicas = replicas })
        }
      }
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server) {
        $0.heartbeat = Duration(secondsComponent: .max, attosecondsComponent: 0) * 10
      }
      var forgetful = JetStream.StreamConfiguration.entries(of: "forgetful", replicas: 1)
      forgetful.maxAge = 600_000_000_000
      try await log.jetStream.ensure(.entries(of: "fine", replicas: 1))
      _ = try await log.jetStream.request("STREAM.CREATE.forgetful", forgetful, for: JetStream.Empty.self).get()
      await #expect(
        throws: LogError.refused("The stream forgetful cannot be used: it removes messages older than max_age.")
      ) { try await Self.open(server) { $0.stream = "forgetful" } }
      let long = log[String(repeating: "x", count: 1001)]
      await #expect(throws: LogError.self) { try await long.head() }
      await #expect(throws: LogError.self) { try await long.append([1]) }
      await #expect(throws: LogError.self) { try await long.read(after: 0, through: 1) }
      let tree = log["tree"]
      await #expect(throws: LogError.self) { try await tree.append([UInt8](repeating: 0, count: tree.entryLimit + 1)) }
      _ = try await tree.append([UInt8](repeating: 0, count: tree.entryLimit))
      await log.close()
    }

    @Test("a closed log fails new and pending requests")
    func closing() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await Self.open(server)
      let tree = log["tree"]
      let position = try await tree.append([1])
      let reading = Task { try await tree.read(after: position, through: position + 1) }
      await log.close()
      await #expect(throws: LogError.self) { try await reading.value }
      await #expect(throws: LogError.self) { try await tree.append([1]) }
      await #expect(throws: LogError.self) { try await tree.head() }
      await #expect(throws: LogError.self) { try await tree.read(after: 0, through: 1) }
      await log.close()
    }

    @Test("a released log or reader leaves nothing at the server or in memory", arguments: [true, false])
    func leaving(closes: Bool) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let observing = try await Self.open(server)
      // The servers delete an abandoned consumer after five heartbeats, which is longer than this test may take.
      var log: NATSLog? = try await Self.open(server) { $0.heartbeat = .seconds(60) }
      var tree = log?["tree"]
      weak let connection = log?.jetStream.connection
      _ = try await tree?.append([1])
      for _ in 0..<20 { _ = try await tree?.read(after: 0, through: 1) }
      struct Info: Decodable, Sendable {
        struct State: Decodable, Sendable { var consumerCount: Int }
        var state: State
      }
      while true {
        let info = try await observing.jetStream.request(
          "STREAM.INFO.puredux", JetStream.Empty(), for: Info.self
        ).get()
        if info.state.consumerCount == 0 { break }
      }
      if closes { await log?.close() }
      (log, tree) = (nil, nil)
      // Work in progress still holds the connection.
      while connection != nil { await observing.jetStream.pause() }
      await observing.close()
    }
  }

  extension JetStream {
    fileprivate func pause() async { _ = try? await checkIdentity() }
  }

  /// Certificates for `localhost`, in a directory of their own.
  final class Certificates {
    let path = FileManager.default.temporaryDirectory.path + "/puredux-tls-\(UUID().uuidString)"

    init() throws {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      let outcome = try Program.run([
        "/usr/bin/env", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path + "/server.key", "-out",
        path + "/server.pem",
      ])
      try #require(outcome.succeeds, "\(outcome.said)")
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
  }
#endif
