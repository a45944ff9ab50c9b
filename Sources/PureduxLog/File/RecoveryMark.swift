import Synchronization

/// Which entry a recovery is at, in a small file: for the one after it, if the process dies of that entry.
///
/// Written before each entry that is replayed, and not waited for: what a process has written outlives it. Of two
/// recoveries of one tree at a time one is noted.
final class RecoveryMark: Sendable {
  /// A death at one entry.
  private struct Death: Equatable {
    var position: UInt64
    /// How many processes have died there, one after the other.
    var count: UInt32
  }

  /// An entry at which so many have died is applied no more.
  private static let limit: UInt32 = 2

  private let file: Disk
  private let directory: Directory
  private let name: String
  private let program: UInt64
  /// What the recovery before this one died at, if it did.
  private let death: Death?
  /// Whether an entry is being applied.
  private let isApplying = Atomic(false)

  init(_ name: String, in directory: Directory, program: UInt64 = Program.identity) throws(Disk.Failure) {
    file = try Disk(name, in: directory, .creating)
    // Of another one that is recovering nothing is known: it has not died.
    try file.lock()
    self.directory = directory
    self.name = name
    self.program = program
    death = Self.read(try file.read(24, at: 0), of: program)
  }

  /// Whether processes of this program have died at an entry again and again.
  func isFatal(_ position: UInt64) -> Bool { death?.position == position && death?.count ?? 0 >= Self.limit }

  /// An entry is applied now.
  func begin(_ position: UInt64) {
    isApplying.store(true, ordering: .relaxed)
    let before = death?.position == position ? death?.count ?? 0 : 0
    write(Death(position: position, count: before + 1))
  }

  /// Nothing is applied for now.
  func pause(behind position: UInt64) {
    isApplying.store(false, ordering: .relaxed)
    write(death.flatMap { $0.position > position ? $0 : nil })
  }

  /// The recovery has ended. Where it was given up in the middle of an entry that may have no end, that stays noted.
  ///
  /// - Parameter isComplete: Whether all was applied.
  func end(isComplete: Bool) {
    if !isComplete, isApplying.load(ordering: .relaxed) { return }
    if isComplete || death == nil { try? directory.remove(name) } else { write(death) }
  }

  private func write(_ death: Death?) {
    var writer = ByteWriter(capacity: 24)
    writer.put(death?.position ?? 0)
    writer.put(death?.count ?? 0)
    writer.put(program)
    writer.put(RecordFormat.checksum(of: writer.bytes))
    // Where it cannot be written a death is not counted.
    try? file.write(writer.bytes, at: 0)
  }

  /// None where there is none, where it cannot be read, and where another program has written it.
  private static func read(_ bytes: [UInt8], of program: UInt64) -> Death? {
    var reader = ByteReader(bytes)
    guard let position = reader.take(UInt64.self), let count = reader.take(UInt32.self),
      reader.take(UInt64.self) == program, let sum = reader.take(UInt32.self), position > 0,
      RecordFormat.checksum(of: Array(bytes.prefix(20))) == sum
    else { return nil }
    return Death(position: position, count: count)
  }
}

/// The program that runs.
private enum Program {
  /// Another number for another version of it: made of what the file system says of its file.
  static let identity: UInt64 = {
    #if os(Linux)
      let path = "/proc/self/exe"
    #else
      let path = CommandLine.arguments.first ?? ""
    #endif
    return (try? FilePlace.version(ofPath: path)) ?? 0
  }()
}

extension RecoveryMark {
  /// - Parameter path: Where marks are kept for a log that has no place of its own.
  static func of(_ log: any OrderedLog, orIn path: String?) async -> RecoveryMark? {
    if let log = log as? any LocalLog, let directory = try? await log.localDirectory() {
      return try? RecoveryMark(FileNames.recovery, in: directory)
    }
    guard let path, let name = log.name.flatMap({ FileNames.directory(of: $0.composed) }) else { return nil }
    do throws(Disk.Failure) {
      try Directory.make(path: Directory.absolute(path))
      return try RecoveryMark(name, in: Directory(path))
    } catch {
      return nil
    }
  }
}
