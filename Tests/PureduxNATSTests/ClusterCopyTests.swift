#if NATS
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import Testing

  @testable import PureduxNATS

  /// Copies to a cluster, whose logs share positions, and back preserve the state.
  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(15)))
  struct ClusterCopyTests {
    func list(_ log: any OrderedLog) async throws -> ListStore {
      try await ListStore(
        following: log, initialState: [],
        options: FollowingOptions(log: .silent, fingerprint: .hashed { UInt64($0.count) })
      ) { $0.append($1) }
    }

    @Test("logs are copied to a cluster and back, truncated or not, and stores continue with them")
    func copied() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server) { $0.truncationGrace = .zero }
      let memory = MemoryLogs()
      let keys = ["beside", "truncated", "whole"]
      for key in keys {
        let store = try await list(memory[key])
        for action in ["a", "b"] { try await store.send(action) }
        if key == "truncated" { try await store.eraseLog() } else { try await store.saveSnapshot() }
        try await store.send("c")
        await store.shutdown()
      }
      #expect(try await memory.copy(to: log).logs == 3)
      #expect(try await memory.copy(to: log).added == 0)
      // From here on, positions have gaps.
      var stores: [ListStore] = []
      for key in keys { stores.append(try await list(log[key])) }
      for action in ["d", "e"] { for store in stores { try await store.send(action) } }
      try await stores[1].eraseLog()
      for store in stores {
        try await store.send("f")
        await store.shutdown()
      }
      let back = MemoryLogs()
      #expect(try await log.copy(to: back).logs == 3)
      #expect(try await log.copy(to: back).added == 0)
      for key in keys {
        #expect(try await log[key].verifyEntries().problems == [])
        #expect(try await back[key].verifyEntries().problems == [])
        let store = try await list(back[key])
        try await store.send("g")
        #expect(await store.state == ["a", "b", "c", "d", "e", "f", "g"])
        await store.shutdown()
      }
      await log.close()
    }

    @Test("logs on a cluster that are copied to themselves stay as they are")
    func toThemselves() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      let log = try await NATSLogTests.open(server)
      let store = try await list(log["tree"])
      try await store.send("a")
      await store.shutdown()
      let last = try await log["tree"].append([9])
      for _ in 0..<2 { #expect(try await log.copy(to: log).added == 0) }
      #expect(try await log["tree"].copy(to: log["tree"]).added == 0)
      #expect(try await log["tree"].head() == last)
      await log.close()
    }

    @Test("a missing stream is not created if the options forbid it")
    func notMade() async throws {
      let server = try NATSServer()
      defer { server.kill() }
      await #expect(throws: LogError.refused("There is no stream puredux.")) {
        _ = try await NATSLogTests.open(server) { $0.makesStream = false }
      }
      let log = try await NATSLogTests.open(server)
      _ = try await log["a"].append([1])
      await log.close()
      let again = try await NATSLogTests.open(server) { $0.makesStream = false }
      #expect(try await again["a"].head() > 0)
      await again.close()
    }
  }
#endif
