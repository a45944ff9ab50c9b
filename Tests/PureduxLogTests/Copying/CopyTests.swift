import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// A copy of a log leads to the same state on every engine, and nothing else is accepted as a copy.
@Suite(.timeLimit(.minutes(15))) struct CopyTests {
  static let fingerprint: @Sendable (Ledger) -> UInt64 = { ledger in
    ledger.entries.reduce(1) { $0 &* 31 &+ $1.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) } }
  }

  static var ruled: LogOptions {
    var options = LogOptions.once
    options.rules = 2
    options.openingLimit = .zero
    return options
  }

  /// Writes several writers' entries, rules, a decision, a seal, fingerprints and a snapshot. Returns the state.
  @discardableResult
  static func fill(_ log: any OrderedLog, truncates: Bool = false) async throws -> [String] {
    var old = LogOptions.once
    old.rules = 1
    let first = try await ledger(log, options: old)
    for action in ["a", "a mistake"] { try await first.send(action) }
    let mistake = try await log.head()
    try await first.send("b")
    await first.shutdown()
    try await log.skip(position: mistake, reason: "a mistake")
    let second = try await ledger(log, options: old)
    try await second.sealLog(forRules: 2, reason: "other rules")
    await second.shutdown()
    let third = try await ledger(log, options: ruled, fingerprint: fingerprint)
    for action in ["c", "d"] { try await third.send(action) }
    let fourth = try await ledger(log, options: ruled, fingerprint: fingerprint)
    for action in ["e", "f"] { try await fourth.send(action) }
    try await third.send("g")
    if truncates { try await third.eraseLog() } else { try await third.saveSnapshot() }
    try await fourth.send("h")
    try await third.send("i")
    await fourth.shutdown()
    await third.shutdown()
    return ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
  }

  /// The copy has the log's state and order; stores continue with it, and agree.
  static func expectCopy(
    _ copy: any OrderedLog, of log: any OrderedLog, _ entries: [String], isTruncated: Bool
  ) async throws {
    var folds: [Fold] = []
    for log in [log, copy] {
      let store = try await ledger(log, options: ruled, fingerprint: fingerprint)
      #expect(await store.state.entries == entries)
      try await store.saveSnapshot()
      guard let bytes = try await log.snapshots?.newest()?.bytes,
        case .snapshot(let snapshot) = EncodedSnapshot.decode(bytes)
      else { throw LogError.unavailable("There is no snapshot.") }
      folds.append(snapshot.fold)
      await store.shutdown()
    }
    #expect(folds[0].chain == folds[1].chain && folds[0].commits == folds[1].commits)
    #expect(folds[0].skipped == folds[1].skipped && folds[0].decided.count == folds[1].decided.count)
    #expect(folds[0].epoch == 0 && folds[1].epoch != 0)
    if !isTruncated {
      var ignoring = ruled
      ignoring.ignoresSnapshots = true
      let replayed = try await ledger(copy, options: ignoring, fingerprint: fingerprint)
      #expect(await replayed.state.entries == entries)
      await replayed.shutdown()
    }
    let one = try await ledger(copy, options: ruled, fingerprint: fingerprint)
    let other = try await ledger(copy, options: ruled, fingerprint: fingerprint)
    try await one.send("later")
    try await other.send("last")
    _ = await one.state { $0.entries.last == "last" }
    #expect(await one.state.entries == entries + ["later", "last"])
    #expect(await other.state.entries == entries + ["later", "last"])
    await one.shutdown()
    await other.shutdown()
    // Waits for the entry that a store appends at its end without waiting for it.
    try await copy.beginEpoch(reason: "settled")
    let program = ReplayedProgram<Ledger, String>(
      initialState: Ledger(), options: FollowingOptions(log: ruled, fingerprint: .hashed(fingerprint))
    ) { $0.entries.append($1) }
    let report = try await verifyReplay(of: copy, by: program)
    #expect(report.stop == nil)
    #expect(try await copy.head() == report.position)
  }

  @Test(
    "a copy has the same state and order, and stores continue with it; a complete copy is not repeated",
    arguments: CopyPlace.allCases, CopyPlace.allCases)
  func copied(from: CopyPlace, to: CopyPlace) async throws {
    for truncates in [false, true] {
      try await from.withLog { log in
        try await to.withLog { copy in
          let entries = try await Self.fill(log, truncates: truncates)
          let told = LockedValue<[LogCopyProgress]>([])
          let report = try await log.copy(to: copy) { progress in told.withLock { $0.append(progress) } }
          #expect(report.logs == 1 && report.added == report.entries && report.entries > 0)
          #expect(told.withLock { $0.last.map { $0.copied == $0.total && $0.total > 0 } } == true)
          let head = try await copy.head()
          let again = try await log.copy(to: copy)
          #expect(again.added == 0 && again.entries == report.entries)
          #expect(try await copy.head() == head)
          try await Self.expectCopy(copy, of: log, entries, isTruncated: truncates)
        }
      }
    }
  }

  @Test("a copy of a log that was truncated is not opened without the snapshot", arguments: CopyPlace.allCases)
  func beginning(place: CopyPlace) async throws {
    try await place.withLog { copy in
      let log = MemoryLogs()["tree"]
      try await Self.fill(log, truncates: true)
      try await log.copy(to: copy)
      var ignoring = Self.ruled
      ignoring.ignoresSnapshots = true
      do {
        _ = try await ledger(copy, options: ignoring, fingerprint: Self.fingerprint)
        Issue.record("It was opened.")
      } catch LogError.truncated {}
      // Nor is it opened if the copy was interrupted before its snapshot was written.
      let begun = MemoryLogs()["tree"]
      await #expect(throws: LogCopyError.self) { try await log.copy(to: CutLog(begun, behind: 2, .lost)) }
      #expect(try await begun.head() == 1)
      do {
        _ = try await ledger(begun, options: Self.ruled)
        Issue.record("It was opened.")
      } catch LogError.truncated {}
      // No decision about the stand-in entry is possible.
      let first = try await copy.read(after: 0, through: copy.head())[0].position
      await #expect(throws: LogError.self) { try await copy.skip(position: first, reason: "a mistake") }
      // A copy of the copy is a copy of the log, too.
      let third = MemoryLogs()["tree"]
      try await copy.copy(to: third)
      let store = try await ledger(third, options: Self.ruled, fingerprint: Self.fingerprint)
      #expect(await store.state.entries.count == 9)
      await store.shutdown()
    }
  }

  @Test(
    "a copy interrupted at any entry continues at the next call", arguments: CutLog.Fault.allCases,
    [false, true])
  func resumed(fault: CutLog.Fault, truncates: Bool) async throws {
    let source = GappedLog()
    let entries = try await Self.fill(source, truncates: truncates)
    for count in (fault == .lost ? 2 : 1)...20 {
      let copy = MemoryLogs()["tree"]
      var calls = 0
      while calls < 1000 {
        calls += 1
        do {
          try await source.copy(to: CutLog(copy, behind: count, fault))
          break
        } catch let error as LogCopyError {
          guard case .log(.unavailable) = error.reason else { throw error }
        }
      }
      #expect(count > 3 || calls > 3)
      let store = try await ledger(copy, options: Self.ruled, fingerprint: Self.fingerprint)
      #expect(await store.state.entries == entries)
      #expect(await store.statistics.log?.epoch != 0)
      await store.shutdown()
    }
  }

  @Test("a copy to files that is interrupted continues at the next call")
  func resumedInFiles() async throws {
    let source = GappedLog()
    let entries = try await Self.fill(source, truncates: true)
    let directory = try TemporaryDirectory()
    for step in 0..<40 {
      let left = LockedValue(step)
      let faults = DiskFaults { call, _ in
        guard call == .write || call == .sync else { return nil }
        return left.withLock { left in
          left -= 1
          return left < 0 ? EIO : nil
        }
      }
      let log = try FileLog(directory: directory.path, options: .init(), onTornTail: nil, faults: faults)
      let isWhole: Bool
      do {
        try await source.copy(to: log["\(step / 20)"])
        isWhole = true
      } catch let error as LogCopyError {
        guard case .log(.unavailable) = error.reason else { throw error }
        isWhole = false
      }
      await log.close()
      if step == 39 {
        #expect(isWhole)
        let again = try FileLog(directory: directory.path)
        let store = try await ledger(again["1"], options: Self.ruled, fingerprint: Self.fingerprint)
        #expect(await store.state.entries == entries)
        await store.shutdown()
        await again.close()
      }
    }
  }

  @Test("a target with other contents is refused and unchanged", arguments: CopyPlace.allCases)
  func refused(place: CopyPlace) async throws {
    let log = MemoryLogs()["tree"]
    try await Self.fill(log)
    for other in 0..<4 {
      try await place.withLog { copy in
        switch other {
        case 0: _ = try await copy.append([1, 2, 3])
        case 1:
          let store = try await ledger(copy, options: .once)
          try await store.send("another")
          await store.shutdown()
        case 2:
          // A store has continued with this copy.
          try await log.copy(to: copy)
          let store = try await ledger(copy, options: Self.ruled)
          try await store.send("another")
          await store.shutdown()
        default:
          try await Self.fill(copy, truncates: true)
        }
        // Waits for the entry that a store appends at its end without waiting for it.
        _ = try await copy.append([9])
        let (head, newest) = (try await copy.head(), try await copy.snapshots?.newest())
        do {
          try await log.copy(to: copy)
          Issue.record("It was copied.")
        } catch let error as LogCopyError {
          guard case .differs = error.reason else { throw error }
        }
        #expect(try await copy.head() == head)
        #expect(try await copy.snapshots?.newest() == newest)
      }
    }
  }

  @Test("a log in use is copied up to its head, and the rest the next time", arguments: CopyPlace.allCases)
  func caughtUp(place: CopyPlace) async throws {
    for truncates in [false, true] {
      try await place.withLog { copy in
        let log = GappedLog()
        var entries = try await Self.fill(log, truncates: truncates)
        var epochs: Set<UInt64> = []
        for round in 0..<3 {
          let report = try await log.copy(to: copy, reason: "round \(round)")
          #expect(report.added > 0)
          let program = ReplayedProgram<Ledger, String>(
            initialState: Ledger(), options: FollowingOptions(log: Self.ruled, fingerprint: .hashed(Self.fingerprint))
          ) { $0.entries.append($1) }
          #expect(try await verifyReplay(of: copy, by: program).stop == nil)
          epochs.insert(try await lastEpoch(of: copy))
          let store = try await ledger(log, options: Self.ruled, fingerprint: Self.fingerprint)
          try await store.send("\(round)")
          try await store.saveSnapshot()
          try await store.send("more")
          await store.shutdown()
          entries += ["\(round)", "more"]
        }
        #expect(epochs.count == 3 && !epochs.contains(0))
        try await log.copy(to: copy)
        try await Self.expectCopy(copy, of: log, entries, isTruncated: truncates)
      }
    }
  }

  private func lastEpoch(of log: any OrderedLog) async throws -> UInt64 {
    let last = try await log.read(after: log.head() - 1, through: log.head())
    guard case .epoch(let epoch)? = last.first.map({ LogEntry.decode($0.bytes) }) else { return 0 }
    return epoch.number
  }

  @Test("a copy that truncation has made incomparable is refused")
  func truncatedSince() async throws {
    let (log, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
    try await Self.fill(log)
    try await log.copy(to: copy)
    let store = try await ledger(log, options: Self.ruled, fingerprint: Self.fingerprint)
    let position = try await store.eraseLog()
    let head = try await copy.head()
    await #expect(throws: LogCopyError(key: "tree", reason: .truncatedSince(first: position + 1))) {
      try await log.copy(to: copy)
    }
    let other = MemoryLogs()["tree"]
    try await log.copy(to: other)
    try await store.send("more")
    let next = try await store.eraseLog()
    await #expect(throws: LogCopyError(key: "tree", reason: .truncatedSince(first: next + 1))) {
      try await log.copy(to: other)
    }
    #expect(try await copy.head() == head)
    await store.shutdown()
  }

  @Test(
    "an archive of another moment of a truncated log is refused, and one of the same moment continues",
    arguments: [false, true], [false, true])
  func importedTwice(isOpenedBetween: Bool, hasMoreWriters: Bool) async throws {
    let place = try TemporaryDirectory()
    let (source, target) = (MemoryLogs(), MemoryLogs())
    let store = try await ledger(source["tree"], options: .once)
    try await store.send("a")
    try await store.saveSnapshot()
    try await store.truncateLog()
    _ = try await source.export(to: place.path + "/monday")
    _ = try await target.import(from: place.path + "/monday")
    func open() async throws -> [String] {
      let opened = try await ledger(target["tree"], options: .once)
      if isOpenedBetween { try await opened.saveSnapshot() }
      await opened.shutdown()
      return await opened.state.entries
    }
    #expect(try await open() == ["a"])
    try await store.send("b")
    if hasMoreWriters {
      let beside = try await ledger(source["tree"], options: .once)
      try await beside.send("b")
      await beside.shutdown()
    }
    _ = try await source.export(to: place.path + "/evening")
    #expect(try await target.import(from: place.path + "/evening").added == (hasMoreWriters ? 2 : 1))
    let entries = hasMoreWriters ? ["a", "b", "b"] : ["a", "b"]
    #expect(try await open() == entries)
    try await store.saveSnapshot()
    try await store.truncateLog()
    try await store.send("c")
    _ = try await source.export(to: place.path + "/tuesday")
    let (head, newest) = (try await target["tree"].head(), try await target["tree"].snapshots?.newest())
    let refused = try await target.import(from: place.path + "/tuesday").failures.map(\.reason)
    #expect(refused == [.truncatedSince(first: hasMoreWriters ? 3 : 2)])
    #expect(try await target["tree"].head() == head)
    #expect(try await target["tree"].snapshots?.newest() == newest)
    #expect(try await open() == entries)
    // Nor is the earlier copy a beginning of the later one.
    let other = MemoryLogs()
    _ = try await other.import(from: place.path + "/tuesday")
    let earlier = try await other.import(from: place.path + "/monday").failures.map(\.reason)
    #expect(earlier == [.truncatedSince(first: 2)])
    await store.shutdown()
  }

  private func expectReason(
    _ isRight: (LogCopyError.Reason) -> Bool, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
  ) async {
    do {
      try await body()
      Issue.record("It was copied.", sourceLocation: sourceLocation)
    } catch {
      let reason = (error as? LogCopyError)?.reason
      #expect(reason.map(isRight) == true, "\(error)", sourceLocation: sourceLocation)
    }
  }

  @Test("a log of another past is refused before anything is appended, whatever snapshots both have since")
  func anotherPast() async throws {
    for later in [false, true] {
      for opened in [false, true] {
        let (one, other, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"], MemoryLogs()["tree"])
        for log in [one, other] { try await Self.fill(log, truncates: true) }
        try await one.copy(to: copy)
        for log in (later ? [other] : []) + (opened ? [copy] : []) {
          let store = try await ledger(log, options: Self.ruled, fingerprint: Self.fingerprint)
          if later, !opened { try await store.send("more") }
          try await store.saveSnapshot()
          await store.shutdown()
        }
        let (head, newest) = (try await copy.head(), try await copy.snapshots?.newest())
        await expectReason({
          switch $0 {
          case .differs, .truncatedSince: true
          default: false
          }
        }) { try await other.copy(to: copy) }
        #expect(try await copy.head() == head)
        #expect(try await copy.snapshots?.newest() == newest)
      }
    }
  }

  @Test("a copy interrupted between the stand-in entry and the snapshot continues, unless the log has a newer snapshot")
  func diedBeforeSnapshot() async throws {
    for isNewer in [false, true] {
      let (log, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
      let entries = try await Self.fill(log, truncates: true)
      await #expect(throws: LogCopyError.self) { try await log.copy(to: SavingNothingLog(log: copy)) }
      let head = try await copy.head()
      #expect(head > 1)
      if isNewer {
        let store = try await ledger(log, options: Self.ruled, fingerprint: Self.fingerprint)
        try await store.send("more")
        try await store.saveSnapshot()
        await store.shutdown()
        await expectReason({ if case .truncatedSince = $0 { true } else { false } }) { try await log.copy(to: copy) }
        #expect(try await copy.head() == head)
      } else {
        try await log.copy(to: copy)
        try await Self.expectCopy(copy, of: log, entries, isTruncated: true)
      }
    }
  }

  @Test("a truncated log is refused by a truncated one that is no copy of it")
  func bothTruncated() async throws {
    let (one, other) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
    for log in [one, other] { try await Self.fill(log, truncates: true) }
    await expectReason({ if case .differs = $0 { true } else { false } }) { try await one.copy(to: other) }
  }

  @Test("an entry or snapshot that is not understood stops a copy, with its position")
  func notUnderstood() async throws {
    func copy(_ log: any OrderedLog) async -> LogCopyError.Reason? {
      do {
        try await log.copy(to: MemoryLogs()["copy"])
        return nil
      } catch {
        return (error as? LogCopyError)?.reason
      }
    }
    for newer in [[0x50, 0x44, 0x58, 3], [0x50, 0x44, 0x58, 2, 7], [0x50, 0x44, 0x58, 255, 1]] as [[UInt8]] {
      let log = MemoryLogs()["tree"]
      try await Self.fill(log)
      let position = try await log.append(newer)
      #expect(await copy(log) == .newerFormat(position: position))
    }
    let kept = MemoryLogs()["tree"]
    try await Self.fill(kept)
    let position = try await kept.head()
    try await kept.snapshots?.save(LogSnapshot(position: position, bytes: [99, 0, 0, 0, 0]))
    #expect(await copy(kept) == .newerFormat(position: position))
    try await kept.snapshots?.replace(with: LogSnapshot(position: position, bytes: [1, 0]))
    #expect(await copy(kept) == .unreadableSnapshot(position: position))
    // A decision about an entry that has been truncated.
    let erased = MemoryLogs()["tree"]
    try await Self.fill(erased, truncates: true)
    let decision = LogEntry.Decision(skipped: 1, time: 0, reason: "too late")
    let last = try await erased.append(LogEntry.encode(decision))
    #expect(await copy(erased) == .undecided(position: last))
    // A truncated log without a snapshot.
    let bare = MemoryLogs()["tree"]
    for number in 1...3 as ClosedRange<UInt8> { _ = try await bare.append([number]) }
    try await bare.truncate(through: 2)
    #expect(await copy(bare) == .noSnapshot(first: 3))
    // A target that takes only smaller entries.
    let large = MemoryLogs()["large"]
    try await Self.fill(large)
    await #expect(throws: LogCopyError(key: "large", reason: .tooLarge(position: 1))) {
      try await large.copy(to: SmallLog())
    }
  }

  @Test("an unreadable entry is copied unchanged, with the decision about it")
  func unreadable() async throws {
    let log = GappedLog()
    let store = try await ledger(log, options: .once)
    try await store.send("a")
    await store.shutdown()
    let position = try await log.append([1, 2, 3])
    let copy = MemoryLogs()["tree"]
    try await log.copy(to: copy)
    await #expect(throws: StoreError.stopped(.undecodable(position: 2))) { try await ledger(copy, options: .once) }
    try await log.skip(position: position, reason: "nobody's")
    try await log.copy(to: copy)
    for log in [log as any OrderedLog, copy] {
      let store = try await ledger(log, options: .once)
      #expect(await store.state.entries == ["a"])
      #expect(await store.statistics.log?.skipped == 1)
      await store.shutdown()
    }
  }

  @Test("the entries that a snapshot remembers keep their order in a copy, and the skipped ones their decisions")
  func moved() throws {
    var fold = Fold()
    for writer in 1...5 as ClosedRange<UInt64> {
      _ = fold.take(1, of: writer, at: writer * 10)
      fold.ended(at: writer * 10, fingerprint: writer)
    }
    fold.decide(20)
    #expect(fold.positions == [10, 20, 30, 40, 50])
    var places = PositionMap()
    for (offset, position) in fold.positions.enumerated() { places.place(position, at: UInt64(offset + 1)) }
    let moved = try #require(fold.moved { places[$0] })
    #expect(moved.positions == [1, 2, 3, 4, 5] && moved.decided == [2] && moved.chain == fold.chain)
    #expect(fold.moved { $0 == 30 ? nil : $0 } == nil)
    var (one, other) = (fold, moved)
    for writer in 6...3000 as ClosedRange<UInt64> {
      _ = one.take(1, of: writer, at: writer * 10)
      _ = other.take(1, of: writer, at: writer)
    }
    #expect(one.chain == other.chain)
    #expect([places[10], places[11], places[9], places[60]] == [1, nil, nil, nil])
    #expect([places.atMost(9), places.atMost(19), places.atMost(20), places.atMost(1000)] == [0, 1, 2, 5])
  }

  @Test("a log in use is copied up to one moment: the restored state is a beginning of the final one")
  func hot() async throws {
    let (directory, backups) = (try TemporaryDirectory(), try TemporaryDirectory())
    let files = try FileLog(directory: directory.path)
    let store = try await ledger(files["tree"], options: .once)
    let beside = try await ledger(files["tree"], options: .once)
    for number in 0..<10 { try await store.send("\(number)") }
    // Stores write before each export, and until the last export has ended.
    let isExported = LockedValue(false)
    async let writing: Void = {
      var number = 10
      repeat {
        try await (number % 2 == 0 ? store : beside).send("\(number)")
        number += 1
      } while !isExported.withLock { $0 }
    }()
    for backup in 0..<5 {
      let count = await store.state.entries.count
      _ = await store.state { $0.entries.count > count }
      #expect(try await files.export(to: backups.path + "/\(backup)").failures == [])
    }
    isExported.withLock { $0 = true }
    try await writing
    let entries = await store.state.entries
    var count = 10
    for backup in 0..<5 {
      let restored = MemoryLogs()
      _ = try await restored.import(from: backups.path + "/\(backup)")
      let again = try await ledger(restored["tree"], options: .once)
      let found = await again.state.entries
      #expect(found.count > count && entries.starts(with: found))
      count = found.count
      try await again.send("more")
      await again.shutdown()
    }
    await store.shutdown()
    await beside.shutdown()
    await files.close()
  }

  @Test("a snapshot that has replaced another in the log replaces it in the copy", arguments: CopyPlace.allCases)
  func replacedSnapshot(place: CopyPlace) async throws {
    try await place.withLog { copy in
      let log = MemoryLogs()["tree"]
      let store = try await ledger(log, options: .once)
      try await store.send("a")
      try await store.saveSnapshot()
      await store.shutdown()
      try await log.copy(to: copy)
      let wrong = try await log.snapshots?.newest()
      let right = try await replaceSnapshot(of: log)
      #expect(right?.position == wrong?.position && right != wrong)
      for _ in 0..<2 { #expect(try await log.copy(to: copy).added == 0) }
      let opened = try await ledger(copy, options: .once)
      #expect(await opened.state.entries == ["a!"])
      await opened.shutdown()
    }
  }

  /// Replaces the snapshot by one of another reducer.
  private func replaceSnapshot(of log: any OrderedLog) async throws -> LogSnapshot? {
    var ignoring = LogOptions.once
    ignoring.ignoresSnapshots = true
    let mended = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(), options: FollowingOptions(log: ignoring, fingerprint: .unchecked)
    ) {
      $0.entries.append($1 + "!")
    }
    await mended.shutdown()
    return try await log.snapshots?.newest()
  }

  @Test("an older archive does not put back a snapshot that has been replaced since")
  func replacedSince() async throws {
    let place = try TemporaryDirectory()
    let path = place.path + "/backup"
    let logs = MemoryLogs()
    let log = logs["tree"]
    let store = try await ledger(log, options: .once)
    try await store.send("a")
    try await store.saveSnapshot()
    await store.shutdown()
    _ = try await logs.export(to: path)
    let right = try await replaceSnapshot(of: log)
    #expect(try await logs.import(from: path).failures.count == 1)
    #expect(try await log.snapshots?.newest() == right)
  }

  @Test("a log that has repetitions is copied to one that repeats, and again")
  func repeatedTwice() async throws {
    let (log, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
    var entries: [String] = []
    for round in 0..<3 {
      let store = try await ledger(CutLog(log, behind: 1000, .repeated), options: .once, fingerprint: Self.fingerprint)
      for number in 0..<3 {
        entries.append("\(round) \(number)")
        try await store.send(entries[entries.count - 1])
        // The writer of the next entry has seen the repetition.
        _ = try await log.read(after: 0, through: log.head())
      }
      await store.shutdown()
      try await log.copy(to: CutLog(copy, behind: 1000, .repeated))
      #expect(try await log.copy(to: copy).added == 0)
    }
    let store = try await ledger(copy, options: .once, fingerprint: Self.fingerprint)
    #expect(await store.state.entries == entries)
    await store.shutdown()
  }

  @Test("a repetition of an entry that the writer has seen is the same place in the order")
  func seenRepetition() async throws {
    let (log, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
    let header = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 0)
    var fold = Fold()
    for _ in 0..<2 {
      let position = try await log.append(LogEntry.encode(header, actions: [Array("\"a\"".utf8)]))
      fold.follow(try await log.read(after: position - 1, through: position)[0])
      fold.ended(at: position, fingerprint: nil)
    }
    let next = LogEntry.Header(writer: 7, first: 2, seen: fold.mark, schema: 0)
    _ = try await log.append(LogEntry.encode(next, actions: [Array("\"b\"".utf8)]))
    for _ in 0..<2 { try await log.copy(to: CutLog(copy, behind: 1000, .repeated)) }
    for log in [log, copy] {
      let store = try await ledger(log, options: .once)
      #expect(await store.state.entries == ["a", "b"])
      await store.shutdown()
    }
  }

  @Test("an unreadable entry that the target has repeated is reported")
  func unreadableRepeated() async throws {
    let (log, copy) = (MemoryLogs()["tree"], MemoryLogs()["tree"])
    let position = try await log.append([1, 2, 3])
    try await log.skip(position: position, reason: "nobody's")
    await expectReason({ $0 == .differs(position: 2) }) {
      try await log.copy(to: CutLog(copy, behind: 1000, .repeated))
    }
  }

  @Test("a log that is truncated while it is exported is exported all the same")
  func truncatedMeanwhile() async throws {
    let place = try TemporaryDirectory()
    // The numbers of the readings of entries that a truncation precedes, for a log that was or was not truncated
    // before.
    for (isTruncated, readings, isExported) in [
      (true, [1], true), (false, [2], true), (false, [2, 5, 8], false),
    ] as [(Bool, Set<Int>, Bool)] {
      let log = MemoryLogs()["tree"]
      let store = try await ledger(log, options: .once)
      for action in ["a", "b"] { try await store.send(action) }
      try await store.saveSnapshot()
      if isTruncated { try await store.truncateLog() }
      try await store.send("c")
      let meanwhile = MeanwhileLog(log) { reading in
        guard readings.contains(reading) else { return }
        try await store.send("more")
        try await store.eraseLog()
      }
      let path = place.path + "/backup"
      if isExported {
        #expect(try await meanwhile.export(to: path).logs == 1)
        let restored = MemoryLogs()
        #expect(try await restored.import(from: path).failures == [])
        let again = try await ledger(restored["tree"], options: .once)
        #expect(await again.state.entries == ["a", "b", "c", "more"])
        await again.shutdown()
      } else {
        await expectReason({ if case .log(.truncated) = $0 { true } else { false } }) {
          try await meanwhile.export(to: path)
        }
      }
      await store.shutdown()
    }
  }

  @Test("a log copied to itself is unchanged; one into which its own archive is imported begins one epoch")
  func toItself() async throws {
    try await LogPlace.files.withLog { log in
      try await Self.fill(log)
      // Waits for the entry that a store appends at its end without waiting for it.
      let last = try await log.append([9])
      for _ in 0..<2 { #expect(try await log.copy(to: log).added == 0) }
      #expect(try await log.head() == last)
    }
    let place = try TemporaryDirectory()
    let logs = MemoryLogs()
    try await Self.fill(logs["tree"])
    let last = try await logs["tree"].append([9])
    #expect(try await logs.copy(to: logs).added == 0)
    #expect(try await logs["tree"].head() == last)
    _ = try await logs.export(to: place.path + "/backup")
    for _ in 0..<2 { #expect(try await logs.import(from: place.path + "/backup").added == 0) }
    #expect(try await logs["tree"].head() == last + 1)
  }

  // MARK: Files of logs

  @Test("logs are exported and imported by key, and logs under other keys stay")
  func directories() async throws {
    let (source, target) = (MemoryLogs(), MemoryLogs())
    let place = try TemporaryDirectory()
    let path = place.path + "/in/backup"
    var states: [String: [String]] = [:]
    for (number, key) in ["boards/1", "boards/cafe\u{301}", "boards/3", "rooms/1"].enumerated() {
      states[key] = try await Self.fill(source[key], truncates: number % 2 == 1)
    }
    try await Self.fill(target["others/1"])
    let others = try await target["others/1"].head()
    let report = try await source.export(to: path)
    #expect(report.logs == 4 && report.added == report.entries)
    let archive = try await LogArchive(path: path)
    #expect(try await keys(archive) == ["boards/1", "boards/3", "boards/caf\u{E9}", "rooms/1"])
    #expect(try await keys(archive, "boards/") == ["boards/1", "boards/3", "boards/caf\u{E9}"])
    await #expect(throws: LogError.self) { try await archive.remove("rooms/1") }
    await #expect(throws: LogError.self) { _ = try await archive["rooms/1"].append([1]) }
    await #expect(throws: LogError.self) { try await archive["rooms/1"].truncate(through: 1) }
    #expect(try await target.import(from: path, prefix: "boards/").logs == 3)
    #expect(try await keys(target) == ["boards/1", "boards/3", "boards/caf\u{E9}", "others/1"])
    #expect(try await target.import(from: path, prefix: "boards/").added == 0)
    #expect(try await target.import(from: path).logs == 4)
    #expect(try await target["others/1"].head() == others)
    for (key, entries) in states {
      let isTruncated = !["boards/1", "boards/3"].contains(key)
      try await Self.expectCopy(target[key], of: source[key], entries, isTruncated: isTruncated)
    }
    // Exports one log alone.
    try await source["rooms/1"].export(to: path)
    let one = try await LogArchive(path: path)
    #expect(try await keys(one) == ["rooms/1"])
    await one.close()
    await #expect(throws: LogError.self) { _ = try await one["rooms/1"].head() }
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.path + "/in") == ["backup"])
  }

  private func keys(_ logs: any LogDirectory, _ prefix: String = "") async throws -> [String] {
    var keys: [String] = []
    for try await key in logs.keys(prefix: prefix) { keys.append(key) }
    return keys
  }

  @Test("a cut or changed archive is reported; an archive that cannot be completed leaves no file")
  func damaged() async throws {
    let place = try TemporaryDirectory()
    let path = place.path + "/backup"
    let logs = MemoryLogs()
    for key in ["one", "two"] { try await Self.fill(logs[key], truncates: key == "two") }
    _ = try await logs.export(to: path)
    let bytes = try #require(FileManager.default.contents(atPath: path))
    let other = URL(fileURLWithPath: place.path + "/other")
    for count in stride(from: 0, to: bytes.count, by: 3) {
      try bytes.prefix(count).write(to: other)
      await #expect(throws: LogError.self, "cut to \(count)") { try await LogArchive(path: other.path) }
      var changed = bytes
      changed[count] ^= 0x10
      try changed.write(to: other)
      await #expect(throws: LogError.self, "changed at \(count)") { try await LogArchive(path: other.path) }
    }
    try (bytes + bytes.suffix(40)).write(to: other)
    await #expect(throws: LogError.self) { try await LogArchive(path: other.path) }
    var newer = bytes
    newer[7] += 1
    try newer.write(to: other)
    let error = await #expect(throws: LogError.self) { try await LogArchive(path: other.path) }
    #expect(error?.text.contains("newer version") == true)
    // If the next archive cannot be written, the existing one stays.
    _ = try await logs["two"].append([0x50, 0x44, 0x58, 9])
    await #expect(throws: LogCopyError.self) { try await logs["two"].export(to: path) }
    #expect(FileManager.default.contents(atPath: path) == bytes)
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.path).sorted() == ["backup", "other"])
  }

  @Test("an archive that is cut while it is open ends its readers with an error, and so does its closing")
  func cutWhileOpen() async throws {
    let place = try TemporaryDirectory()
    let path = place.path + "/backup"
    let logs = MemoryLogs()
    for number in 0..<3 as Range<UInt8> { _ = try await logs["tree"].append([number]) }
    _ = try await logs.export(to: path)
    let archive = try await LogArchive(path: path)
    let waiting = Task { for try await _ in archive["tree"].records(after: 3) {} }
    // Behind the beginning of the tree, and its first entry.
    let parts = [ArchivePart.tree("tree"), .entry([0])]
    let end = parts.reduce(ArchivePart.magic.count) { $0 + RecordFormat.recordOverhead + $1.bytes.count }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try file.truncate(atOffset: UInt64(end))
    try file.close()
    do {
      _ = try await archive["tree"].read(after: 0, through: 3)
      Issue.record("It was read.")
    } catch LogError.damaged(let position, _) {
      #expect(position == 3)
    }
    await archive.close()
    await #expect(throws: LogError.self) { try await waiting.value }
  }

  @Test("a log that cannot be copied is left out and reported; a removed log is not")
  func leftOut() async throws {
    let place = try TemporaryDirectory()
    let source = MemoryLogs()
    var states: [String: [String]] = [:]
    for key in ["a", "b", "c", "d", "e"] { states[key] = try await Self.fill(source[key]) }
    let newer = try await source["b"].append([0x50, 0x44, 0x58, 9])
    let decision = LogEntry.Decision(skipped: 1, time: 0, reason: "too late")
    let store = try await ledger(source["d"], options: Self.ruled, fingerprint: Self.fingerprint)
    try await store.eraseLog()
    await store.shutdown()
    let undecided = try await source["d"].append(LogEntry.encode(decision))
    let failures = [
      LogCopyError(key: "b", reason: .newerFormat(position: newer)),
      LogCopyError(key: "d", reason: .undecided(position: undecided)),
    ]
    let report = try await RemovedLogs(source, removed: "c").export(to: place.path + "/backup")
    #expect(report.logs == 2 && report.failures == failures)
    let archive = try await LogArchive(path: place.path + "/backup")
    #expect(try await keys(archive) == ["a", "e"])
    let (restored, copied) = (MemoryLogs(), MemoryLogs())
    let other = try await restored["a"].append([1])
    let imported = try await restored.import(from: place.path + "/backup")
    #expect(imported.logs == 1 && imported.failures == [LogCopyError(key: "a", reason: .differs(position: other))])
    #expect(try await RemovedLogs(source, removed: "c").copy(to: copied).failures == failures)
    for log in [restored["e"], copied["e"]] {
      let store = try await ledger(log, options: Self.ruled, fingerprint: Self.fingerprint)
      #expect(await store.state.entries == states["e"])
      await store.shutdown()
    }
    // If the whole directory is unavailable, the export ends and the file stays as it is.
    let bytes = FileManager.default.contents(atPath: place.path + "/backup")
    await source.close()
    await #expect(throws: (any Error).self) {
      _ = try await RemovedLogs(source, removed: "c").export(to: place.path + "/backup")
    }
    #expect(FileManager.default.contents(atPath: place.path + "/backup") == bytes)
  }

  @Test("a part with a changed length takes no memory and is reported; a part that is too large is refused")
  func largeParts() async throws {
    let place = try TemporaryDirectory()
    let logs = MemoryLogs()
    let large = [UInt8](repeating: 7, count: 3 << 20)
    for number in 0..<3 as Range<UInt8> { _ = try await logs["tree"].append([number] + large) }
    _ = try await logs.export(to: place.path + "/backup")
    let archive = try await LogArchive(path: place.path + "/backup")
    #expect(try await archive["tree"].read(after: 0, through: 3).map(\.bytes) == (0..<3).map { [$0] + large })
    // Adds one byte to the length of the first entry.
    var bytes = try Data(contentsOf: URL(fileURLWithPath: place.path + "/backup"))
    bytes[8 + 16 + 9] ^= 1 << 7
    try bytes.write(to: URL(fileURLWithPath: place.path + "/changed"))
    do {
      _ = try await LogArchive(path: place.path + "/changed")
      Issue.record("It was read.")
    } catch {
      guard case .damaged(position: 2, _) = error else { throw error }
    }
    var record: [UInt8] = []
    RecordFormat.append(LogRecord(position: 1, bytes: [1, 2, 3, 4, 5]), to: &record)
    for changed in -1..<record.count {
      var bytes = record
      if changed >= 0 { bytes[changed] ^= 1 }
      #expect(RecordFormat.isWhole(bytes.count, pieces: 2) { Array(bytes[$0]) } == (changed < 0), "\(changed)")
    }
    let small = MemoryLogs()["small"]
    try await Self.fill(small)
    let position = try #require(try await small.snapshots?.newest()).position
    await expectReason({ $0 == .tooLarge(position: position) }) {
      try await ArchiveFile.write(place.path + "/small", partLimit: 150) { archive in
        _ = try await small.copy(to: ArchivedTree("small", in: archive), reason: nil)
      }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.path).sorted() == ["backup", "changed"])
  }

  @Test("a file that another export completed before this one could lock it is unchanged")
  func exportedMeanwhile() throws {
    let place = try TemporaryDirectory()
    let directory = try Directory(place.path)
    try Data([1, 2, 3]).write(to: URL(fileURLWithPath: place.path + "/backup.new"))
    var opened = 0
    let disk = try Disk.lockedNew("backup.new", in: directory) {
      opened += 1
      try? directory.move("backup.new", to: "backup")
    }
    #expect(opened == 1)
    #expect(FileManager.default.contents(atPath: place.path + "/backup") == Data([1, 2, 3]))
    #expect(try directory.place(of: "backup.new") == disk.place())
  }

  // MARK: Copies of the files of a log

  @Test("a copy of the files of a log in use is reported if it is not a beginning of the log")
  func copiedFiles() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/log"
    var plain = FileLog.Options()
    plain.preallocatedBytes = 0
    func withLog(_ path: String, _ body: (FileLog) async throws -> Void) async throws {
      let log = try FileLog(directory: path, options: plain) { _ in }
      try await body(log)
      await log.close()
    }
    func copy(_ name: String) throws -> String {
      try FileManager.default.copyItem(atPath: path, toPath: directory.path + "/" + name)
      return directory.path + "/" + name
    }
    let segment = "/=tree/0000000000000001.log"
    try await withLog(path) { log in
      let store = try await ledger(log["tree"], options: .once)
      for action in ["a", "b"] { try await store.send(action) }
      try await store.saveSnapshot()
      await store.shutdown()
    }
    let early = try copy("early")
    try await withLog(path) { log in
      let store = try await ledger(log["tree"], options: .once)
      try await store.send("c")
      try await store.saveSnapshot()
      await store.shutdown()
    }
    // The last entry is incomplete, and the acknowledged mark is older: the entry is a torn tail, which is set aside.
    let torn = try copy("torn")
    var bytes = try Data(contentsOf: URL(fileURLWithPath: torn + segment))
    try bytes.dropLast(5).write(to: URL(fileURLWithPath: torn + segment))
    for name in ["/=tree/acknowledged", "/=tree/snapshot"] {
      try FileManager.default.removeItem(atPath: torn + name)
      try FileManager.default.copyItem(atPath: early + name, toPath: torn + name)
    }
    try await withLog(torn) { log in
      let store = try await ledger(log["tree"], options: .once)
      #expect(await store.state.entries == ["a", "b"])
      await store.shutdown()
    }
    // The entries are older than the acknowledged mark.
    let short = try copy("short")
    bytes = try Data(contentsOf: URL(fileURLWithPath: early + segment))
    try bytes.write(to: URL(fileURLWithPath: short + segment))
    try await withLog(short) { log in
      do {
        _ = try await ledger(log["tree"], options: .once)
        Issue.record("It was opened.")
      } catch LogError.damaged(let position, _) {
        #expect(position == 3)
      }
    }
    // The snapshot is newer than the entries.
    try FileManager.default.removeItem(atPath: early + "/=tree/snapshot")
    try FileManager.default.copyItem(atPath: path + "/=tree/snapshot", toPath: early + "/=tree/snapshot")
    try await withLog(early) { log in
      var options = LogOptions.once
      options.openingLimit = .zero
      do {
        _ = try await ledger(log["tree"], options: options)
        Issue.record("It was opened.")
      } catch LogError.unavailable {}
    }
  }
}

