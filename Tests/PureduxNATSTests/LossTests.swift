#if NATS
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTesting
  import Testing

  @testable import PureduxNATS

  @Suite struct ExtentTests {
    @Test(
      "a log that counts as intact behind a position has all later entries, and a merely truncated one counts as intact"
    )
    func soundness() {
      let all = [3, 5, 8, 9] as [UInt64]
      for removed in 0..<all.count {
        for truncated in [0] + all.dropLast() {
          let first = all.first { $0 > truncated } ?? 0
          for start in [3, nil] as [UInt64?] {
            let extent = NATSTree.Extent(truncated: truncated, first: first, start: start)
            for position in 0...10 as ClosedRange<UInt64> {
              let isWhole = extent.isWhole(behind: position, beginningWith: all[removed])
              let isMissing = all[..<removed].contains { $0 > position }
              #expect(!isWhole || !isMissing, "\(extent), \(removed) removed, after \(position)")
              let isTruncation = all[..<removed].allSatisfy { $0 <= truncated }
              let isKnown = position >= truncated || removed == 0 && start != nil || all[removed...].contains(position)
              #expect(isWhole || !isTruncation || !isKnown, "\(extent), \(removed) removed, after \(position)")
            }
          }
        }
      }
    }
  }

  /// Entries removed from a stream: by an operator against the rules, and by truncation.
  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(15)))
  struct LossTests {
    func list(
      _ log: any OrderedLog, options: LogOptions = .silent, executor: StoreExecutor = .own
    ) async throws -> ListStore {
      try await ListStore(
        following: log, initialState: [],
        options: FollowingOptions(log: options, store: StoreOptions(executor: executor), fingerprint: .unchecked)
      ) { $0.append($1) }
    }

    /// Waits until a store has stopped because entries are missing.
    func untilStopped(_ store: ListStore) async {
      for await phase in store.logPhases() { if case .stopped(.unreadable) = phase { return } }
    }

    func isDamaged(_ error: any Error) -> Bool { if case LogError.damaged = error { true } else { false } }

    func subject(_ log: NATSLog) -> String { log.jetStream.prefix + "klist" }

    static let aMoment = Duration.zero
    static let never = Duration.seconds(3600)

    @Test("opening a purged tree fails, and open stores stop", arguments: [true, false])
    func purged(whole: Bool) async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) { $0.idleCheck = Self.aMoment }
      let (one, other) = (try await list(log["list"]), try await list(log["list"]))
      let beside = try await list(log["beside"])
      try await beside.send("beside")
      for number in 0..<30 { try await one.send("\(number)") }
      for await list in other.states() where list.count == 30 { break }
      try await log.jetStream.purge(whole ? log.jetStream.prefix + ">" : subject(log), in: "puredux")
      await #expect { try await list(log["list"]) } throws: { isDamaged($0) }
      for store in [one, other] {
        await untilStopped(store)
        #expect(await store.state.count == 30)
        await #expect(throws: StoreError.self) { try await store.send("lost") }
        await store.shutdown()
      }
      // The other tree is intact unless the whole stream was purged.
      if whole { await untilStopped(beside) } else { try await beside.send("more") }
      await beside.shutdown()
      await log.close()
    }

    @Test("a log is unavailable, and does not retry, if a server counts entries and shows none")
    func countedAndNotShown() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      let store = try await list(log["list"])
      try await store.send("a")
      await store.shutdown()
      _ = try await (log["list"] as? NATSTree)?.checkEntries(behind: 0)
      try await log.jetStream.ensure(.entries(of: "empty", replicas: 1))
      await log.close()
      server.kill()
      // Requests for a message find none.
      server.configuration = """
        mappings { "$JS.API.STREAM.MSG.GET.puredux": "$JS.API.STREAM.MSG.GET.empty" }
        """
      try server.start()
      let again = try await NATSLogTests.open(server)
      await #expect {
        _ = try await again["list"].head()
      } throws: { error in
        if case LogError.unavailable(let text) = error { text.contains("shows none") } else { false }
      }
      await again.close()
    }

    @Test("appends after a purge do not hide it")
    func appendedBehind() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let unaware = try await NATSLogTests.open(server) {
        $0.lossCheck = Self.never
        $0.idleCheck = Self.never
      }
      let aware = try await NATSLogTests.open(server) {
        $0.lossCheck = Self.aMoment
        $0.idleCheck = Self.never
      }
      let (one, other) = (try await list(unaware["list"]), try await list(aware["list"]))
      for number in 0..<30 { try await one.send("\(number)") }
      for await list in other.states() where list.count == 30 { break }
      try await unaware.jetStream.purge(subject(unaware), in: "puredux")
      try await one.send("behind")
      await untilStopped(other)
      #expect(await other.state.count == 30)
      await #expect { try await list(unaware["list"]) } throws: { isDamaged($0) }
      await one.shutdown()
      await other.shutdown()
      await unaware.close()
      await aware.close()
    }

    @Test("a purge of the first entries is reported only to readers that need them")
    func purgedInPart() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) {
        $0.lossCheck = Self.aMoment
        $0.idleCheck = Self.aMoment
      }
      let tree = try #require(log["list"] as? NATSTree)
      let store = try await list(tree)
      for number in 0..<30 { try await store.send("\(number)") }
      try await log.jetStream.purge(subject(log), before: 21, in: "puredux")
      await #expect(throws: LogError.self) { try await tree.read(after: 0, through: 30) }
      await #expect(throws: LogError.self) { try await tree.read(after: 19, through: 30) }
      // Entries that were sent again, after a late answer, may follow.
      #expect(try await tree.read(after: 21, through: 30).filter { $0.position <= 30 }.count == 9)
      await #expect { try await list(tree) } throws: { isDamaged($0) }
      try await store.send("more")
      var options = LogOptions.silent
      options.snapshotBytes = 1
      let saving = try await ListStore(
        following: log["saved"], initialState: [], options: FollowingOptions(log: options, fingerprint: .unchecked)
      ) { $0.append($1) }
      for number in 0..<30 { try await saving.send("\(number)") }
      let saved = try #require(log["saved"] as? NATSTree)
      while try await saved.newest()?.position ?? 0 < 50 {}
      try await log.jetStream.purge(log.jetStream.prefix + "ksaved", before: 50, in: "puredux")
      let again = try await list(saved)
      #expect(await again.state.count == 30)
      try await again.send("more")
      for store in [store, saving, again] { await store.shutdown() }
      await log.close()
    }

    @Test("a tree without a note, of an older version, opens and gets one")
    func unmarked() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      let tree = try #require(log["list"] as? NATSTree)
      let key = log.jetStream.bucketSubject("klist.truncated")
      let store = try await list(tree)
      for number in 0..<5 { try await store.send("\(number)") }
      await store.shutdown()
      try await log.jetStream.purge(key, in: log.jetStream.bucketStream)
      let again = try await list(log["list"])
      #expect(await again.state.count == 5)
      await again.shutdown()
      try await log.jetStream.purge(subject(log), in: "puredux")
      await #expect { try await list(log["list"]) } throws: { isDamaged($0) }
      // As after `nats kv del`: the loss is accepted.
      _ = try await log.jetStream.put(key, []).get()
      let anew = try await list(log["list"])
      #expect(await anew.state == [])
      try await anew.send("anew")
      await anew.shutdown()
      try await log.jetStream.purge(subject(log), in: "puredux")
      await #expect { try await list(log["list"]) } throws: { isDamaged($0) }
      await log.close()
    }

    @Test("a replica that pauses while others truncate continues if none of its entries is purged")
    func paused() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) {
        $0.truncationGrace = Self.never
        $0.lossCheck = Self.aMoment
      }
      let tree = try #require(log["list"] as? NATSTree)
      let executor = ManualExecutor()
      let paused = try await list(tree, executor: .serial(executor))
      var options = LogOptions.silent
      options.snapshotBytes = 500
      options.truncatesBehindSnapshots = true
      let writer = try await list(tree, options: options)
      // The replica pauses at the beginning, and in the middle.
      for round in 1...2 {
        executor.hold()
        let before = try await tree.extent()?.truncated ?? 0
        for number in 0..<200 { try await writer.send("\(round) \(number)") }
        while try await tree.extent()?.truncated ?? 0 <= before + 100 {}
        executor.letGo()
        try await paused.send("last of \(round)")
        #expect(await paused.state.count == round * 201)
        for await list in writer.states() where list.count == round * 201 { break }
        #expect(await writer.state == paused.state)
      }
      await writer.shutdown()
      await paused.shutdown()
      await log.close()
    }

    @Test("a slow reader gets the remaining entries, and an error at the first missing one")
    func behind() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) {
        $0.truncationGrace = Self.never
        $0.lossCheck = Self.never
      }
      let tree = try #require(log["list"] as? NATSTree)
      let positions = try await tree.append((0..<10).map { [UInt8($0)] })
      // The reader has received the first entries only.
      var slow = tree.records(after: positions[3]).makeAsyncIterator()
      var read = try await slow.next() ?? []
      #expect(read.first?.position == positions[4])
      let more = try await tree.append((10..<20).map { [UInt8($0)] })
      try await tree.truncate(through: more[4])
      for after in [0, positions[2], more[3], more[4]] {
        #expect(try await tree.read(after: after, through: more[9]).last?.position == more[9])
      }
      while read.last?.position != more[9] { read += try await slow.next() ?? [] }
      #expect(read.map(\.position) == positions[4...] + more)
      try await log.jetStream.purge(subject(log), before: more[4] + 1, in: "puredux")
      for after in [0, positions[2], more[3]] {
        await #expect(throws: LogError.truncated(first: more[5])) {
          try await tree.read(after: after, through: more[9])
        }
      }
      #expect(try await tree.read(after: more[4], through: more[9]).count == 5)
      await log.close()
    }
  }
#endif
