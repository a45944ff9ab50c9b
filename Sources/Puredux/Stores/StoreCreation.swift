import Synchronization

/// The making of a store of a directory. It may wait for other stores of the same directory or of others, and so for
/// those who make them: here it is found out if they would wait for each other.
final class StoreCreation: Sendable {
  /// The one that the current task is part of: a task may outlive it.
  @TaskLocal private static var ofCurrentTask: StoreCreation?
  /// Whom each of those that wait for others waits for, as often as it does. One table for all directories, as makers
  /// of several may wait for each other; only makers that ask for stores lock it.
  private static let waits = LockedValue<[ObjectIdentifier: [StoreCreation]]>([:])

  let key: any Hashable & Sendable
  /// Written under the lock.
  private let isOver = Atomic(false)

  init(of key: any Hashable & Sendable) { self.key = key }

  /// The one that the current task is part of, if it is not over.
  static var current: StoreCreation? { ofCurrentTask.flatMap { $0.hasEnded ? nil : $0 } }

  private var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  /// Makes the store, as a part of this.
  func run<Root>(_ make: () async throws -> Root) async throws -> Root {
    defer {
      // What it held is released outside the lock.
      let gone = Self.waits.withLock { waits in
        isOver.store(true, ordering: .relaxed)
        return waits.removeValue(forKey: ObjectIdentifier(self))
      }
      withExtendedLifetime(gone) {}
    }
    return try await Self.$ofCurrentTask.withValue(self) { try await make() }
  }

  /// From now on this waits for another one, unless that would wait for this.
  ///
  /// - Returns: Those that would wait for each other: each for the next one, the last for this, which is the first. Nil
  ///   if there are none.
  func wait(for other: StoreCreation) -> [StoreCreation]? {
    Self.waits.withLock { waits in
      if hasEnded { return nil }
      if let path = Self.path(from: other, to: self, in: waits) { return [self] + path.dropLast() }
      waits[ObjectIdentifier(self), default: []].append(other)
      return nil
    }
  }

  /// It does not any more, of as many times as it did.
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

/// What a maker of a `StoreDirectory` is told that asks for a store, in its own task or in others that it has made, but
/// not in a detached one, if that could not be made before its own is: they would wait for each other for ever.
///
/// A maker that does not catch it fails with it, and so do those of the others that wait for its store, and everybody
/// else who has asked for one of them. Who asks later tries again.
public struct StoreDirectoryCycle: Error, CustomStringConvertible {
  /// The keys of the stores, each of which is needed to make the one before; the first is needed for the last. The
  /// first is that of the maker that is told. They are of one directory, or of several.
  public let keys: [any Hashable & Sendable]

  public var description: String {
    "Stores that are needed to make each other: \(keys.map { "\($0)" }.joined(separator: ", "))."
  }
}