/// The place of a log or its copy.
enum CopyPlace: CaseIterable, Sendable {
  case memory, files, gaps

  func withLog(_ body: (any OrderedLog) async throws -> Void) async throws {
    switch self {
    case .memory: try await LogPlace.memory.withLog(body)
    case .files: try await LogPlace.files.withLog(body)
    case .gaps: try await body(GappedLog())
    }
  }
}

/// A log whose positions have gaps, like those of an engine whose trees share positions.
final class GappedLog: OrderedLog, SnapshotStore {
  private let log = MemoryLog()
  private let kept = LockedValue<LogSnapshot?>(nil)

  var snapshots: (any SnapshotStore)? { self }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry) { outcome($0.map { 3 * $0 }) }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let task = Task { [log] in
      do {
        for try await records in log.records(after: position / 3) {
          continuation.yield(records.map { LogRecord(position: 3 * $0.position, bytes: $0.bytes) })
        }
        continuation.finish()
      } catch LogError.truncated(let first) {
        continuation.finish(throwing: LogError.truncated(first: 3 * first))
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream
  }

  func head() async throws(LogError) -> UInt64 { 3 * (try await log.head()) }
  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position / 3) }
  func erase(through position: UInt64) async throws(LogError) { try await log.erase(through: position / 3) }

  func newest() async throws(LogError) -> LogSnapshot? { kept.withLock { $0 } }
  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    kept.withLock { if $0?.position ?? 0 < snapshot.position { $0 = snapshot } }
  }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { kept.withLock { $0 = snapshot } }
}

