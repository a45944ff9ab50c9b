import Dispatch
import Foundation
import Synchronization

/// Records a process' events in a file. Each event is one write at the time of the event, so that `kill -9` can tear
/// only the last line.
///
/// An invocation is recorded before its call, a response after its return, and an applied entry before anybody can
/// learn of it. The recorded times therefore never order calls that overlapped.
public final class Recorder: Sendable {
  fileprivate struct State {
    let file: FileHandle
    var calls = 0
  }

  private let state: Mutex<State>

  /// Creates a file, or replaces it, but does not follow a symbolic link.
  ///
  /// - Parameters:
  ///   - path: The file's path.
  ///   - process: The process' name in verdicts.
  ///   - clock: The name of the clock of `now`; by default that of this machine since it was started.
  public init(path: String, process: String, clock: String = Recorder.clock) throws {
    // SAFETY: the call reads the path, a zero-terminated string that lives until the call returns.
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: path]) }
    state = Mutex(State(file: FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)))
    state.withLock { $0.write(.process(name: process, clock: clock)) }
  }

  /// Records that a writer is about to give an action to the log. Returns the call's number.
  public func invoke(_ action: String, by writer: String) -> Int {
    state.withLock { state in
      state.calls += 1
      state.write(.invocation(call: state.calls, writer: writer, action: action, at: Self.now))
      return state.calls
    }
  }

  /// Records that a writer is about to read. Returns the call's number.
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
  ///   - call: The call's number.
  ///   - outcome: The outcome, as the caller was told.
  ///   - position: The position of the action or of the read state, if the caller was told.
  ///   - hash: The hash of the state at that position.
  public func response(_ call: Int, _ outcome: Outcome, position: Int? = nil, hash: UInt64? = nil) {
    let at = Self.now
    state.withLock { $0.write(.response(call: call, outcome: outcome, position: position, hash: hash, at: at)) }
  }

  /// Records that a replica begins with the state at a position.
  public func begin(_ replica: String, after position: Int, hash: UInt64) {
    state.withLock { $0.write(.incarnation(replica: replica, after: position, hash: hash, at: Self.now)) }
  }

  /// Records a replica's applied entry, and the hash of its state afterwards.
  public func apply(_ actions: [String], at position: Int, on replica: String, hash: UInt64) {
    state.withLock { $0.write(.applied(replica: replica, position: position, actions: actions, hash: hash)) }
  }

  /// The time in nanoseconds, by a clock that all processes of this machine share and that is never adjusted.
  public static var now: Int { Int(DispatchTime.now().uptimeNanoseconds) }

  /// The name of the clock: the machine's boot, or its host name if the boot has no id.
  public static let clock: String =
    (try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8))?
    .trimmingCharacters(in: .whitespacesAndNewlines) ?? ProcessInfo.processInfo.hostName
}

extension Recorder.State {
  /// Ends the process if an event cannot be recorded, as its history could not be judged.
  fileprivate func write(_ event: Event) {
    do {
      try file.write(contentsOf: event.line)
    } catch {
      fatalError("The history cannot be written: \(error)")
    }
  }
}
