import Foundation
import Synchronization

/// Where the tool writes: standard output and error, or what a test reads.
public final class Console: Sendable {
  @TaskLocal static var current = Console()

  private struct Lines {
    var printed: [String] = []
    var reported: [String] = []
    var passwords = Passwords(in: [])
  }

  private let isKept: Bool
  private let lines = Mutex(Lines())

  /// - Parameter isKept: Whether what is written is kept, and not written.
  public init(isKept: Bool = false) { self.isKept = isKept }

  public var printed: [String] { lines.withLock { $0.printed } }
  public var reported: [String] { lines.withLock { $0.reported } }

  func print(_ line: String) {
    if isKept { return lines.withLock { $0.printed.append(line) } }
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
  }

  /// What is reported from now on has none of the passwords in these arguments.
  func hide(passwordsIn arguments: [String]) {
    lines.withLock { $0.passwords = Passwords(in: arguments) }
  }

  func report(_ line: String) {
    let line = lines.withLock { $0.passwords }.hidden(in: line)
    if isKept { return lines.withLock { $0.reported.append(line) } }
    FileHandle.standardError.write(Data((line + "\n").utf8))
  }

  /// Whether somebody looks who wants to know how far something is.
  var showsProgress: Bool { !isKept && isatty(2) == 1 }

  /// In place of what it said before.
  func progress(_ text: String) { FileHandle.standardError.write(Data("\r\u{1B}[K\(text)".utf8)) }
}
