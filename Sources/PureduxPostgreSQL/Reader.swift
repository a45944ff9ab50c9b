#if PostgreSQL
  import PureduxLog

  final class Reader: Sendable {
    private let tree: PostgreSQLTree
    private let feed: Feed

    init(_ tree: PostgreSQLTree, after position: UInt64) {
      self.tree = tree
      feed = Feed(after: position, of: tree.knowledge)
      tree.owner.follow(feed, of: tree)
    }

    deinit { tree.owner.followers.remove(feed, from: tree.text) }

    /// Nil if the task is cancelled.
    func next() async throws(LogError) -> [LogRecord]? {
      while !Task.isCancelled {
        let count = feed.arrivals.count
        if let damage = tree.knowledge.damage { throw damage }
        if tree.owner.isClosed { throw .unavailable("The log is closed.") }
        switch feed.next() {
        case .records(let records): return records
        case .wait: await feed.arrivals.wait(after: count)
        case .read(let position):
          do throws(LogError) {
            let (records, hasMore) = try await tree.entries(after: position)
            feed.read(through: records.last?.position, hasMore: hasMore)
            if !records.isEmpty { return records }
          } catch {
            feed.failed()
            throw error
          }
        }
      }
      return nil
    }
  }
#endif
