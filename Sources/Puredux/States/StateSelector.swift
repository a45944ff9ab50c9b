/// A named function of a state, for any store with such a state. It can be tested without a store.
///
///     extension Room {
///       static let unread = StateSelector<Room, [Message]>("unread", of: \.messages, \.lastRead) {
///         messages, lastRead in
///         messages.filter { $0.id > lastRead }
///       }
///     }
///     #expect(Room.unread.select(Room()).isEmpty)
///     for await messages in store.states(Room.unread) { … }
///
/// With `of:` or `whenDifferent:` it is memoized: the value is computed again only when one of these `Equatable` parts
/// of the state has changed (`of: \.self` is the whole state). All followers of one store by the same selector share
/// the result. It belongs to the store's tree, and is dropped with its last user there. The parts are stored, so a
/// change of a collection among them copies it; for a large collection, name its version or its count instead.
///
/// Copies of a selector are the same selector. Two selectors that are made alike are different, and share nothing.
public struct StateSelector<State: Sendable, Value: Sendable>: Sendable, CustomStringConvertible {
  /// The name in descriptions. Not an identity.
  public let name: String
  @usableFromInline let identity: SelectorIdentity
  /// The function has its own memory if it is memoized, for one isolation.
  @usableFromInline let makeSelection: @Sendable () -> Selection

  @inlinable
  init(name: String, identity: SelectorIdentity, makeSelection: @escaping @Sendable () -> Selection) {
    self.name = name
    self.identity = identity
    self.makeSelection = makeSelection
  }

  /// Computes its value from the whole state at every commit that is followed. Stores nothing of the state.
  @inlinable public init(_ name: String, _ select: @escaping @Sendable (State) -> Value) {
    self.init(name: name, identity: SelectorIdentity(), makeSelection: { Selection(select: select) })
  }

  /// Computes its value from parts of the state, when one of them has changed.
  @inlinable public init<First: Equatable & Sendable, each Input: Equatable & Sendable>(
    _ name: String, of first: any KeyPath<State, First> & Sendable,
    _ inputs: repeat any KeyPath<State, each Input> & Sendable,
    select: @escaping @Sendable (First, repeat each Input) -> Value
  ) {
    self.init(name, whenDifferent: first, repeat each inputs) { state in
      select(state[keyPath: first], repeat state[keyPath: each inputs])
    }
  }

  /// Computes its value from the whole state, when one of its parts, such as a version, has changed. Stores only those
  /// parts and the value.
  @inlinable public init<First: Equatable & Sendable, each Input: Equatable & Sendable>(
    _ name: String, whenDifferent first: any KeyPath<State, First> & Sendable,
    _ inputs: repeat any KeyPath<State, each Input> & Sendable,
    select: @escaping @Sendable (State) -> Value
  ) {
    self.init(name: name, identity: SelectorIdentity()) {
      var last: (first: First, inputs: (repeat each Input), value: Value)?
      return Selection { state in
        let new = (first: state[keyPath: first], inputs: (repeat state[keyPath: each inputs]))
        if let last, last.first == new.first, Self.areEqual(repeat (each last.inputs, each new.inputs)) {
          return last.value
        }
        let value = select(state)
        last = (new.first, new.inputs, value)
        return value
      } forget: {
        last = nil
      }
    }
  }

  /// Selects a part of the state.
  @inlinable public init(_ keyPath: any KeyPath<State, Value> & Sendable) {
    self.init(name: "\(keyPath)", identity: SelectorIdentity(keyPath)) {
      Selection { $0[keyPath: keyPath] }
    }
  }

  /// Computes the value for a state.
  @inlinable public func select(_ state: State) -> Value { makeSelection().select(state) }

  public var description: String { name }

  @inlinable static func areEqual<each Input: Equatable>(_ pairs: repeat (each Input, each Input)) -> Bool {
    for pair in repeat each pairs {
      if pair.0 != pair.1 { return false }
    }
    return true
  }
}

extension StateSelector {
  @usableFromInline struct Selection {
    @usableFromInline let select: (State) -> Value
    @usableFromInline let forget: (() -> Void)?

    @inlinable init(select: @escaping (State) -> Value, forget: (() -> Void)? = nil) {
      self.select = select
      self.forget = forget
    }
  }
}

@usableFromInline struct SelectorIdentity: Hashable, Sendable {
  private final class Object: Sendable {}

  private enum Kind: Sendable {
    case object(Object)
    case keyPath(any AnyKeyPath & Sendable)
    case part(any AnyKeyPath & Sendable)
    case key(any Hashable & Sendable)
  }

  private let kind: Kind

  @usableFromInline init() {
    kind = .object(Object())
  }

  @usableFromInline init(key: some Hashable & Sendable) {
    kind = .key(key)
  }

  @usableFromInline static let byKey = SelectorIdentity()

  @usableFromInline init(_ keyPath: any AnyKeyPath & Sendable) {
    kind = .keyPath(keyPath)
  }

  @usableFromInline init(part keyPath: any AnyKeyPath & Sendable) {
    kind = .part(keyPath)
  }

  @usableFromInline static func == (lhs: SelectorIdentity, rhs: SelectorIdentity) -> Bool {
    switch (lhs.kind, rhs.kind) {
    case (.object(let lhs), .object(let rhs)): lhs === rhs
    case (.keyPath(let lhs), .keyPath(let rhs)), (.part(let lhs), .part(let rhs)):
      lhs as AnyKeyPath == rhs as AnyKeyPath
    case (.key(let lhs), .key(let rhs)): AnyHashable(lhs) == AnyHashable(rhs)
    default: false
    }
  }

