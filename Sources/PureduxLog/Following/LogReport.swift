public import Puredux

/// A report to the operator of a store that follows a log (`LogOptions.reporting`); printed to standard error by
/// default.
public enum LogReport: Sendable, Hashable, CustomStringConvertible {
  /// The store stops because its log is damaged, moved or incomplete (`LogStop.unreadable`). The text begins with the
  /// log's key, if any. A truncation past a lagging replica, which only has to be reopened, is not reported.
  case stopped(LogError)
  /// The store stops, or is not opened, without further details: `.newerSchema`, `.newerRules` or `.removed`.
  case stoppedAs(key: String?, LogStop)
  /// The store stops, or is not opened, because an entry or a snapshot cannot be decoded (`LogStop.undecodable`), with
  /// the decoder's error.
  case undecodable(key: String?, position: UInt64, isSnapshot: Bool, String)
  /// The store stops because its state at a position differs from that of an entry's writer (`LogStop.diverged`).
  /// Without fingerprints, the order of the actions differs, which is an error of the log.
  case diverged(key: String?, position: UInt64, entry: UInt64, states: Fingerprints?)
  /// The store stops, or is not opened, at an entry with older rules than the program knows (`LogStop.olderRules`).
  case olderRules(key: String?, position: UInt64, rules: UInt32)
  /// The store stops, or is not opened, at an entry that two processes died of (`LogStop.poisoned`).
  case poisoned(key: String?, position: UInt64)
  /// The store stops because a clone of the process writes under its number (`LogStop.cloned`).
  case cloned(key: String?, position: UInt64)
  /// The store stops because it has applied an entry that a later decision skips (`LogStop.diverged`).
  case skippedElsewhere(key: String?, position: UInt64, by: UInt64)
  /// The store takes back a decision to skip an entry, which no program could carry out: the snapshot has the entry,
  /// and the log was truncated. It continues.
  case takenBack(key: String?, position: UInt64, decision: UInt64, snapshot: UInt64)
  /// The store's snapshots cannot be saved, so the log grows. Reported once until one is saved. Transient failures
  /// (`.unavailable`, `.full`) are only counted (`LogStatistics.failedSnapshots`). The text begins with the log's key,
  /// if any.
  case snapshotsFail(LogError)
  /// The store's summary (`FollowingOptions.summary`) cannot be written: lists of trees show an older one, or none.
  /// Reported once until one is written. Transient failures (`.unavailable`, `.full`) are only retried.
  case summariesFail(key: String?, LogError)
  /// No `FollowingOptions.fingerprint` was chosen: a state that differs from the acknowledged one goes unnoticed.
  /// Reported once per process and type of state, at a store's opening.
  case fingerprintMissing(key: String?, state: String, isEncodable: Bool)
  /// The state threw while it was encoded for its fingerprint (`StateFingerprint.encoded`), and is not compared.
  /// Reported once for each store, with the error's text.
  case fingerprintFails(key: String?, String)

  /// Two hashes of states that should be equal.
  public struct Fingerprints: Sendable, Hashable {
    /// The hash of this replica's state.
    public var here: UInt64
    /// The hash of the writer's state.
    public var there: UInt64
  }

