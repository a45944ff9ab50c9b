import Foundation
import Histories
import Puredux
import PureduxLog

// The faults and their required outcomes.
extension HurtFile.Trial {
  /// A backup replaces parts of the directory. Four cases: all of it while the program is down; only the entries; only
  /// the entries, without the acknowledged mark; all of it under a running program.
  func olderBackup() async throws -> FaultOutcome {
    var outcome = FaultOutcome("an older backup restored")
    try write("before")
    let backup = try copy(data, "backup")
    try write("after")
    let newer = try copy(data, "newer")
    outcome.takenBack = try files.verdict(of: ["before", "after"]).figures.acknowledged

    // Only the entries: the acknowledged mark is newer.
    let entries = try copy(newer, "entries")
    for name in Set(try names(in: tree(in: backup)) + names(in: tree(in: newer))) where name.hasSuffix(".log") {
      try replace(name, in: tree(in: entries), with: tree(in: backup))
    }
    try expect(
      await !reopens(entries, "entries", claiming: .committed, writes: false, &outcome), "older entries were taken")
    // The same without the mark, but with a newer snapshot.
    try? FileManager.default.removeItem(atPath: tree(in: entries) + "/acknowledged")
    let snapshots = [backup, newer].map { tree(in: $0) + "/snapshot" }
    if !FileManager.default.contentsEqual(atPath: snapshots[0], andPath: snapshots[1]) {
      try expect(
        await !reopens(entries, "unnoted", claiming: .committed, writes: false, &outcome), "an older log was taken")
    }

    // The whole directory, under a running program that is ahead.
    let ahead = try writers("ahead")
    try expect(ahead.waits(forAcknowledged: 200), "writers do not write", ahead)
    try FileManager.default.moveItem(atPath: data, toPath: directory + "/moved")
    try FileManager.default.copyItem(atPath: backup, toPath: data)
    try expect(ahead.waits(for: "phase stopped"), "a store that was ahead goes on", ahead)
    outcome.note("the store that was ahead stopped")
    ahead.kill()
    // No later entry was acknowledged: the moved directory has all others.
    try expect(await reopens(directory + "/moved", "moved", &outcome), "what was moved away is refused")
    outcome.add(try files.judge(["before", "after", "ahead", "moved"], outcome.fault))

    // The whole directory, while the program is down: the backup's state returns, as another history.
    let log = try HurtFile.log(data)
    let before = try await log["book"].beginEpoch(reason: "restored")
    try expect(before != 0, "no epoch was begun")
    let replica = try RecordedReplica("epoch", history: files.path("epoch"))
    let store = try await HurtFile.open(log, replica, savesSnapshots: false)
    let epoch = await store.statistics.log?.epoch
    try expect(epoch == before, "the epoch is not told")
    outcome.note("another epoch")
    await store.shutdown()
    await log.close()
    try expect(await reopens(data, "restored", &outcome), "a backup is refused")
    outcome.add(try files.judge(["before", "restored"], outcome.fault))
    outcome.takenBack -= try files.verdict(of: ["before"]).figures.acknowledged
    return outcome
  }

  /// The directory is copied while it is written to. Each copy opens to a piece of the order, or is refused.
  func copiedWhileWritten() async throws -> FaultOutcome {
    var outcome = FaultOutcome("copied while it was written")
    let child = try writers("writers")
    var copies = ["writers"]
    for number in 1...12 {
      try expect(child.waits(forAcknowledged: Int.random(in: 100...1000, using: &chance)), "no writers", child)
      try expect(succeeds(["cp", "-r", data, directory + "/copy\(number)"]), "cp")
    }
    child.kill()
    for number in 1...12 {
      let copy = directory + "/copy\(number)"
      if try await reopens(copy, "copy\(number)", claiming: .committed, writes: false, &outcome) {
        copies.append("copy\(number)")
      }
    }
    try expect(await reopens(data, "original", &outcome), "the original is refused")
    outcome.add(try files.judge(copies + ["original"], outcome.fault))
    return outcome
  }

