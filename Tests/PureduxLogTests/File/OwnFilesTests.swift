import Dispatch
import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Synchronization
import Testing

@testable import PureduxLog

/// A log accepts only its own files, and acknowledges nothing in files that it will not find again.
@Suite(.timeLimit(.minutes(15))) struct OwnFilesTests {
  func append(_ entry: [UInt8], to log: any OrderedLog) async throws -> UInt64 {
    try await withCheckedThrowingContinuation { continuation in
      log.append(entry) { continuation.resume(with: $0.mapError { $0 as any Error }) }
    }
  }

  func move(_ path: String, to other: String) throws { try FileManager.default.moveItem(atPath: path, toPath: other) }

  func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

  /// A log whose directory a test changes while an entry is being synced.
  func changing(
    _ directory: String, options: FileLog.Options = FileLog.Options(), _ change: @escaping @Sendable () throws -> Void
  ) throws -> (FileLog, Flag) {
    let flag = Flag()
    let faults = DiskFaults { call, _ in
      guard call == .sync, flag.isRaised else { return nil }
      flag.lower()
      do { try change() } catch { Issue.record(error) }
      return nil
    }
    return (try FileLog(directory: directory, options: options, onTornTail: nil, faults: faults), flag)
  }

  /// Returns the error that the body throws. It is caught untyped: catching some cases of a typed error crashes the
  /// compiler (6.3).
  func failure(of body: () async throws -> Void) async -> LogError? {
    do {
      try await body()
      Issue.record("Nothing was thrown.")
      return nil
    } catch {
      return error as? LogError
    }
  }

  /// Expects `.damaged` and returns its text.
  func damage(of body: () async throws -> Void) async -> String {
    let failure = await failure(of: body)
    if case .damaged(_, let text) = failure { return text }
    Issue.record("\(String(describing: failure))")
    return ""
  }

  // MARK: Ownership of files

  @Test("an older version's files and snapshot are read, and belong to the tree from then on")
  func older() async throws {
    let directory = try TemporaryDirectory()
    try OlderFiles.write(to: directory.path + "/=tree")
    for round in 0..<3 {
      let log = try FileLog(directory: directory.path)
      let store = try await ledger(log["tree"])
      #expect(await store.state.entries == OlderFiles.entries + (0..<round).map { "new \($0)" })
      try await store.send("new \(round)")
      await store.shutdown()
      await log.close()
    }
  }

  @Test("entries that an older version writes after this one are read")
  func olderAgain() async throws {
    let directory = try TemporaryDirectory()
    try OlderFiles.write(to: directory.path + "/=tree")
    let older = try bytes(directory.path + "/=tree/snapshot")
    var options = FileLog.Options()
    options.segmentBytes = 30
    let log = try FileLog(directory: directory.path, options: options)
    let snapshot = try #require(try await log["tree"].snapshots?.newest())
    var next = try await append([1], to: log["tree"]) + 1
    try await log["tree"].snapshots?.replace(with: LogSnapshot(position: next - 1, bytes: [2]))
    await log.close()
    #expect(FileManager.default.fileExists(atPath: directory.path + "/=tree/tree"))
    try Data(older).write(to: URL(fileURLWithPath: directory.path + "/=tree/snapshot"))
    let name = String(next, radix: 16)
    let file = directory.path + "/=tree/" + String(repeating: "0", count: 16 - name.count) + name + ".log"
    try Data(RecordFormat.Header(first: next, tree: nil).bytes).write(to: URL(fileURLWithPath: file))
    for _ in 0..<2 {
      let log = try FileLog(directory: directory.path)
      #expect(try await log["tree"].snapshots?.newest() == snapshot)
      #expect(try await append([3], to: log["tree"]) == next)
      next += 1
      await log.close()
    }
  }

  @Test("an older directory to which nothing can be added is read")
  func olderWithoutRoom() async throws {
    let directory = try TemporaryDirectory()
    try OlderFiles.write(to: directory.path + "/=tree")
    // This directory blocks the file from which `tree` is made.
    try FileManager.default.createDirectory(
      atPath: directory.path + "/=tree/" + FileNames.newIdentity, withIntermediateDirectories: false)
    let log = try FileLog(directory: directory.path)
    let store = try await ledger(log["tree"])
    #expect(await store.state.entries == OlderFiles.entries)
    try await store.send("more")
    await store.shutdown()
    await log.close()
  }

  @Test("an older truncated log without its snapshot is damaged, as in older versions")
  func olderWithoutSnapshot() async throws {
    let directory = try TemporaryDirectory()
    try OlderFiles.write(to: directory.path + "/=tree", without: ["snapshot"])
    let log = try FileLog(directory: directory.path)
    await #expect(throws: LogError.truncated(first: 7)) { _ = try await ledger(log["tree"]) }
    #expect(try await log["tree"].head() == 9)
    await log.close()
  }

  @Test("a log that an older version closed during the creation of a file is opened")
  func olderHeader() async throws {
    for count in [0, 5, 16] {
      let directory = try TemporaryDirectory()
      try OlderFiles.write(to: directory.path + "/=tree")
      let header = RecordFormat.Header(first: 10, tree: nil).bytes
      try Data(header.prefix(count)).write(to: URL(fileURLWithPath: directory.path + "/=tree/000000000000000a.log"))
      for position in [10, 11] as [UInt64] {
        let log = try FileLog(directory: directory.path) { _ in }
        #expect(try await append([1], to: log["tree"]) == position)
        await log.close()
      }
    }
  }

  @Test("two exchanged directories are refused, and the error names both")
  func exchanged() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    for key in ["x", "y"] { _ = try await append(Array(key.utf8), to: log[key]) }
    await log.close()
    try move(directory.path + "/=x", to: directory.path + "/z")
    try move(directory.path + "/=y", to: directory.path + "/=x")
    try move(directory.path + "/z", to: directory.path + "/=y")
    do {
      let log = try FileLog(directory: directory.path)
      let text = await damage { _ = try await ledger(log["x"]) }
      #expect(text.contains("/=x is the directory of the log \"y\", and not of \"x\""))
      #expect(text.contains("Put each where it was."))
      _ = await damage { _ = try await append([1], to: log["y"]) }
      await log.close()
    }
    try FileManager.default.removeItem(atPath: directory.path + "/=x")
    try move(directory.path + "/=y", to: directory.path + "/=x")
    let again = try FileLog(directory: directory.path)
    #expect(try await append([1], to: again["x"]) == 2)
    await again.close()
  }

  @Test("a file of entries of another tree, and one without its directory's identity, are refused")
  func foreignSegment() async throws {
    let directory = try TemporaryDirectory()
    var options = FileLog.Options()
    (options.segmentBytes, options.preallocatedBytes) = (30, 0)
    let log = try FileLog(directory: directory.path, options: options)
    for key in ["x", "y"] { for number in 1...3 as ClosedRange<UInt8> { _ = try await append([number], to: log[key]) } }
    await log.close()
    for name in ["0000000000000001.log", "0000000000000003.log"] {
      let path = directory.path + "/=x/" + name
      let own = try bytes(path)
      try Data(bytes(directory.path + "/=y/" + name)).write(to: URL(fileURLWithPath: path))
      let log = try FileLog(directory: directory.path)
      let text = await damage {
        for try await records in log["x"].records(after: 0) where records.last?.position == 3 { break }
      }
      #expect(text.contains("\(name) is a file of another log."))
      await log.close()
      try Data(own).write(to: URL(fileURLWithPath: path))
    }
    let identity = try bytes(directory.path + "/=x/tree")
    try FileManager.default.removeItem(atPath: directory.path + "/=x/tree")
    do {
      let log = try FileLog(directory: directory.path)
      #expect(await damage { _ = try await log["x"].head() }.contains("The file tree"))
      await log.close()
    }
    for place in identity.indices {
      var damaged = identity
      damaged[place] ^= 8
      #expect(TreeIdentity(damaged) == nil && TreeIdentity(Array(identity.prefix(place))) == nil)
    }
    try Data(identity.dropLast()).write(to: URL(fileURLWithPath: directory.path + "/=x/tree"))
    let again = try FileLog(directory: directory.path)
    #expect(await damage { _ = try await again["x"].head() }.contains("cannot be read"))
    await again.close()
  }

  @Test("another tree's snapshot is refused, or ignored on request")
  func foreignSnapshot() async throws {
    let directory = try TemporaryDirectory()
    var options = LogOptions.quick
    options.snapshotBytes = 1
    let log = try FileLog(directory: directory.path)
    for key in ["x", "y"] {
      let store = try await ledger(log[key], options: options)
      try await store.send(key)
      while try await log[key].snapshots?.newest() == nil { await Task.yield() }
      await store.shutdown()
    }
    let (x, y) = (directory.path + "/=x/snapshot", directory.path + "/=y/snapshot")
    try Data(bytes(y)).write(to: URL(fileURLWithPath: x))
    let text = await damage { _ = try await ledger(log["x"]) }
    #expect(text.contains("is a snapshot of the log \"y\"") && text.contains("or remove it"))
    options.ignoresSnapshots = true
    let store = try await ledger(log["x"], options: options)
    #expect(await store.state.entries == ["x"])
    await store.shutdown()
    #expect(await (try ledger(log["x"])).state.entries == ["x"])
    // A foreign snapshot that appears while a store is open is replaced by the next one.
    try Data(bytes(y)).write(to: URL(fileURLWithPath: x))
    try await log["x"].snapshots?.save(LogSnapshot(position: 1, bytes: [1]))
    #expect(try await log["x"].snapshots?.newest()?.bytes == [1])
    await log.close()
  }

  // MARK: Notification of readers

  /// Runs jobs on a queue, and calls a closure on the thread that enqueues the next job.
  final class AttentiveExecutor: TaskExecutor {
    let queue = DispatchQueue(label: "attentive")
    let onJob = LockedValue<(@Sendable () -> Void)?>(nil)

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      onJob.withLock { $0.take() }?()
      queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
  }

  @Test("readers of a tree whose files are lost are told when its files are released, and not under the lock")
  func toldOutsideOfLock() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/log"
    let (log, changes) = try changing(path) {
      try FileManager.default.removeItem(atPath: path + "/=tree")
    }
    let tree = try #require(log["tree"] as? FileTree)
    _ = try await append([1], to: tree)
    let (executor, read) = (AttentiveExecutor(), Record<[LogRecord]>())
    let reading = Task(executorPreference: executor) {
      for try await records in tree.records(after: 0) { read.add(records) }
    }
    await read.untilCount(1)
    // Waits until the reader waits for more.
    executor.queue.sync {}
    let looked = Latch()
    executor.onJob.withLock {
      $0 = {
        DispatchQueue.global().async {
          tree.files.segments.withLock { _ in }
          looked.open()
        }
        looked.wait()
      }
    }
    changes.raise()
    _ = await damage { _ = try await append([2], to: tree) }
    _ = await damage { try await reading.value }
    #expect(executor.onJob.withLock { $0 == nil })
    await log.close()
  }

  // MARK: Moved files

  enum Change: CaseIterable, Sendable { case treeMoved, treeRemoved, fileReplaced, logMoved, logRemoved, lockRemoved }

  @Test(
    "an append to a moved directory or removed file is not acknowledged, and the store stops",
    arguments: Change.allCases)
  func notInPlace(change: Change) async throws {
    let directory = try TemporaryDirectory()
    let (path, tree) = (directory.path + "/log", directory.path + "/log/=tree")
    let segment = tree + "/0000000000000001.log"
    let (log, changes) = try changing(path) {
      let files = FileManager.default
      switch change {
      case .treeMoved: try files.moveItem(atPath: tree, toPath: directory.path + "/moved")
      case .treeRemoved: try files.removeItem(atPath: tree)
      case .fileReplaced:
        // An editor replaces a file like this.
        let file = URL(fileURLWithPath: segment)
        try Data(contentsOf: file).write(to: file, options: .atomic)
      case .logMoved: try files.moveItem(atPath: path, toPath: directory.path + "/moved")
      case .logRemoved: try files.removeItem(atPath: path)
      case .lockRemoved: try files.removeItem(atPath: path + "/lock")
      }
    }
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let store = try await ledger(log["tree"], options: options)
    try await store.send("kept")
    changes.raise()
    await #expect(throws: StoreError.self) { try await store.send("lost") }
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    #expect(await store.statistics.log?.phase == .stopped(.unreadable(position: 2)))
    await #expect(throws: StoreError.stopped(.unreadable(position: 2))) { try await store.send("late") }
    #expect(await store.state.entries == ["kept"])
    await told.untilCount(1)
    guard case .stopped(.damaged(position: 2, let text)) = try #require(told.all.first) else {
      Issue.record("\(told.all)")
      return
    }
    #expect(text.contains("while it was open") && text.contains("acknowledged"))
    #expect(told.all.map(\.description) == ["A store stops following its log: \(text)"])
    // The moved files have exactly the acknowledged entries. The files at the old place are no longer written to.
    let kept = ["moved", "moved/=tree", "log/=tree"].map { "\(directory.path)/\($0)/0000000000000001.log" }
      .filter(FileManager.default.fileExists(atPath:))
    #expect(kept.count == (change == .treeRemoved || change == .logRemoved ? 0 : 1))
    await store.shutdown()
    // Another attempt does not create the log again there, either.
    if change != .fileReplaced {
      _ = await damage { _ = try await append([1], to: log["tree"]) }
      _ = await damage { _ = try await ledger(log["tree"], options: options) }
    }
    await log.close()
    switch change {
    case .treeMoved: try move(directory.path + "/moved", to: tree)
    case .logMoved: try move(directory.path + "/moved", to: path)
    case .fileReplaced, .lockRemoved: break
    case .treeRemoved, .logRemoved: return
    }
    let again = try FileLog(directory: path) { _ in }
    let opened = try await ledger(again["tree"])
    #expect(await opened.state.entries.first == "kept")
    if change != .fileReplaced { #expect(await opened.state.entries == ["kept"]) }
    await opened.shutdown()
    await again.close()
  }

  @Test(
    "a directory that is put back is accepted, and a substitute is not", arguments: [true, false])
  func putBack(isOwn: Bool) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path + "/log")
    let (tree, moved) = (directory.path + "/log/=tree", directory.path + "/moved")
    let lost = log["tree"]
    _ = try await append([1], to: lost)
    try move(tree, to: moved)
    _ = await damage { _ = try await append([2], to: lost) }
    if isOwn {
      try move(moved, to: tree)
      #expect(try await append([3], to: log["tree"]) == 2)
    } else {
      let other = try FileLog(directory: directory.path + "/other")
      _ = try await append([9], to: other["tree"])
      await other.close()
      try move(directory.path + "/other/=tree", to: tree)
      _ = await damage { _ = try await append([3], to: log["tree"]) }
    }
    // The earlier log object has lost the tree permanently.
    _ = await damage { _ = try await append([4], to: lost) }
    await log.close()
  }

  @Test("all other changes of files also detect that they were moved, and change no substitutes")
  func otherChanges() async throws {
    let directory = try TemporaryDirectory()
    var options = FileLog.Options()
    options.segmentBytes = 30
    for change in 0..<4 {
      let log = try FileLog(directory: directory.path + "/\(change)", options: options)
      let tree = directory.path + "/\(change)/=tree"
      let held = log["tree"]
      // More entries than the log keeps in memory for readers.
      for number in 1...4 as ClosedRange<UInt8> {
        _ = try await append([UInt8](repeating: number, count: 200 << 10), to: held)
      }
      try move(tree, to: tree + "-moved")
      try FileManager.default.copyItem(atPath: tree + "-moved", toPath: tree)
      let before = try FileManager.default.contentsOfDirectory(atPath: tree).sorted()
      _ = await damage {
        switch change {
        case 0: try await held.truncate(through: 3)
        case 1: try await held.snapshots?.save(LogSnapshot(position: 4, bytes: [1]))
        case 2: _ = try await held.head()
        default: for try await _ in held.records(after: 0) {}
        }
      }
      #expect(try FileManager.default.contentsOfDirectory(atPath: tree).sorted() == before)
      #expect(try FileManager.default.contentsOfDirectory(atPath: tree + "-moved").sorted() == before)
      await log.close()
    }
  }

  @Test("if the lock file was removed, another process does not write to a tree that is open in the first one")
  func withoutLock() async throws {
    let directory = try TemporaryDirectory()
    let first = try FileLog(directory: directory.path)
    let held = first["x"]
    _ = try await append([1], to: held)
    try FileManager.default.removeItem(atPath: directory.path + "/lock")
    let second = try FileLog(directory: directory.path)
    guard case .inUse? = await failure(of: { _ = try await second["x"].head() }) else {
      Issue.record("It is open in both.")
      return
    }
    #expect(await damage { _ = try await append([2], to: held) }.contains("its file lock was"))
    await first.close()
    #expect(try await append([3], to: second["x"]) == 2)
    await second.close()
  }

  @Test("a tree that is requested while its last user releases it is not in use")
  func reopened() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    _ = try await append([1], to: log["x"])
    try await withThrowingTaskGroup { tasks in
      for _ in 0..<4 {
        tasks.addTask {
          for _ in 0..<300 {
            let head = try await log["x"].head()
            #expect(head == 1)
          }
        }
      }
      try await tasks.waitForAll()
    }
    await log.close()
  }

  @Test("a path is the same one when the process has changed its directory")
  func absolute() throws {
    let current = FileManager.default.currentDirectoryPath
    #expect(try Directory.absolute("a/b") == current + "/a/b")
    #expect(try Directory.absolute("/a/b") == "/a/b")
  }

  #if os(Linux)
    @Test("an open tree has two files open")
    func descriptors() async throws {
      let directory = try TemporaryDirectory()
      let log = try FileLog(directory: directory.path)
      let trees = (0..<50).map { log["\($0)"] }
      for tree in trees {
        _ = try await append([1], to: tree)
        try await tree.snapshots?.save(LogSnapshot(position: 1, bytes: [1]))
      }
      // The links of the descriptors name the open files; those of other tests lead elsewhere.
      let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
      }
      #expect(files.filter { $0.hasPrefix(directory.path) }.count == 2 * trees.count + 2)
      await log.close()
    }
  #endif

  // MARK: Keys

  @Test("keys that are equal texts are one log, however they are spelled")
  func spellings() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    for (composed, others) in [
      ("caf\u{E9}", ["cafe\u{301}"]), ("\u{1EAD}", ["a\u{323}\u{302}", "a\u{302}\u{323}", "\u{E2}\u{323}"]),
      ("K", ["\u{212A}"]), ("\u{AC01}", ["\u{1100}\u{1161}\u{11A8}"]),
    ] {
      #expect(composed.composed.utf8.elementsEqual(composed.utf8))
      for (number, key) in ([composed] + others).enumerated() {
        #expect(key == composed && key.composed.utf8.elementsEqual(composed.utf8))
        #expect(try await append([1], to: log[key]) == UInt64(number + 1))
      }
    }
    #expect(try await all(log.keys(prefix: "")) == ["K", "caf\u{E9}", "\u{1EAD}", "\u{AC01}"])
    #expect("ab/\u{1F600}".composed == "ab/\u{1F600}")
    await log.close()
  }

  @Test("a directory of another spelling, of an older version, is found; two of one key are refused")
  func olderSpelling() async throws {
    let directory = try TemporaryDirectory()
    let name = directory.path + "/=cafe%cc%81"
    try OlderFiles.write(to: name)
    for key in ["caf\u{E9}", "cafe\u{301}"] {
      let log = try FileLog(directory: directory.path)
      #expect(try await log[key].head() == 9)
      #expect(try await all(log.keys(prefix: "")) == ["caf\u{E9}"])
      await log.close()
    }
    try OlderFiles.write(to: directory.path + "/=caf%c3%a9")
    do {
      let log = try FileLog(directory: directory.path)
      for key in ["caf\u{E9}", "cafe\u{301}"] {
        guard case .refused(let text)? = await failure(of: { _ = try await log[key].head() }) else {
          Issue.record("It was opened.")
          continue
        }
        #expect(text.contains("=caf%c3%a9, =cafe%cc%81"))
      }
      #expect(try await log["other"].head() == 0)
      // Moves one of the two directories away while the log is open.
      try move(name, to: directory.path + "/away")
      #expect(try await log["cafe\u{301}"].head() == 9)
      await log.close()
    }
  }
}
