import Puredux

/// How a store detects that its state differs from the state that another replica, or an earlier version of the
/// program, had at the same position. Such a store stops (`LogStop.diverged`), instead of turning acknowledged actions
/// into another state.
///
///     options: FollowingOptions(fingerprint: .encoded)
///
/// States are compared if both were hashed by the same function (`LogOptions.fingerprintVersion`), as far back as the
/// last 256 entries, and not between an entry and the decision that it is skipped.
///
/// Without a choice a store compares no states, and reports that once for each process and type of state
/// (`LogReport.fingerprintMissing`).
public struct StateFingerprint<State: Sendable>: Sendable {
  /// Nil if nothing is compared.
  let hash: (@Sendable (State) throws -> StateHash)?
  private let isEncoded: Bool

  private init(isEncoded: Bool = false, _ hash: (@Sendable (State) throws -> StateHash)?) {
    self.hash = hash
    self.isEncoded = isEncoded
  }

  /// A hash that the program computes. The closure is called when the store is opened and after each entry with
  /// actions, on the tree's executor. The hash has to be the same in every process, which that of `Hashable` is not. A
  /// hash that the reducer keeps up to date costs nothing to read, and covers every entry.
  public static func hashed(_ hash: @escaping @Sendable (_ state: State) -> UInt64) -> StateFingerprint {
    StateFingerprint { StateHash(value: hash($0), size: 0) }
  }

  /// Only the order of the actions is compared, and no states: a changed reducer changes the past silently.
  public static var unchecked: StateFingerprint { StateFingerprint(nil) }

  /// The number of the function, as entries carry it. `.encoded` and `.hashed` have separate ranges of numbers.
  func version(_ number: UInt32) -> UInt32 {
    let encoded: UInt32 = 1 << 31
    return isEncoded ? number | encoded : number & ~encoded
  }
}

extension StateFingerprint where State: Encodable {
  /// A hash of the encoded state. It is the same in every process, and does not depend on the order of a `Set` or a
  /// `Dictionary`.
  ///
  /// **Cost.** About a tenth of a microsecond for each encoded value: a fifth of the time of `JSONEncoder`. The store
  /// hashes at sampled places, so that the average is at most about three microseconds for each action.
  ///
  /// - A state of up to 32 values is hashed after every entry.
  /// - A larger one of n values is hashed with every n/32nd action of the tree, rounded up to a power of two, and with
  ///   the first, second, fourth, eighth action and so on.
  /// - Every state is hashed when a store is opened, and when it is shut down.
  ///
  /// **Comparison.** Another store compares the hash that an entry carries: the next entry of a replica that has
  /// hashed the state, or an entry without actions that a store adds when it is shut down. So two things slip through:
  /// a difference that is gone by the next sample, and the states behind the last entry of a process that dies.
  ///
  /// **Equality.** A member that is nil, `false`, zero or empty counts as one that is not there. So a type may get
  /// such a member, and older states keep their hashes. Any other change of the encoded members needs a higher
  /// `LogOptions.fingerprintVersion`. Both zeros of a floating-point number are equal, and so are all values that are
  /// not a number. An unordered collection other than `Set` and `Dictionary` has to encode its elements in order.
  ///
  /// A state that throws while it is encoded has no hash. That is reported once for each store
  /// (`LogReport.fingerprintFails`).
  public static var encoded: StateFingerprint { StateFingerprint(isEncoded: true) { try StateHash(encoding: $0) } }
}

/// The types of states whose missing fingerprint has been reported by this process.
private let reportedTypes = LockedValue<Set<ObjectIdentifier>>([])

extension FollowingOptions {
  /// Reports, once for each type of state, that no fingerprint has been chosen.
  func reportMissingFingerprint(of log: any OrderedLog) {
    guard fingerprint == nil, reportedTypes.withLock({ $0.insert(ObjectIdentifier(State.self)).inserted }) else {
      return
    }
    self.log.reporting(
      .fingerprintMissing(key: log.name, state: "\(State.self)", isEncodable: State.self is any Encodable.Type))
  }
}
