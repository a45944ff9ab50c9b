#if NATS
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxNATS

  @Suite struct PagesTests {
    @Test("paged names are each returned once, whatever is removed meanwhile", arguments: [2, 3, 5, 100])
    func pages(size: Int) async throws {
      let names = LockedValue((0..<30).map { "\($0 + 100)" })
      let fetch: Pages.Fetch = { offset throws(LogError) in
        let all = names.withLock { $0 }
        return (Array(all.dropFirst(offset).prefix(size)), all.count)
      }
      var (pages, found) = (Pages(), [String]())
      while true {
        let page = try await pages.next(fetch)
        if page.isEmpty { break }
        found += page
        // The first names are removed, and the others move up.
        names.withLock { $0.removeFirst(min(2, max(0, $0.count - 12))) }
      }
      #expect(Set(found).count == found.count && found == found.sorted())
      #expect(found.suffix(12) == (118..<130).map { "\($0)" })
    }

    @Test("a token decodes to its key", arguments: ["", "a", "b/1", "caf\u{E9}", "=", "k.*>"])
    func tokens(key: String) throws {
      let token = try #require(Subjects.token(of: key))
      #expect(Subjects.key(ofToken: token) == key)
      let parts = try #require(Subjects.parts(ofToken: Subjects.token(token, number: 12)))
      #expect(parts.base == token && parts.number == 12)
      for other in ["x", "k=", "k=4", "k=zz", "k=41", "k/1"] { #expect(Subjects.key(ofToken: other) == nil) }
    }
  }

  /// The remains of a removed tree, and the notice to its followers.
  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(15)))
  struct RemovalTests {
    func list(_ log: any OrderedLog) async throws -> ListStore {
      try await ListStore(following: log, initialState: [], options: FollowingOptions(log: .silent)) { $0.append($1) }
    }

    @Test("the logs on NATS keep the contract of directories of logs")
    func contract() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      try await checkLogDirectory(NATSLogTests.open(server), within: .seconds(1000))
    }

    @Test("stores of trees that any process removes at random, most before their first entry, stop")
    func removals() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let processes = [try await NATSLogTests.open(server), try await NATSLogTests.open(server)]
      try await RandomRemovals.run(0..<10, in: processes)
      for process in processes { await process.close() }
    }

    @Test("a tree without entries ends when another process removes it, and removing an unused tree leaves nothing")
    func empty() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let (here, there) = (
        try await NATSLogTests.open(server) { $0.truncationGrace = .zero }, try await NATSLogTests.open(server)
      )
      try await checkRemovalWithoutEntries(in: here, followedIn: there) {
        let bucket = here.jetStream.bucketSubject(">")
        return try await here.jetStream.subjects(bucket, in: here.jetStream.bucketStream).isEmpty
      } whenRemoved: { unaware in
        // This also holds after the purge, for a reader and a writer that have missed the final entry.
        let bucket = Bucket(here.jetStream, token: "klist")
        while try await bucket.removals().cleared == 0 { await Task.yield() }
        _ = try await unaware.append([1])
      }
      await here.close()
      await there.close()
    }

    @Test("a tree with a damaged removal note hides no other tree, and is named")
    func damaged() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      for key in ["a", "b", "c"] { _ = try await log[key].append([1]) }
      try await log.remove("b")
      _ = try await log["b"].append([2])
      for key in ["a", "b", "c"] { _ = try await log[key].summaries?.save([1], at: .max) }
      let subject = log.jetStream.bucketSubject(Bucket.removalsKey(of: "kb"))
      while true {
        let revision = try #require(try await log.jetStream.last(of: subject, in: log.jetStream.bucketStream)).seq
        let answer = try await log.jetStream.put(subject, Array("damaged".utf8), revision: revision)
        // A failure means that the removal's last step has written the note meanwhile.
        if (try? answer.get()) != nil { break }
      }
      #expect(try await all(log.keys(prefix: "")) == ["a", "b", "c"])
      // A late summary of a removed tree would have the same key.
      #expect(try await all(log.summaries(prefix: "")).map(\.key).sorted() == ["a", "c"])
      let report = try await log.copy(to: MemoryLogs())
      #expect(report.logs == 2 && report.failures.map(\.key) == ["b"])
      await log.close()
    }

    @Test("stores of other processes stop, and their late entries belong to no tree")
    func others() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let (here, there) = (try await NATSLogTests.open(server), try await NATSLogTests.open(server))
      let tree = there["list"]
      let store = try await list(tree)
      for number in 0..<3 { try await store.send("\(number)") }
      try await store.saveSnapshot()
      try await here.remove("list")
      for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
      await #expect(throws: StoreError.stopped(.removed)) { try await store.send("late") }
      await store.shutdown()
      // A log object that has not noticed the removal yet.
      let unaware = try #require(here["list"] as? NATSTree)
      _ = try await unaware.append([1])
      try await there.remove("list")
      _ = try await unaware.append([2])
      await #expect(throws: LogError.removed) { try await unaware.read(after: 0, through: .max) }
      await #expect(throws: LogError.removed) { try await unaware.append([3]) }
      let next = try await list(here["list"])
      #expect(await next.state == [])
      try await next.send("next")
      #expect(try await all(there.keys(prefix: "")) == ["list"])
      await next.shutdown()
      await here.close()
      await there.close()
    }

    @Test("entries in flight are purged after a while, and nothing is left")
    func clears() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) { $0.truncationGrace = .zero }
      let store = try await list(log["list"])
      try await store.send("a")
      try await store.saveSnapshot()
      await store.shutdown()
      try await log.remove("list")
      let bucket = Bucket(log.jetStream, token: "klist")
      while try await bucket.removals().cleared == 0 { await Task.yield() }
      #expect(try await log.jetStream.subjects(log.jetStream.prefix + ">", in: "puredux") == [])
      #expect(try await bucket.isEmpty())
      try await log.remove("list")
      #expect(try await bucket.removals().removed == 1)
      await log.close()
    }

    @Test("a removal that was only noted is completed by the key's next user", arguments: [true, false])
    func cutShort(opens: Bool) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      let store = try await list(log["list"])
      try await store.send("a")
      try await store.saveSnapshot()
      // The remover dies after the note.
      let bucket = Bucket(log.jetStream, token: "klist")
      try await bucket.noteRemoval(of: 0)
      #expect(try await all(log.keys(prefix: "")) == [])
      if opens { #expect(try await log["list"].head() == 0) } else { try await log.remove("list") }
      for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
      #expect(try await bucket.isEmpty())
      #expect(try await log.jetStream.entries(of: log.jetStream.prefix + "klist").count == 1)
      await store.shutdown()
      await log.close()
    }

    @Test("a tree with purged entries can be removed, and a new one begins")
    func purged() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      let store = try await list(log["list"])
      try await store.send("a")
      await store.shutdown()
      _ = try await (log["list"] as? NATSTree)?.checkEntries(behind: 0)
      try await log.jetStream.purge(log.jetStream.prefix + "klist", in: "puredux")
      await #expect(throws: LogError.self) { try await list(log["list"]) }
      try await log.remove("list")
      let next = try await list(log["list"])
      try await next.send("b")
      #expect(await next.state == ["b"])
      await next.shutdown()
      await log.close()
    }

    @Test("erased entries are gone from the stream and the bucket, and stores continue")
    func erased() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) {
        $0.truncationGrace = .zero
        $0.lossCheck = .zero
      }
      let tree = try #require(log["list"] as? NATSTree)
      let make = { @Sendable () async throws -> ListStore in
        try await ListStore(following: tree, initialState: [], options: FollowingOptions(log: .silent)) {
          list, action in
          list.append(action)
          if action == "forget" { list.removeAll { $0.hasPrefix("secret") } }
        }
      }
      let store = try await make()
      for action in ["kept", "secret"] { try await store.send(action) }
      try await store.saveSnapshot()
      for action in ["forget", "more"] { try await store.send(action) }
      let position = try await store.eraseLog()
      try await store.send("later")
      let second = try await make()
      #expect(await second.state == ["kept", "forget", "more", "later"])
      // An entry without actions, and the last one; perhaps one that was sent again.
      let entries = try await tree.read(after: position, through: try await tree.head())
      #expect(!entries.contains { $0.bytes.contains(Array("secret".utf8)) })
      #expect(try await log.jetStream.entries(of: tree.subject()).count == entries.count)
      await #expect(throws: LogError.self) { try await tree.read(after: 0, through: position) }
      // The manifest, its part, the extent, and the note that the tree is in use.
      let bucket = try await log.jetStream.subjects(
        log.jetStream.bucketSubject("klist.>"), in: log.jetStream.bucketStream)
      #expect(bucket.count == 4)
      await second.shutdown()
      await store.shutdown()
      await log.close()
    }

    @Test("a process that missed a tree's final entry detects the removal, also after the purge")
    func missed() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) { $0.truncationGrace = .zero }
      let tree = log["list"]
      let position = try await tree.append([1])
      let unaware = try (0..<4).map { _ in try #require(log["list"] as? NATSTree) }
      for tree in unaware { #expect(try await tree.head() == position) }
      try await log.remove("list")
      let bucket = Bucket(log.jetStream, token: "klist")
      while try await bucket.removals().cleared == 0 { await Task.yield() }
      await #expect(throws: LogError.removed) { try await tree.head() }
      let snapshot = LogSnapshot(position: position, bytes: [1])
      await #expect(throws: LogError.removed) { try await unaware[0].save(snapshot) }
      await #expect(throws: LogError.removed) { try await unaware[1].replace(with: snapshot) }
      await #expect(throws: LogError.removed) { try await unaware[2].summaries?.save([1], at: position) }
      #expect(try await bucket.isEmpty())
      await #expect(throws: LogError.removed) { try await unaware[3].head() }
      #expect(try await bucket.isEmpty())
      let other = try #require(log["list"] as? NATSTree)
      #expect(try await other.head() == 0)
      #expect(try await other.append([2]) > position)
      await log.close()
    }
  }
#endif