  /// The power fails. The disk has all flushed changes, and either no other change or any of them.
  func powerCut() async throws -> FaultOutcome? {
    var outcome = FaultOutcome("a power cut")
    let (source, library) = (directory + "/journal.c", directory + "/journal.so")
    try DiskJournalLibrary.source.write(toFile: source, atomically: true, encoding: .utf8)
    #if !os(Linux)
      tell("  \(outcome.fault): left out, as it needs LD_PRELOAD")
      return nil
    #endif
    guard succeeds(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"]) else {
      tell("  \(outcome.fault): left out, as cc cannot compile the library that logs flushes")
      return nil
    }
    let root = try FileManager.default.attributesOfItem(atPath: data)[.systemFileNumber] as? Int ?? 0
    let path = directory + "/journal"
    let child = try writers(
      "writers", environment: ["LD_PRELOAD": library, "DISK_JOURNAL": path, "DISK_JOURNAL_ROOT": data])
    // Early failures, in the log's first entries, are as frequent as later ones.
    let count = Bool.random(using: &chance) ? 10...60 : 200...4000
    try expect(child.waits(forAcknowledged: Int.random(in: count, using: &chance)), "no writers", child)
    child.kill()
    let journal = try DiskJournal(path: path, root: root)
    outcome.details = "\(journal.unsyncedChanges) changes not waited for"
    for number in 1...8 {
      let disk = directory + "/disk\(number)"
      try journal.write(to: disk, keepsSome: number > 1, by: &chance)
      guard try await reopens(disk, "disk\(number)", &outcome) else { continue }
      let verdict = try files.judge(["writers", "disk\(number)"], outcome.fault)
      if number == 1 { outcome.add(verdict) }
    }
    return outcome
  }

  /// The process of two replicas is paused for three times their lease, while another process waits.
  func paused() async throws -> FaultOutcome {
    var outcome = FaultOutcome("paused for longer than the lease")
    let child = try Child(["hurt-file-lease", data, files.directory + "/jobs"])
    try expect(child.waits(forAcknowledged: 100), "no jobs", child)
    for _ in 1...2 {
      child.pause()
      let other = try Child(["hurt-file-write", data, "1", files.path("other"), "entries"])
      try expect(other.waits(for: "refused"), "a second process has opened the directory", other)
      outcome.note(other.lines("refused").first ?? "")
      try await Task.sleep(for: LeaseWork.duration * 3)
      child.proceed()
      try expect(child.waits(forAcknowledged: 100), "no jobs after the pause", child)
    }
    child.say("stop")
    try expect(child.waits(for: "stopped"), "it does not stop", child)
    try await Task.sleep(for: .milliseconds(300))
    child.say("end")
    try expect(child.waits(for: "ended"), "jobs are not done", child)
    try outcome.add(jobs: child.lines("over"))
    child.kill()
    outcome.add(try files.judge(["jobs-1"], outcome.fault))
    return outcome
  }

  /// A second process opens the directory, and a third one after the file `lock` was removed.
  func twoProcesses() async throws -> FaultOutcome {
    var outcome = FaultOutcome("two processes with one directory")
    let first = try writers("first")
    try expect(first.waits(forAcknowledged: 200), "no writers", first)
    let second = try writers("second")
    try expect(second.waits(for: "refused"), "a second process has opened the directory", second)
    outcome.note(second.lines("refused").first ?? "")
    try expect(first.waits(forAcknowledged: 200), "the first process does not go on", first)
    try FileManager.default.removeItem(atPath: data + "/lock")
    // The first process stops at its next entry, and keeps its files until then.
    let third = try writers("third")
    try expect(first.waits(for: "phase stopped"), "a store whose lock is another's goes on", first)
    outcome.note("the first stopped when its lock was removed")
    if third.waits(forAcknowledged: 200, within: 5) {
      outcome.note("the third opened when the first had stopped")
    } else {
      outcome.note(third.lines("refused").first ?? "")
    }
    for child in [first, second, third] { child.kill() }
    try expect(await reopens(data, "afterwards", &outcome), "the directory is refused")
    outcome.add(try files.judge(["first", "third", "afterwards"], outcome.fault))
    return outcome
  }

