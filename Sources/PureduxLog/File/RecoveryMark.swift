import Puredux

/// The entry that a recovery has reached, in a small file: for the next process, if this one dies of the entry.
///
/// A first recovery notes only the beginnings of short stretches of entries: two system calls for each entry would take
/// longer than a small reducer. After a death in a stretch, the next process of this program notes each entry. Writes
/// survive the process, and are not waited for. Of concurrent recoveries of a tree, one is noted.
final class RecoveryMark: Sendable {
  /// Consecutive deaths at one entry, or one death somewhere in a stretch.
  private struct Deaths: Equatable {
    var position: UInt64
    /// 0 for a death in the stretch that begins at `position`.
    var count: UInt32

    func count(at position: UInt64) -> UInt32 {
      if count > 0 { return position == self.position ? count : 0 }
      return RecoveryMark.isInStretch(position, from: self.position) ? 1 : 0
    }

    var end: UInt64 { count > 0 ? position : position &+ (RecoveryMark.stretch - 1) }

    static let none = Deaths(position: 0, count: 0)
  }

  private struct Progress: Sendable {
    var stretch: (position: UInt64, began: SuspendingClock.Instant)?
    var isApplying = false
    var isGivenUp = false
  }

  private static let limit: UInt32 = 2

  /// A stretch's number of positions, and the time in which its entries begin.
  private static let stretch: UInt64 = 64
  private static let stretchTime = Duration.microseconds(100)

  private static func isInStretch(_ position: UInt64, from first: UInt64) -> Bool {
    position >= first && position - first < stretch
  }

  private let file: Disk
  private let directory: Directory
  private let name: String
  private let program: UInt64
  private let deaths: Deaths?
  private let now: @Sendable () -> SuspendingClock.Instant
  private let progress = LockedValue(Progress())

  init(
    _ name: String, in directory: Directory, program: UInt64,
    now: @escaping @Sendable () -> SuspendingClock.Instant = { .now }
  ) throws(Disk.Failure) {
    // Fails while another recovery, which has not died, holds the lock.
    file = try Disk.locked(name, in: directory)
    self.directory = directory
    self.name = name
    self.program = program
    self.now = now
    deaths = Self.read(try file.read(24, at: 0), of: program)
  }

  func isFatal(_ position: UInt64) -> Bool { deaths.map { $0.count(at: position) >= Self.limit } ?? false }

  func begin(_ position: UInt64) {
    progress.withLock { progress in
      if progress.isGivenUp { return }
      progress.isApplying = true
      if let deaths { return write(Deaths(position: position, count: deaths.count(at: position) + 1)) }
      let now = now()
      if let (first, began) = progress.stretch, Self.isInStretch(position, from: first), now - began < Self.stretchTime
      {
        return
      }
      progress.stretch = (position, now)
      write(Deaths(position: position, count: 0))
    }
  }

  func pause(behind position: UInt64) {
    progress.withLock { progress in
      if progress.isGivenUp {
        if progress.isApplying { forget() }
      } else if let deaths {
        write(deaths.end > position ? deaths : .none)
      } else if progress.stretch != nil {
        progress.stretch = nil
        write(.none)
      }
      progress.isApplying = false
    }
  }

  func end() { try? directory.remove(name) }

  /// The recovery ends early. An entry being applied, perhaps forever, stays noted until `pause`.
  func giveUp() {
    progress.withLock { progress in
      if progress.isGivenUp { return }
      progress.isGivenUp = true
      if !progress.isApplying { forget() }
    }
  }

  /// This recovery had no death. The next one may begin before this object is released.
  private func forget() {
    if let deaths { write(deaths) } else { try? directory.remove(name) }
    file.unlock()
  }

  private func write(_ deaths: Deaths) {
    var writer = ByteWriter(capacity: 24)
    writer.put(deaths.position)
    writer.put(deaths.count)
    writer.put(program)
    writer.put(RecordFormat.checksum(of: writer.bytes))
    // If this fails, a death is not counted.
    try? file.write(writer.bytes, at: 0)
  }

  private static func read(_ bytes: [UInt8], of program: UInt64) -> Deaths? {
    var reader = ByteReader(bytes)
    guard let position = reader.take(UInt64.self), let count = reader.take(UInt32.self),
      reader.take(UInt64.self) == program, let sum = reader.take(UInt32.self), position > 0,
      RecordFormat.checksum(of: Array(bytes.prefix(20))) == sum
    else { return nil }
    return Deaths(position: position, count: min(count, limit))
  }
}

extension RecoveryMark {
  /// Nil if no mark can be written, or the program's identity is unknown.
  ///
  /// - Parameter path: The directory for marks of logs without a local directory.
  static func of(_ log: any OrderedLog, orIn path: String?) async -> RecoveryMark? {
    if let log = log as? any LocalLog, let directory = try? await log.localDirectory() {
      guard let program = await ProgramIdentity.current() else { return nil }
      return try? RecoveryMark(FileNames.recovery, in: directory, program: program)
    }
    guard let path, let key = log.name, let program = await ProgramIdentity.current() else { return nil }
    do throws(Disk.Failure) {
      try Directory.make(path: Directory.absolute(path))
      return try RecoveryMark(FileNames.directory(of: key.composed), in: Directory(path), program: program)
    } catch {
      return nil
    }
  }
}
