#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#else
  import Darwin
#endif

/// A directory by its descriptor. Names are looked up in it even after it was moved.
final class Directory: Sendable {
  typealias Failure = Disk.Failure

  let path: String
  private let descriptor: Int32

  convenience init(_ path: String) throws(Failure) {
    // SAFETY (here and below): the calls read the paths that they are given, as strings that end with zero and live
    // until the call returns.
    try self.init(unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path)
  }

  private init(_ descriptor: Int32, _ path: String) throws(Failure) {
    self.descriptor = descriptor
    self.path = path
    if descriptor < 0 { throw Failure(call: "open", path: path, code: errno) }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// A file's descriptor; negative on failure, with the reason in `errno`. Never one of the first three: a file could
  /// receive the output of a process that has closed its standard output.
  func openFile(_ name: String, _ flags: Int32) -> Int32 {
    let file = unsafe openat(descriptor, name, flags, 0o644)
    guard (0...2).contains(file) else { return file }
    let other = fcntl(file, F_DUPFD_CLOEXEC, 3)
    let code = errno
    close(file)
    errno = code
    return other
  }

  /// - Throws: A failure that `isMissing` if the name does not exist. A file, or a link to an unmounted disk, is not
  ///   missing: a new directory must not replace it.
  func directory(_ name: String) throws(Failure) -> Directory {
    do throws(Failure) {
      return try Directory(openFile(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path + "/" + name)
    } catch {
      guard error.isMissing, try status(of: name) != nil else { throw error }
      throw Failure(call: error.call, path: error.path, code: ENXIO)
    }
  }

  func make(_ name: String) throws(Failure) {
    guard unsafe mkdirat(descriptor, name, 0o755) == 0 || errno == EEXIST else { throw failure("mkdir", name) }
    try sync()
  }

  func names() throws(Failure) -> [String] {
    var names: [String] = []
    try forEachName { names.append($0) }
    return names
  }

  func forEachName(_ body: (String) -> Void) throws(Failure) {
    let copy = openFile(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { throw failure("open", ".") }
    guard let directory = unsafe fdopendir(copy) else {
      let failure = failure("fdopendir", ".")
      close(copy)
      throw failure
    }
    errno = 0
    // SAFETY: the directory is open until the end of this function. An entry is valid until the next one is read; its
    // name ends with zero and is copied at once.
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { body(name) }
      errno = 0
    }
    let code = errno
    unsafe closedir(directory)
    if code != 0 { throw Failure(call: "readdir", path: path, code: code) }
  }

  func sync() throws(Failure) {
    guard fsync(descriptor) == 0 else { throw Failure(call: "fsync", path: path, code: errno) }
  }

  func move(_ name: String, to other: String) throws(Failure) {
    guard unsafe renameat(descriptor, name, descriptor, other) == 0 else { throw failure("rename", name) }
  }

  func remove(_ name: String) throws(Failure) {
    guard unsafe unlinkat(descriptor, name, 0) == 0 || errno == ENOENT else { throw failure("unlink", name) }
  }

  func removeDirectory(_ name: String) throws(Failure) {
    guard unsafe unlinkat(descriptor, name, AT_REMOVEDIR) == 0 || errno == ENOENT else { throw failure("rmdir", name) }
  }

  /// Nil if there is no file. A symbolic link counts as a file of its own.
  func place(of name: String) throws(Failure) -> FilePlace? { try status(of: name).map { FilePlace($0) } }

  func isRegular(_ name: String) throws(Failure) -> Bool? {
    try status(of: name).map { $0.st_mode & S_IFMT == S_IFREG }
  }

  private func status(of name: String) throws(Failure) -> stat? {
    var status = stat()
    // SAFETY: the call writes the structure that it is given, and keeps nothing of it.
    if unsafe fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 { return status }
    let failure = failure("stat", name)
    if failure.isMissing { return nil }
    throw failure
  }

  private func failure(_ call: String, _ name: String) -> Failure {
    Failure(call: call, path: path + "/" + name, code: errno)
  }
}

// MARK: Paths

extension Directory {
  /// The path stays valid when the process changes its working directory.
  static func absolute(_ path: String) throws(Failure) -> String {
    guard let first = path.utf8.first else { throw Failure(call: "open", path: path, code: ENOENT) }
    if first == UInt8(ascii: "/") { return path }
    // SAFETY: the call returns a string that ends with zero and that it has allocated, which is copied and freed.
    guard let current = unsafe getcwd(nil, 0) else { throw Failure(call: "getcwd", path: path, code: errno) }
    defer { unsafe free(current) }
    return unsafe String(cString: current) + "/" + path
  }

  static func make(path: String) throws(Failure) {
    if unsafe mkdir(path, 0o755) != 0 {
      // Its maker may have died before the name was durable. A process that may not open the parent is not the maker.
      if errno == EEXIST {
        try? Directory(parent(of: path) ?? root(of: path)).sync()
        return
      }
      guard errno == ENOENT, let parent = parent(of: path) else {
        throw Failure(call: "mkdir", path: path, code: errno)
      }
      try make(path: parent)
      if unsafe mkdir(path, 0o755) != 0 {
        if errno == EEXIST { return }
        throw Failure(call: "mkdir", path: path, code: errno)
      }
    }
    try Directory(parent(of: path) ?? root(of: path)).sync()
  }

  private static func root(of path: String) -> String { path.first == "/" ? "/" : "." }

  private static func parent(of path: String) -> String? {
    var path = Substring(path)
    while path.last == "/" { path.removeLast() }
    guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return nil }
    return String(path[..<slash])
  }
}
