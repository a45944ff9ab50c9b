import ArgumentParser
import Foundation
import Puredux
import PureduxLog

struct Keys: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Lists the keys of the logs.")
  @OptionGroup var source: Source

  @Option(parsing: .unconditional, help: "Only keys that begin with this text.")
  var prefix = ""

  @Flag(help: "Prints each key as it is, followed by a zero byte, for loops in a shell.")
  var null = false

  func run() async throws {
    let unlisted = try await source.log.withLogs(stream: source.stream) { logs in
      var unlisted = 0
      for try await key in logs.keys(prefix: prefix) {
        if !null {
          try Console.current.print(column(key))
        } else if key.utf8.contains(0) {
          unlisted += 1
          Console.current.report("A key that has a zero byte is not listed: \(column(key))")
        } else {
          try Console.current.print(key, terminator: "\0")
        }
      }
      return unlisted
    }
    if unlisted > 0 { throw Failure.wrong("Keys that are not listed: \(unlisted).") }
  }
}

struct Show: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows the entries of a log.",
    discussion: """
      Prints position, sort, details and actions, separated by tabs. An action that is not text is printed in base 64.
      """)
  @OptionGroup var tree: Tree

  @Option(help: "Only entries after this position.")
  var after: UInt64 = 0

  @Flag(help: "Prints each entry as a JSON object.")
  var json = false

  @Flag(help: "Waits for further entries, until it is interrupted.")
  var follow = false

  func run() async throws {
    try await tree.withLog { log in
      let head = try await log.head()
      var last = after
      do {
        try await show(log, through: head, after: &last)
      } catch LogError.truncated(let first) {
        Console.current.report("Entries before position \(first) were removed.")
        last = first - 1
        try await show(log, through: head, after: &last)
      }
    }
  }

  private func show(_ log: any OrderedLog, through head: UInt64, after last: inout UInt64) async throws {
    guard last < head || follow else { return }
    for try await records in log.records(after: last) {
      for record in records where record.position > last {
        if record.position > head, !follow { return }
        last = record.position
        try Console.current.print(try json ? ShownEntry(record).json : ShownEntry(record).line)
      }
      if last >= head, !follow { return }
    }
  }
}

struct Stat: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the last position of each log, and its snapshot.",
    discussion: """
      Prints the key and the last position, and the snapshot's position, bytes, actions, skipped actions, rules, and \
      epoch in hexadecimal, separated by tabs. Without a snapshot, it prints - instead.
      """)
  @OptionGroup var source: Source

  @Option(parsing: .unconditional, help: "Only keys that begin with this text.")
  var prefix = ""

  func run() async throws {
    let (count, wrong, unlisted) = try await source.log.withLogs(stream: source.stream) { logs in
      var (count, wrong) = (0, 0)
      let unlisted = try await logs.forEachKey(prefix: prefix) { key in
        count += 1
        let line: String
        do throws(LogError) {
          line = try await self.line(key, logs[key])
        } catch .removed {
          count -= 1
          return
        } catch {
          if error.isOfPlace { throw error }
          wrong += 1
          Console.current.report("\(column(key)): \(visible(Failure(error).text))")
          return
        }
        try Console.current.print(line)
      }
      return (count, wrong, unlisted)
    }
    if let unlisted {
      Console.current.report(visible(Failure(unlisted).text))
      throw Failure.wrong("Logs: at least \(count + 1). Logs that cannot be read: at least \(wrong + 1).")
    }
    if wrong > 0 { throw Failure.wrong("Logs: \(count). Logs that cannot be read: \(wrong).") }
  }

  private func line(_ key: String, _ log: any OrderedLog) async throws(LogError) -> String {
    let newest = try await log.snapshots?.newest()
    var line = [column(key), "\(try await log.head())"]
    switch newest?.content {
    case nil: line.append("-")
    case .newer: line += ["\(newest?.position ?? 0)", "of a newer version"]
    case .unreadable: line += ["\(newest?.position ?? 0)", "unreadable"]
    case .state(let state):
      line += [
        "\(newest?.position ?? 0)", "\(newest?.bytes.count ?? 0)", "\(state.actions)", "\(state.skipped)",
        "\(max(state.rules, state.sealedRules))", String(state.epoch, radix: 16),
      ]
    }
    return line.joined(separator: "\t")
  }
}

