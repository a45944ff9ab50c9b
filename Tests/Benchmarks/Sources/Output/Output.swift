// `stdout` is a variable of the C library.
@preconcurrency import Foundation

public enum Output {
  /// Makes the process end with exit code 2 if standard output does not take all that is printed, because it is full,
  /// closed, or a pipe without a reader.
  public static func prepare() {
    // Writing to a pipe without a reader is then an error instead of a signal.
    signal(SIGPIPE) { _ in }
    // Closed descriptors are replaced by ones that refuse every access, so that no opened file gets their numbers.
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