  /// Bytes are flipped in one file: the file is named in a refusal, or nothing is missing.
  func flippedBytes() async throws -> FaultOutcome {
    var outcome = FaultOutcome("bytes flipped")
    try write("writers")
    let all = try names(in: tree(in: data))
    for number in 1...24 {
      let copy = try copy(data, "copy\(number)")
      // The files take turns, so that small ones are hit as well.
      let name = all[number % all.count]
      try Self.flip(tree(in: copy) + "/" + name, count: Int.random(in: 1...3, using: &chance), by: &chance)
      if try await reopens(copy, "copy\(number)", &outcome) {
        let verdict = try files.judge(["writers", "copy\(number)"], "\(outcome.fault) in \(name)")
        if outcome.acknowledged == 0 { outcome.add(verdict) }
      }
      try FileManager.default.removeItem(atPath: copy)
    }
    try expect(await reopens(data, "original", &outcome), "the original is refused")
    return outcome
  }

  static func flip(_ path: String, count: Int, by chance: inout Chance) throws {
    var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    guard !bytes.isEmpty else { return }
    for _ in 0..<count {
      bytes[Int.random(in: 0..<bytes.count, using: &chance)] ^= 1 << UInt8.random(in: 0..<8, using: &chance)
    }
    // The file is written in place.
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try file.write(contentsOf: Data(bytes))
    try file.close()
  }

  /// The disk fills, gets space, fills again, the process is killed, and the disk gets space.
  func fullDisk() async throws -> FaultOutcome? {
    var outcome = FaultOutcome("a full disk")
    let disk = directory + "/disk"
    try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
    guard succeeds(["mount", "-t", "tmpfs", "-o", "size=3m", "none", disk]) else {
      tell("  \(outcome.fault): left out, as no file system of three megabytes can be mounted here")
      return nil
    }
    defer { _ = succeeds(["umount", disk]) }
    // With snapshots the log is truncated, and needs little space.
    let savesSnapshots = Bool.random(using: &chance)
    let room = savesSnapshots ? 20_000...60_000 : 500_000...1_200_000
    func fill(_ name: String, _ count: Int) throws -> String {
      try Data(count: count).write(to: URL(fileURLWithPath: disk + "/" + name))
      return disk + "/" + name
    }
    if savesSnapshots { _ = try fill("rest", 2_900_000) }
    let ballast = try (1...2).map { try fill("ballast\($0)", Int.random(in: room, using: &chance)) }
    let child = try writers("writers", in: disk + "/data", savesSnapshots: savesSnapshots)
    for (number, path) in ballast.enumerated() {
      guard Self.waits(for: { child.lines("phase").count { $0.contains("full") } > number }) else {
        outcome.details = "full \(number) times, as it was truncated"
        break
      }
      outcome.note("waiting")
      try FileManager.default.removeItem(atPath: path)
      // The little space may be used up at once.
      try expect(savesSnapshots || child.waits(forAcknowledged: 100), "it does not go on when there is room", child)
    }
    if outcome.details.isEmpty, Self.waits(for: { child.lines("phase").last?.contains("full") ?? false }) {
      outcome.note("waiting")
    }
    child.kill()
    let isRead = try await reopens(disk + "/data", "full", claiming: .linearizable, writes: false, &outcome)
    try expect(succeeds(["mount", "-o", "remount,size=64m", disk]), "no more room")
    try expect(await reopens(disk + "/data", "afterwards", &outcome), "the log is refused")
    outcome.add(try files.judge(["writers"] + (isRead ? ["full"] : []) + ["afterwards"], outcome.fault))
    return outcome
  }

  private static func waits(for condition: () -> Bool) -> Bool {
    let deadline = Date(timeIntervalSinceNow: 5)
    while !condition() {
      guard Date() < deadline else { return false }
      Thread.sleep(forTimeInterval: 0.02)
    }
    return true
  }
}

extension FaultOutcome {
  /// Adds the replicas' reports of jobs, which must agree and contain no job twice.
  mutating func add(jobs lines: [String]) throws {
    let words = lines.map { $0.split(separator: " ").compactMap { Int($0) } }
    guard let first = words.first, first.count == 4, words.allSatisfy({ $0 == first }) else {
      throw HurtFile.Trial.Problem(text: "replicas tell different figures of jobs: \(lines)")
    }
    details = "\(first[0]) jobs done, \(first[2]) reports too late, \(first[3]) terms of the lease"
    twice += first[1]
    guard first[1] == 0 else { throw HurtFile.Trial.Problem(text: "jobs counted twice: \(lines)") }
  }
}
