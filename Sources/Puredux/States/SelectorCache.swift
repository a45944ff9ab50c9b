/// The sources that selectors have made of one source, while they are in use.
///
/// Key paths are hashed, compared and released, and sources made and released, outside the lock. All of this may run a
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
      // Released outside the lock.
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
  /// A weak reference to a source.
  ///
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
  /// A selector's memoized values, which are cleared at the end of the store.
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
