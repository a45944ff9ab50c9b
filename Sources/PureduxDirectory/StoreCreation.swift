import Puredux
import Synchronization

/// The creation of a store of a directory. It may wait for other stores, of the same directory or of others, and so for
/// their creations: here it is found out if creations would wait for each other.
final class StoreCreation: Sendable {
  /// The creation that the current task is part of: a task may outlive it.
  @TaskLocal private static var ofCurrentTask: StoreCreation?
  /// By creation, the creations that it waits for, each as often as it does. One table for all directories, as makers
  /// of several may wait for each other; only makers that ask for stores lock it.
  private static let waits = LockedValue<[ObjectIdentifier: [StoreCreation]]>([:])

  let key: any Hashable & Sendable
  /// Written under the lock.
  private let isOver = Atomic(false)

  init(of key: any Hashable & Sendable) { self.key = key }

  /// The creation that the current task is part of, if it is not over.
  static var current: StoreCreation? { ofCurrentTask.flatMap { $0.hasEnded ? nil : $0 } }

  private var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  /// Makes the store, as a part of this creation.
  func run<Root>(_ make: () async throws -> Root) async throws -> Root {
    defer {
      // The removed list is released outside the lock.
      let gone = Self.waits.withLock { waits in
        isOver.store(true, ordering: .relaxed)
        return waits.removeValue(forKey: ObjectIdentifier(self))
      }
      withExtendedLifetime(gone) {}
    }
    return try await Self.$ofCurrentTask.withValue(self) { try await make() }
  }

  /// Notes that this creation waits for another one, unless the other one waits for this one, directly or through
  /// others.
  ///
  /// - Returns: The cycle of creations that would wait for each other: this one first, each for the next one, and the
  ///   last for this one. Nil if there is none.
  func wait(for other: StoreCreation) -> [StoreCreation]? {
    Self.waits.withLock { waits in
      if hasEnded { return nil }
      if let path = Self.path(from: other, to: self, in: waits) { return [self] + path.dropLast() }
      waits[ObjectIdentifier(self), default: []].append(other)
      return nil
    }
  }

  /// Takes back one call of `wait(for:)`.
  func waitNoMore(for other: StoreCreation) {
    let gone = Self.waits.withLock { waits -> StoreCreation? in
      guard let index = waits[ObjectIdentifier(self)]?.firstIndex(where: { $0 === other }) else { return nil }
      return waits[ObjectIdentifier(self)]?.remove(at: index)
    }
    withExtendedLifetime(gone) {}
  }

  private static func path(
    from start: StoreCreation, to end: StoreCreation, in waits: [ObjectIdentifier: [StoreCreation]]
  ) -> [StoreCreation]? {
    var previous: [ObjectIdentifier: StoreCreation] = [:]
    var seen: Set = [ObjectIdentifier(start)]
    var next = [start]
    while let maker = next.popLast() {
      if maker === end {
        return Array(sequence(first: maker) { previous[ObjectIdentifier($0)] }.reversed())
      }
      for other in waits[ObjectIdentifier(maker)] ?? [] where seen.insert(ObjectIdentifier(other)).inserted {
        previous[ObjectIdentifier(other)] = maker
        next.append(other)
      }
    }
    return nil
  }
}

/// Thrown to a maker of a `StoreDirectory` that asks, in its own task or in others that it has made, but not in a
/// detached one, for a store that cannot be made before the maker's own: they would wait for each other for ever.
///
/// A maker that does not catch it fails with it, and so do the other makers that wait for its store, and all callers
/// that have asked for one of these stores. A caller that asks later tries again.
public struct StoreDirectoryCycle: Error, CustomStringConvertible {
  /// The keys of the stores, of one directory or of several: the first is that of the maker that gets this error; each
  /// further store is needed to make the one before it, and the first to make the last.
  public let keys: [any Hashable & Sendable]

  public var description: String {
    "Stores that are needed to make each other: \(keys.map { "\($0)" }.joined(separator: ", "))."
  }
}
