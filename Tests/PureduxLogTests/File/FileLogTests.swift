import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Synchronization
import Testing

@testable import PureduxLog

@Suite(.timeLimit(.minutes(15))) struct FileLogTests {
  /// Writes and closes a log with entries of several sizes.
  func written(_ directory: TemporaryDirectory, segmentBytes: Int = 8 << 20) async throws -> [[UInt8]] {
    var options = FileLog.Options()
    options.segmentBytes = segmentBytes
    options.preallocatedBytes = 0
    let log = try FileLog(directory: directory.path, options: options)["tree"]
    let entries = [5, 40, 3, 100, 1].map { size in (0..<size).map { UInt8(truncatingIfNeeded: $0 * size + 1) } }
    for entry in entries { _ = try await append(entry, to: log) }
    return entries
  }

  func append(_ entry: [UInt8], to log: any OrderedLog) async throws -> UInt64 {
    try await withCheckedThrowingContinuation { continuation in
      log.append(entry) { continuation.resume(with: $0.mapError { $0 as any Error }) }
    }
  }

  @Test("a removed tree whose file cannot be deleted does not keep the files of others")
  func undeletable() async throws {
    let directory = try TemporaryDirectory()
    let removed = directory.path + "/removed/"
    let log = try FileLog(directory: directory.path)
    // Directories are not deleted with a tree's files.
    let foreign = (0..<8).map { "\(removed)\($0)/foreign" }
    for path in foreign {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      try Data([1]).write(to: URL(fileURLWithPath: path + "/../file"))
    }
    _ = try await append([1], to: log["tree"])
    await #expect(throws: LogError.self) { try await log.remove("tree") }
    #expect(try FileManager.default.contentsOfDirectory(atPath: removed).sorted() == (0..<8).map(String.init))
    for number in 0..<8 {
      #expect(try FileManager.default.contentsOfDirectory(atPath: removed + "\(number)") == ["foreign"])
    }
    for path in foreign { try FileManager.default.removeItem(atPath: path) }
    try await log.remove("tree")
    #expect(try FileManager.default.contentsOfDirectory(atPath: removed) == [])
    await log.close()
  }

  func read(_ log: any OrderedLog) async throws -> [[UInt8]] {
    let head = try await log.head()
    var (entries, last) = ([[UInt8]](), UInt64(0))
    if head == 0 { return [] }
    for try await records in log.records(after: 0) {
      entries += records.map(\.bytes)
      last = records.last?.position ?? last
      if last >= head { break }
    }
    return entries
  }

  func path(_ directory: TemporaryDirectory, _ name: String) -> String { directory.path + "/=tree/" + name }

  func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

  func write(_ bytes: [UInt8], _ path: String) throws { try Data(bytes).write(to: URL(fileURLWithPath: path)) }

  func contents(of directory: TemporaryDirectory) throws -> [String: [UInt8]] {
    var contents: [String: [UInt8]] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: directory.path + "/=tree") {
      contents[name] = try bytes(path(directory, name))
    }
    return contents
  }

  let segment = "0000000000000001.log"

  @Test(
    "a tail that was torn by a crash is set aside and reported, wherever it was cut",
    arguments: [true, false])
  func tornTail(hasMark: Bool) async throws {
    let directory = try TemporaryDirectory()
    let entries = try await written(directory)
    let whole = try contents(of: directory)
    var next: [UInt8] = []
    RecordFormat.append(LogRecord(position: 6, bytes: Array(repeating: 9, count: 50)), to: &next)
    for count in 1..<next.count {
      try write(whole[segment]! + next.prefix(count), path(directory, segment))
      if !hasMark { try? FileManager.default.removeItem(atPath: path(directory, "acknowledged")) }
      let tails = LockedValue<[FileLog.TornTail]>([])
      do {
        let log = try FileLog(directory: directory.path) { tail in tails.withLock { $0.append(tail) } }["tree"]
        #expect(try await read(log) == entries)
        #expect(try await append([7], to: log) == 6)
      }
      let told = tails.withLock { $0 }
      // Zeros at the end are not part of the tail.
      let tail = Array(next[...next[..<count].lastIndex { $0 != 0 }!])
      #expect(told.map(\.bytes) == [tail.count] && told.first?.position == 6 && told.first?.key == "tree")
      #expect(try bytes(told[0].path) == tail)
      try FileManager.default.removeItem(atPath: told[0].path)
      for (name, bytes) in whole { try write(bytes, path(directory, name)) }
    }
    // Some file systems leave zeros if they enlarge a file before writing to it.
    try write(whole[segment]! + [UInt8](repeating: 0, count: 4096), path(directory, segment))
    let log = try FileLog(directory: directory.path) { _ in }["tree"]
    #expect(try await read(log) == entries)
  }

  @Test(
    "any changed byte of an acknowledged entry is an error, and the files stay unchanged",
    arguments: [200 << 10, 60])
  func damage(segmentBytes: Int) async throws {
    let directory = try TemporaryDirectory()
    _ = try await written(directory, segmentBytes: segmentBytes)
    func open() async throws -> FileLog {
      while true {
        do {
          return try FileLog(directory: directory.path)
        } catch {
          // The previous log may be released on a thread of its own.
          guard case .inUse = error else { throw error }
          await Task.yield()
        }
      }
    }
    let whole = try contents(of: directory)
    for (name, bytes) in whole where name.hasSuffix(".log") {
      for place in bytes.indices {
        var damaged = bytes
        damaged[place] ^= UInt8(1 << (place % 8))
        try write(damaged, path(directory, name))
        let before = try contents(of: directory)
        let error = await #expect(throws: LogError.self, "\(name) at \(place)") {
          _ = try await read(open()["tree"])
        }
        // The error names the remedy.
        #expect(error?.text.contains("from a ") == true, "\(name) at \(place): \(error?.text ?? "")")
        #expect(try contents(of: directory) == before)
      }
      // The file is cut, or missing.
      for count in [0, 10, bytes.count - 1] {
        try write(Array(bytes.prefix(count)), path(directory, name))
        await #expect(throws: LogError.self, "\(name) cut to \(count)") {
          _ = try await read(open()["tree"])
        }
      }
      try FileManager.default.removeItem(atPath: path(directory, name))
      await #expect(throws: LogError.self, "\(name) is gone") {
        _ = try await read(open()["tree"])
      }
      try write(bytes, path(directory, name))
    }
    _ = try await read(open()["tree"])
  }

  @Test("without an acknowledged mark, a complete but unreadable entry is damage")
  func damageWithoutMark() async throws {
    let directory = try TemporaryDirectory()
    _ = try await written(directory)
    try FileManager.default.removeItem(atPath: path(directory, "acknowledged"))
    var bytes = try bytes(path(directory, segment))
    bytes[bytes.count - 1] ^= 2
    try write(bytes, path(directory, segment))
    await #expect(throws: LogError.self) { _ = try await read(FileLog(directory: directory.path)["tree"]) }
    #expect(try self.bytes(path(directory, segment)) == bytes)
  }

  /// A disk writes sectors in any order: of an unfinished write, the end may be stored and not the beginning.
  @Test("the first entries of a tree, torn by a crash of the machine, are set aside, because the mark is of nothing")
  func tornFirst() async throws {
    let directory = try TemporaryDirectory()
    let whole = LockedValue<[String: [UInt8]]>([:])
    let faults = DiskFaults { call, count in
      // The header has been written, and the entry is about to be.
      if call == .write, count > RecordFormat.headerSize, let files = try? contents(of: directory) {
        whole.withLock { $0 = files }
      }
      return nil
    }
    let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    _ = try await append(Array(repeating: 9, count: 50), to: log["tree"])
    await log.close()
    let files = whole.withLock { $0 }
    #expect(files["acknowledged"] == AcknowledgedMark.ofNothing.bytes)
    var entry: [UInt8] = []
    RecordFormat.append(LogRecord(position: 1, bytes: Array(repeating: 9, count: 50)), to: &entry)
    for index in 0..<20 { entry[index] = 0 }
    for (name, bytes) in files { try write(bytes, path(directory, name)) }
    try write(files[segment]! + entry, path(directory, segment))
    let tails = LockedValue<[Int]>([])
    let again = try FileLog(directory: directory.path) { tail in tails.withLock { $0.append(tail.bytes) } }
    #expect(try await again["tree"].head() == 0)
    #expect(tails.withLock { $0 } == [entry.count])
    await again.close()
  }

  @Test("a file of another format, a directory and a pipe are refused")
  func foreign() async throws {
    let directory = try TemporaryDirectory()
    _ = try await written(directory)
    let file = path(directory, segment)
    try write(Array("{\"card\": 1}\n".utf8), file)
    await #expect(throws: LogError.self) { _ = try await read(FileLog(directory: directory.path)["tree"]) }
    try FileManager.default.removeItem(atPath: file)
    try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
    await #expect(throws: LogError.self) { _ = try await read(FileLog(directory: directory.path)["tree"]) }
    try FileManager.default.removeItem(atPath: file)
    try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "/dev/zero")
    await #expect(throws: LogError.self) { _ = try await read(FileLog(directory: directory.path)["tree"]) }
    await #expect(throws: LogError.self) { _ = try await append([1], to: FileLog(directory: directory.path)["tree"]) }
  }

  @Test("requests made before a log is closed are performed")
  func closing() async throws {
    let directory = try TemporaryDirectory()
    for round in 0..<20 {
      let log = try FileLog(directory: directory.path)
      let trees = (0..<20).map { log["\($0)"] }
      let told = LockedValue(0)
      for tree in trees {
        tree.append([UInt8(round)]) { if case .success(UInt64(round + 1)) = $0 { told.withLock { $0 += 1 } } }
      }
      await log.close()
      #expect(told.withLock { $0 } == trees.count)
    }
  }

  @Test("a directory is open once at a time")
  func inUse() async throws {
    let directory = try TemporaryDirectory()
    var log: FileLog? = try FileLog(directory: directory.path)
    #expect(throws: LogError.self) { try FileLog(directory: directory.path) }
    #expect(log != nil)
    log = nil
    _ = try FileLog(directory: directory.path)
    #expect(throws: LogError.self) { try FileLog(directory: "/proc/nowhere") }
  }

  /// The process that wrote it may have died before it was on the disk.
  @Test("entries found in the last file are synced before they are reported")
  func syncedWhenOpened() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    _ = try await append([1], to: log["tree"])
    await log.close()
    let fails = Atomic(true)
    let faults = DiskFaults { call, _ in
      call == .sync && fails.load(ordering: .relaxed) ? EIO : nil
    }
    let again = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    await #expect(throws: LogError.self) { _ = try await again["tree"].head() }
    fails.store(false, ordering: .relaxed)
    #expect(try await again["tree"].head() == 1)
    #expect(try await read(again["tree"]) == [[1]])
    await again.close()
  }

  @Test("appends made before a log is closed are answered before the closing returns")
  func answeredBeforeClosed() async throws {
    let directory = try TemporaryDirectory()
    let (writing, goOn) = (Gate(), Latch())
    let faults = DiskFaults { call, _ in
      if call == .write {
        writing.open()
        goOn.wait()
      }
      return nil
    }
    let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    let answers = Record<Void>()
    log["tree"].append([1]) { _ in answers.add(()) }
    await writing.wait()
    log["tree"].append([2]) { _ in answers.add(()) }
    let closing = Task {
      await log.close()
      return answers.all.count
    }
    for _ in 0..<100 { await Task.yield() }
    goOn.open()
    #expect(await closing.value == 2)
  }

  @Test("other work on a queue runs between two batches")
  func batches() async {
    let queue = DispatchQueue(label: "batches")
    let batches = BatchQueue<Int>(queue)
    let done = Record<String>()
    let gate = Gate()
    // Each batch adds the next, as an acknowledgement causes waiting entries to be sent.
    @Sendable func perform(_ numbers: [Int]) {
      done.add("\(numbers)")
      if numbers == [0] { queue.async { done.add("other") } }
      if numbers[0] < 3 { batches.add(numbers[0] + 1, perform: perform) } else { gate.open() }
    }
    batches.add(0, perform: perform)
    await gate.wait()
    #expect(done.all == ["[0]", "other", "[1]", "[2]", "[3]"])
  }

  @Test("every key has a directory of its own, however long, up to 2,000 bytes")
  func keys() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let keys = [
      "", ".", "..", "a", "A", "boards/17", "=x", "%41", "ü 🤷", "x\u{0}y",
      String(repeating: "k", count: 254), String(repeating: "k", count: 255), String(repeating: "K", count: 100),
      String(repeating: "J", count: 100), String(repeating: "あ", count: 29),
      String(repeating: "cafe\u{301}", count: 333), String(repeating: "k", count: 2000),
    ]
    for (number, key) in keys.enumerated() { _ = try await append([UInt8(number)], to: log[key]) }
    for (number, key) in keys.enumerated() { #expect(try await read(log[key]) == [[UInt8(number)]], "\(key)") }
    #expect(try await all(log.keys(prefix: "", batch: 2)) == keys.sorted())
    #expect(try await all(log.keys(prefix: "KKK")) == keys.filter { $0.hasPrefix("KKK") })
    let (long, other) = (keys[keys.count - 4], keys[keys.count - 2])
    _ = try await log[long].summaries?.save([7], at: 1)
    var summaries: [LogSummary] = []
    for try await summary in log.summaries(prefix: "あ") { summaries.append(summary) }
    #expect(summaries == [])
    for try await summary in log.summaries(prefix: "J") { summaries.append(summary) }
    #expect(summaries == [LogSummary(key: long, position: 1, bytes: [7])])
    #expect(try await log[other.composed].head() == 1)
    try await log.remove(other)
    #expect(try await all(log.keys(prefix: "")) == keys.filter { $0 != other }.sorted())
    for key in [String(repeating: "k", count: 2001), String(repeating: "あ", count: 667)] {
      await #expect(throws: LogError.self) { _ = try await append([1], to: log[key]) }
      await #expect(throws: LogError.self) { _ = try await log[key].head() }
    }
    // After a reopening, the trees are in the same directories. A directory with another tree's name is refused.
    await log.close()
    let again = try FileLog(directory: directory.path)
    #expect(try await read(again[long]) == [[UInt8(keys.count - 4)]])
    let names = try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasPrefix("~") }
    #expect(names.count == 5 && names.allSatisfy { $0.utf8.count == 65 })
    try FileManager.default.moveItem(
      atPath: directory.path + "/" + names[0], toPath: directory.path + "/~" + String(repeating: "0", count: 64))
    let failure = await #expect(throws: LogError.self) { _ = try await all(again.keys(prefix: "")) }
    guard case .damaged? = failure else { return _ = Issue.record("\(String(describing: failure))") }
    await again.close()
  }

  @Test(
    "long names are the SHA-256 of their keys",
    arguments: [
      ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      (
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
      ),
    ])
  func hashes(text: String, hash: String) {
    let bytes = SHA256.hash(Array(text.utf8))
    #expect(bytes.map { String(256 + Int($0), radix: 16).dropFirst() }.joined() == hash)
  }

  @Test("a tree without entries has no directory")
  func unwritten() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    #expect(try await log["other"].head() == 0)
    #expect(try await all(log.keys(prefix: "")) == [])
  }

  @Test(
    "a full or failing disk is reported, its entries are not acknowledged, and the store continues without a restart",
    arguments: [DiskFaults.Call.write, .sync, .truncate], [ENOSPC, EIO])
  func failingDisk(call: DiskFaults.Call, code: Int32) async throws {
    let directory = try TemporaryDirectory()
    let fails = Atomic(false)
    let faults = DiskFaults { failing, _ in
      // The log truncates only after another failure.
      let isHit = failing == call || (call == .truncate && failing == .sync)
      return isHit && fails.load(ordering: .relaxed) ? code : nil
    }
    do {
      let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
      var options = LogOptions.quick
      // Under load, a repetition would store the entry twice.
      options.patience = .seconds(600)
      let store = try await ledger(log["tree"], options: options)
      try await store.send("before")
      fails.store(true, ordering: .relaxed)
      let sending = Task { try await store.send("during") }
      store.dispatch("too")
      let trouble = code == ENOSPC ? LogTrouble.full : .unavailable
      while await store.statistics.log?.phase != .waiting(trouble) { await Task.yield() }
      #expect(await store.statistics.log?.waiting != nil)
      var states = store.states().makeAsyncIterator()
      #expect(await states.next()?.entries == ["before"])
      #expect(try await log["tree"].head() == 1)
      fails.store(false, ordering: .relaxed)
      try await sending.value
      try await store.send("after")
      #expect(await Set(store.state.entries) == ["before", "during", "too", "after"])
      #expect(await store.statistics.log?.phase == .following)
      await store.shutdown()
      await log.close()
      await #expect(throws: LogError.self) { try await log["tree"].head() }
    }
    let again = try await ledger(FileLog(directory: directory.path)["tree"])
    #expect(await again.state.entries.count == 4)
    #expect(await again.state.entries.last == "after")
    await again.shutdown()
  }

  @Test("truncation removes files, and later entries stay")
  func truncation() async throws {
    let directory = try TemporaryDirectory()
    var options = FileLog.Options()
    options.segmentBytes = 100
    let owner = try FileLog(directory: directory.path, options: options)
    let log = owner["tree"]
    for number in 0..<50 { _ = try await append([UInt8](repeating: UInt8(number), count: 30), to: log) }
    let files = { try FileManager.default.contentsOfDirectory(atPath: directory.path + "/=tree").count }
    let before = try files()
    try await log.truncate(through: 40)
    #expect(try files() < before - 8)
    var iterator = log.records(after: 40).makeAsyncIterator()
    #expect(try await iterator.next()?.first?.position == 41)
    try await log.truncate(through: .max)
    #expect(try await log.head() == 50)
    await owner.close()
    let again = try FileLog(directory: directory.path)["tree"]
    var fromTheStart = again.records(after: 0).makeAsyncIterator()
    await #expect(throws: LogError.self) { _ = try await fromTheStart.next() }
    #expect(try await append([1], to: again) == 51)
  }

  @Test("a damaged or cut snapshot is ignored, and the log is replayed")
  func snapshots() async throws {
    let directory = try TemporaryDirectory()
    var options = LogOptions.quick
    options.snapshotBytes = 1000
    do {
      let log = try FileLog(directory: directory.path)
      let store = try await ledger(log["tree"], options: options)
      for number in 0..<50 { try await store.send("\(number)") }
      while try await log["tree"].snapshots?.newest() == nil { await Task.yield() }
      await store.shutdown()
      await log.close()
    }
    let file = path(directory, "snapshot")
    let whole = try bytes(file)
    for place in stride(from: 0, to: whole.count, by: 7) {
      var damaged = whole
      damaged[place] ^= 4
      #expect(SnapshotFile.decode(damaged) == nil)
      #expect(SnapshotFile.decode(Array(whole.prefix(place))) == nil)
    }
    for bytes in [Array(whole.dropLast()), [], whole + [0]] {
      try write(bytes, file)
      let log = try FileLog(directory: directory.path)
      let store = try await ledger(log["tree"])
      #expect(await store.state.entries == (0..<50).map { "\($0)" })
      await store.shutdown()
      await log.close()
    }
  }

  @Test("a file whose creation a crash interrupted is set aside if it has no entry, and is damaged otherwise")
  func tornHeader() async throws {
    let next = "0000000000000006.log"
    for (content, isTorn) in [
      ([], true), ([0x50, 0x44], true), ([UInt8](repeating: 0, count: 16), true),
      ([UInt8](repeating: 0, count: 4096), true), ([UInt8](repeating: 0, count: 100) + [1], false),
      ([UInt8](repeating: 7, count: 16), false),
    ] as [([UInt8], Bool)] {
      let directory = try TemporaryDirectory()
      let entries = try await written(directory)
      try write(content, path(directory, next))
      let log = try FileLog(directory: directory.path) { _ in }["tree"]
      if isTorn {
        #expect(try await read(log) == entries)
        #expect(try await append([7], to: log) == 6)
      } else {
        await #expect(throws: LogError.self) { try await log.head() }
        #expect(try bytes(path(directory, next)) == content)
      }
    }
  }

  @Test("a new file's header is marked as written before the file has an entry")
  func headerIsMarked() async throws {
    let directory = try TemporaryDirectory()
    let fails = Atomic(false)
    var options = FileLog.Options()
    options.segmentBytes = 60
    let faults = DiskFaults { call, count in
      call == .write && count != RecordFormat.headerSize && fails.load(ordering: .relaxed) ? EIO : nil
    }
    let log = try FileLog(directory: directory.path, options: options, onTornTail: nil, faults: faults)
    for _ in 0..<2 { _ = try await append([UInt8](repeating: 1, count: 30), to: log["tree"]) }
    fails.store(true, ordering: .relaxed)
    await #expect(throws: LogError.self) { _ = try await append([1], to: log["tree"]) }
    await log.close()
    let last = try #require(try contents(of: directory).keys.filter { $0.hasSuffix(".log") }.max())
    #expect(last == "0000000000000003.log")
    try write([UInt8](repeating: 0, count: 16), path(directory, last))
    let again = try FileLog(directory: directory.path)["tree"]
    await #expect(throws: LogError.self) { try await again.head() }
  }

  @Test("without syncs, the files left by a crash of the machine are opened, and a torn tail is set aside")
  func withoutSync() async throws {
    let directory = try TemporaryDirectory()
    _ = try await written(directory)
    let whole = try contents(of: directory)[segment]!
    var options = FileLog.Options()
    options.syncs = false
    // The mark and the snapshot cover more than is stored, and the stored part is cut and has a hole.
    try await FileLog(directory: directory.path)["tree"].snapshots?.save(LogSnapshot(position: 5, bytes: [1]))
    var left = Array(whole.dropLast(30))
    let hole = left.count - 60
    for place in hole..<hole + 20 { left[place] = 0 }
    try write(left, path(directory, segment))
    await #expect(throws: LogError.self) { try await FileLog(directory: directory.path)["tree"].head() }
    let tails = LockedValue<[FileLog.TornTail]>([])
    let owner = try FileLog(directory: directory.path, options: options) { tail in tails.withLock { $0.append(tail) } }
    let log = owner["tree"]
    let head = try await log.head()
    #expect(head < 5)
    #expect(tails.withLock { $0.count } == 1)
    #expect(try await log.snapshots?.newest() == nil)
    await owner.close()
    // The loss was reported and settled, for stricter options, too.
    let careful = try FileLog(directory: directory.path)
    #expect(try await careful["tree"].head() == head)
    #expect(try await append([1], to: careful["tree"]) == head + 1)
  }

  @Test("without syncs, a snapshot is stored after its entries and itself are on the disk")
  func snapshotWithoutSync() async throws {
    let directory = try TemporaryDirectory()
    let syncs = Counter()
    let failing = LockedValue(0)
    let faults = DiskFaults { call, _ in
      guard call == .sync else { return nil }
      syncs.increment()
      return failing.withLock { $0 } == syncs.count ? EIO : nil
    }
    var options = FileLog.Options()
    (options.syncs, options.segmentBytes) = (false, 30)
    let owner = try FileLog(directory: directory.path, options: options, onTornTail: nil, faults: faults)
    let log = owner["tree"]
    let snapshots = try #require(log.snapshots)
    for byte in 1...3 as ClosedRange<UInt8> { _ = try await append([byte], to: log) }
    // Each entry has its own file, and waits for the disk only before the next file gets its name.
    #expect(syncs.count == 2)
    try await snapshots.save(LogSnapshot(position: 2, bytes: [2]))
    #expect(syncs.count == 2 + 3 + 1)
    try await snapshots.save(LogSnapshot(position: 3, bytes: [3]))
    #expect(syncs.count == 6 + 1 + 1)
    _ = try await append([4], to: log)
    #expect(syncs.count == 9)
    // The first is of the entry's file, the second of the snapshot's.
    failing.withLock { $0 = 9 + 2 }
    await #expect(throws: LogError.self) { try await snapshots.save(LogSnapshot(position: 4, bytes: [4])) }
    #expect(syncs.count == 11)
    #expect(try await snapshots.newest()?.position == 3)
    await owner.close()
  }

  @Test("a number that no log has is not read from a file or its name")
  func impossibleNumbers() async throws {
    let directory = try TemporaryDirectory()
    let entries = try await written(directory)
    try write(AcknowledgedMark(first: 1, end: .max).bytes, path(directory, "acknowledged"))
    #expect(try await read(FileLog(directory: directory.path)["tree"]) == entries)
    #expect(FileNames.first(ofSegment: FileNames.segment(UInt64(Int64.max))) == UInt64(Int64.max))
    #expect(FileNames.first(ofSegment: FileNames.segment(.max)) == nil)
  }

  @Test("without syncs, a missing last file is reported", arguments: [true, false])
  func missingWithoutSync(isLast: Bool) async throws {
    let directory = try TemporaryDirectory()
    _ = try await written(directory, segmentBytes: 60)
    let files = try contents(of: directory).keys.filter { $0.hasSuffix(".log") }.sorted()
    for file in isLast ? [files.last!] : files { try FileManager.default.removeItem(atPath: path(directory, file)) }
    await #expect(throws: LogError.self) { try await FileLog(directory: directory.path)["tree"].head() }
    var options = FileLog.Options()
    options.syncs = false
    let tails = LockedValue<[FileLog.TornTail]>([])
    for _ in 0..<2 {
      let log = try FileLog(directory: directory.path, options: options) { tail in tails.withLock { $0.append(tail) } }
      #expect(try await log["tree"].head() < 5)
      await log.close()
    }
    #expect(tails.withLock { $0.map(\.bytes) } == [0])
    let careful = try FileLog(directory: directory.path)["tree"]
    #expect(try await careful.head() < 5)
  }

  @Test("a directory is created with its parents, however its path is written")
  func directories() async throws {
    let directory = try TemporaryDirectory()
    for name in ["a/b/c", "a/d//e/", "a/b/c/"] {
      let log = try FileLog(directory: directory.path + "/" + name)
      #expect(try await append([1], to: log["x"]) > 0)
      await log.close()
    }
    #expect(throws: LogError.self) { try FileLog(directory: directory.path + "/a/b/c/lock/x") }
  }

  @Test("closing waits for a snapshot in progress")
  func closeWhileSaving() async throws {
    let directory = try TemporaryDirectory()
    for position in 1...20 as ClosedRange<UInt64> {
      let log = try FileLog(directory: directory.path)
      let tree = log["tree"]
      _ = try await append([1], to: tree)
      let snapshot = LogSnapshot(position: position, bytes: [UInt8](repeating: 1, count: 1 << 20))
      let saving = Task { try await tree.snapshots?.save(snapshot) }
      if position % 2 == 0 { await Task.yield() }
      await log.close()
      let file = path(directory, "snapshot")
      let left = try? bytes(file)
      let isSaved = (try? await saving.value) != nil
      // The file does not change after the log is closed.
      #expect((try? bytes(file)) == left)
      if isSaved { #expect(left.flatMap(SnapshotFile.decode)?.snapshot == snapshot) }
    }
  }

  @Test("all callers of `close` wait for the end, and readers get an error")
  func close() async throws {
    let directory = try TemporaryDirectory()
    for _ in 0..<20 {
      let log = try FileLog(directory: directory.path)
      let tree = log["tree"]
      let head = try await append([1], to: tree)
      let reading = Task {
        for try await _ in tree.records(after: head) {}
      }
      await withTaskGroup { tasks in
        for _ in 0..<3 { tasks.addTask { await log.close() } }
        await tasks.next()
        // The directory is free as soon as one of the calls has returned.
        #expect(throws: Never.self) { try FileLog(directory: directory.path) }
      }
      await #expect(throws: LogError.self) { try await reading.value }
      await #expect(throws: LogError.self) { for try await _ in tree.records(after: head) {} }
    }
  }

  @Test("a first write that fails leaves nothing, however small the files are")
  func smallestFiles() async throws {
    let directory = try TemporaryDirectory()
    let fails = Atomic(true)
    var options = FileLog.Options()
    options.segmentBytes = 1
    let faults = DiskFaults { call, count in
      call == .write && count != RecordFormat.headerSize && fails.load(ordering: .relaxed) ? EFBIG : nil
    }
    let log = try FileLog(directory: directory.path, options: options, onTornTail: nil, faults: faults)
    await #expect(throws: LogError.self) { _ = try await append([1], to: log["tree"]) }
    fails.store(false, ordering: .relaxed)
    for number in 1...3 { #expect(try await append([UInt8(number)], to: log["tree"]) == UInt64(number)) }
    try await log["tree"].truncate(through: 0)
    await log.close()
    #expect(try await read(FileLog(directory: directory.path)["tree"]) == [[1], [2], [3]])
  }

  @Test("two stores of one process follow the same files")
  func together() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let (one, other) = (try await ledger(log["tree"]), try await ledger(log["tree"]))
    try await one.send("a")
    try await other.send("b")
    #expect(await one.state { $0.entries.count == 2 }.entries == ["a", "b"])
    await one.shutdown()
    await other.shutdown()
  }
}
