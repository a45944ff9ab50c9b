import Dispatch
import Puredux

/// A hash of the program's file, which tells builds apart. Size and time do not: reproducible images give every file
/// the same time, and a changed constant keeps the size.
enum ProgramIdentity {
  private static let queue = DispatchQueue(label: "puredux.log.program")
  private static let known = LockedValue<UInt64?>(nil)

  /// Nil if the file cannot be read. Computed once, off the cooperative pool: about 0.1 seconds for 100 MB.
  static func current() async -> UInt64? {
    if let identity = known.withLock({ $0 }) { return identity }
    return await withCheckedContinuation { continuation in
      queue.async {
        let identity = known.withLock { $0 } ?? ofProcess()
        known.withLock { $0 = identity }
        continuation.resume(returning: identity)
      }
    }
  }

  private static func ofProcess() -> UInt64? {
    #if os(Linux) || os(Android)
      // The started file, even if another one has its name by now.
      if let identity = try? hash(ofFile: "exe", in: "/proc/self") { return identity }
    #endif
    guard let path = CommandLine.arguments.first, let slash = path.lastIndex(of: "/") else { return nil }
    return try? hash(ofFile: String(path[path.index(after: slash)...]), in: String(path[...slash]))
  }

  /// Files that differ in one place have different hashes. Any other two collide with a chance of 2^-64.
  static func hash(ofFile name: String, in path: String) throws(Disk.Failure) -> UInt64 {
    let file = try Disk(name, in: Directory(path), .reading)
    var (hash, offset) = (14_695_981_039_346_656_037 as UInt64, 0)
    while true {
      let words = try file.words(1 << 17, at: offset)
      for word in words.words { hash = mixed(hash, word) }
      offset += words.count
      if words.count < 1 << 20 { return mixed(hash, UInt64(offset)) }
    }
  }

  @inline(__always) private static func mixed(_ hash: UInt64, _ word: UInt64) -> UInt64 {
    let both = hash ^ word
    return (both << 29 | both >> 35) &* 1_099_511_628_211
  }
}
