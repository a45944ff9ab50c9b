#if NATS
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import PureduxTesting
  import Testing

  @testable import PureduxNATS

  /// Lists of summaries on a cluster.
  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(15)))
  struct NATSSummaryTests {
    func list(_ log: any OrderedLog) async throws -> ListStore {
      try await ListStore(
        following: log, initialState: [],
        options: FollowingOptions(log: .silent, store: StoreOptions(clock: ManualClock()), summary: { $0.count })
      ) { $0.append($1) }
    }

    @Test("summaries that stores write at their end are listed by another process")
    func atTheEnd() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let here = try await NATSLogTests.open(server)
      for number in 0..<20 {
        let store = try await list(here["lists/\(number)"])
        for entry in 0..<(number % 3 + 1) { try await store.send("\(entry)") }
        await store.shutdown()
      }
      await here.close()
      let there = try await NATSLogTests.open(server)
      let listed = try await all(there.summaries(of: Int.self, prefix: "lists/"))
      #expect(Set(listed.map(\.key)) == Set((0..<20).map { "lists/\($0)" }) && listed.count == 20)
      for summary in listed { #expect(Int(summary.key.dropFirst(6)).map { $0 % 3 + 1 } == summary.value) }
      #expect(try await all(there.summaries(of: Int.self, prefix: "lists/1")).count == 11)
      await there.close()
    }

    @Test("many summaries are listed in batches, each once, whatever is saved meanwhile")
    func many() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      // Long enough for a busy machine.
      let log = try await NATSLogTests.open(server) { $0.answerLimit = .seconds(300) }
      let keys = (0..<2000).map { "list \($0)" }
      try await withThrowingTaskGroup { tasks in
        for key in keys {
          tasks.addTask { _ = try await log[key].summaries?.save([UInt8](repeating: 1, count: 1000), at: 1) }
        }
        try await tasks.waitForAll()
      }
      var found: [String] = []
      for try await summary in log.summaries(prefix: "") {
        found.append(summary.key)
        if found.count % 100 == 1 {
          _ = try await log[found[found.count / 2]].summaries?.save([2], at: 1)
          _ = try await log[keys[keys.count - found.count / 2 - 1]].summaries?.save([2], at: 1)
        }
      }
      #expect(found.count == keys.count && Set(found) == Set(keys))
      await log.close()
    }

    @Test("a list ends after the last summary, and at once if there is none")
    func ends() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      for number in 0..<3 { _ = try await log["\(number)"].summaries?.save([1], at: 1) }
      let values = LastValues(of: log.jetStream.bucketSubject(Bucket.summaries), in: log)
      #expect(try await values.next()?.count == 3)
      #expect(try await values.next() == nil)
      #expect(try await LastValues(of: log.jetStream.bucketSubject("*.none"), in: log).next() == nil)
      await log.close()
    }

    @Test("a late summary of a removed tree is ignored, and the next tree's is listed")
    func removed() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let (here, there) = (try await NATSLogTests.open(server), try await NATSLogTests.open(server))
      let unaware = there["list"]
      _ = try await unaware.append([1])
      #expect(try await unaware.summaries?.save([1], at: 1) == true)
      try await here.remove("list")
      await #expect(throws: LogError.removed) { try await unaware.summaries?.save([2], at: 2) }
      // On its way during the removal.
      let late = LogSummary(key: "list", position: 2, bytes: [2])
      #expect(try await Bucket(there.jetStream, token: "klist").save(late, number: 0, head: { () in 2 }))
      #expect(try await all(here.summaries(prefix: "")) == [])
      let store = try await list(here["list"])
      try await store.send("next")
      try await store.saveSnapshot()
      #expect(try await all(there.summaries(of: Int.self, prefix: "")).map(\.value) == [1])
      await store.shutdown()
      await here.close()
      await there.close()
    }
  }
#endif
