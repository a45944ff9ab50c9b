#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// A file, by its descriptor, and the calls of the operating system that a log is made of. They block.
final class Disk: Sendable {
  struct Failure: Error, Hashable {
    let call: String
    let path: String
    let code: Int32

    var isMissing: Bool { code == ENOENT }
    var isLocked: Bool { code == EWOULDBLOCK }
    var isFull: Bool { code == ENOSPC || code == EDQUOT || code == EFBIG }

    var text: String { "\(call) \(path): \(Self.text(of: code))" }

    private static func text(of code: Int32) -> String {
      // SAFETY: the call writes at most as many bytes as the buffer has: a text that ends with zero, and is copied.
      unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
        guard let start = buffer.baseAddress, unsafe strerror_r(code, start, buffer.count) == 0 else {
          return "error \(code)"
        }
        return unsafe String(cString: start)
      }
    }

    var logError: LogError { isFull ? .full(text) : .unavailable(text) }
  }

  enum Access { case reading, writing, creating }

  let path: String
  private let descriptor: Int32

  /// - Throws: also where it is no regular file: a device or a pipe may have no end; and where the process has few
  ///   descriptors left.
  init(_ path: String, _ access: Access) throws(Failure) {
    let flags =
      switch access {
      case .reading: O_RDONLY
      case .writing: O_RDWR
      case .creating: O_RDWR | O_CREAT
      }
    // Not waiting for the other end of what may be a pipe. SAFETY (here and below): the call reads the path that it is
    // given, as a string that ends with zero and lives until it returns.
    descriptor = unsafe open(path, flags | O_CLOEXEC | O_NONBLOCK, 0o644)
    self.path = path
    if descriptor < 0 { throw Failure(call: "open", path: path, code: errno) }
    guard descriptor < Self.descriptorLimit else { throw Failure(call: "open", path: path, code: EMFILE) }
    guard try status().isRegular else { throw Failure(call: "open", path: path, code: EINVAL) }
  }

  deinit {
    guard descriptor >= 0 else { return }
    // By itself: a child process that is being started has the descriptor, too, until it begins.
    _ = flock(descriptor, LOCK_UN)
    close(descriptor)
  }

  /// Logs use no descriptor from this number on, and leave those to the rest of the process: libdispatch ends a process
  /// in which it gets none.
  private static var descriptorLimit: Int32 {
    #if canImport(Glibc)
      let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
      let resource = RLIMIT_NOFILE
    #endif
    var limit = rlimit()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe getrlimit(resource, &limit) == 0 else { return .max }
    let count = Int32(clamping: limit.rlim_cur)
    return count - min(64, count / 4)
  }

  private func status() throws(Failure) -> (isRegular: Bool, size: Int) {
    var status = stat()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe fstat(descriptor, &status) == 0 else { throw failure("fstat") }
    return (status.st_mode & S_IFMT == S_IFREG, Int(status.st_size))
  }

  func size() throws(Failure) -> Int { try status().size }

  /// Bytes from an offset on: fewer only at the end of the file.
  func read(_ count: Int, at offset: Int) throws(Failure) -> [UInt8] {
    // The empty array is one for the whole process: to initialize it would be to write to that.
    if count == 0 { return [] }
    var code: Int32 = 0
    // SAFETY: the call writes at most as many bytes as are left of the buffer, and the count says how many were.
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      while initialized < count {
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[initialized...])
        let result = unsafe pread(descriptor, rest.baseAddress, rest.count, off_t(offset + initialized))
        if result < 0, errno == EINTR { continue }
        if result < 0 { code = errno }
        if result <= 0 { break }
        initialized += result
      }
    }
    if code != 0 { throw Failure(call: "pread", path: path, code: code) }
    return bytes
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(Failure) {
    var done = 0
    while done < bytes.count {
      // SAFETY: the call reads as many bytes as are left of the array, which lives until it returns.
      let result = unsafe bytes.withUnsafeBytes { buffer in
        unsafe pwrite(
          descriptor, buffer.baseAddress?.advanced(by: done), bytes.count - done, off_t(offset + done))
      }
      if result < 0, errno == EINTR { continue }
      if result <= 0 { throw failure("pwrite") }
      done += result
    }
  }

  /// Returns when what was written is on the disk, with what is needed to find it again.
  func sync() throws(Failure) {
    #if canImport(Darwin)
      guard fcntl(descriptor, F_FULLFSYNC) == 0 else { throw failure("fsync") }
    #else
      guard fdatasync(descriptor) == 0 else { throw failure("fdatasync") }
    #endif
  }

  func truncate(to size: Int) throws(Failure) {
    guard ftruncate(descriptor, off_t(size)) == 0 else { throw failure("ftruncate") }
  }

  /// Until the file is closed nobody else gets it, in this process or another.
  func lock() throws(Failure) {
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw failure("flock") }
  }

  private func failure(_ call: String) -> Failure { Failure(call: call, path: path, code: errno) }
}

// MARK: Directories

extension Disk {
  /// Makes a directory, and those above it; nothing where it is there. What is made is on the disk when it returns.
  static func makeDirectory(_ path: String) throws(Failure) {
    if unsafe mkdir(path, 0o755) != 0 {
      // Who made it may have died before its name was on the disk; whoever may not read where that stands has not.
      if errno == EEXIST {
        try? syncDirectory(parent(of: path) ?? root(of: path))
        return
      }
      guard errno == ENOENT, let parent = parent(of: path) else {
        throw Failure(call: "mkdir", path: path, code: errno)
      }
      try makeDirectory(parent)
      if unsafe mkdir(path, 0o755) != 0 {
        if errno == EEXIST { return }
        throw Failure(call: "mkdir", path: path, code: errno)
      }
    }
    try syncDirectory(parent(of: path) ?? root(of: path))
  }

  private static func root(of path: String) -> String { path.first == "/" ? "/" : "." }

  /// None of a path of one name.
  private static func parent(of path: String) -> String? {
    var path = Substring(path)
    while path.last == "/" { path.removeLast() }
    guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return nil }
    return String(path[..<slash])
  }

  /// The names in a directory; none where it is not there.
  static func names(in path: String) throws(Failure) -> [String] {
    guard let directory = unsafe opendir(path) else {
      if errno == ENOENT { return [] }
      throw Failure(call: "opendir", path: path, code: errno)
    }
    var names: [String] = []
    errno = 0
    // SAFETY: the directory is open until the end of this function; an entry is valid until the next one is read, and
    // its name ends with zero and is copied at once.
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    let code = errno
    unsafe closedir(directory)
    if code != 0 { throw Failure(call: "readdir", path: path, code: code) }
    return names
  }

  /// Returns when the names in a directory are on the disk.
  static func syncDirectory(_ path: String) throws(Failure) {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure(call: "open", path: path, code: errno) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw Failure(call: "fsync", path: path, code: errno) }
  }

  static func rename(_ path: String, to other: String) throws(Failure) {
    // Not a member of this type, which has the same name.
    #if canImport(Glibc)
      let result = unsafe Glibc.rename(path, other)
    #elseif canImport(Musl)
      let result = unsafe Musl.rename(path, other)
    #else
      let result = unsafe Darwin.rename(path, other)
    #endif
    guard result == 0 else { throw Failure(call: "rename", path: path, code: errno) }
  }

  static func remove(_ path: String) throws(Failure) {
    guard unsafe unlink(path) == 0 || errno == ENOENT else { throw Failure(call: "unlink", path: path, code: errno) }
  }
}
