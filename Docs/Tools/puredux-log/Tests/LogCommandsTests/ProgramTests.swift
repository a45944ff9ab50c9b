import Foundation
import Puredux
import PureduxLog
import Testing

@testable import LogCommands

/// The tool as users run it: in a shell, with arbitrary keys, and with an output that cannot be written to.
@Suite(.timeLimit(.minutes(15))) struct ProgramTests {
  private let tests = LogCommandsTests()

  struct Result {
    var code: Int32
    var output: Data
    var errors: String
    var text: String { String(decoding: output, as: UTF8.self) }
  }

  /// Runs a bash script in which `puredux-log` is the tool, and `$1` and so on are the arguments.
  private func shell(_ script: String, _ arguments: String..., hasClosedPipe: Bool = false) throws -> Result {
    let process = Process()
    let products = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
    process.executableURL = URL(fileURLWithPath: "/bin/bash")
    process.arguments = ["-c", script, "bash"] + arguments
    process.environment = ProcessInfo.processInfo.environment.merging(
      ["PATH": products + ":/usr/local/bin:/usr/bin:/bin"]) { $1 }
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output.fileHandleForWriting
    process.standardError = errors
    if hasClosedPipe { try output.fileHandleForReading.close() }
    try process.run()
    try output.fileHandleForWriting.close()
    let read = hasClosedPipe ? Data() : output.fileHandleForReading.readDataToEndOfFile()
    let said = errors.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    #expect(process.terminationReason == .exit)
    return Result(code: process.terminationStatus, output: read, errors: String(decoding: said, as: UTF8.self))
  }

  // MARK: Keys

  static let hostileKeys = [
    "boards/1", "two\nboards/1", "--help", "-h", "--null", "--", "-", "help", "", " ", "\u{A0}", "\u{3164}", "a b  c ",
    "'\"`$(touch owned)\\", "\\n", "*", "täg/日本", "e\u{301}", "\u{1B}]0;title\u{7}", "\u{1B}[2J", "\u{9B}31m",
    "\u{202E}txt.exe",
    "\u{2028}", "tab\tcolumn", "\r", "\u{7F}", "--reason=x", "@file", "👩‍👩‍👧",
  ]

  /// A directory with a log of one entry under each of the keys.
  private func withKeys(_ keys: [String], _ body: (_ path: String) async throws -> Void) async throws {
    let place = FileManager.default.temporaryDirectory.path + "/puredux-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: place) }
    let log = try FileLog(directory: place + "/data")
    for key in keys {
      let store = try await RootStore<[String], String>(following: log[key], initialState: []) { $0.append($1) }
      try await store.send("a")
      await store.shutdown()
    }
    await log.close()
    try await body(place + "/data")
  }

  @Test("every key is one line, in which nothing acts on a terminal; with --null, keys are as they are")
  func listing() async throws {
    try await withKeys(Self.hostileKeys) { path in
      let all = Set(Self.hostileKeys)
      for command in ["keys", "stat"] {
        let lines = try shell(command == "keys" ? #"puredux-log keys "$1""# : #"puredux-log stat "$1""#, path)
        #expect(lines.code == 0 && lines.errors == "")
        let shown = lines.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        #expect(shown.count == all.count)
        let keys = Set(shown.map { $0.split(separator: "\t", omittingEmptySubsequences: false)[0] })
        #expect(keys.count == all.count && keys.contains(#"two\nboards/1"#) && keys.contains(#"\\n"#))
        #expect(keys.contains(#"\e[2J"#) && keys.contains(#"\u{202E}txt.exe"#) && keys.contains("täg/日本"))
        let isSafe = keys.joined().unicodeScalars.allSatisfy {
          ![.control, .format, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
        }
        #expect(isSafe)
      }
      let raw = try shell(#"puredux-log keys --null "$1""#, path)
      #expect(raw.code == 0 && raw.output.last == 0)
      let keys = raw.output.dropLast().split(separator: 0, omittingEmptySubsequences: false)
      #expect(Set(keys.map { String(decoding: $0, as: UTF8.self) }) == all && keys.count == all.count)
    }
  }

  @Test("a key that has a zero byte is reported by keys --null, which exits with 1")
  func zeros() async throws {
    try await withKeys(["a", "b\0c", "d"]) { path in
      let keys = try shell(#"puredux-log keys --null "$1""#, path)
      #expect(keys.code == 1 && keys.text == "a\0d\0" && keys.errors.contains(#"b\u{0}c"#))
      #expect(try shell(#"puredux-log keys "$1""#, path).text == "a\nb\\u{0}c\nd\n")
    }
  }

  /// The loops over keys in the guides.
  static let loops: [String] = {
    let docs = URL(fileURLWithPath: #filePath).appending(path: "../../../../..").standardizedFileURL
    let pages =
      FileManager.default.enumerator(at: docs, includingPropertiesForKeys: nil)?.compactMap { $0 as? URL } ?? []
    let texts = (pages + [docs.appending(path: "../README.md")]).filter {
      $0.pathExtension == "md" && !$0.path.contains("/.build")
    }.map { (try? String(contentsOf: $0, encoding: .utf8)) ?? "" }
    return texts.flatMap { text in
      text.matches(of: /puredux-log keys[^\n]*\\?\n?[^\n]*while[^\n]*\n(?:.*\n)*?  done[^\n]*/).map { String($0.0) }
    }
  }()

  private func heads(_ path: String) async throws -> [UInt64] {
    let log = try FileLog(directory: path)
    var heads: [UInt64] = []
    for key in Self.hostileKeys { heads.append(try await log[key].head()) }
    await log.close()
    return heads
  }

  @Test("the loops of the guides do with every key what they say")
  func documentedLoops() async throws {
    #expect(Self.loops.count >= 2)
    for loop in Self.loops {
      try await withKeys(Self.hostileKeys) { path in
        let script =
          "cd \"$(dirname \"$1\")\"\n"
          + loop.replacing(/postgresql:\/\/[^ ]*/, with: "data").replacing(/nats:\/\/[^ ]*/, with: "data")
        let before = try await heads(path)
        let done = try shell(script, path)
        #expect(done.code == 0, "\(loop)")
        #expect(done.errors == "", "\(loop)")
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == ["data", "keys"])
        #expect(try await heads(path) == before.map { $0 + 1 })
      }
    }
  }

  @Test(
    "a key behind -- is a key to every command, and so is the value of --key, in both forms",
    arguments: ["--help", "-x", "--", "", "--key"], [" ", "="])
  func operands(key: String, sign: String) async throws {
    try await withKeys([key, "other"]) { path in
      for (script, code) in [
        (#"puredux-log show -- "$1" "$2""#, 0), (#"puredux-log show --json -- "$1" "$2""#, 0),
        (#"puredux-log verify -- "$1" "$2""#, 0),
        (#"puredux-log skip --reason="$2" -- "$1" "$2" 1"#, 0), (#"puredux-log epoch --reason="$2" -- "$1" "$2""#, 0),
        (#"puredux-log seal --reason="$2" -- "$1" "$2" 1"#, 0), (#"puredux-log truncate -- "$1" "$2""#, 5),
        (#"puredux-log keys --prefix="$2" "$1""#, 0), (#"puredux-log stat --prefix="$2" "$1""#, 0),
        (#"puredux-log export --key="$2" "$1" "$1.backup""#, 0),
        (#"puredux-log copy --key="$2" --reason="$2" "$1" "$1.copy""#, 0),
        (#"puredux-log import --key="$2" --reason="$2" "$1.backup" "$1.import""#, 0),
        (#"puredux-log remove --yes -- "$1" "$2""#, 0),
      ] {
        let result = try shell(script.replacing("=\"$2\"", with: sign + "\"$2\""), path, key)
        #expect(result.code == code, "\(script)")
        #expect(!result.text.contains("USAGE") && !result.errors.contains("Usage"), "\(script)")
      }
      #expect(try shell(#"puredux-log keys "$1""#, path).text == "other\n")
    }
  }

  @Test("nothing that is reported acts on a terminal")
  func reports() async throws {
    try await tests.withLogs { _, path in
      for arguments in [["show", path, "\u{1B}[2J\n"], ["keys", path, "\u{1B}[2J"], ["keys", "\u{1B}[2J\u{202E}"]] {
        let console = Console(isKept: true)
        #expect(await LogTool.run(arguments, on: console) != 0)
        let scalars = console.reported.joined(separator: "\n").unicodeScalars
        #expect(console.reported != [] && !scalars.contains { $0 == "\u{1B}" || $0 == "\u{202E}" })
      }
    }
  }

  // MARK: Output

  enum Sink: CaseIterable { case full, closedPipe, closed }

  @Test(
    "an output that takes nothing is said on standard error, with exit code 6; what was decided is done",
    arguments: Sink.allCases)
  func outputs(sink: Sink) async throws {
    try await tests.withLogs { _, path in
      let redirection = sink == .full ? " >/dev/full" : sink == .closed ? " >&-" : ""
      for command in [
        #"keys "$1""#, #"keys --null "$1""#, #"stat "$1""#, #"show "$1" boards/1"#, #"show --json "$1" boards/1"#,
        "--help", "help copy", #"skip "$1" boards/1 3 --reason none"#, #"seal "$1" boards/1 1 --reason none"#,
        #"epoch "$1" boards/1 --reason none"#, #"truncate "$1" rooms/1"#,
      ] {
        let result = try shell("puredux-log " + command + redirection, path, hasClosedPipe: sink == .closedPipe)
        #expect(result.code == 6, "\(command)")
        #expect(result.errors.contains("Standard output"), "\(command): \(result.errors)")
      }
      #expect(await tests.run("verify", path).code == 0)
      #expect(await tests.run("stat", path).lines[0].hasPrefix("boards/1\t6\t"))
    }
  }

  @Test("what is reported where standard error takes nothing changes no exit code", arguments: ["2>/dev/full", "2>&-"])
  func errors(redirection: String) async throws {
    try await tests.withLogs { place, path in
      for (command, code) in [
        (#"keys "$1""#, 0), (#"verify "$1""#, 0), (#"show "$1" nothing"#, 5), ("nonsense", 2),
        (#"export "$1" "$2""#, 0),
      ] as [(String, Int32)] {
        let result = try shell("puredux-log \(command) \(redirection)", path, place + "/backup")
        #expect(result.code == code, "\(command)")
      }
      #expect(await tests.run("verify", path).code == 0)
    }
  }
}
