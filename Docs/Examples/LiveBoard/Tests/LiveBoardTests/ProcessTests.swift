import AsyncHTTPClient
import Foundation
import NIOCore
import NIOPosix
import Puredux
import PureduxLog
import Testing

@testable import LiveBoardServer

/// The server as a process of its own: its start, end and recovery.
@Suite(.timeLimit(.minutes(15)), .serialized) struct ProcessTests {
  /// A server process on a free port.
  final class Server {
    let process = Process()
    let url: String
    private let output = Pipe()

    /// - Parameters:
    ///   - fileLimit: The maximum size of a file, in kilobytes.
    ///   - descriptorLimit: The maximum number of open files and connections.
    init(in folder: Folder, fileLimit: Int? = nil, descriptorLimit: Int? = nil) async throws {
      let products = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
      process.executableURL = products.appending(path: "LiveBoard")
      process.arguments = ["--port", "0", "--data", folder.path]
      // A larger write fails as on a full disk if the signal is ignored.
      let limits =
        (fileLimit.map { "trap '' XFSZ; ulimit -S -f \($0); " } ?? "")
        + (descriptorLimit.map { "ulimit -n \($0); " } ?? "")
      if !limits.isEmpty {
        process.arguments =
          ["-c", limits + "exec \"$0\" \"$@\"", process.executableURL!.path()] + process.arguments!
        process.executableURL = URL(filePath: "/bin/bash")
      }
      process.standardOutput = output
      process.standardError = output
      try process.run()
      // The log contains the address.
      var log = ""
      while !log.contains("listening on"), let text = try output.fileHandleForReading.read(upToCount: 1) {
        log += String(decoding: text, as: UTF8.self)
        if text.isEmpty { break }
      }
      guard log.contains("listening on") else { throw Ended(log: log) }
      while !log.hasSuffix("\n"), let text = try output.fileHandleForReading.read(upToCount: 1), !text.isEmpty {
        log += String(decoding: text, as: UTF8.self)
      }
      let port = try #require(log.split(separator: ":").last?.trimmingCharacters(in: .whitespacesAndNewlines))
      url = "http://127.0.0.1:\(port)"
    }

    struct Ended: Error {
      let log: String
    }

    func send(_ signal: Int32) {
      kill(process.processIdentifier, signal)
    }

    /// The rest of the log, and the exit status.
    func wait() async -> Int32 {
      await withCheckedContinuation { continuation in
        DispatchQueue.global().async { [process] in
          process.waitUntilExit()
          continuation.resume(returning: process.terminationStatus)
        }
      }
    }

    deinit { if process.isRunning { process.terminate() } }
  }

  private func post(
    _ url: String, _ text: String, on board: Int = 1, within limit: TimeAmount = .seconds(3)
  ) async throws -> Int {
    var request = HTTPClientRequest(url: "\(url)/boards/\(board)/cards")
    request.method = .POST
    request.headers.add(name: "content-type", value: "application/json")
    request.body = .bytes(ByteBuffer(string: "{\"text\": \"\(text)\"}"))
    let response = try await HTTPClient.shared.execute(request, timeout: limit)
    _ = try await response.body.collect(upTo: 1 << 22)
    return Int(response.status.code)
  }

  /// The texts on the first board, read from the log.
  private func texts(in folder: Folder) async throws -> Set<String> {
    let log = try FileLog(directory: folder.path)
    let room = try await RootStore<Room, Edit>(
      following: log["boards/1"], initialState: Room(id: 1, title: "First board"),
      codings: LogCodings(actions: .json(writing: 2), states: .json(writing: 2)),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.reduce($1) }
    let texts = await Set(room.state.board.columns.flatMap(\.cards).map(\.text))
    await room.shutdown()
    await log.close()
    return texts
  }

  @Test func `asked to terminate, it ends the event streams, saves what it accepted and exits with 0`() async throws {
    let folder = try Folder()
    let server = try await Server(in: folder)
    let events = try await HTTPClient.shared.execute(
      HTTPClientRequest(url: "\(server.url)/boards/1/events"), timeout: .seconds(60))
    var chunks = events.body.makeAsyncIterator()
    _ = try await chunks.next()
    for number in 1...20 { #expect(try await post(server.url, "\(number)") == 201) }
    server.send(SIGTERM)
    while try await chunks.next() != nil {}
    #expect(await server.wait() == 0)
    #expect(try await texts(in: folder) == Set((1...20).map(String.init)))
  }

  @Test func `after a crash in a burst, it comes back with every edit that was acknowledged`() async throws {
    let folder = try Folder()
    let server = try await Server(in: folder)
    let (url, pid) = (server.url, server.process.processIdentifier)
    let acknowledged = await withTaskGroup(of: [String].self) { group in
      for writer in 0..<8 {
        group.addTask {
          var done: [String] = []
          for number in 0..<1000 {
            let text = "\(writer)-\(number)"
            guard (try? await post(url, text)) == 201 else { break }
            done.append(text)
            if writer == 0, number == 20 { kill(pid, SIGKILL) }
          }
          return done
        }
      }
      return await group.reduce(into: []) { $0 += $1 }
    }
    _ = await server.wait()
    #expect(acknowledged.count > 20)
    let found = try await texts(in: folder)
    #expect(found.isSuperset(of: acknowledged))
    let back = try await Server(in: folder)
    let list = try await HTTPClient.shared.execute(
      HTTPClientRequest(url: "\(back.url)/boards/1"), timeout: .seconds(30))
    let board = try JSONDecoder().decode(Board.self, from: Data(buffer: try await list.body.collect(upTo: 1 << 22)))
    #expect(Set(board.columns.flatMap(\.cards).map(\.text)) == found)
    back.send(SIGTERM)
    #expect(await back.wait() == 0)
  }

  @Test func `asked to terminate, it ends whatever its clients do`() async throws {
    let folder = try Folder()
    let server = try await Server(in: folder)
    #expect(try await post(server.url, "saved") == 201)
    let address = try #require(URL(string: server.url)?.port)
    var channels: [any Channel] = []
    for request in [
      "POST /boards/1/cards HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
      "GET /boards/1/events HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /boards", "",
    ] {
      // This client never reads.
      let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .channelOption(.autoRead, value: false).connect(host: "127.0.0.1", port: address).get()
      if !request.isEmpty { try await channel.writeAndFlush(ByteBuffer(string: request)) }
      channels.append(channel)
    }
    server.send(SIGTERM)
    #expect(await server.wait() == 0)
    for channel in channels { try? await channel.close() }
    #expect(try await texts(in: folder) == ["saved"])
  }

  @Test func `a body that is no HTTP is refused`() async throws {
    let folder = try Folder()
    let server = try await Server(in: folder)
    let port = try #require(URL(string: server.url)?.port)
    let answer = try await RawConnection(port: port).channel.executeThenClose { inbound, outbound in
      let head = "POST /boards/1/cards HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      try await outbound.write(ByteBuffer(string: head + "Transfer-Encoding: chunked\r\n\r\nno number\r\n"))
      var answer = ""
      for try await part in inbound {
        answer += String(buffer: part)
        if answer.hasSuffix("}}") { break }
      }
      return answer
    }
    #expect(answer.hasPrefix("HTTP/1.1 400 "))
    #expect(answer.contains("The body cannot be read."))
    server.send(SIGTERM)
    #expect(await server.wait() == 0)
  }

  #if os(Linux)
    @Test func `a full disk is told, what is shown was saved, and it goes on when there is room`() async throws {
      let folder = try Folder()
      let server = try await Server(in: folder, fileLimit: 64)
      func get(_ path: String) async throws -> (status: Int, body: String) {
        let response = try await HTTPClient.shared.execute(
          HTTPClientRequest(url: server.url + path), timeout: .seconds(30))
        return (Int(response.status.code), String(buffer: try await response.body.collect(upTo: 1 << 22)))
      }
      let text = String(repeating: "x", count: 900)
      var saved = 0
      while try await post(server.url, text, within: .seconds(30)) == 201 { saved += 1 }
      #expect(saved > 10)
      // Reads show saved edits only. Unsaved edits are still waiting.
      let board = try JSONDecoder().decode(Board.self, from: Data(try await get("/boards/1").body.utf8))
      #expect(board.version == saved + 1)
      #expect(try await get("/ready") == (503, #"{"boards\/1":"no room"}"#))
      #expect(try await get("/metrics").body.contains("liveboard_troubled_logs 1"))
      #expect(try await get("/boards/1/history").status == 200)
      let room = try Process.run(
        URL(filePath: "/usr/bin/prlimit"),
        arguments: ["--pid", "\(server.process.processIdentifier)", "--fsize=unlimited"])
      room.waitUntilExit()
      #expect(room.terminationStatus == 0)
      while try await get("/ready").status != 200 { await Task.yield() }
      #expect(try await post(server.url, "last", within: .seconds(30)) == 201)
      server.send(SIGTERM)
      #expect(await server.wait() == 0)
      #expect(try await texts(in: folder) == [text, "last"])
    }
  #endif

  #if os(Linux)
    @Test func `more silent connections than there are descriptors harm nobody else`() async throws {
      let folder = try Folder()
      let server = try await Server(in: folder, descriptorLimit: 256)
      let port = try #require(URL(string: server.url)?.port)
      // Existing connections are served as before.
      #expect(try await post(server.url, "before", within: .seconds(60)) == 201)
      var silent: [any Channel] = []
      for _ in 0..<280 {
        silent.append(
          try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port).get())
      }
      for number in 0..<20 { #expect(try await post(server.url, "\(number)", within: .seconds(60)) == 201) }
      let files = try FileManager.default.contentsOfDirectory(
        atPath: "/proc/\(server.process.processIdentifier)/fd")
      #expect(files.count < 256 - 64, "libdispatch ends a process that has no descriptor left")
      // New connections wait until there is room.
      async let answer = RawConnection(port: port).ask("GET /boards HTTP/1.1\r\nHost: localhost\r\n\r\n")
      for channel in silent { try await channel.close() }
      #expect(try await answer.hasPrefix("HTTP/1.1 200"))
      server.send(SIGTERM)
      #expect(await server.wait() == 0)
      #expect(try await texts(in: folder).count == 21)
    }
  #endif

  #if os(Linux)
    @Test func `with few descriptors, any number of boards are edited in turn`() async throws {
      let folder = try Folder()
      let log = try FileLog(directory: folder.path)
      let list = try await RootStore(
        following: log["list"], initialState: BoardList(),
        codings: LogCodings(actions: .json(writing: 1), states: .json(writing: 1)),
        options: FollowingOptions(fingerprint: .unchecked)
      ) { $0.reduce($1) }
      for number in 2...2000 { list.dispatch(.add(title: "\(number)")) }
      await list.shutdown()
      await log.close()
      let server = try await Server(in: folder, descriptorLimit: 256)
      let url = server.url
      // All boards, then some whose files have been closed meanwhile.
      for boards in [1...2000, 1...100] {
        try await withThrowingTaskGroup { group in
          for writer in 0..<8 {
            group.addTask {
              for board in boards where board % 8 == writer {
                let status = try await post(url, "a", on: board, within: .seconds(60))
                #expect(status == 201)
              }
            }
          }
          try await group.waitForAll()
        }
      }
      let ready = try await HTTPClient.shared.execute(HTTPClientRequest(url: url + "/ready"), timeout: .seconds(30))
      #expect(ready.status == .ok)
      #expect(try await String(buffer: ready.body.collect(upTo: 1 << 20)) == "{}")
      let files = try FileManager.default.contentsOfDirectory(
        atPath: "/proc/\(server.process.processIdentifier)/fd")
      #expect(files.count < 256 - 64)
      server.send(SIGTERM)
      #expect(await server.wait() == 0)
    }
  #endif

  @Test func `a deletion in the middle of which the server crashes is complete when it starts again`() async throws {
    let folder = try Folder()
    // The state that a server leaves if it crashes right after the entry in the list.
    let log = try FileLog(directory: folder.path)
    let room = try await RootStore<Room, Edit>(
      following: log["boards/1"], initialState: Room(id: 1, title: ""),
      options: FollowingOptions(fingerprint: .unchecked)
    ) {
      $0.reduce($1)
    }
    try await room.send(.addCard(text: "remembered", column: nil))
    let list = try await RootStore(
      following: log["list"], initialState: BoardList(),
      codings: LogCodings(actions: .json(writing: 2), states: .json(writing: 2)),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.reduce($1) }
    try await list.send(.delete(board: 1))
    await room.shutdown()
    await list.shutdown()
    await log.close()
    #expect(try folder.contains("remembered"))
    let server = try await Server(in: folder)
    while try folder.contains("remembered") { await Task.yield() }
    let board = try await HTTPClient.shared.execute(
      HTTPClientRequest(url: "\(server.url)/boards/1"), timeout: .seconds(30))
    #expect(board.status == .notFound)
    server.send(SIGTERM)
    #expect(await server.wait() == 0)
  }

  @Test func `a server that may have too few files open says so`() async throws {
    let folder = try Folder()
    let ended = await #expect(throws: Server.Ended.self) { try await Server(in: folder, descriptorLimit: 64) }
    #expect(ended?.log.contains("ulimit -n") == true)
  }

  @Test func `a directory that another server uses is refused`() async throws {
    let folder = try Folder()
    let server = try await Server(in: folder)
    await #expect(throws: Server.Ended.self) { try await Server(in: folder) }
    server.send(SIGTERM)
    #expect(await server.wait() == 0)
  }
}
