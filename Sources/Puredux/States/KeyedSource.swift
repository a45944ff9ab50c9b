/// Passes a commit's writes of a collection on to the followers of the written keys. Attached once, it stores nothing
/// of the collection.
@usableFromInline final class KeyedSource<Key: Hashable & Sendable, Value: Sendable>: Source<Keyed<Key, Value>> {
  @usableFromInline typealias Collection = Keyed<Key, Value>

  @usableFromInline struct Followers {
    /// In the order in which keys got their followers.
    @usableFromInline let number: Int
    @usableFromInline var attachments: ContiguousArray<Edge<Collection>.Attachment>
  }

  @usableFromInline var followers: [Key: Followers] = [:]
  @usableFromInline var lastNumber = 0
  /// The writes passed on so far; nil without a collection.
  @usableFromInline var passed: KeyedWrites<Key>.Mark?
  /// Keys with a follower that was shown a later value than the one passed on, because a commit was left out above. The
  /// next commit passes them on, even unwritten: it may have restored the earlier collection.
  @usableFromInline var due: Set<Key> = []
  /// The keys written since `passed` up to a mark, for the followers that begin before the next commit.
  @usableFromInline var leftOut: LeftOut?

  @usableFromInline struct LeftOut {
    var keys: Set<Key>
    var mark: KeyedWrites<Key>.Mark
  }

  @inlinable init(of upstream: Source<Collection>) {
    let edge = Edge<Collection>(to: upstream) { [unowned upstream] follower in
      guard let source = follower as? KeyedSource else { return nil }
      source.passed = nil
      source.due = []
      source.leftOut = nil
      upstream.withState { source.passed = $0.writes.mark }
      return { collection in source.pass(collection) }
    }
    super.init(edge: edge, level: upstream.level) { body in edge.withState(body) }
  }

  @inlinable func pass(_ collection: Collection) {
    let mark = collection.writes.mark
    if !due.isEmpty { passDue(of: collection) }
    if mark == passed { return }
    let written = passed.flatMap { collection.writes.keys(since: $0) }
    passed = mark
    leftOut = nil
    guard let written else {
      // The written keys are unknown.
      for followers in followersInOrder { Self.pass(collection, to: followers.attachments) }
      return
    }
    if written.count == 1, let key = written.first { return pass(key, of: collection) }
    var done: Set<Key> = []
    for key in written where done.insert(key).inserted { pass(key, of: collection) }
  }

  @inline(never) @inlinable func passDue(of collection: Collection) {
    var keys = due
    due = []
    guard let passed, let written = collection.writes.keys(since: passed) else { return }
    for key in written where !keys.isEmpty { keys.remove(key) }
    let numbered = keys.compactMap { key in followers[key].map { (key: key, number: $0.number) } }
    for (key, _) in numbered.sorted(by: { $0.number < $1.number }) { pass(key, of: collection) }
  }

  func willShow(_ key: Key) {
    // Without followers, it is about to be attached, and takes the collection as it is.
    guard let passed, !followers.isEmpty else { return }
    var isDue = true
    withState { collection in
      isDue = collection.writes.mark != passed && keysLeftOut(of: collection, since: passed)?.contains(key) != false
    }
    if isDue { due.insert(key) }
  }

  /// Adds only the writes since the last call: many followers may begin before the next commit.
  private func keysLeftOut(of collection: Collection, since passed: KeyedWrites<Key>.Mark) -> Set<Key>? {
    var known = leftOut.take() ?? LeftOut(keys: [], mark: passed)
    if let written = collection.writes.keys(since: known.mark) {
      known.keys.formUnion(written)
    } else {
      guard let written = collection.writes.keys(since: passed) else { return nil }
      known.keys = Set(written)
    }
    known.mark = collection.writes.mark
    leftOut = known
    return known.keys
  }

  @inlinable func pass(_ key: Key, of collection: Collection) {
    if let followers = followers[key] { Self.pass(collection, to: followers.attachments) }
  }

  @inlinable var followersInOrder: [Followers] { followers.values.sorted { $0.number < $1.number } }

  // MARK: Following

  func changeAttachments(at key: Key, _ change: (inout ContiguousArray<Edge<Collection>.Attachment>) -> Void) {
    if followers[key] == nil { lastNumber += 1 }
    var changed = followers.removeValue(forKey: key) ?? Followers(number: lastNumber, attachments: [])
    change(&changed.attachments)
    if !changed.attachments.isEmpty { followers[key] = changed }
  }

  private func appendFollowers(to below: inout ContiguousArray<AnySource>) {
    for followers in followersInOrder {
      for attachment in followers.attachments { below.append(attachment.follower) }
    }
  }

  override func detachHere() -> AnySource? { followers.isEmpty ? super.detachHere() : nil }

  override func detached() {
    passed = nil
    due = []
    leftOut = nil
  }

  override func surveyHere(_ survey: inout Survey, _ below: inout ContiguousArray<AnySource>) {
    appendFollowers(to: &below)
    super.surveyHere(&survey, &below)
  }

  override func closeHere(_ below: inout ContiguousArray<AnySource>) {
    appendFollowers(to: &below)
    followers = [:]
    super.closeHere(&below)
  }

  override func vanishHere(_ below: inout ContiguousArray<AnySource>) {
    passed = nil
    due = []
    leftOut = nil
    appendFollowers(to: &below)
    super.vanishHere(&below)
  }
}

@usableFromInline final class KeyedEdge<Key: Hashable & Sendable, Value: Sendable>: Edge<Keyed<Key, Value>> {
  private let key: Key

  @usableFromInline init(
    to upstream: KeyedSource<Key, Value>, at key: Key, connect: @escaping (AnySource) -> Receive?
  ) {
    self.key = key
    super.init(to: upstream, connect: connect)
  }

  override func willShowState() { (upstream as? KeyedSource<Key, Value>)?.willShow(key) }

  override func changeAttachments(
    of upstream: Source<Keyed<Key, Value>>, _ change: (inout ContiguousArray<Attachment>) -> Void
  ) {
    (upstream as? KeyedSource<Key, Value>)?.changeAttachments(at: key, change)
  }
}

extension Source {
  @inlinable static func value<Key: Hashable & Sendable, Value: Sendable>(
    at key: Key, of upstream: KeyedSource<Key, Value>
  ) -> Source where State == Value? {
    let edge = KeyedEdge(to: upstream, at: key) { follower in
      guard let source = follower as? Source else { return nil }
      return { collection in source.publish(collection[key]) }
    }
    return Source(edge: edge, level: upstream.level) { body in
      edge.withState { body($0[key]) }
    }
  }
}

extension Confined {
  @inlinable func value<Key: Hashable & Sendable, Element: Sendable>(
    at key: Key
  ) -> Confined<Source<Element?>> where Value == Source<Keyed<Key, Element>> {
    let all = channelOfSource.selectors { SelectorCache() }.source(of: .byKey) {
      map { KeyedSource(of: $0) as Source<Keyed<Key, Element>> }
    }
    return all.channelOfSource.selectors { SelectorCache() }.source(of: SelectorIdentity(key: key)) {
      all.map { all in
        guard let all = all as? KeyedSource<Key, Element> else { return .scope(of: all) { .some($0[key]) } }
        return .value(at: key, of: all)
      }
    }
  }
}
