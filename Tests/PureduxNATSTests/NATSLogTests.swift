#if NATS
  import Foundation
  import Puredux
  import PureduxLog
  import PureduxLogTesting
  import Testing

  @testable import PureduxNATS

  @Suite(.enabled(if: NATSServer.program != nil, "nats-server is not installed"), .timeLimit(.minutes(4)))
  struct NATSLogTests {
    static func options(_ change: (inout NATSLog.Options) -> Void = { _ in }) -> NATSLog.Options {
      var options = NATSLog.Options()
      options.replicas = 1
      options.connectLimit = .seconds(30)
      change(&options)
      return options
    }

    @Test("the log on NATS keeps the contract of logs")
    func contract() async throws {
      let server = try NATSServer("trace: true\ndebug: true")
      let log = try await NATSLog(servers: [server.url], options: Self.options())
      try await checkOrderedLog { log[$0] }
      await log.close()
    }
  }
#endif
