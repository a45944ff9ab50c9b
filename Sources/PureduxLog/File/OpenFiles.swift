import Puredux

/// The files that trees have open to write to them: at most so many, those that were used last.
///
/// Who uses files holds them: they are closed when they are given up here and nobody uses them.
final class OpenFiles: Sendable {
  /// Those of one tree.
  struct Files: Sendable {
    /// The last file of records, locked.
    let last: Disk
    var mark: Disk?

    var count: Int { mark == nil ? 1 : 2 }
  }

  private struct Open: Sendable {
    var files: Files
    /// Rises with each use of any.
    var use: Int
  }

  private struct State: Sendable {
    var open: [Int: Open] = [:]
    /// How many files that are.
    var count = 0
    var uses = 0
    var nextID = 0
  }

  private let limit: Int
  private let state = LockedValue(State())

  /// - Parameter limit: How many files; that of one tree, which is in use, are kept in any case.
  init(limit: Int) { self.limit = limit }

  /// For one more tree.
  func makeID() -> Int {
    state.withLock { state in
      state.nextID += 1
      return state.nextID
    }
  }

  /// What a tree has open; nil where that has been closed.
  func files(of id: Int) -> Files? {
    state.withLock { state in
      guard var open = state.open[id] else { return nil }
      state.uses += 1
      open.use = state.uses
      state.open[id] = open
      return open.files
    }
  }

  /// Keeps what a tree has open, and closes what has not been used for longest. Under the lock: who finds that the
  /// files of a tree are not open opens them anew, and they are locked until they have been closed.
  func keep(_ files: Files, of id: Int) {
    state.withLock { state in
      state.uses += 1
      state.count += files.count - (state.open[id]?.files.count ?? 0)
      state.open[id] = Open(files: files, use: state.uses)
      guard state.count > limit else { return }
      // An eighth more than has to be, so that this is done for each eighth of them.
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
