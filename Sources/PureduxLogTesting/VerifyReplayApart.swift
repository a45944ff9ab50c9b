import Puredux
public import PureduxLog

#if os(Linux) || os(macOS)
  import Foundation

  /// Replays a log as `verifyReplay(of:by:)` does, in another process. This also finds an entry that traps the program,
  /// or whose replay does not end: the report has `.poisoned`, with the position.
  ///
  ///     let report = try await verifyReplay {
  ///       try FileLog(directory: "last-night")["boards/17"]
  ///     } by: {
  ///       ReplayedProgram(initialState: Board(), options: options) { $0.apply($1) }
  ///     }
  ///
  /// The other process is this program, started again with the same arguments. At this call it replays the log and
  /// exits. So the program must do nothing before this call that it should not do twice. In a test, pass arguments that
  /// run this test alone. A call in a loop is one call: the other process replays the first iteration's log. For
  /// several logs, pass arguments that name the log. Make one call in a program, or catch `ReplayFailure`: in the other
  /// process, every call before the right one throws it.
  ///
  /// - Parameters:
  ///   - log: Opens the log, in the other process.
  ///   - program: Makes the program, in the other process.
  ///   - stallLimit: The time that one entry, or the end of the store after the last one, may take. Before the first
  ///     entry it is at least ten minutes.
  ///   - arguments: The arguments of the other process; by default those of this one.
  ///   - fileID: Identifies the call, with `line`.
  ///   - line: The line of the call.
  /// - Throws: `ReplayFailure` if the other process threw an error, or ended before the first entry without a result;
  ///   Foundation's error if it could not be started; `CancellationError`.
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
    // Started for another call, which it has not reached.
    if let place = environment[OtherProcess.variable]?.prefix(while: { $0 != "\n" }) {
      throw ReplayFailure(text: "This process replays the log of the call at \(place). Catch this error to reach it.")
    }
    let parent = FileManager.default.temporaryDirectory
    let directory = parent.appendingPathComponent("puredux-replay-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
    // For this user alone: nobody else can place links in it.
    try FileManager.default.createDirectory(
      at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(at: directory) }
    let other = OtherProcess(directory: directory.path)
    return try await other.start(
      arguments ?? Array(CommandLine.arguments.dropFirst()), for: call, stallLimit: stallLimit.clamped)
  }

  /// The reason why a replay in another process has no result.
  public struct ReplayFailure: Error, CustomStringConvertible {
    let text: String
    public var description: String { text }
  }

  /// It writes its progress and its result to two files in a directory.
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
        // Not cancelled: on return, the process has ended, and writes nothing more.
        await Task { for await _ in ends {} }.value
      } onCancel: {
        _ = kill(process.processIdentifier, SIGKILL)
      }
      watching.cancel()
      try Task.checkCancellation()
      if let data = try? Data(contentsOf: outcome) { return try Self.report(data) }
      guard FileManager.default.fileExists(atPath: progress.path) else {
        throw ReplayFailure(
          text: "The replaying process has not reached the call at \(call). There, earlier calls of "
            + "`verifyReplay(opening:by:)` throw `ReplayFailure`, which the program has to catch.")
      }
      guard let position else { throw ReplayFailure(text: "The replaying process ended before the first entry.") }
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

    private var position: UInt64? {
      guard let bytes = try? Data(contentsOf: progress), bytes.count == 8 else { return nil }
      return bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    private func watch(
      _ process: Process, _ limit: Duration, whenEnded ends: AsyncStream<Void>.Continuation
    ) async {
      var last: (position: UInt64?, time: ContinuousClock.Instant) = (nil, .now)
      while (try? await Task.sleep(for: .milliseconds(100))) != nil {
        #if os(Linux)
          // Foundation detects the end by a socket that a process started at the same moment may inherit. It then waits
          // for that process's end, too.
          if waitpid(process.processIdentifier, nil, WNOHANG) != 0 { return ends.finish() }
        #endif
        let position = position
        if position != last.position { last = (position, .now) }
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
      _exit(0)
    }

    private struct Told: Codable {
      var report: ReplayReport
      var failure: String?
    }
  }
#endif