struct Verify: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Reads whole logs, and prints the faults at which a store would stop.",
    discussion: """
      Checks checksums, the format of entries and snapshots, the order of entries as their writers have seen it, and \
      whether decisions can be carried out. Only the program knows the meaning of actions and states: check \
      that with `verifyReplay`.
      """)
  @OptionGroup var source: Source

  @Argument(help: "The keys; all by default.")
  var keys: [String] = []

  func run() async throws {
    let (count, wrong, unlisted) = try await source.log.withLogs(stream: source.stream) { logs in
      var (count, wrong) = (0, 0)
      var unlisted: LogError?
      var missing: [String] = []
      func verify(_ key: String) async throws {
        count += 1
        var found: [(position: String, text: String)]
        do throws(LogError) {
          let check = try await logs[key].verifyEntries()
          if !keys.isEmpty, check.head == 0 { return missing.append(key) }
          found = check.problems.map { ("\($0.position)", "\($0)") }
        } catch .removed {
          count -= 1
          return
        } catch .damaged(let position, let text) {
          found = [("\(position)", text)]
        } catch {
          if error.isOfPlace { throw error }
          found = [("-", Failure(error).text)]
        }
        wrong += found.isEmpty ? 0 : 1
        for problem in found {
          try Console.current.print("\(column(key))\t\(problem.position)\t\(visible(problem.text))")
        }
      }
      if keys.isEmpty {
        unlisted = try await logs.forEachKey(prefix: "", verify)
      } else {
        for key in keys { try await verify(key) }
      }
      if wrong == 0, let key = missing.first { throw Failure.refused("There is no log under the key \(column(key)).") }
      for key in missing { Console.current.report("There is no log under the key \(column(key)).") }
      return (count, wrong, unlisted)
    }
    if let unlisted {
      Console.current.report(visible(Failure(unlisted).text))
      throw Failure.wrong("Logs: at least \(count + 1). Logs with faults: at least \(wrong + 1).")
    }
    guard wrong == 0 else { throw Failure.wrong("Logs: \(count). Logs with faults: \(wrong).") }
    Console.current.report("Logs: \(count), without a fault.")
  }
}

extension LogError {
  /// Whether the error is no fault of the log that was read: the place cannot be reached. The library makes the same
  /// difference when it copies.
  fileprivate var isOfPlace: Bool {
    switch self {
    case .unavailable, .full, .inUse: true
    case .refused, .removed, .truncated, .damaged: false
    }
  }
}

extension LogDirectory {
  /// Calls a closure with each key. Returns the error of the damaged logs whose keys cannot be read, which comes after
  /// all keys.
  fileprivate func forEachKey(
    prefix: String, _ body: (String) async throws -> Void
  ) async throws -> LogError? {
    var keys = keys(prefix: prefix).makeAsyncIterator()
    while true {
      let key: String
      do {
        guard let next = try await keys.next() else { return nil }
        key = next
      } catch let error as LogError {
        guard case .damaged = error else { throw error }
        return error
      }
      try await body(key)
    }
  }
}

private struct ShownEntry: Encodable {
  var position: UInt64
  var sort: String
  var writer: String?
  var first: UInt64?
  var seen: UInt64?
  var schema: UInt32?
  var rules: UInt32?
  var actions: [String]?
  var skipped: UInt64?
  var epoch: String?
  var standsFor: UInt64?
  var time: String?
  var reason: String?

  init(_ record: LogRecord) {
    position = record.position
    switch record.content {
    case .actions(let entry):
      sort = "actions"
      (writer, first, seen) = (String(entry.writer, radix: 16), entry.first, entry.seen)
      (schema, rules) = (entry.schema, entry.rules)
      actions = entry.actions.map {
        String(validating: $0, as: UTF8.self) ?? "base64:" + Data($0).base64EncodedString()
      }
    case .skip(let position, let time, let reason):
      (sort, skipped, self.reason) = ("skip", position, reason)
      self.time = text(time)
    case .seal(let rules, let time, let reason):
      (sort, self.rules, self.reason) = ("seal", rules, reason)
      self.time = text(time)
    case .epoch(let number, let time, let reason):
      (sort, epoch, self.reason) = ("epoch", String(number, radix: 16), reason)
      self.time = text(time)
    case .standIn(let position): (sort, standsFor) = ("stand-in", position)
    case .newer: sort = "newer"
    case .unreadable: sort = "unreadable"
    }
  }

  private func text(_ time: WallTime) -> String {
    Date(timeIntervalSince1970: time.since1970 / .seconds(1)).formatted(.iso8601)
  }

  var json: String {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
      // Hidden characters occur only in JSON strings, where they can be escaped.
      return String(decoding: try encoder.encode(self), as: UTF8.self).unicodeScalars.map { scalar in
        guard scalar.isHidden else { return String(scalar) }
        return String(scalar).utf16.map { "\\u" + String(0x10000 + Int($0), radix: 16).dropFirst() }.joined()
      }.joined()
    }
  }

  /// Always a single line: texts are escaped.
  var line: String {
    var parts: [String] = []
    if let writer, let first { parts.append("writer=\(writer) first=\(first)") }
    if let seen { parts.append("seen=\(seen)") }
    if let schema { parts.append("schema=\(schema)") }
    if let rules { parts.append("rules=\(rules)") }
    if let skipped { parts.append("skipped=\(skipped)") }
    if let epoch { parts.append("epoch=\(epoch)") }
    if let standsFor { parts.append("for=\(standsFor)") }
    if let time { parts.append(time) }
    if let reason { parts.append(column(reason)) }
    return (["\(position)", sort, parts.joined(separator: " ")] + (actions ?? []).map(column)).joined(separator: "\t")
  }
}
