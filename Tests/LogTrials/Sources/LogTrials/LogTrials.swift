// SAFETY: `stdout` is a variable of the C library, which nothing here assigns.
@unsafe @preconcurrency import Foundation
import Histories

/// Trials of stores that follow a log, which need their own processes or take long.
@main struct LogTrials {
  /// Runs a trial. A failed output, to a full disk or closed pipe, is reported at the end.
  static func main() async throws {
    // A write to a closed pipe is an error and not a signal. Programs started here do not inherit this.
    signal(SIGPIPE) { _ in }
    // A closed descriptor is replaced by one that refuses output, so that no log's file gets its number.
    for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 {
      // SAFETY: the call reads the path, a zero-terminated string that lives until the call returns.
      _ = unsafe open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
    }
    try await run()
    // SAFETY: standard output is open for as long as the process lives.
    guard unsafe fflush(stdout) == 0, unsafe ferror(stdout) == 0 else {
      try? FileHandle.standardError.write(contentsOf: Data("Standard output takes nothing.\n".utf8))
      exit(3)
    }
  }

  private static func run() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    switch arguments.first {
    case "check": try check(Array(arguments.dropFirst()))
    case "crash-file":
      try await CrashFile.run(
        rounds: number(arguments, "--count") ?? 50, files: HistoryFiles(directory: text(arguments, "--history")))
    case "write-file": try await CrashFile.write(to: arguments[1], run: Int(arguments[2]) ?? 0, history: arguments[3])
    case "hurt-file":
      try await HurtFile.run(
        rounds: number(arguments, "--count") ?? 10, seed: seed(arguments),
        only: only(arguments, of: HurtFile.Fault.allCases.map { "\($0)" }), history: text(arguments, "--history"))
    case "hurt-file-write":
      try await HurtFile.write(
        to: arguments[1], run: Int(arguments[2]) ?? 0, history: arguments[3],
        savesSnapshots: arguments[4] == "snapshots")
    case "hurt-file-lease": try await HurtFile.lease(arguments[1], history: arguments[2])
    case "figures-file": try await FileFigures.run(rounds: number(arguments, "--count") ?? 5)
    case "list-file": try await FileFigures.list(trees: number(arguments, "--trees") ?? 100_000)
    #if NATS
      case "crash-nats":
        try CrashNATS.run(
          rounds: number(arguments, "--count") ?? 10, isPartitionable: !arguments.contains("--loopback"),
          history: text(arguments, "--history"))
      case "figures-nats":
        try await NATSFigures.run(
          rounds: number(arguments, "--count") ?? 5, entries: number(arguments, "--entries") ?? 1_000_000)
      case "replica-nats":
        try await CrashNATS.replica(Int(arguments[1]) ?? 0, history: arguments[2], servers: Array(arguments[3...]))
      case "hurt-nats":
        try await HurtNATS.run(
          rounds: number(arguments, "--count") ?? 10, seed: seed(arguments),
          only: only(arguments, of: HurtNATS.Fault.allCases.map { "\($0)" }), history: text(arguments, "--history"))
      case "hurt-nats-replica":
        try await CrashNATS.replica(
          Int(arguments[1]) ?? 0, history: arguments[2], servers: Array(arguments[3...]), savesSnapshots: false)
      case "hurt-nats-lease":
        try await HurtNATS.lease(Int(arguments[1]) ?? 0, history: arguments[2], servers: Array(arguments[3...]))
    #endif
    #if PostgreSQL
      case "hurt-postgres":
        try HurtPostgreSQL.run(
          rounds: number(arguments, "--count") ?? 10, seed: text(arguments, "--seed").flatMap { UInt64($0) },
          pause: number(arguments, "--pause"), only: only(arguments, of: HurtPostgreSQL.names),
          history: text(arguments, "--history"))
      case "figures-postgres":
        try await PostgreSQLFigures.run(
          rounds: number(arguments, "--count") ?? 5, entries: number(arguments, "--entries") ?? 1_000_000,
          trees: number(arguments, "--trees") ?? 10_000)
      case "replica-postgres":
        try await HurtPostgreSQL.replica(
          Int(arguments[1]) ?? 0, history: arguments[2], connection: arguments[3], schema: arguments[4],
          snapshotBytes: Int(arguments[5]) ?? 0)
    #endif
    default:
      print(
        """
        log-trials check <files…>             checks whether one order explains the processes' records in files
        log-trials crash-file [--count 50] [--history <directory>]
                                              kills a process of 16 writers repeatedly, and looks for lost entries; the
                                              records stay in the directory
        log-trials hurt-file [--count 10] [--seed n] [--only <faults>] [--history <directory>]
                                              older backups, copies, power cuts, pauses, flipped bytes, a full disk:
                                              each once per run, in an order decided by the seed
        log-trials figures-file [--count 5]   measures stores on files against the raw disk
        log-trials list-file [--trees 100000] lists the summaries of this many trees
        With the trait NATS, and nats-server on the path or in PUREDUX_NATS_SERVER:
        log-trials crash-nats [--count 10] [--loopback] [--history <directory>]
                                              three replicas on three servers, which crash and are cut off; needs the
                                              right to create networks, unless with --loopback: then nothing is cut off
        log-trials hurt-nats [--count 10] [--seed n] [--only <faults>] [--history <directory>]
                                              flipped bytes, a wiped disk, pauses, a bad proxy, a purge: each once per
                                              run, in an order decided by the seed, on three loopback servers
        log-trials figures-nats [--count 5] [--entries 1000000]
                                              measures stores on three servers against raw libnats
        With the trait PostgreSQL, and Debian's PostgreSQL, or one on the path or in PUREDUX_POSTGRESQL:
        log-trials hurt-postgres [--count 10] [--seed <n>] [--pause <seconds>] [--only <faults>]
                                 [--history <directory>]
                                              three replicas on servers that crash, are paused, full, cut off, restored
                                              from a backup; a row for each fault
        log-trials figures-postgres [--count 5] [--entries 1000000] [--trees 10000]
                                              measures stores on a server against raw libpq
        Exit codes: 1 for a wrong history, 2 for wrong usage, 3 if standard output did not take all of the text.
        """)
      exit(2)
    }
  }

  private static func text(_ arguments: [String], _ name: String) -> String? {
    guard let place = arguments.firstIndex(of: name), place + 1 < arguments.count else { return nil }
    return arguments[place + 1]
  }

  /// The names of the faults to run; empty for all.
  private static func only(_ arguments: [String], of all: [String]) -> [String] {
    let names = text(arguments, "--only")?.split(separator: ",").map(String.init) ?? []
    if let unknown = names.first(where: { !all.contains($0) }) {
      print("There is no fault \(unknown), but \(all.joined(separator: ", ")).")
      exit(2)
    }
    return names
  }

  private static func seed(_ arguments: [String]) -> UInt64 {
    text(arguments, "--seed").flatMap { UInt64($0) } ?? .random(in: 1...999_999)
  }

  private static func number(_ arguments: [String], _ name: String) -> Int? {
    text(arguments, name).flatMap { Int($0) }
  }

  /// Prints a history's violations and figures.
  private static func check(_ paths: [String]) throws {
    guard !paths.isEmpty else {
      print("log-trials check <files…>: the files of all processes of one trial")
      exit(2)
    }
    let verdict: Verdict
    do {
      verdict = try History(paths: paths).checked()
    } catch {
      print("The history cannot be read: \(error.localizedDescription)")
      exit(2)
    }
    print(verdict)
    if !verdict.isCorrect { exit(1) }
  }
}
