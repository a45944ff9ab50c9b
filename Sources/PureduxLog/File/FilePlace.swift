#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

/// The identity of a file, kept when it is renamed.
struct FilePlace: Equatable, Sendable {
  let device: UInt64
  let inode: UInt64

  init(_ status: stat) {
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(truncatingIfNeeded: status.st_ino)
  }

  init?(ofPath path: String) throws(Disk.Failure) {
    var status = stat()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe fstatat(AT_FDCWD, path, &status, 0) == 0 else {
      let failure = Disk.Failure(call: "stat", path: path, code: errno)
      if failure.isMissing { return nil }
      throw failure
    }
    self.init(status)
  }
}
