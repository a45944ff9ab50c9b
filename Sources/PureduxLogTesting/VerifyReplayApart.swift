import Puredux
public import PureduxLog

#if os(Linux) || os(macOS)
  import Foundation

  /// As `verifyReplay(of:by:)`, in a process of its own, so that an entry that traps the program, or that it never
  /// comes to an end with, is found as well: `.poisoned`, with its position.
  ///
  ///     let report = try await verifyReplay {
  ///       try FileLog(directory: "last-night")["boards/17"]
  ///     } by: {
  ///       ReplayedProgram(initialState: Board(), options: options) { $0.apply($1) }
  ///     }
  ///
  /// The process is this program, started once more with the same arguments: when it comes to this very call it replays
  /// the log, and ends. So a program that calls this does nothing before that it should not do twice; in a test, pass
  /// arguments that run this test alone. A call in a loop is one call, at which the other process replays what it comes
  /// to first: for several logs pass arguments that say which one.
  ///
  /// - Parameters:
  ///   - log: Opens the log, in the other process.
  ///   - program: Makes the program, in the other process.
  ///   - stallLimit: How long one entry may take, and the end of the store behind the last one. What the program does
  ///     before the first entry may take ten minutes.
  ///   - arguments: What the other process is started with; without it, what this one was.
  ///   - fileID: With `line`, which call it is: the other process looks for the same.
  ///   - line: The line of the call.
  /// - Throws: `ReplayFailure` where the other process could not be started, or ended without a word before the first
  ///   entry, or what it threw; `CancellationError`.
  public func verifyReplay<State, Action>(
    opening log: @escaping @Sendable () async throws -> any OrderedLog,
    by program: @Sendable () -> ReplayedProgram<State, Action>, stallLimit: Duration = .seconds(60),
    arguments: [String]? = nil, fileID: String = #fileID, line: Int = #line
  ) async throws -> ReplayReport {
    let call = "\(fileID):\(line)"
    let environment = ProcessInfo.processInfo.environment
    if let place = environment[OtherProcess.variable], place.hasPrefix(call + "\n") {
      await OtherProcess(directory: String(place.dropFirst(call.count + 1))).run {
        let program = program()
        return { entering in try await report(of: log(), by: program, entering: entering) }
      }
    }
    // Another call's process has not come to that call yet: this one is not what it is for.
    if environment[OtherProcess.variable] != nil { throw ReplayFailure(text: "This process replays another log.") }
    let parent = FileManager.default.temporaryDirectory
    let directory = parent.appendingPathComponent("puredux-replay-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
    // Made here, and for this user alone, so that nobody else can place links in it.
    try FileManager.default.createDirectory(
      at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(at: directory) }
    let other = OtherProcess(directory: directory.path)
    return try await other.start(
      arguments ?? Array(CommandLine.arguments.dropFirst()), for: call, stallLimit: stallLimit.clamped)
  }

  /// Why a replay in another process came to nothing.
  public struct ReplayFailure: Error, CustomStringConvertible {
    let text: String
    public var description: String { text }
  }

  /// The process in which a log is replayed, and what it tells this one: two files in a directory.
  private struct OtherProcess {
    static let variable = "PUREDUX_VERIFY_REPLAY"
    private let outcome: URL
    private let progress: URL
    private let directory: String

    init(directory: String) {
      self.directory = directory
      outcome = URL(fileURLWithPath: directory).appendingPathComponent("outcome")
      progress = URL(fileURLWithPath: directory).appendingPathComponent("progress")
    }

    // MARK: Here

    func start(_ arguments: [String], for call: String, stallLimit: Duration) async throws -> ReplayReport {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: Self.executable)
      process.arguments = arguments
      process.environment = ProcessInfo.processInfo.environment.merging([Self.variable: call + "\n" + directory]) { $1 }
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      let (ends, continuation) = AsyncStream.makeStream(of: Void.self)
      process.terminationHandler = { _ in continuation.finish() }
      try process.run()
      let watching = Task { await watch(process, stallLimit, whenEnded: continuation) }
      await withTaskCancellationHandler {
        // In a task that nobody cancels: it ends, and writes nothing any more.
        await Task { for await _ in ends {} }.value
      } onCancel: {
        _ = kill(process.processIdentifier, SIGKILL)
      }
      watching.cancel()
      try Task.checkCancellation()
      if let data = try? Data(contentsOf: outcome) { return try Self.report(data) }
      guard let position else { throw ReplayFailure(text: "The process that replays has ended without a word.") }
      return ReplayReport(stop: .poisoned(position: position), position: position - 1)
    }

    private static func report(_ data: Data) throws -> ReplayReport {
      let told = try JSONDecoder().decode(Told.self, from: data)
      if let failure = told.failure { throw ReplayFailure(text: failure) }
      return told.report
    }

    private static var executable: String {
      #if os(Linux)
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
      #else
        Bundle.main.executablePath ?? CommandLine.arguments[0]
      #endif
    }

    /// The entry that it is at; nil before the first.
    private var position: UInt64? {
      guard let bytes = try? Data(contentsOf: progress), bytes.count == 8 else { return nil }
      return bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Ends the process when it has stood still for too long.
    private func watch(
      _ process: Process, _ limit: Duration, whenEnded ends: AsyncStream<Void>.Continuation
    ) async {
      var last: (position: UInt64?, time: ContinuousClock.Instant) = (nil, .now)
      while (try? await Task.sleep(for: .milliseconds(100))) != nil {
        #if os(Linux)
          // Foundation hears of its end by a socket that whatever is started in the same moment may inherit: then it
          // does not before that has ended, too.
          if waitpid(process.processIdentifier, nil, WNOHANG) != 0 { return ends.finish() }
        #endif
        let position = position
        if position != last.position { last = (position, .now) }
        // Before the first entry it does whatever the program does.
        if ContinuousClock.now - last.time >= (position == nil ? max(limit, .seconds(600)) : limit) {
          _ = kill(process.processIdentifier, SIGKILL)
        }
      }
    }

    // MARK: There

    func run(
      _ replay: () -> (@escaping @Sendable (UInt64) -> Void) async throws -> ReplayReport
    ) async -> Never {
      var told = Told(report: ReplayReport())
      do {
        guard FileManager.default.createFile(atPath: progress.path, contents: nil),
          let file = FileHandle(forWritingAtPath: progress.path)
        else { _exit(1) }
        told.report = try await replay()() { position in
          try? file.seek(toOffset: 0)
          file.write(Data((0..<8).map { UInt8(truncatingIfNeeded: position >> (8 * $0)) }))
        }
      } catch {
        told.failure = "\(error)"
      }
      try? JSONEncoder().encode(told).write(to: outcome, options: .atomic)
      // What other threads do meanwhile is not waited for.
      _exit(0)
    }

    /// What passes from one process to the other.
    private struct Told: Codable {
      var report: ReplayReport
      var failure: String?
    }
  }
#endif
