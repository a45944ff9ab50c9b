import ArgumentParser
import PureduxLog

struct Skip: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Decides that an entry is skipped, by every replica.",
    discussion: """
      Prints the position of the decision. To take the decision back, skip the entry at that position. A decision that \
      no version of the program can carry out is refused, with the reason: for instance, if the log is truncated, and \
      its snapshot has the entry.
      """)
  @OptionGroup var tree: Tree

  @Argument(help: "The position of the entry.")
  var position: UInt64

  @Option(parsing: .unconditional, help: "The reason, for readers of the log.")
  var reason: String

  func run() async throws {
    try await tree.withLog { try Console.current.print("\(try await $0.skip(position: position, reason: reason))") }
  }
}

struct Seal: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Seals a log for a program with newer rules.",
    discussion: """
      Prints the position of the seal. Each store of the old program saves a snapshot there, and stops. If no store of \
      the log is open, start the old program once more before the new program.
      """)
  @OptionGroup var tree: Tree

  @Argument(help: "The rules that hold from here on.")
  var rules: UInt32

  @Option(parsing: .unconditional, help: "The reason, for readers of the log.")
  var reason: String

  func run() async throws {
    try await tree.withLog { try Console.current.print("\(try await $0.seal(forRules: rules, reason: reason))") }
  }
}

struct Epoch: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Begins an epoch: from here on, positions belong to another past.",
    discussion: """
      For a log that was restored by other means than `import` and `copy`. Prints the epoch's number, in hexadecimal.
      """)
  @OptionGroup var tree: Tree

  @Option(parsing: .unconditional, help: "The reason, for readers of the log.")
  var reason: String

  func run() async throws {
    try await tree.withLog { try Console.current.print(String(try await $0.beginEpoch(reason: reason), radix: 16)) }
  }
}

struct Truncate: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Removes the entries that the newest snapshot has.",
    discussion: """
      Some of these entries may stay: a directory removes whole files. Removed entries can no longer be replayed. The \
      tool cannot check that the program can decode the snapshot, so prefer `truncateLog()` of a store. Reads the whole \
      log. Refused while an entry of the snapshot is to be skipped. Prints the position of the snapshot.
      """)
  @OptionGroup var tree: Tree

  func run() async throws {
    try await tree.withLog { log in
      guard let newest = try await log.snapshots?.newest() else { throw Failure.refused("There is no snapshot.") }
      guard case .state = newest.content, try await newest.position <= log.head() else {
        throw Failure.refused("No store can begin with the snapshot at position \(newest.position).")
      }
      for problem in try await log.verifyEntries().problems {
        switch problem {
        case .notSkipped, .foreignSnapshot, .noSnapshot: throw Failure.refused("\(problem)")
        case .newer, .unreadable, .diverged, .unreadableSnapshot: break
        }
      }
      try await log.truncate(through: newest.position)
      try Console.current.print("\(newest.position)")
      guard tree.source.log.isCluster || tree.source.log.isDatabase else { return }
      // `NATSLog` and `PostgreSQLLog` remove entries after ten seconds, if their process still runs.
      Console.current.report("The entries are removed ten seconds later.")
      try await Task.sleep(for: .seconds(11))
    }
  }
}

struct Remove: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Removes a log: its entries, its snapshot and its summary.")
  @OptionGroup var tree: Tree

  @Flag(help: "Confirms the removal.")
  var yes = false

  func validate() throws {
    if !yes { throw ValidationError("A removal cannot be undone: add --yes.") }
  }

  func run() async throws {
    let source = tree.source
    try await source.log.withLogs(stream: source.stream) { logs in
      guard try await logs[tree.key].head() > 0 else {
        throw Failure.refused("There is no log under the key \(column(tree.key)).")
      }
      try await logs.remove(tree.key)
    }
  }
}
