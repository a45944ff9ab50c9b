import Puredux

/// Caches the files open for appending, and evicts the least recently used ones, which close when unused.
final class OpenFiles: Sendable {
  struct Files: Sendable {
    let last: Disk
    var mark: Disk?

    var count: Int { mark == nil ? 1 : 2 }
  }

  private struct Open: Sendable {
    var files: Files
    var use: Int
  }

  private struct State: Sendable {
    var open: [Int: Open] = [:]
    var count = 0
    var uses = 0
    var nextID = 0
  }

  private let limit: Int
  private let state = LockedValue(State())

  /// - Parameter limit: In files. Those of the tree in use stay in any case.
  init(limit: Int) { self.limit = limit }

  func makeID() -> Int {
    state.withLock { state in
      state.nextID += 1
      return state.nextID
    }
  }

  func files(of id: Int) -> Files? {
    state.withLock { state in
      guard var open = state.open[id] else { return nil }
      state.uses += 1
      open.use = state.uses
      state.open[id] = open
      return open.files
    }
  }

  /// Adds files, and evicts others beyond the limit. These close under the lock, before their tree can lock them again.
  func keep(_ files: Files, of id: Int) {
    state.withLock { state in
      state.uses += 1
      state.count += files.count - (state.open[id]?.files.count ?? 0)
      state.open[id] = Open(files: files, use: state.uses)
      guard state.count > limit else { return }
      // An eighth more than necessary, so that sorting is rare.
      var surplus = state.count - limit + limit / 8
      for (other, open) in state.open.sorted(by: { $0.value.use < $1.value.use }) where surplus > 0 && other != id {
        state.open[other] = nil
        state.count -= open.files.count
        surplus -= open.files.count
      }
    }
  }

  func close(_ id: Int) {
    state.withLock { state in
      guard let open = state.open.removeValue(forKey: id) else { return }
      state.count -= open.files.count
    }
  }
}