  public var description: String {
    switch self {
    case .stopped(let error): "A store stops following its log: \(error.text)"
    case .stoppedAs(let key, .newerSchema(let position)):
      "The entry, or the snapshot, of \(Self.name(key)) at position \(position) was written by a newer version of the "
        + "program, or of this library. \(Self.stop) Bring that version here."
    case .stoppedAs(let key, .newerRules(let position)):
      "The entry, or the snapshot, of \(Self.name(key)) at position \(position) has newer rules than this program knows "
        + "(`LogOptions.newestRules`), or the log was sealed there for newer rules. \(Self.stop) Bring the version that "
        + "knows them."
    case .stoppedAs(let key, .removed):
      "\(Self.name(key, begins: true)) was removed, and its store stops. A store that is opened afterwards begins with "
        + "an empty log."
    case .stoppedAs(let key, let reason): "A store of \(Self.name(key)) stops: \(reason)."
    case .undecodable(let key, let position, true, let text):
      "The snapshot of \(Self.name(key)) at position \(position) cannot be decoded: \(text). The store is not opened, and "
        + "nothing is changed. Decode it: give new members of the state a default in `init(from:)`, or raise `schema` and "
        + "provide `upcasting`. If the log still has all its entries, `LogOptions.ignoresSnapshots` replays them."
    case .undecodable(let key, let position, false, let text):
      "The entry of \(Self.name(key)) at position \(position) cannot be decoded: \(text). \(Self.stop) Decode it: give new "
        + "members of the action a default in `init(from:)`, or raise `schema` and provide `upcasting`. Or decide that it "
        + "is skipped, for all replicas: `skip(position: \(position), reason:)` of the log."
    case .diverged(let key, let position, let entry, let states?):
      "At position \(position) of \(Self.name(key)), or before, the state of this store differs from the state of the "
        + "writer of the entry at position \(entry): fingerprint \(states.here) here, \(states.there) there. The store "
        + "stops. Either its reducer or middleware is not a function of state and action, or it has changed. If it has "
        + "changed, bring back the earlier one, or keep the old rules for the old entries (`LogOptions.rules`). Raise "
        + "`LogOptions.fingerprintVersion` only if the state encodes other members than before (`.encoded`), or if "
        + "acknowledged actions are to lead to another state."
    case .diverged(let key, let position, let entry, nil):
      "A store of \(Self.name(key)) lacks entries up to position \(position) that the writer of the entry at position "
        + "\(entry) had applied, or has them in another order. The store stops: the log has lost entries, or has changed "
        + "their order. Restore them. Or, if an older backup was restored while that writer was ahead of it, decide that "
        + "the writer's entry is skipped: `skip(position: \(entry), reason:)` of the log."
    case .olderRules(let key, let position, let rules):
      "The entry of \(Self.name(key)) at position \(position) was written under rules \(rules), which this program does "
        + "not know (`LogOptions.oldestRules`). The store stops: an entry is reduced by the rules of its writer, or not at "
        + "all. Start the version before once more. If the log is sealed already, that version saves a snapshot, with "
        + "which this program begins, and stops. If not, let it seal the log (`sealLog(forRules:reason:)`). If there is a "
        + "snapshot from behind the seal, open the log without `LogOptions.ignoresSnapshots`."
    case .poisoned(let key, let position):
      "Two processes have died while they replayed the entry of \(Self.name(key)) at position \(position). \(Self.stop) So "
        + "no further process dies. Bring a version of the program that can apply the entry. Or decide that it is "
        + "skipped, for all replicas: `skip(position: \(position), reason:)` of the log."
    case .cloned(let key, let position):
      "The entry of \(Self.name(key)) at position \(position) carries this store's number as a writer, but this store has "
        + "not written it there. This process, or another one, is a clone, for instance of a machine that was copied while "
        + "it ran. Or the log has repeated this store's first entry, after those of many other stores: then its actions are "
        + "committed twice. The store stops. Its actions that were on their way may be in the log or not. Reopen it: it takes "
        + "another number."
    case .skippedElsewhere(let key, let position, let decision):
      "The decision at position \(decision) of \(Self.name(key)) skips the entry at position \(position), but this store has "
        + "applied that entry. The store stops. Reopen it. If a snapshot has the entry, open it with "
        + "`LogOptions.ignoresSnapshots`, by a program that knows the rules of the whole log. Or take the decision back: "
        + "`skip(position: \(decision), reason:)` of the log."
    case .takenBack(let key, let position, let decision, let snapshot):
      "The decision at position \(decision) of \(Self.name(key)), to skip the entry at position \(position), is taken back: "
        + "the snapshot at position \(snapshot) has the entry, and the log was truncated, so no program can replay it "
        + "without the entry. The store goes on with the entry. Send an action that takes back its effect."
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

  private static let stop =
    "The store stops there, or is not opened. The entries from there on are neither applied nor truncated."

  private static func name(_ key: String?, begins: Bool = false) -> String {
    key.map { (begins ? "The" : "the") + " log \"\($0)\"" } ?? (begins ? "A log" : "a log")
  }
}

extension LogError {
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
