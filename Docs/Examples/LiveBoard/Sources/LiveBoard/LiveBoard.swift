import ArgumentParser
import LiveBoardServer
import Logging

@main struct LiveBoard: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "LiveBoard",
    abstract: "A task board for many people, live in every browser that has it open.",
    discussion:
      "Runs until it gets SIGTERM or SIGINT; then event streams end, accepted edits are saved, and it exits with 0.")

  @Option(help: "The address to listen at.")
  var host = "127.0.0.1"

  @Option(help: "The port to listen at.")
  var port = 8080

  @Option(help: "The file that keeps the edits, one JSON line each.")
  var journal = "liveboard.jsonl"

  func validate() throws {
    guard (0...65535).contains(port) else { throw ValidationError("A port is a number from 0 to 65535.") }
  }

  func run() async throws {
    let logger = Logger(label: "LiveBoard")
    try await LiveBoardServer(host: host, port: port, journalPath: journal, logger: logger).run()
  }
}
