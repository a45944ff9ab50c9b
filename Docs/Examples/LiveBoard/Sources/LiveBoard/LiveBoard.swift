import ArgumentParser
import LiveBoardServer
import Logging
import Output

@main struct LiveBoard: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "LiveBoard",
    abstract: "A task board for many people, live in every browser that has it open.",
    discussion:
      "Runs until it gets SIGTERM or SIGINT; then event streams end, accepted edits are saved, and it exits with 0.")

  static func main() async {
    Output.prepare()
    await main(nil)
  }

  @Option(help: "The address to listen at. Any but a loopback address needs a token.")
  var host = "127.0.0.1"

  @Option(help: "The port to listen at.")
  var port = 8080

  @Option(help: "The directory that keeps the boards, of this server alone.")
  var data = "liveboard"

  @Option(
    help: """
      Instead of a directory, what several servers share: a cluster, nats://a:4222,nats://b:4222,nats://c:4222, or a \
      database, postgresql://boards@db/boards. Its password is better in a file of libpq's than here.
      """)
  var log: String?

  @Option(help: "The schema that is written: 1 or 2 while servers of that version run, which read no newer one.")
  var writes: UInt32 = 3

  @Option(help: "What each request has to bring, as `Authorization: Bearer`; a browser opens `/?token=…` once.")
  var token: String?

  func validate() throws {
    guard (0...65535).contains(port) else { throw ValidationError("A port is a number from 0 to 65535.") }
    guard (1...3).contains(writes) else { throw ValidationError("There are the schemas 1, 2 and 3.") }
    let allowed: (Character) -> Bool = { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.~".contains($0)) }
    guard token.map({ !$0.isEmpty && $0.allSatisfy(allowed) }) ?? true else {
      throw ValidationError("A token consists of letters, digits, and - _ . ~.")
    }
  }

  func run() async throws {
    var options = LiveBoardServer.Options()
    options.host = host
    options.port = port
    options.logs = log.map(BoardLogs.init(shared:)) ?? .directory(data)
    options.writtenSchema = writes
    options.token = token
    try await LiveBoardServer(options, logger: Logger(label: "LiveBoard")).run()
  }
}
