// `stdout` is a variable of the C library.
@preconcurrency import Foundation

public enum Output {
  /// Has the process end with exit code 2 if standard output does not take everything that is printed: it is full,
  /// closed, or a pipe without a reader.
  public static func prepare() {
    // A pipe without a reader is an error and no signal.
    signal(SIGPIPE) { _ in }
    // A closed output is replaced by one that refuses every write, so that no file gets its number.
    for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 {
      _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
    }
    atexit {
      if fflush(stdout) == 0, ferror(stdout) == 0 { return }
      try? FileHandle.standardError.write(contentsOf: Data("Standard output takes nothing.\n".utf8))
      _exit(2)
    }
  }
}
