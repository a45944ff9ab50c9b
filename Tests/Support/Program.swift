#if NATS || PostgreSQL
  import Foundation
  import Puredux

  /// A child process that inherits none of the tests' open file descriptors.
  ///
  /// Foundation's `Process` learns of an exit through a socket that any program started at the same moment may inherit,
  /// and then waits for that program, too. Servers that start at once would block each other's threads.
  package final class Program: Sendable {
    private let id: pid_t
    /// The write end of the program's input pipe, if any.
    private let input: LockedValue<Int32?>
    private let status = LockedValue<Int32?>(nil)

    private struct Failure: Error {
      var command: [String]
      var number: Int32
    }

    /// Starts the program, in a directory that every user may enter.
    ///
    /// - Parameters:
    ///   - command: The program's path, and its arguments.
    ///   - input: The file to read. If nil, the program reads a pipe that ends with `end()` or with this process.
    ///   - output: The file to append the output to.
    package init(_ command: [String], input: String? = nil, output: String = "/dev/null") throws {
      #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_CLOEXEC_DEFAULT
      #else
        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK
      #endif
      // SAFETY: actions and attributes are initialized before they are used, and destroyed after the call that reads
      // them. They copy their arguments.
      unsafe posix_spawn_file_actions_init(&actions)
      unsafe posix_spawnattr_init(&attributes)
      defer {
        unsafe posix_spawn_file_actions_destroy(&actions)
        unsafe posix_spawnattr_destroy(&attributes)
      }
      // The pool's threads block all signals, and a child process inherits the mask.
      var none = sigset_t()
      unsafe sigemptyset(&none)
      unsafe posix_spawnattr_setsigmask(&attributes, &none)
      unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
      if let input { unsafe posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0) }
      unsafe posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o644)
      unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
      let variables = ProcessInfo.processInfo.environment.map { "\($0)=\($1)" }
      // SAFETY: the strings live until they are freed, after the call, and each array ends with nil.
      var arguments =
        unsafe (["/bin/sh", "-c", #"cd /tmp && exec "$0" "$@""#] + command).map { unsafe strdup($0) } + [nil]
      var environment = unsafe variables.map { unsafe strdup($0) } + [nil]
      defer { unsafe (arguments + environment).forEach { unsafe free($0) } }
      var (id, ends) = (pid_t(), [Int32](repeating: -1, count: 2))
      if input == nil {
        // SAFETY: the array has room for both ends.
        #if canImport(Darwin)
          let failure = unsafe pipe(&ends)
        #else
          // Close-on-exec from the start, unlike a pipe's ends.
          let failure = unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
        #endif
        guard failure == 0 else { throw Failure(command: command, number: errno) }
        unsafe posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
      }
      #if !canImport(Darwin)
        // A descriptor that has been closed meanwhile is ignored.
        for end in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap({ Int32($0) })
        where end > 2 {
          unsafe posix_spawn_file_actions_addclose(&actions, end)
        }
      #endif
      let failure = unsafe posix_spawn(&id, "/bin/sh", &actions, &attributes, &arguments, &environment)
      if input == nil { close(ends[0]) }
      guard failure == 0 else {
        if input == nil { close(ends[1]) }
        throw Failure(command: command, number: failure)
      }
      self.id = id
      self.input = LockedValue(input == nil ? ends[1] : nil)
    }

    /// Closes the input pipe, and waits for the exit.
    @discardableResult package func end() -> Int32 {
      if let end = input.withLock({ $0.take() }) { close(end) }
      while true {
        if let status = look(0) { return status }
      }
    }

    package var isRunning: Bool { look(WNOHANG) == nil }

    /// Stored because the system reports the status only once.
    private func look(_ options: Int32) -> Int32? {
      status.withLock { known in
        if known != nil { return known }
        var status: Int32 = 0
        // SAFETY: the pointer is to a variable that outlives the call.
        let ended = unsafe waitpid(id, &status, options)
        if ended == id { known = status }
        if ended < 0, errno != EINTR { known = -1 }
        return known
      }
    }

    package static func run(_ command: [String], input text: String = "") throws -> (said: String, succeeds: Bool) {
      let path = FileManager.default.temporaryDirectory.path + "/puredux-\(UUID().uuidString)"
      defer { for end in ["in", "out"] { try? FileManager.default.removeItem(atPath: "\(path).\(end)") } }
      try text.write(toFile: path + ".in", atomically: false, encoding: .utf8)
      let status = try Program(command, input: path + ".in", output: path + ".out").end()
      let said = FileManager.default.contents(atPath: path + ".out") ?? Data()
      return (String(decoding: said, as: UTF8.self), status == 0)
    }
  }
#endif
