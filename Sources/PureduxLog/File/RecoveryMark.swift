import Puredux

/// Which entry a recovery is at, in a small file: for the one after it, if the process dies of that entry.
///
/// A first recovery notes where a short stretch of entries begins: two writes of the system for each entry would take
/// longer than a small reducer. Where a process of this program has died in one, the next goes step by step, and notes
/// each entry before it is applied. What a process has written outlives it, and is not waited for. Of two recoveries of
/// one tree at a time one is noted.
final class RecoveryMark: Sendable {
  /// Deaths at one entry, one after the other; or one, somewhere in a stretch.
  private struct Deaths: Equatable {
    var position: UInt64
    /// 0 for one in the stretch that begins there.
    var count: UInt32

    /// How many may have been at an entry.
    func count(at position: UInt64) -> UInt32 {
      if count > 0 { return position == self.position ? count : 0 }
      return RecoveryMark.isInStretch(position, from: self.position) ? 1 : 0
    }

    /// The last position that it may be about.
    var end: UInt64 { count > 0 ? position : position &+ (RecoveryMark.stretch - 1) }

    static let none = Deaths(position: 0, count: 0)
  }

  private struct Progress: Sendable {
    /// The stretch that is noted.
    var stretch: (position: UInt64, began: SuspendingClock.Instant)?
    /// Whether an entry is being applied.
    var isApplying = false
    /// Whether the recovery has ended without having applied all.
    var isGivenUp = false
  }

  /// An entry at which so many have died is applied no more.
  private static let limit: UInt32 = 2

  /// How many positions a stretch has at most, and for how long after its beginning another entry belongs to it.
  private static let stretch: UInt64 = 64
  private static let stretchTime = Duration.microseconds(100)

  private static func isInStretch(_ position: UInt64, from first: UInt64) -> Bool {
    position >= first && position - first < stretch
  }

  private let file: Disk
  private let directory: Directory
  private let name: String
  private let program: UInt64
  /// How processes of this program have died in the recoveries before this one, if the last of them did.
  private let deaths: Deaths?
  private let now: @Sendable () -> SuspendingClock.Instant
  private let progress = LockedValue(Progress())

  init(
    _ name: String, in directory: Directory, program: UInt64,
    now: @escaping @Sendable () -> SuspendingClock.Instant = { .now }
  ) throws(Disk.Failure) {
    // Of another one that is recovering nothing is known: it has not died.
    file = try Disk.locked(name, in: directory)
    self.directory = directory
    self.name = name
    self.program = program
    self.now = now
    deaths = Self.read(try file.read(24, at: 0), of: program)
  }

  /// Whether processes of this program have died at an entry again and again.
  func isFatal(_ position: UInt64) -> Bool { deaths.map { $0.count(at: position) >= Self.limit } ?? false }

  /// An entry is applied now.
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

  /// Nothing is applied for now.
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

  /// The recovery has ended, and this is not used any more.
  func end() { try? directory.remove(name) }

  /// The recovery has ended without having applied all. If an entry is being applied, that stays noted until it has
  /// been (`pause`): it may have no end.
  func giveUp() {
    progress.withLock { progress in
      if progress.isGivenUp { return }
      progress.isGivenUp = true
      if !progress.isApplying { forget() }
    }
  }

  /// Nobody has died in this recovery. The next one may begin before this object is gone.
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
    // Where it cannot be written a death is not counted.
    try? file.write(writer.bytes, at: 0)
  }

  /// None where there is none, where it cannot be read, and where another program has written it.
  private static func read(_ bytes: [UInt8], of program: UInt64) -> Deaths? {
    var reader = ByteReader(bytes)
    guard let position = reader.take(UInt64.self), let count = reader.take(UInt32.self),
      reader.take(UInt64.self) == program, let sum = reader.take(UInt32.self), position > 0,
      RecordFormat.checksum(of: Array(bytes.prefix(20))) == sum
    else { return nil }
    return Deaths(position: position, count: count)
  }
}

extension RecoveryMark {
  /// Nil if no mark can be written, or if this program cannot be distinguished from others.
  ///
  /// - Parameter path: The directory for the marks of logs that have no directory of their own on this machine.
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
