import Puredux

/// How a store detects that its state differs from that of another replica, or of an earlier program, at the same
/// position. Such a store stops (`LogStop.diverged`) rather than turn acknowledged actions into another state.
///
/// States are compared if one function hashed both (`LogOptions.fingerprintVersion`), within the last 256 entries, and
/// not between an entry and the decision that skips it. Without a fingerprint no states are compared, which is reported
/// once per process and type of state (`LogReport.fingerprintMissing`).
public struct StateFingerprint<State: Sendable>: Sendable {
  /// Nil if states are not compared.
  let hash: (@Sendable (State) throws -> StateHash)?
  private let isEncoded: Bool

  private init(isEncoded: Bool = false, _ hash: (@Sendable (State) throws -> StateHash)?) {
    self.hash = hash
    self.isEncoded = isEncoded
  }

  /// Compares a hash that the program computes, on the tree's executor, at the store's opening and after each entry
  /// with actions. The hash must be the same in every process, unlike that of `Hashable`. A hash that the reducer
  /// maintains costs nothing to read, and covers every entry.
  public static func hashed(_ hash: @escaping @Sendable (_ state: State) -> UInt64) -> StateFingerprint {
    StateFingerprint { StateHash(value: hash($0), size: 0) }
  }

  /// Compares only the order of actions, and no states: a changed reducer silently changes the past.
  public static var unchecked: StateFingerprint { StateFingerprint(nil) }

  /// Recorded in entries. `.encoded` and `.hashed` have separate ranges.
  func version(_ number: UInt32) -> UInt32 {
    let encoded: UInt32 = 1 << 31
    return isEncoded ? number | encoded : number & ~encoded
  }
}

extension StateFingerprint where State: Encodable {
  /// Compares a hash of the encoded state, the same in every process, and independent of the order of a `Set` or a
  /// `Dictionary`.
  ///
  /// **Cost.** About 0.1 microseconds for each encoded value, a fifth of the time of `JSONEncoder`. Samples keep the
  /// average at or below about three microseconds for each action:
  ///
  /// - A state of up to 32 values is hashed after every entry.
  /// - A larger one of n values is hashed with every n/32nd action of the tree, rounded up to a power of two. It is
  ///   also hashed with the first, second, fourth, eighth action and so on.
  /// - Every state is hashed at a store's opening and shutdown.
  ///
  /// **Comparison.** Other stores compare the hash in the replica's next entry, or in one without actions that a store
  /// adds at its shutdown. Two cases go unnoticed: a difference that is gone by the next sample, and the states after
  /// the last entry of a process that dies.
  ///
  /// **Equality.** A member that is nil, `false`, zero or empty counts as absent: a type may get such a member, and
  /// older states keep their hashes. Any other change of the encoded members needs a higher
  /// `LogOptions.fingerprintVersion`. Floating-point zeros are equal, and so are NaN values. An unordered collection
  /// other than `Set` and `Dictionary` must encode its elements in order.
  ///
  /// A state that throws while it is encoded has no hash: reported once for each store (`LogReport.fingerprintFails`).
  public static var encoded: StateFingerprint { StateFingerprint(isEncoded: true) { try StateHash(encoding: $0) } }
}

private let reportedTypes = LockedValue<Set<ObjectIdentifier>>([])

extension FollowingOptions {
  func reportMissingFingerprint(of log: any OrderedLog) {
    guard fingerprint == nil, reportedTypes.withLock({ $0.insert(ObjectIdentifier(State.self)).inserted }) else {
      return
    }
    self.log.reporting(
      .fingerprintMissing(key: log.name, state: "\(State.self)", isEncodable: State.self is any Encodable.Type))
  }
}
