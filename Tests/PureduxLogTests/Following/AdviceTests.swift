import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Each printed piece of advice, when a store stops or a decision is refused, leads to a store that continues.
@Suite(.timeLimit(.minutes(15))) struct AdviceTests {
  /// A program: its versions, and its reducer.
  struct Program: Sendable {
    var schema: UInt32 = 1
    var rules: UInt32 = 0
    var oldestRules: UInt32 = 0
    var newestRules: UInt32?
    var fingerprintVersion: UInt32 = 1
    var suffix = ""
    var decodes = true
    var decodesStates = true

    private struct Undecodable: Error {}

    func open(
      _ log: any OrderedLog, ignoresSnapshots: Bool = false, told: Record<LogReport> = Record()
    ) async throws -> LedgerStore {
      var options = LogOptions.once
      options.openingLimit = .zero
      (options.rules, options.oldestRules, options.newestRules) = (rules, oldestRules, newestRules)
      (options.fingerprintVersion, options.ignoresSnapshots) = (fingerprintVersion, ignoresSnapshots)
      options.reporting = { told.add($0) }
      let (json, states) = (LogCoding<String>.json(), LogCoding<Ledger>.json())
      let coding = LogCoding<String>(schema: schema, encode: json.encode) { [decodes] bytes, schema in
        let action = try json.decode(bytes, schema)
        if !decodes, action == "new" { throw Undecodable() }
        return action
      }
      let stateCoding = LogCoding<Ledger>(schema: 1, encode: states.encode) { [decodesStates] bytes, schema in
        if !decodesStates { throw Undecodable() }
        return try states.decode(bytes, schema)
      }
      return try await RootStore(
        following: log, initialState: Ledger(), codings: LogCodings(actions: coding, states: stateCoding),
        options: FollowingOptions(log: options, fingerprint: .hashed(CopyTests.fingerprint))
      ) { [suffix] in $0.entries.append($1 + suffix) }
    }

    func send(_ actions: [String], to log: any OrderedLog, saves: Bool = false) async throws {
      let store = try await open(log)
      for action in actions { try await store.send(action) }
      if saves { try await store.saveSnapshot() }
      await store.shutdown()
    }
  }

  /// One piece of advice: the history of the log, the program that stops, its printed text, and the remedy.
  struct Advice: Sendable, CustomTestStringConvertible {
    var name: String
    var fill: @Sendable (any OrderedLog) async throws -> Void
    var program = Program()
    var ignoresSnapshots = false
    /// The printed text, apart from the position of an entry to be skipped.
    var text: String
    /// Follows the advice, and returns the store that continues.
    var follow: @Sendable (any OrderedLog, _ skipped: UInt64?) async throws -> LedgerStore
    var entries: [String]

    var testDescription: String { name }
  }

  /// The position in the printed text: `skip(position: 7`, or `skip the entry at position 7`.
  private static func skipped(in text: String) -> UInt64? {
    for part in ["skip(position: ", "skip the entry at position "] {
      guard let range = text.firstRange(of: part) else { continue }
      return UInt64(text[range.upperBound...].prefix { $0.isNumber })
    }
    return nil
  }

  private static let skip: @Sendable (any OrderedLog, UInt64?) async throws -> LedgerStore = { log, position in
    try await log.skip(position: try #require(position), reason: "as printed")
    return try await Program(decodes: false).open(log)
  }

  private static let undecodable: @Sendable (any OrderedLog) async throws -> Void = { log in
    try await Program().send(["a", "new", "b"], to: log)
  }

  private static let decided: @Sendable (any OrderedLog) async throws -> Void = { log in
    try await Program().send(["a", "b", "c"], to: log, saves: true)
    try await log.skip(position: 2, reason: "a mistake")
  }

  private static let old = Program(rules: 1)
  private static let new = Program(rules: 2, oldestRules: 2, suffix: "!")

  private static let sealedAndLost: @Sendable (any OrderedLog) async throws -> Void = { log in
    try await old.send(["a"], to: log)
    try await log.seal(forRules: 2, reason: "other rules")
  }

  static let all: [Advice] = [
    Advice(
      name: "an undecodable entry is skipped", fill: undecodable, program: Program(decodes: false),
      text: "decide that it is skipped", follow: skip, entries: ["a", "b"]),
    Advice(
      name: "an undecodable entry is decoded", fill: undecodable, program: Program(decodes: false), text: "Decode it",
      follow: { log, _ in try await Program().open(log) }, entries: ["a", "new", "b"]),
    Advice(
      name: "an undecodable snapshot is left aside", fill: { try await Program().send(["a"], to: $0, saves: true) },
      program: Program(decodesStates: false), text: "`LogOptions.ignoresSnapshots` replays them",
      follow: { log, _ in try await Program(decodesStates: false).open(log, ignoresSnapshots: true) }, entries: ["a"]),
    Advice(
      name: "a decision about an entry of a snapshot is carried out", fill: decided,
      text: "with `LogOptions.ignoresSnapshots`",
      follow: { log, _ in try await Program().open(log, ignoresSnapshots: true) }, entries: ["a", "c"]),
    Advice(
      name: "such a decision is taken back", fill: decided, text: "Or take the decision back",
      follow: { log, position in
        try await log.skip(position: try #require(position), reason: "as printed")
        return try await Program().open(log)
      }, entries: ["a", "b", "c"]),
    Advice(
      name: "the version before saves the snapshot of a seal", fill: sealedAndLost, program: new,
      text: "Start the version before once more. If the log is sealed already",
      follow: { log, _ in
        await #expect(throws: StoreError.self) { try await old.open(log) }
        return try await new.open(log)
      }, entries: ["a"]),
    Advice(
      name: "the version before seals", fill: { try await old.send(["a"], to: $0) }, program: new,
      text: "let it seal the log",
      follow: { log, _ in
        let store = try await old.open(log)
        try await store.sealLog(forRules: 2, reason: "as printed")
        await store.shutdown()
        return try await new.open(log)
      }, entries: ["a"]),
    Advice(
      name: "a sealed log is opened with its snapshot",
      fill: { log in
        try await sealedAndLost(log)
        await #expect(throws: StoreError.self) { try await old.open(log) }
        try await new.send(["b"], to: log, saves: true)
      }, program: new, ignoresSnapshots: true, text: "open the log without `LogOptions.ignoresSnapshots`",
      follow: { log, _ in try await new.open(log) }, entries: ["a", "b!"]),
    Advice(
      name: "a decision before a seal is carried out by the version before, and by the new one behind it",
      fill: { log in
        try await old.send(["a", "b"], to: log)
        try await log.seal(forRules: 2, reason: "other rules")
        await #expect(throws: StoreError.self) { try await old.open(log) }
        try await log.skip(position: 2, reason: "a mistake")
      }, program: new, text: "by a program that knows the rules of the whole log",
      follow: { log, _ in
        await #expect(throws: StoreError.self) { try await old.open(log, ignoresSnapshots: true) }
        return try await new.open(log)
      }, entries: ["a"]),
    Advice(
      name: "the version that knows newer rules is brought", fill: { try await Program(rules: 2).send(["a"], to: $0) },
      text: "Bring the version that knows them", follow: { log, _ in try await Program(rules: 2).open(log) },
      entries: ["a"]),
    Advice(
      name: "the version that knows a newer schema is brought",
      fill: { try await Program(schema: 2).send(["a"], to: $0) }, text: "Bring that version here",
      follow: { log, _ in try await Program(schema: 2).open(log) }, entries: ["a"]),
    Advice(
      name: "the reducer that was is brought back", fill: { try await Program().send(["a", "b"], to: $0) },
      program: Program(suffix: "!"), text: "bring back the earlier one",
      follow: { log, _ in try await Program().open(log) }, entries: ["a", "b"]),
    Advice(
      name: "the past is to become something else", fill: { try await Program().send(["a", "b"], to: $0) },
      program: Program(suffix: "!"), text: "Raise `LogOptions.fingerprintVersion`",
      follow: { log, _ in try await Program(fingerprintVersion: 2, suffix: "!").open(log) }, entries: ["a!", "b!"]),
    Advice(
      name: "the entry of a store that was ahead of a backup is skipped",
      fill: { log in
        try await Program().send(["a"], to: log)
        let header = LogEntry.Header(writer: 7, first: 1, seen: .init(position: 9, chain: 5), schema: 1)
        _ = try await log.append(LogEntry.encode(header, actions: [Array("\"ahead\"".utf8)]))
      }, text: "decide that the writer's entry is skipped", follow: skip, entries: ["a"]),
  ]

  @Test("the advice in a report leads to a store that continues", arguments: all)
  func report(advice: Advice) async throws {
    let log = MemoryLogs()["tree"]
    try await advice.fill(log)
    let told = Record<LogReport>()
    await #expect(throws: StoreError.self) {
      try await advice.program.open(log, ignoresSnapshots: advice.ignoresSnapshots, told: told)
    }
    let text = told.all.map { "\($0)" }.joined(separator: "\n")
    #expect(text.contains(advice.text), "\(text)")
    let store = try await advice.follow(log, Self.skipped(in: text))
    #expect(await store.state.entries == advice.entries)
    try await store.send("on")
    #expect(await store.state.entries.count == advice.entries.count + 1)
    await store.shutdown()
    #expect(try await log.verifyEntries().problems == [])
  }

  @Test("the advice for each problem of a log leads to a correct log")
  func found() async throws {
    for ignores in [false, true] {
      let log = MemoryLogs()["tree"]
      try await Self.decided(log)
      let problem = try #require(try await log.verifyEntries().problems.first)
      #expect("\(problem)".contains("Open a store once with `LogOptions.ignoresSnapshots`, or skip"))
      if ignores {
        await (try Program().open(log, ignoresSnapshots: true)).shutdown()
      } else {
        try await log.skip(position: try #require(Self.skipped(in: "\(problem)")), reason: "as printed")
      }
      #expect(try await log.verifyEntries().problems == [])
      #expect(try await Program().open(log).state.entries == (ignores ? ["a", "c"] : ["a", "b", "c"]))
    }
  }

  @Test("a decision on one side of a seal in a snapshot is refused, and the named alternatives work")
  func straddled() async throws {
    for goesBack in [false, true] {
      let log = MemoryLogs()["tree"]
      try await Self.old.send(["a", "b"], to: log)
      let seal = try await log.seal(forRules: 2, reason: "other rules")
      await #expect(throws: StoreError.self) { try await Self.old.open(log) }
      try await Self.new.send(["c", "d"], to: log, saves: true)
      for position in [1, seal + 1] {
        do {
          try await log.skip(position: position, reason: "a mistake")
          Issue.record("It was not refused.")
        } catch {
          #expect(error.text.contains("the seal at position \(seal)") && error.text.contains("skip the seal first"))
        }
      }
      #expect(try await log.verifyEntries().problems == [])
      try await log.skip(position: seal, reason: "as printed")
      if goesBack {
        for record in try await log.read(after: seal, through: log.head()) where record.skipped == nil {
          try await log.skip(position: record.position, reason: "back to the old rules")
        }
        let old = try await Self.old.open(log, ignoresSnapshots: true)
        try await old.send("e")
        #expect(await old.state.entries == ["a", "b", "e"])
        await old.shutdown()
        #expect(try await Self.old.open(log).state.entries == ["a", "b", "e"])
      } else {
        try await log.skip(position: 1, reason: "a mistake")
        let both = try await Program(rules: 2).open(log, ignoresSnapshots: true)
        #expect(await both.state.entries == ["b", "c", "d"])
        await both.shutdown()
      }
    }
  }
}
