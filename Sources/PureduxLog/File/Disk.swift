#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

/// A file by its descriptor, and the system calls of a log. They block.
final class Disk: Sendable {
  struct Failure: Error, Hashable {
    let call: String
    let path: String
    let code: Int32

    static var exists: Int32 { EEXIST }

    var isMissing: Bool { code == ENOENT || code == ENOTDIR }
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

    var logError: LogError {
      if isFull { return .full(text) }
      return isLocked && call == "flock" ? .inUse("\(path) is locked by another log or process.") : .unavailable(text)
    }
  }

  enum Access {
    case reading, writing
    case readingNoLink
    case creating
    case makingNew
  }

  let path: String
  private let descriptor: Int32

  /// Does not write through a symbolic link, or anybody who can make links in the directory could choose the file.
  ///
  /// - Throws: Also if the file is not regular (a device or a pipe may have no end), or if few descriptors are left.
  init(_ name: String, in directory: Directory, _ access: Access) throws(Failure) {
    let flags =
      switch access {
      case .reading: O_RDONLY
      case .readingNoLink: O_RDONLY | O_NOFOLLOW
      case .writing: O_RDWR | O_NOFOLLOW
      case .creating: O_RDWR | O_CREAT | O_NOFOLLOW
      case .makingNew: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
      }
    // `O_NONBLOCK`: the file may be a pipe without another end.
    descriptor = directory.openFile(name, flags | O_CLOEXEC | O_NONBLOCK)
    path = directory.path + "/" + name
    if descriptor < 0 { throw Failure(call: "open", path: path, code: errno) }
    guard descriptor < Self.descriptorLimit else { throw Failure(call: "open", path: path, code: EMFILE) }
    guard try status().isRegular else { throw Failure(call: "open", path: path, code: EINVAL) }
  }

  deinit {
    guard descriptor >= 0 else { return }
    // Explicitly: a child process that is being started shares the lock until it begins.
    _ = flock(descriptor, LOCK_UN)
    close(descriptor)
  }

  /// The rest of the process needs the descriptors from this number on: libdispatch ends a process without any.
  private static var descriptorLimit: Int32 {
    let count = limitOfProcess
    return count - min(64, count / 4)
  }

  static var limitOfProcess: Int32 {
    #if canImport(Glibc)
      let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
      let resource = RLIMIT_NOFILE
    #endif
    var limit = rlimit()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe getrlimit(resource, &limit) == 0 else { return .max }
    return Int32(clamping: limit.rlim_cur)
  }

  private func status() throws(Failure) -> (isRegular: Bool, size: Int, place: FilePlace) {
    var status = stat()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    guard unsafe fstat(descriptor, &status) == 0 else { throw failure("fstat") }
    return (status.st_mode & S_IFMT == S_IFREG, Int(status.st_size), FilePlace(status))
  }

  func size() throws(Failure) -> Int { try status().size }

  func place() throws(Failure) -> FilePlace { try status().place }

  func read(_ count: Int, at offset: Int) throws(Failure) -> [UInt8] {
    // The empty array is shared by the process: initializing it would write to it.
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

  /// Reads eight-byte words in the machine's order, the last one filled with zeros. Returns the number of bytes, too.
  func words(_ count: Int, at offset: Int) throws(Failure) -> (words: [UInt64], count: Int) {
    var (code, size): (Int32, Int) = (0, 0)
    // SAFETY: the call writes at most the bytes that are left of the buffer, which has been filled with zeros.
    let words = unsafe [UInt64](unsafeUninitializedCapacity: count) { buffer, initialized in
      unsafe buffer.initialize(repeating: 0)
      while size < count * 8 {
        let bytes = UnsafeMutableRawBufferPointer(buffer)
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[size..<count * 8])
        let result = unsafe pread(descriptor, rest.baseAddress, rest.count, off_t(offset + size))
        if result < 0, errno == EINTR { continue }
        if result < 0 { code = errno }
        if result <= 0 { break }
        size += result
      }
      initialized = (size + 7) / 8
    }
    if code != 0 { throw Failure(call: "pread", path: path, code: code) }
    return (words, size)
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

  /// Returns when the writes are durable, with the metadata for reading them.
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

  func lock() throws(Failure) {
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw failure("flock") }
  }

  func unlock() { _ = flock(descriptor, LOCK_UN) }

  /// Opens and locks a file, and makes it if missing. Its previous owner may remove it in between.
  static func locked(_ name: String, in directory: Directory) throws(Failure) -> Disk {
    while true {
      let disk = try Disk(name, in: directory, .creating)
      try disk.lock()
      if try directory.place(of: name) == disk.place() { return disk }
    }
  }

  /// Makes and locks a file. An existing one is unlinked, not written to, as it may have another name; throws if
  /// another process has locked that.
  static func lockedNew(
    _ name: String, in directory: Directory, whenOpened: () -> Void = {}
  ) throws(Failure) -> Disk {
    while true {
      do {
        let disk = try Disk(name, in: directory, .makingNew)
        try disk.lock()
        if try directory.place(of: name) == disk.place() { return disk }
      } catch {
        guard error.call == "open", error.code == Failure.exists else { throw error }
        try removeUnlocked(name, in: directory, whenOpened)
      }
    }
  }

  private static func removeUnlocked(
    _ name: String, in directory: Directory, _ whenOpened: () -> Void
  ) throws(Failure) {
    let left: Disk
    do {
      left = try Disk(name, in: directory, .readingNoLink)
    } catch {
      if error.isMissing { return }
      throw error
    }
    whenOpened()
    try left.lock()
    if try directory.place(of: name) == left.place() { try directory.remove(name) }
  }

  private func failure(_ call: String) -> Failure { Failure(call: call, path: path, code: errno) }
}
