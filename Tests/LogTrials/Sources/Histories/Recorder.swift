import Dispatch
import Foundation
import Synchronization

/// Writes what happens in a process to a file of its own, each event as it happens and as one write: what `kill -9` can
/// take is the last line.
///
/// An invocation is recorded before the call is made, a response after it has returned, and what a replica applies
/// before anybody can be told of it. So a time that is recorded never makes two calls seem apart that were not.
public final class Recorder: Sendable {
  fileprivate struct State {
    let file: FileHandle
    var calls = 0
  }

  private let state: Mutex<State>

  /// Begins a file, in place of one that is there, and not through a symbolic link.
  ///
  /// - Parameters:
  ///   - path: Of the file.
  ///   - process: What the process is called in verdicts.
  ///   - clock: What the clock of `now` is called: by default, that of this machine since it was started.
  public init(path: String, process: String, clock: String = Recorder.clock) throws {
    // SAFETY: the call reads the path, a string that ends with zero and lives until the call returns.
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: path]) }
    state = Mutex(State(file: FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)))
    state.withLock { $0.write(.process(name: process, clock: clock)) }
  }

  /// Records that a writer is about to give an action to the log, and returns the call's number.
  public func invoke(_ action: String, by writer: String) -> Int {
    state.withLock { state in
      state.calls += 1
      state.write(.invocation(call: state.calls, writer: writer, action: action, at: Self.now))
      return state.calls
    }
  }

  /// Records that a writer is about to read, and returns the call's number.
  public func read(by writer: String, claiming claim: Claim) -> Int {
    state.withLock { state in
      state.calls += 1
      state.write(.read(call: state.calls, writer: writer, claim: claim, at: Self.now))
      return state.calls
    }
  }

  /// Records that a call has returned.
  ///
  /// - Parameters:
  ///   - call: The number of the call.
  ///   - outcome: What its caller was told.
  ///   - position: That of the action, or of the state that was read; none where that was not told.
  ///   - hash: That of the state at that position.
  public func response(_ call: Int, _ outcome: Outcome, position: Int? = nil, hash: UInt64? = nil) {
    let at = Self.now
    state.withLock { $0.write(.response(call: call, outcome: outcome, position: position, hash: hash, at: at)) }
  }

  /// Records that a replica begins with the state of a position.
  public func begin(_ replica: String, after position: Int, hash: UInt64) {
    state.withLock { $0.write(.incarnation(replica: replica, after: position, hash: hash, at: Self.now)) }
  }

  /// Records what a replica has applied at a position, and the hash of the state that it has then.
  public func apply(_ actions: [String], at position: Int, on replica: String, hash: UInt64) {
    state.withLock { $0.write(.applied(replica: replica, position: position, actions: actions, hash: hash)) }
  }

  /// Nanoseconds of a clock that all processes of this machine share, and that is never set.
  public static var now: Int { Int(DispatchTime.now().uptimeNanoseconds) }

  /// What that clock is called: the machine's present start, or its name where that is not told.
  public static let clock: String =
    (try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8))?
    .trimmingCharacters(in: .whitespacesAndNewlines) ?? ProcessInfo.processInfo.hostName
}

extension Recorder.State {
  /// What cannot be recorded cannot be judged: the process ends.
  fileprivate func write(_ event: Event) {
    do {
      try file.write(contentsOf: event.line)
    } catch {
      fatalError("The history cannot be written: \(error)")
    }
  }
}
