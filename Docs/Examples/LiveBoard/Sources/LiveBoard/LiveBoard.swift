import ArgumentParser
import LiveBoardServer
import Logging
import Output

@main struct LiveBoard: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "LiveBoard",
    abstract: "A task board for many people, live in every open browser.",
    discussion:
      "Runs until it gets SIGTERM or SIGINT. Then event streams end, accepted edits are saved, and it exits with 0.")

  static func main() async {
    Output.prepare()
    await main(nil)
  }

  @Option(help: "The address to listen on. Any address other than loopback needs a token.")
  var host = "127.0.0.1"

  @Option(help: "The port to listen on.")
  var port = 8080

  @Option(help: "The directory of the boards, for this server only.")
  var data = "liveboard"

  @Option(
    help: """
      Storage that several servers share, instead of a directory: a cluster, \
      nats://a:4222,nats://b:4222,nats://c:4222, or a database, postgresql://boards@db/boards. Put its password into a \
      file of libpq and not here.
      """)
  var log: String?

  @Option(help: "The schema for writing: 1 or 2 while servers of that version run, which read no newer one.")
  var writes: UInt32 = 3

  @Option(help: "The token that each request needs, as `Authorization: Bearer`. A browser opens `/?token=…` once.")
  var token: String?

  func validate() throws {
    guard (0...65535).contains(port) else { throw ValidationError("The port must be a number from 0 to 65535.") }
    guard (1...3).contains(writes) else { throw ValidationError("The schema must be 1, 2 or 3.") }
    let allowed: (Character) -> Bool = { $0.isASCII && ($0.isLetter || $0.isNumber || "-_.~".contains($0)) }
    guard token.map({ !$0.isEmpty && $0.allSatisfy(allowed) }) ?? true else {
      throw ValidationError("A token may contain only letters, digits, and - _ . ~.")
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
