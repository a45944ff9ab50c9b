public import ArgumentParser
import PureduxLog

/// The tool. Its commands are in files of their own.
public struct LogTool: AsyncParsableCommand {
  public static let configuration = CommandConfiguration(
    commandName: "puredux-log",
    abstract: "Looks at the logs that stores follow, copies them, and decides about their entries.",
    discussion: """
      A log is at a place: the directory of a FileLog; a file made by `export`, which is read-only; a cluster, \
      nats://a:4222,nats://b:4222 (if the tool is built with the trait NATS); or a database, \
      postgresql://boards@db/boards or "host=db dbname=boards" (with the trait PostgreSQL). The tool never shows a \
      password in it, but the list of processes of this machine does. A password in a file of libpq's is in neither.

      A directory that a process has open is refused, even for reading: end the process, or let it export its logs. \
      Opening a directory sets an incomplete tail aside that a crash has left, as every process does.

      Results go to standard output, one per line; everything else goes to standard error. In a line, a character that \
      controls a terminal or is invisible is escaped, as \\n or \\u{202E}, and a backslash is doubled. `keys --null` \
      prints keys as they are.

      Options end at --, so that a key behind it may be any text: puredux-log show -- data --help

      Exit codes: 0 done; 1 a log, a file or a copy has a fault; 2 wrong usage; 3 the directory is open in another \
      process; 4 the log cannot be reached, or is full; 5 refused: there is no such log, entry or snapshot, the place is \
      read-only, or the target of `export` is no regular file; 6 standard output is full or closed. With 6, a decision \
      or a removal is made all the same.
      """,
    subcommands: [
      Keys.self, Show.self, Stat.self, Verify.self, Export.self, Import.self, Copy.self, Skip.self, Seal.self,
      Epoch.self, Truncate.self, Remove.self,
    ])

  public init() {}

  /// Runs a command, and returns its exit code.
  public static func run(_ arguments: [String], on console: Console = Console()) async -> Int32 {
    console.hide(passwordsIn: arguments)
    return await Console.$current.withValue(console) {
      do {
        // The library shows its general help for an unknown command.
        if arguments.first == "help", let name = arguments.dropFirst().first, !name.hasPrefix("-"), name != "help",
          !configuration.subcommands.contains(where: { "\($0)".lowercased() == name })
        {
          throw ValidationError("There is no command \(name).")
        }
        var command = try parseAsRoot(withAnyText(arguments))
        if var asynchronous = command as? any AsyncParsableCommand {
          try await asynchronous.run()
        } else {
          try command.run()
        }
        return 0
      } catch let error as LogError {
        console.report(visible(Failure(error).text))
        return Failure(error).code
      } catch let error as LogCopyError {
        console.report(visible(Failure(error).text))
        return Failure(error).code
      } catch let failure as Failure {
        console.report(visible(failure.text))
        return failure.code
      } catch {
        let text = fullMessage(for: error)
        guard exitCode(for: error).isSuccess else {
          console.report(text)
          return 2
        }
        do throws(Failure) {
          try console.print(text)
          return 0
        } catch {
          console.report(error.text)
          return error.code
        }
      }
    }
  }
}

/// Rewrites the options that take any text, so that the parser accepts every value: `--` goes behind an equals sign,
/// and an empty text becomes an argument of its own.
private func withAnyText(_ arguments: [String]) -> [String] {
  var result: [String] = []
  var rest = arguments[...]
  while let argument = rest.popFirst() {
    if argument == "--" { return result + [argument] + rest }
    let option = ["--key", "--prefix", "--reason"].first { argument == $0 || argument == $0 + "=" }
    switch option {
    case let option? where argument != option: result += [option, ""]
    case let option? where rest.first == "--":
      rest.removeFirst()
      result.append(option + "=--")
    case .some: result += [argument] + [rest.popFirst()].compactMap(\.self)
    case nil: result.append(argument)
    }
  }
  return result
}

/// The reason for a failed command, and its exit code.
struct Failure: Error {
  var code: Int32
  var text: String

  static func wrong(_ text: String) -> Failure { Failure(code: 1, text: text) }
  static func refused(_ text: String) -> Failure { Failure(code: 5, text: text) }
  static func unwritten(_ text: String) -> Failure { Failure(code: 6, text: text) }

  private init(code: Int32, text: String) { (self.code, self.text) = (code, text) }

  init(_ error: LogError) {
    switch error {
    case .inUse(let text):
      self.init(code: 3, text: text + " End the process that has it open, or let that process export its logs.")
    case .unavailable(let text), .full(let text): self.init(code: 4, text: text)
    case .refused(let text): self.init(code: 5, text: text)
    case .removed: self.init(code: 5, text: "The log was removed.")
    case .truncated(let first):
      self.init(code: 1, text: "Entries were removed by a truncation: the first entry left is \(first).")
    case .damaged(let position, let text): self.init(code: 1, text: "At position \(position): \(text)")
    }
  }

  init(_ error: LogCopyError) {
    guard case .log(let reason) = error.reason else {
      self.init(code: 1, text: error.description)
      return
    }
    let failure = Failure(reason)
    self.init(code: failure.code, text: (error.key.map { "\(column($0)): " } ?? "") + failure.text)
  }
}