  @usableFromInline func hash(into hasher: inout Hasher) {
    switch kind {
    case .object(let object): hasher.combine(ObjectIdentifier(object))
    case .keyPath(let keyPath), .part(let keyPath): hasher.combine(keyPath as AnyKeyPath)
    case .key(let key): hasher.combine(AnyHashable(key))
    }
  }
}

/// The sources made of one source by selectors in use.
///
/// Key paths are hashed, compared and released, and sources made and released, outside the lock: all of this may run a
/// user's code, which may request another source.
@usableFromInline final class SelectorCache: Sendable {
  final class Entry: Sendable {
    let selector: SelectorIdentity
    let source: WeakSource

    init(selector: SelectorIdentity, source: WeakSource) {
      self.selector = selector
      self.source = source
    }
  }

  typealias Bucket = [Entry]

  struct Contents: Sendable {
    var buckets: [Int: Bucket] = [:]
    var room = 16
  }

  let contents = LockedValue(Contents())

  @usableFromInline init() {}

  @usableFromInline func source<Value>(
    of selector: SelectorIdentity, orMake make: () -> Confined<Source<Value>>
  ) -> Confined<Source<Value>> {
    let hash = selector.hashValue
    var made: Confined<Source<Value>>?
    var known: Bucket = []
    while true {
      // Each entry is compared once; the bucket grows if a comparison requests a source.
      let compared = known
      known = contents.withLock { $0.buckets[hash] } ?? []
      for entry in known where !compared.contains(where: { $0 === entry }) {
        if let source: Confined<Source<Value>> = entry.source.confined(), entry.selector == selector { return source }
      }
      let source = made ?? make()
      made = source
      let bucket =
        known.filter { !$0.source.isGone } + [Entry(selector: selector, source: WeakSource(source))]
      if replace(known, by: bucket, at: hash) {
        makeRoom()
        return source
      }
    }
  }

  private func replace(_ known: Bucket, by bucket: Bucket, at hash: Int) -> Bool {
    let (isReplaced, _) = contents.withLock { contents -> (Bool, Bucket?) in
      guard contents.buckets[hash]?.last === known.last else { return (false, nil) }
      let replaced = contents.buckets.removeValue(forKey: hash)
      if !bucket.isEmpty { contents.buckets[hash] = bucket }
      return (true, replaced)
    }
    return isReplaced
  }

  private func makeRoom() {
    let buckets: [Int: Bucket]? = contents.withLock { contents in
      guard contents.buckets.count > contents.room else { return nil }
      contents.room = 2 * contents.buckets.count
      return contents.buckets
    }
    guard let buckets else { return }
    for (hash, known) in buckets {
      let bucket = known.filter { !$0.source.isGone }
      if bucket.count < known.count { _ = replace(known, by: bucket, at: hash) }
    }
    contents.withLock { $0.room = max(16, 2 * $0.buckets.count) }
  }
}

extension SelectorCache {
  /// SAFETY: the source is only passed on as a confined one.
  struct WeakSource: @unchecked Sendable {
    private weak let source: AnySource?

    init<State>(_ source: Confined<Source<State>>) {
      unsafe self.source = source.unconfined
    }

    var isGone: Bool { source == nil }

    func confined<State>() -> Confined<Source<State>>? {
      (source as? Source<State>).map { Confined(storing: $0) }
    }
  }
}

extension SelectorCache {
  @usableFromInline final class Memory {
    var isKnown = false
    let forget: () -> Void

    @usableFromInline init(forget: @escaping () -> Void) { self.forget = forget }
  }
}

extension SelectorCache.Memory {
  @usableFromInline struct Weak {
    private(set) weak var memory: SelectorCache.Memory?

    init(_ memory: SelectorCache.Memory) { self.memory = memory }
  }
}

@usableFromInline struct StateMemory<State> {
  @usableFromInline let equals: (State) -> Bool
  /// If this state has been compared, that was the call right before.
  @usableFromInline let remember: (State) -> Void
  @usableFromInline let forget: () -> Void

  @inlinable
  init(equals: @escaping (State) -> Bool, remember: @escaping (State) -> Void, forget: @escaping () -> Void) {
    self.equals = equals
    self.remember = remember
    self.forget = forget
  }

  @inlinable static func constant(_ answer: Bool) -> StateMemory {
    var hasLast = false
    return StateMemory { _ in
      hasLast && answer
    } remember: { _ in
      hasLast = true
    } forget: {
      hasLast = false
    }
  }

  /// Computes the value once per state.
  @inlinable static func value<Value>(
    _ value: @escaping (State) -> Value, areEqual: @escaping (Value, Value) -> Bool
  ) -> StateMemory {
    let memory = RememberedValue<Value>()
    return StateMemory { state in
      guard let previous = unsafe memory.last else { return false }
      let new = value(state)
      let isEqual = areEqual(previous, new)
      unsafe memory.compared = isEqual ? nil : new
      return isEqual
    } remember: { state in
      unsafe memory.last = memory.compared ?? value(state)
      unsafe memory.compared = nil
    } forget: {
      unsafe memory.last = nil
      unsafe memory.compared = nil
    }
  }
}

@usableFromInline final class RememberedValue<Value> {
  // No run-time checks for overlapping accesses, which cost more than most comparisons.
  //
  // SAFETY: the object belongs to one memory, which is used in one isolation. An access copies the value out or sets
  // it. A release caused by setting it may run a user's code, which has no way to reach this memory.
  @usableFromInline @exclusivity(unchecked) var last: Value?
  @usableFromInline @exclusivity(unchecked) var compared: Value?

  @usableFromInline init() {}
}
