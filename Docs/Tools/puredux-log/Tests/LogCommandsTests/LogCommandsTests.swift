import Foundation
import Puredux
import PureduxLog
import Testing

@testable import LogCommands

/// The output and exit codes of the commands, on directories and files.
@Suite(.timeLimit(.minutes(15))) struct LogCommandsTests {
  struct Result {
    var code: Int32
    var lines: [String]
    var errors: [String]
  }

  func run(_ arguments: String...) async -> Result {
    let console = Console(isKept: true)
    let code = await LogTool.run(arguments, on: console)
    return Result(code: code, lines: console.printed, errors: console.reported)
  }

  /// A directory with the logs "boards/1" and "rooms/1": three entries each, and a snapshot of two.
  func withLogs(_ body: (_ place: String, _ path: String) async throws -> Void) async throws {
    let place = FileManager.default.temporaryDirectory.path + "/puredux-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: place) }
    let log = try FileLog(directory: place + "/log")
    for key in ["boards/1", "rooms/1"] {
      let store = try await RootStore<[String], String>(
        following: log[key], initialState: [], options: FollowingOptions(fingerprint: .unchecked)
      ) { $0.append($1) }
      for action in ["a", "b\tc"] { try await store.send(action) }
      try await store.saveSnapshot()
      try await store.send("d")
      await store.shutdown()
    }
    await log.close()
    try await body(place, place + "/log")
  }

  func state(_ path: String, _ key: String) async throws -> [String] {
    let log = try FileLog(directory: path)
    do {
      let store = try await RootStore<[String], String>(
        following: log[key], initialState: [], options: FollowingOptions(fingerprint: .unchecked)
      ) { $0.append($1) }
      let state = await store.state
      await store.shutdown()
      await log.close()
      return state
    } catch {
      // The directory must be free when this returns.
      await log.close()
      throw error
    }
  }

  @Test("keys, figures and entries are lines")
  func reading() async throws {
    try await withLogs { _, path in
      #expect(await run("keys", path).lines == ["boards/1", "rooms/1"])
      #expect(await run("keys", path, "--prefix", "rooms/").lines == ["rooms/1"])
      let stat = await run("stat", path)
      #expect(stat.lines.count == 2 && stat.lines[0].hasPrefix("boards/1\t3\t2\t"))
      let show = await run("show", path, "boards/1")
      #expect(show.code == 0 && show.lines.count == 3)
      #expect(show.lines[1].hasPrefix("2\tactions\twriter=") && show.lines[1].hasSuffix("\t\"b\\\\tc\""))
      #expect(await run("show", path, "boards/1", "--after", "2").lines.count == 1)
      let json = await run("show", path, "boards/1", "--json")
      struct Shown: Decodable { var position: UInt64, sort: String, actions: [String] }
      let shown = try json.lines.map { try JSONDecoder().decode(Shown.self, from: Data($0.utf8)) }
      #expect(shown.map(\.position) == [1, 2, 3] && shown.map(\.sort) == ["actions", "actions", "actions"])
      #expect(shown.map(\.actions) == [["\"a\""], ["\"b\\tc\""], ["\"d\""]])
    }
  }

  @Test("logs are exported, imported and copied, and verified; what is no copy is refused")
  func copying() async throws {
    try await withLogs { place, path in
      #expect(await run("export", path, place + "/backup").code == 0)
      #expect(await run("keys", place + "/backup").lines == ["boards/1", "rooms/1"])
      #expect(await run("verify", place + "/backup").code == 0)
      #expect(await run("import", place + "/backup", place + "/restored").code == 0)
      #expect(try await state(place + "/restored", "boards/1") == ["a", "b\tc", "d"])
      let again = await run("import", place + "/backup", place + "/restored")
      #expect(again.code == 0 && again.errors == ["Logs: 2, entries: 6, added: 0."])
      #expect(await run("copy", path, place + "/copy", "--key", "rooms/1", "--reason", "moved").code == 0)
      #expect(await run("keys", place + "/copy").lines == ["rooms/1"])
      let last = await run("show", place + "/copy", "rooms/1", "--after", "3")
      #expect(last.lines.count == 1 && last.lines[0].hasPrefix("4\tepoch\tepoch=") && last.lines[0].hasSuffix(" moved"))
      #expect(await run("epoch", place + "/restored", "rooms/1", "--reason", "by hand").code == 0)
      #expect(await run("verify", place + "/restored").errors == ["Logs: 2, without a fault."])
      #expect(await run("skip", place + "/restored", "rooms/1", "1", "--reason", "a mistake").lines == ["6"])
      #expect(await run("import", place + "/backup", place + "/restored").code == 1)
      #expect(await run("export", path, place + "/one", "--key", "boards/1").code == 0)
      #expect(await run("keys", place + "/one").lines == ["boards/1"])
      try Data(contentsOf: URL(fileURLWithPath: place + "/backup")).dropLast(3)
        .write(to: URL(fileURLWithPath: place + "/cut"))
      #expect(await run("import", place + "/cut", place + "/other").code == 1)
      #expect(!FileManager.default.fileExists(atPath: place + "/other"))
    }
  }

  /// Makes a device that discards its input, as `/dev/null` does; only root may.
  private static func makeDevice(_ path: String) throws -> Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/mknod")
    process.arguments = [path, "c", "1", "3"]
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    return process.terminationStatus == 0
  }

  @Test(
    "an export replaces a regular file only, and writes through no link",
    arguments: ["", ".new"], ["link", "dangling link", "pipe", "directory", "device"])
  func targets(suffix: String, kind: String) async throws {
    try await withLogs { place, path in
      let files = FileManager.default
      let (target, victim) = (place + "/backup" + suffix, place + "/victim")
      if kind != "dangling link" { try Data("precious".utf8).write(to: URL(fileURLWithPath: victim)) }
      switch kind {
      case "pipe": try #require(mkfifo(target, 0o666) == 0)
      case "directory": try files.createDirectory(atPath: target, withIntermediateDirectories: false)
      case "device": guard try Self.makeDevice(target) else { return }
      default: try files.createSymbolicLink(atPath: target, withDestinationPath: victim)
      }
      let type = try files.attributesOfItem(atPath: target)[.type] as? FileAttributeType
      let export = await run("export", path, place + "/backup")
      #expect(export.code == 5)
      #expect(export.errors.count == 1 && export.errors[0].contains(target + " is not a regular file"))
      #expect(try files.attributesOfItem(atPath: target)[.type] as? FileAttributeType == type)
      #expect(files.contents(atPath: victim) == (kind == "dangling link" ? nil : Data("precious".utf8)))
      let names = try files.contentsOfDirectory(atPath: place).filter { $0.hasPrefix("backup") }
      #expect(names == ["backup" + suffix])
    }
  }

  @Test("an export that was cut short is replaced; a file that has its name by another link is left as it is")
  func leftOver() async throws {
    try await withLogs { place, path in
      let (left, victim) = (place + "/backup.new", place + "/victim")
      try Data("cut short".utf8).write(to: URL(fileURLWithPath: left))
      #expect(await run("export", path, place + "/backup").code == 0)
      try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
      try FileManager.default.linkItem(atPath: victim, toPath: left)
      #expect(await run("export", path, place + "/backup").code == 0)
      #expect(FileManager.default.contents(atPath: victim) == Data("precious".utf8))
      #expect(await run("keys", place + "/backup").lines == ["boards/1", "rooms/1"])
      #expect(!FileManager.default.fileExists(atPath: left))
    }
  }

  @Test(
    "a link in the place of a file of a log is not written through",
    arguments: [
      "lock", "=boards%2f1/acknowledged", "=boards%2f1/snapshot.new", "=boards%2f1/0000000000000001.log",
    ])
  func links(name: String) async throws {
    try await withLogs { place, path in
      let (victim, link) = (place + "/victim", path + "/" + name)
      try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
      try? FileManager.default.removeItem(atPath: link)
      try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: victim)
      // The file with the acknowledged position may be missing; no other file may.
      if let log = try? FileLog(directory: path, onTornTail: { _ in }) {
        let store = try? await RootStore<[String], String>(following: log["boards/1"], initialState: []) {
          $0.append($1)
        }
        try? await store?.send("e", within: .seconds(1))
        let saved = (try? await store?.saveSnapshot()) ?? nil
        #expect(saved == nil || name.hasSuffix("acknowledged"))
        await log.close()
      }
      #expect(FileManager.default.contents(atPath: victim) == Data("precious".utf8))
    }
  }

  @Test("what is decided is an entry of the log; what is removed is gone")
  func deciding() async throws {
    try await withLogs { place, path in
      #expect(await run("skip", path, "boards/1", "3", "--reason", "a mistake").lines == ["4"])
      let left = try await state(path, "boards/1")
      #expect(left == ["a", "b\tc"])
      #expect(await run("skip", path, "boards/1", "9", "--reason", "not there").code == 5)
      #expect(await run("seal", path, "boards/1", "1", "--reason", "other rules").lines == ["5"])
      #expect(await run("seal", path, "boards/1", "1", "--reason", "again").code == 5)
      await #expect(throws: StoreError.stopped(.newerRules(position: 5))) { _ = try await state(path, "boards/1") }
      #expect(await run("truncate", path, "rooms/1").lines == ["2"])
      #expect(await run("remove", path, "rooms/1").code == 2)
      #expect(await run("remove", path, "rooms/1", "--yes").code == 0)
      #expect(await run("keys", path).lines == ["boards/1"])
      #expect(await run("truncate", path, "rooms/1").code == 5)
      #expect(await run("epoch", path, "misspelt", "--reason", "none").code == 5)
      #expect(await run("keys", path).lines == ["boards/1"])
    }
  }

  @Test("no decision that a log cannot be opened with is made, and one that is pending is found, and taken back")
  func decidingBehindTruncation() async throws {
    try await withLogs { _, path in
      // In an untruncated log, a decision about an entry of the snapshot must be carried out before a truncation.
      #expect(await run("skip", path, "boards/1", "2", "--reason", "a mistake").lines == ["4"])
      let found = await run("verify", path, "boards/1")
      #expect(found.code == 1 && found.lines.count == 1 && found.lines[0].hasPrefix("boards/1\t4\t"))
      #expect(found.lines.first?.contains("or skip the entry at position 4") == true)
      let refused = await run("truncate", path, "boards/1")
      #expect(refused.code == 5 && refused.errors.first?.contains("position 2") == true)
      #expect(await run("skip", path, "boards/1", "4", "--reason", "it was none").lines == ["5"])
      #expect(await run("verify", path, "boards/1").code == 0)
      #expect(try await state(path, "boards/1") == ["a", "b\tc", "d"])
      // An export and a copy contain the decisions.
      #expect(await run("export", path, path + ".backup").code == 0)
      #expect(await run("import", path + ".backup", path + ".restored").code == 0)
      #expect(try await state(path + ".restored", "boards/1") == ["a", "b\tc", "d"])
      // After a truncation, the decision is refused.
      let log = try FileLog(directory: path)
      let store = try await RootStore<[String], String>(following: log["rooms/1"], initialState: []) { $0.append($1) }
      try await store.eraseLog()
      await store.shutdown()
      await log.close()
      let late = await run("skip", path, "rooms/1", "3", "--reason", "a mistake")
      #expect(late.code == 5 && late.errors.first?.contains("was removed") == true)
      #expect(await run("verify", path, "rooms/1").code == 0)
    }
  }

  @Test("what is wrong with a log is a line, and the exit code 1")
  func verifying() async throws {
    try await withLogs { _, path in
      let log = try FileLog(directory: path)
      _ = await withCheckedContinuation { continuation in
        log["rooms/1"].append([1, 2, 3]) { continuation.resume(returning: $0) }
      }
      await log.close()
      let found = await run("verify", path)
      #expect(found.code == 1 && found.lines.count == 1 && found.lines[0].hasPrefix("rooms/1\t4\t"))
      #expect(await run("verify", path, "boards/1").code == 0)
      let file = path + "/=boards%2f1/0000000000000001.log"
      var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
      bytes[60] ^= 1
      try bytes.write(to: URL(fileURLWithPath: file))
      #expect(await run("verify", path, "boards/1").code == 1)
      // Each damaged log is named, and the others are read.
      let all = await run("verify", path)
      #expect(all.code == 1 && all.lines.map { $0.prefix { $0 != "\t" } } == ["boards/1", "rooms/1"])
      let some = await run("verify", path, "misspelt", "boards/1")
      #expect(some.code == 1 && some.lines.count == 1)
      #expect(await run("verify", path, "misspelt").code == 5)
      let stat = await run("stat", path)
      #expect(stat.code == 1 && stat.lines.count == 1 && stat.lines[0].hasPrefix("rooms/1\t4\t"))
      #expect(stat.errors.count == 2 && stat.errors[0].hasPrefix("boards/1: "))
      let export = await run("export", path, path + ".backup")
      #expect(export.code == 1 && export.errors[0].hasPrefix("Logs: 1, ") && export.errors[1].contains("boards/1"))
      #expect(await run("keys", path + ".backup").lines == ["rooms/1"])
    }
  }

  @Test(
    "a log that cannot be reached has no fault: stat and verify end with exit code 4", arguments: [[], ["boards/1"]])
  func unreachable(keys: [String]) async throws {
    try await withLogs { _, path in
      // A directory in the place of a file is an error of the file system, as for a disk that is gone.
      let file = path + "/=boards%2f1/tree"
      try FileManager.default.removeItem(atPath: file)
      try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
      for command in keys.isEmpty ? ["stat", "verify"] : ["verify"] {
        let console = Console(isKept: true)
        #expect(await LogTool.run([command, path] + keys, on: console) == 4)
        #expect(console.printed == [])
        #expect(console.reported.count == 1 && console.reported[0].contains(file))
      }
    }
  }

  @Test("logs whose keys cannot be read are reported, and the others are read and counted", arguments: [1, 3])
  func unreadableKeys(count: Int) async throws {
    try await withLogs { _, path in
      let log = try FileLog(directory: path)
      for number in 0..<count {
        let tree = log["\(number)" + String(repeating: "L", count: 255)]
        _ = await withCheckedContinuation { continuation in
          tree.append([1, 2, 3]) { continuation.resume(returning: $0) }
        }
      }
      await log.close()
      for name in try FileManager.default.contentsOfDirectory(atPath: path) where name.hasPrefix("~") {
        try FileManager.default.removeItem(atPath: path + "/" + name + "/tree")
      }
      for (command, last) in [
        ("stat", "Logs: at least 3. Logs that cannot be read: at least 1."),
        ("verify", "Logs: at least 3. Logs with faults: at least 1."),
      ] {
        let found = await run(command, path)
        #expect(found.code == 1 && found.lines.count == (command == "stat" ? 2 : 0))
        #expect(found.errors.count == 2 && found.errors.last == last)
        #expect(found.errors.first?.hasSuffix("… and 2 more.") == (count == 3))
      }
      let export = await run("export", path, path + ".backup")
      #expect(export.code == 1 && export.errors.last == "Logs that were left out: at least 1.")
      #expect(await run("keys", path + ".backup").lines == ["boards/1", "rooms/1"])
    }
  }

  @Test("a log that is open elsewhere, is not there or cannot be written to has its exit code, and is not changed")
  func refused() async throws {
    try await withLogs { place, path in
      let log = try FileLog(directory: path)
      for arguments in [["keys", path], ["epoch", path, "boards/1", "--reason", "none"]] {
        let console = Console(isKept: true)
        #expect(await LogTool.run(arguments, on: console) == 3)
        #expect(console.reported.first?.contains("open already") == true)
      }
      await log.close()
      #expect(await run("keys", place + "/misspelt").code == 5)
      #expect(!FileManager.default.fileExists(atPath: place + "/misspelt"))
      #expect(await run("keys", place).code == 5)
      #expect(await run("import", path, place + "/other").code == 5)
      #expect(await run("import", place + "/misspelt", place + "/other").code == 5)
      #expect(!FileManager.default.fileExists(atPath: place + "/other"))
      #expect(await run("export", path, place + "/backup").code == 0)
      #expect(await run("epoch", place + "/backup", "boards/1", "--reason", "none").code == 5)
      #expect(await run("keys").code == 2)
      #expect(await run("nonsense").code == 2)
      #expect(await run("help", "nonsense").code == 2)
      for arguments in [["help"], ["help", "copy"], ["help", "help"]] {
        let console = Console(isKept: true)
        #expect(await LogTool.run(arguments, on: console) == 0)
        #expect(console.printed != [] && console.reported == [])
      }
      for target in [path, path + "/", place + "/other/../log"] {
        let same = await run("copy", path, target)
        #expect(same.code == 2 && same.errors.first?.contains("is the source") == true)
      }
      for command in ["keys", "stat", "verify"] {
        let missing = await run(command, place + "/misspelt")
        #expect(missing.code == 5 && missing.errors == ["There is nothing at \(place)/misspelt."])
      }
      #expect(!FileManager.default.fileExists(atPath: place + "/misspelt"))
      #expect(await run("--help").code == 0)
    }
  }

  @Test("no password of a place is shown, as it is written there or in parts")
  func passwords() {
    for (text, shown) in [
      ("postgresql://ann:a@b c@db/boards", "postgresql://ann:***@db/boards"),
      ("postgresql://ann@corp:hush@db/boards", "postgresql://ann@corp:***@db/boards"),
      ("postgresql://a/n:hush@db/boards", "postgresql://a/n:***@db/boards"),
      ("postgresql://db/boards?password=a%20b&user=ann", "postgresql://db/boards?password=***&user=ann"),
      ("host=db password = a\\ b user=ann", "host=db password = *** user=ann"),
      (#"host=db sslpassword='a \' b' user=ann"#, "host=db sslpassword=*** user=ann"),
      ("nats://ann:one@a:4222,nats://bob:two@b:4222", "nats://ann:***@a:4222,nats://bob:***@b:4222"),
      ("nats://one@a:4222,nats://two@b:4222,nats://c", "nats://***@a:4222,nats://***@b:4222,nats://c"),
      ("nats://a:4222,tls://o/n@e@b:4222", "nats://a:4222,tls://***@b:4222"),
      ("nats://a/n:one@a:4222", "nats://***@a:4222"),
      ("postgresql://ann@db:5432/boards", "postgresql://ann@db:5432/boards"), ("data", "data"),
    ] {
      let passwords = Passwords(in: ["keys", text])
      #expect(passwords.hidden(in: "Unexpected argument '\(text)'") == "Unexpected argument '\(shown)'")
    }
    #expect(Passwords(in: ["nats://a:b@c"]).hidden(in: "/nats:/a:b@c/x") == "/nats:/a:***@c/x")
  }

  #if !PostgreSQL
    @Test("a tool without the trait says so of a database, in either form of its address")
    func withoutTrait() async {
      for (place, shown) in [
        ("postgresql://ann:hush@db/boards", "postgresql://ann:***@db/boards"),
        ("host=db password=hush", "host=db password=***"),
      ] {
        let result = await run("keys", place)
        #expect(result.code == 5 && result.errors == ["This tool was built without the trait PostgreSQL: \(shown)"])
      }
    }
  #endif

  #if !NATS
    @Test("a tool without the trait says so of a cluster, and shows no token")
    func withoutCluster() async {
      let result = await run("keys", "nats://hush@a:4222")
      #expect(result.code == 5 && result.errors == ["This tool was built without the trait NATS: nats://***@a:4222"])
    }
  #endif
}
