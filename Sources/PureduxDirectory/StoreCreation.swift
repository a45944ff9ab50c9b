import Puredux
import Synchronization

/// The creation of a store by a directory. Detects cycles of creations that wait for each other, across directories.
final class StoreCreation: Sendable {
  /// The task may outlive the creation.
  @TaskLocal private static var ofCurrentTask: StoreCreation?
  /// Once per wait. One table, because cycles may cross directories. Only makers that request stores lock it.
  private static let waits = LockedValue<[ObjectIdentifier: [StoreCreation]]>([:])

  let key: any Hashable & Sendable
  /// Written under the lock.
  private let isOver = Atomic(false)

  init(of key: any Hashable & Sendable) { self.key = key }

  /// Nil once it has ended.
  static var current: StoreCreation? { ofCurrentTask.flatMap { $0.hasEnded ? nil : $0 } }

  private var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  func run<Root>(_ make: () async throws -> Root) async throws -> Root {
    defer {
      let gone = Self.waits.withLock { waits in
        isOver.store(true, ordering: .relaxed)
        return waits.removeValue(forKey: ObjectIdentifier(self))
      }
      withExtendedLifetime(gone) {}
    }
    return try await Self.$ofCurrentTask.withValue(self) { try await make() }
  }

  /// Does nothing if that would close a cycle.
  ///
  /// - Returns: The creations of the cycle, if any: this one first, each waiting for the next, the last for this one.
  func wait(for other: StoreCreation) -> [StoreCreation]? {
    Self.waits.withLock { waits in
      if hasEnded { return nil }
      if let path = Self.path(from: other, to: self, in: waits) { return [self] + path.dropLast() }
      waits[ObjectIdentifier(self), default: []].append(other)
      return nil
    }
  }

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

/// Thrown to a maker of a `StoreDirectory` that requests a store which cannot be made before the maker's own. This
/// covers requests by the maker's task and by tasks that it made, except detached ones.
///
/// A maker that does not catch the error fails with it. So do the makers that wait for its store, and all callers that
/// requested one of these stores. A later request tries again.
public struct StoreDirectoryCycle: Error, CustomStringConvertible {
  /// The keys of the stores, of one or several directories, beginning with that of the maker that gets this error. Each
  /// store is needed to make the one before it, and the first to make the last.
  public let keys: [any Hashable & Sendable]

  public var description: String {
    "Stores that are needed to make each other: \(keys.map { "\($0)" }.joined(separator: ", "))."
  }
}