/// A log that fails after some entries.
final class CutLog: LogAround {
  enum Fault: CaseIterable, Sendable {
    /// The last entry is lost.
    case lost
    /// The last entry is stored but not acknowledged.
    case unacknowledged
    /// Every entry is stored twice, and the last one is lost.
    case repeated
  }

  let log: any OrderedLog
  private let left: LockedValue<Int>
  private let fault: Fault

  init(_ log: any OrderedLog, behind count: Int, _ fault: Fault) {
    self.log = log
    self.fault = fault
    left = LockedValue(fault == .repeated ? count + 1 : count)
  }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let isLast = left.withLock { left in
      left -= 1
      return left <= 0
    }
    switch (isLast, fault) {
    case (false, .repeated):
      log.append(entry, outcome: outcome)
      log.append(entry) { _ in }
    case (false, _): log.append(entry, outcome: outcome)
    case (true, .unacknowledged): log.append(entry) { _ in outcome(.failure(.unavailable("It is away."))) }
    case (true, _): Task { outcome(.failure(.unavailable("It is away."))) }
    }
  }
}

/// Logs, one of which is removed when its entries are read.
private struct RemovedLogs: LogDirectory {
  private struct Removed: LogAround {
    let log: any OrderedLog

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      AsyncThrowingStream { throw LogError.removed }
    }
  }

  private let logs: MemoryLogs
  private let removed: String

  init(_ logs: MemoryLogs, removed: String) { (self.logs, self.removed) = (logs, removed) }

  subscript(key: String) -> any OrderedLog { key == removed ? Removed(log: logs[key]) : logs[key] }
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { logs.keys(prefix: prefix) }
  func remove(_ key: String) async throws(LogError) { try await logs.remove(key) }
  func close() async { await logs.close() }
}

