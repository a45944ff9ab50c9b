#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

/// Tells a file from any other one: stays the same when the file is renamed.
struct FilePlace: Equatable, Sendable {
  let device: UInt64
  let inode: UInt64

  init(_ status: stat) {
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(truncatingIfNeeded: status.st_ino)
  }

  /// The file that a path leads to at present; nil where there is none.
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

  /// A number that is another one when the file at a path was written anew: by its size and time, which it keeps in
  /// every container that is made of one image.
  static func version(ofPath path: String) throws(Disk.Failure) -> UInt64 {
    var status = stat()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe fstatat(AT_FDCWD, path, &status, 0) == 0 else {
      throw Disk.Failure(call: "stat", path: path, code: errno)
    }
    #if canImport(Darwin)
      let time = status.st_mtimespec
    #else
      let time = status.st_mtim
    #endif
    var writer = ByteWriter()
    for number in [Int(status.st_size), Int(time.tv_sec), Int(time.tv_nsec)] {
      writer.put(UInt64(truncatingIfNeeded: number))
    }
    return writer.bytes.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
  }
}
