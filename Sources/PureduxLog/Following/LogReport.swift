public import Puredux

/// What a store that follows a log reports to its operator: passed to `LogOptions.reporting`, or printed on standard
/// error if that is not set.
public enum LogReport: Sendable, Hashable, CustomStringConvertible {
  /// The store stops following its log, for what the log says: `LogStop.unreadable`. Not reported where the log was
  /// truncated before the store had read it: such a replica is to be opened anew, and that is all. Its text begins with
  /// the key of the log, if it has one.
  case stopped(LogError)
  /// The store stops, or is not opened, for what the reason says alone: `.newerSchema`, `.newerRules` or `.removed`.
  case stoppedAs(key: String?, LogStop)
  /// The store stops, or is not opened, as an entry, or the snapshot, at a position cannot be decoded
  /// (`LogStop.undecodable`): with the key of the log, if it has one, and what the decoder says.
  case undecodable(key: String?, position: UInt64, isSnapshot: Bool, String)
  /// The store stops, as it has not come to what the writer of an entry had come to at a position (`LogStop.diverged`):
  /// to another state, with both fingerprints; or, without them, to another order, which is an error of the log.
  case diverged(key: String?, position: UInt64, entry: UInt64, states: Fingerprints?)
  /// The store stops, or is not opened, as an entry has older rules than the program knows (`LogStop.olderRules`).
  case olderRules(key: String?, position: UInt64, rules: UInt32)
  /// The store stops, or is not opened, at an entry of which two processes have died (`LogStop.poisoned`).
  case poisoned(key: String?, position: UInt64)
  /// Somebody else writes under this store's number: it stops (`LogStop.cloned`).
  case cloned(key: String?, position: UInt64)
  /// It was decided at a position that an entry is skipped which this store has applied: it stops (`LogStop.diverged`).
  case skippedElsewhere(key: String?, position: UInt64, by: UInt64)
  /// The store has taken back the decision to skip the entry at a position: the snapshot has the entry, and the log was
  /// truncated, so no program could carry the decision out. The store goes on.
  case takenBack(key: String?, position: UInt64, decision: UInt64, snapshot: UInt64)
  /// Its snapshots cannot be saved, and so the log grows: reported once until one is saved again. A failure that passes
  /// by itself (`.unavailable`, `.full`) is only counted (`LogStatistics.failedSnapshots`). Its text begins with the
  /// key of the log, if it has one.
  case snapshotsFail(LogError)
  /// Its summary (`FollowingOptions.summary`) cannot be written, so that lists of trees show an older one, or none:
  /// reported once until one is written again. A failure that passes by itself (`.unavailable`, `.full`) is not
  /// reported: it is tried again.
  case summariesFail(key: String?, LogError)
  /// No `FollowingOptions.fingerprint` was chosen, so nothing detects a state that is not the acknowledged one.
  /// Reported when a store is opened, once for each process and type of state.
  case fingerprintMissing(key: String?, state: String, isEncodable: Bool)
  /// The state threw while it was encoded for its fingerprint (`StateFingerprint.encoded`), and is not compared.
  /// Reported once for each store, with the error's text.
  case fingerprintFails(key: String?, String)

  /// Two hashes of what should be one state.
  public struct Fingerprints: Sendable, Hashable {
    /// The hash of this replica's state.
    public var here: UInt64
    /// The one that the writer of the entry had come to.
    public var there: UInt64
  }

