#if PostgreSQL
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import PureduxTestSupport
  import Testing

  @testable import PureduxPostgreSQL

  /// How many connections a process has at the server.
  @Suite(
    .enabled(if: PostgreSQLServer.programs != nil, "PostgreSQL is not installed"), .serialized, .timeLimit(.minutes(10))
  )
  struct PostgreSQLConnectionTests {
    @Test("stores that wait for a server do not poll", arguments: [false, true])
    func noPolling(isBusy: Bool) async throws {
      let server = try PostgreSQLServer()
      let log = try await open(server)
      let (attempts, haveAll) = try await attemptsWhileAway(
        of: { log[$0] }, stores: 20, isBusy: isBusy, stopping: { server.stop() }, starting: { try server.start() })
      #expect(attempts <= (isBusy ? 6 : 1))
      #expect(haveAll == 20)
      await log.close()
    }
  }
#endif
