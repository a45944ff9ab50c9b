import Foundation
import Synchronization

/// The tool's output: standard output and error, or memory, for tests.
public final class Console: Sendable {
  @TaskLocal static var current = Console()

  private struct Lines {
    var printed: [String] = []
    var reported: [String] = []
    var passwords = Passwords(in: [])
  }

  private let isKept: Bool
  private let lines = Mutex(Lines())

  /// - Parameter isKept: Whether lines are kept in memory instead of being written.
  public init(isKept: Bool = false) { self.isKept = isKept }

  public var printed: [String] { lines.withLock { $0.printed } }
  public var reported: [String] { lines.withLock { $0.reported } }

  /// Prepares the process for outputs that cannot be written to. A closed output is replaced by one that refuses every
  /// write, so that no file or connection gets its number. A pipe that nobody reads causes an error, and no signal.
  public static func prepare() {
    signal(SIGPIPE, SIG_IGN)
    for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 {
      // This descriptor is the lowest free number.
      _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
    }
  }

  /// - Throws: `Failure` with the exit code 6 if the line cannot be written to standard output.
  func print(_ line: String, terminator: String = "\n") throws(Failure) {
    if isKept { return lines.withLock { $0.printed.append(line) } }
    if let code = Self.write(line + terminator, to: 1) {
      throw Failure.unwritten("Standard output cannot be written to: \(String(cString: strerror(code))).")
    }
  }

  /// Hides the passwords in these arguments in all later reports.
  func hide(passwordsIn arguments: [String]) {
    lines.withLock { $0.passwords = Passwords(in: arguments) }
  }

  /// If standard error cannot be written to, the text is lost: there is no other output.
  func report(_ text: String) {
    let text = visible(lines.withLock { $0.passwords }.hidden(in: text), leaving: ["\n"])
    if isKept { return lines.withLock { $0.reported.append(text) } }
    _ = Self.write(text + "\n", to: 2)
  }

  /// Whether progress is shown: standard error is a terminal.
  var showsProgress: Bool { !isKept && isatty(2) == 1 }

  /// Replaces the progress that was shown before.
  func progress(_ text: String) { _ = Self.write("\r\u{1B}[K\(visible(text))", to: 2) }

  /// Returns the number of the error if the text is not written in full.
  private static func write(_ text: String, to descriptor: Int32) -> Int32? {
    let bytes = Array(text.utf8)
    var done = 0
    while done < bytes.count {
      let count = bytes[done...].withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        done += count
      } else if count < 0, errno == EAGAIN {
        var descriptors = [pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)]
        _ = poll(&descriptors, 1, -1)
      } else if count == 0 || errno != EINTR {
        return count == 0 ? EIO : errno
      }
    }
    return nil
  }
}

/// A text in which control characters and invisible characters are escaped: `\n`, `\u{202E}`.
func visible(_ text: String, leaving left: Set<Unicode.Scalar> = []) -> String {
  var result = String.UnicodeScalarView()
  for scalar in text.unicodeScalars {
    if left.contains(scalar) || !scalar.isHidden {
      result.append(scalar)
    } else {
      result.append(contentsOf: scalar.writtenOut.unicodeScalars)
    }
  }
  return String(result)
}

/// A text as one column of a line, with its backslashes doubled, so that the text can be recovered.
func column(_ text: String) -> String { visible(text.replacing("\\", with: "\\\\")) }

extension Unicode.Scalar {
  var isHidden: Bool {
    if self == " " { return false }
    if properties.isDefaultIgnorableCodePoint { return true }
    switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator: return true
    default: return false
    }
  }

  fileprivate var writtenOut: String {
    switch self {
    case "\n": "\\n"
    case "\r": "\\r"
    case "\t": "\\t"
    case "\u{1B}": "\\e"
    default: "\\u{\(String(value, radix: 16, uppercase: true))}"
    }
  }
}