  public var description: String {
    switch self {
    case .stopped(let error): "A store stops following its log: \(error.text)"
    case .stoppedAs(let key, .newerSchema(let position)):
      "A newer version of the program, or of this library, has written the entry, or the snapshot, of \(Self.name(key)) "
        + "at position \(position). The store stops there, or is not opened: nothing behind it is applied, saved or "
        + "truncated. Bring that version here."
    case .stoppedAs(let key, .newerRules(let position)):
      "The entry, or the snapshot, of \(Self.name(key)) at position \(position) has newer rules than this program knows "
        + "(`LogOptions.newestRules`), or the log was sealed there for such. The store stops there, or is not opened: "
        + "nothing behind it is applied or truncated. Bring the version that knows them."
    case .stoppedAs(let key, .removed):
      "\(Self.name(key, begins: true)) was removed, and its store stops. Opened anew, it begins with nothing."
    case .stoppedAs(let key, let reason): "A store of \(Self.name(key)) stops: \(reason)."
    case .undecodable(let key, let position, true, let text):
      "The snapshot of \(Self.name(key)) at position \(position) cannot be decoded: \(text). The store is not opened, and "
        + "nothing is changed. Decode it: give new members of the state a default in `init(from:)`, or raise `schema` and "
        + "bring `upcasting`. Where the log still has all its entries, `LogOptions.ignoresSnapshots` replays them."
    case .undecodable(let key, let position, false, let text):
      "The entry of \(Self.name(key)) at position \(position) cannot be decoded: \(text). The store stops there: nothing "
        + "behind it is applied, saved or truncated. Decode it: give new members of the action a default in "
        + "`init(from:)`, or raise `schema` and bring `upcasting`. Or decide that it is skipped, for all replicas: "
        + "`skip(position: \(position), reason:)` of the log."
    case .diverged(let key, let position, let entry, let states?):
      "A store of \(Self.name(key)) has come to another state at position \(position), or before, than who wrote the entry "
        + "at \(entry): fingerprint \(states.here) here, \(states.there) there. It stops. Its reducer or middleware is not a "
        + "function of state and action, or has changed since: bring back the one that was, or reduce the past by the "
        + "rules that it had (`LogOptions.rules`). Raise `LogOptions.fingerprintVersion` only if the state encodes other members "
        + "than before (`.encoded`), or if acknowledged actions are to lead to another state."
    case .diverged(let key, let position, let entry, nil):
      "A store of \(Self.name(key)) has not the entries, up to position \(position), that who wrote the entry at \(entry) "
        + "had. It stops: the log has lost entries, or has changed their order. Restore them. Or, where an older backup "
        + "was restored beneath a store that was ahead of it, decide that what that store wrote is skipped: "
        + "`skip(position: \(entry), reason:)` of the log."
    case .olderRules(let key, let position, let rules):
      "The entry of \(Self.name(key)) at position \(position) was written under rules \(rules), which this program does "
        + "not know (`LogOptions.oldestRules`). It stops: nothing is reduced by other rules than it was acknowledged by. "
        + "Start the version before once more. If the log is sealed already, that saves a snapshot of the past, which this "
        + "program begins with, and stops; if not, let it seal the log (`sealLog(forRules:reason:)`). Where there is a "
        + "snapshot from behind the seal, open it without `LogOptions.ignoresSnapshots`."
    case .poisoned(let key, let position):
      "Two processes have died while they replayed the entry of \(Self.name(key)) at position \(position). The store stops "
        + "there, instead of dying once more: nothing behind it is applied, saved or truncated. Bring a version of the "
        + "program that can apply it; or decide that it is skipped, for all replicas: "
        + "`skip(position: \(position), reason:)` of the log."
    case .cloned(let key, let position):
      "The entry of \(Self.name(key)) at position \(position) is under the number of this store as a writer, and none of "
        + "its own: this process, or another one, is a clone, as of a machine that was copied while it ran. The store "
        + "stops, and what it had given the log may be there or not. Open it anew: it takes another number."
    case .skippedElsewhere(let key, let position, let decision):
      "It was decided at position \(decision) of \(Self.name(key)) that the entry at \(position) is skipped, which this "
        + "store has applied. It stops. Open it anew; with `LogOptions.ignoresSnapshots`, where a snapshot has it, by a "
        + "program that knows the rules of the whole log. Or take the decision back: `skip(position: \(decision), "
        + "reason:)` of the log."
    case .takenBack(let key, let position, let decision, let snapshot):
      "The decision at position \(decision) of \(Self.name(key)), that the entry at position \(position) is skipped, is "
        + "taken back: the snapshot at position \(snapshot) has the entry, and the log was truncated, so that no program "
        + "can replay it without. The store goes on with the entry. Write an action that takes back its effect."
    case .snapshotsFail(let error):
      "The snapshots of a store that follows a log fail, and its log grows: \(error.text)"
    case .summariesFail(let key, let error):
      "The summary of \(Self.name(key)) cannot be written, so that lists show an older one, or none: \(error.text)"
    case .fingerprintMissing(let key, let state, let isEncodable):
      "The store of \(Self.name(key)), with states of type \(state), has no fingerprint. If its reducer or middleware "
        + "changes, the next start may turn acknowledged actions into another state, and nothing reports it. Write "
        + "`options: FollowingOptions(fingerprint: \(isEncodable ? ".encoded" : ".hashed { … }"))`, or `.unchecked` if "
        + "that is intended."
    case .fingerprintFails(let key, let text):
      "The state of \(Self.name(key)) cannot be encoded for its fingerprint, and is not compared: \(text)"
    }
  }

  private static func name(_ key: String?, begins: Bool = false) -> String {
    key.map { (begins ? "The" : "the") + " log \"\($0)\"" } ?? (begins ? "A log" : "a log")
  }
}

extension LogError {
  /// The error with the key of the log in its text, for readers of several logs' errors.
  func of(_ key: String?) -> LogError {
    guard let key else { return self }
    let text = "The log \"\(key)\": \(text)"
    return switch self {
    case .unavailable: .unavailable(text)
    case .full: .full(text)
    case .inUse: .inUse(text)
    case .refused: .refused(text)
    case .damaged(let position, _): .damaged(position: position, text)
    case .truncated, .removed: self
    }
  }
}
