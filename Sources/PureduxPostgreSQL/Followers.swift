#if PostgreSQL
  import Puredux

  /// The readers to be woken when entries arrive.
  final class Followers: Sendable {
    private struct Followed: Sendable {
      var id: Int64?
      var feeds: Keyed<ObjectIdentifier, Feed> = [:]
    }

    private struct State: Sendable {
      var followed: [String: Followed] = [:]
      var keys: [Int64: String] = [:]
    }

    private let state = LockedValue(State())

    func add(_ feed: Feed, to key: String) {
      state.withLock { $0.followed[key, default: Followed()].feeds[ObjectIdentifier(feed)] = feed }
    }

    func remove(_ feed: Feed, from key: String) {
      state.withLock { state in
        state.followed[key]?.feeds[ObjectIdentifier(feed)] = nil
        guard let followed = state.followed[key], followed.feeds.isEmpty else { return }
        state.followed[key] = nil
        if let id = followed.id { state.keys[id] = nil }
      }
    }

    /// One tree may replace another.
    func learned(_ id: Int64, of key: String) {
      state.withLock { state in
        guard let known = state.followed[key], known.id != id else { return }
        if let before = known.id { state.keys[before] = nil }
        state.followed[key]?.id = id
        state.keys[id] = key
      }
    }

    /// Keys are those of trees without a known number.
    func targets() -> (ids: [Int64], keys: [String]) {
      state.withLock { state in
        (state.keys.keys.sorted(), state.followed.compactMap { $0.value.id == nil ? $0.key : nil }.sorted())
      }
    }

    func all() -> [Feed] {
      state.withLock { $0.followed.sorted { $0.key < $1.key }.flatMap { $0.value.feeds.values } }
    }

    func feeds(of key: String) -> [Feed] { state.withLock { $0.followed[key]?.feeds.values ?? [] } }

    func feeds(of id: Int64) -> [Feed] {
      state.withLock { state in
        state.keys[id].flatMap { state.followed[$0] }?.feeds.values ?? []
      }
    }
  }
#endif