/// A log whose snapshots are unavailable.
private struct SavingNothingLog: LogAround, SnapshotStore {
  let log: any OrderedLog

  var snapshots: (any SnapshotStore)? { self }

  func newest() async throws(LogError) -> LogSnapshot? { nil }
  func save(_ snapshot: LogSnapshot) async throws(LogError) { throw .unavailable("They are away.") }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await save(snapshot) }
}

/// A log that runs a closure before each reading of its entries.
private final class MeanwhileLog: LogAround {
  let log: any OrderedLog
  private let body: @Sendable (Int) async throws -> Void
  private let readings = LockedValue(0)

  init(_ log: any OrderedLog, _ body: @escaping @Sendable (Int) async throws -> Void) {
    (self.log, self.body) = (log, body)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let reading = readings.withLock { readings in
      readings += 1
      return readings
    }
    return log.records(after: position) { [body] in try await body(reading) }
  }
}

/// A log that takes only small entries.
private final class SmallLog: OrderedLog {
  var entryLimit: Int { 10 }
  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    Task { outcome(.failure(.refused("It is too large."))) }
  }
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { AsyncThrowingStream { nil } }
  func head() async throws(LogError) -> UInt64 { 0 }
  func truncate(through position: UInt64) async throws(LogError) {}
}
