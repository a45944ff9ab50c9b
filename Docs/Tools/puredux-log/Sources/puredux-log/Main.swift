import Foundation
import LogCommands

@main struct Main {
  static func main() async {
    Console.prepare()
    exit(await LogTool.run(Array(CommandLine.arguments.dropFirst())))
  }
}
