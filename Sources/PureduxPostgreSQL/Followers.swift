#if PostgreSQL
  import Puredux

  /// The readers of all trees of a log, for who finds that there is more.
  final class Followers: Sendable {
    private struct Followed: Sendable {
      /// The number of the tree, where it is known.
      var id: Int64?
      var feeds: [ObjectIdentifier: Feed] = [:]
    }

    private struct State: Sendable {
      var followed: [String: Followed] = [:]
      var keys: [Int64: String] = [:]

      /// A number that another tree has by now stays that one's: that of a tree which is lost is given again.
      mutating func forget(_ id: Int64?, of key: String) {
        if let id, keys[id] == key { keys[id] = nil }
      }
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
        state.forget(followed.id, of: key)
      }
    }

    /// The number of a tree is known: of one that has taken the place of another, too.
    func learned(_ id: Int64, of key: String) {
      state.withLock { state in
        guard let known = state.followed[key], known.id != id else { return }
        state.forget(known.id, of: key)
        state.followed[key]?.id = id
        state.keys[id] = key
      }
    }

    /// What is followed, for who asks how far it is.
    func targets() -> (ids: [Int64], keys: [String]) {
      state.withLock { state in
        let unknown = state.followed.filter { key, followed in followed.id.flatMap { state.keys[$0] } != key }
        return (Array(state.keys.keys), Array(unknown.keys))
      }
    }

    func all() -> [Feed] { state.withLock { $0.followed.values.flatMap { Array($0.feeds.values) } } }

    func feeds(of key: String) -> [Feed] { state.withLock { $0.followed[key].map { Array($0.feeds.values) } ?? [] } }

    func feeds(of id: Int64) -> [Feed] {
      state.withLock { state in
        state.keys[id].flatMap { state.followed[$0] }.map { Array($0.feeds.values) } ?? []
      }
    }
  }
#endif
