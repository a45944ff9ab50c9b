#if NATS
  import PureduxLog

  /// Names that come page by page, in order, while some come and go.
  struct Pages: Sendable {
    /// Names from a place in their order on, and how many there are.
    typealias Fetch = @Sendable (_ offset: Int) async throws(LogError) -> (names: [String], total: Int)

    private var offset = 0
    private var last: String?
    private var isWhole = false

    /// The next names; empty where there are no more. Each that is there all the while comes once.
    mutating func next(_ fetch: Fetch) async throws(LogError) -> [String] {
      while !isWhole {
        let (names, total) = try await fetch(offset)
        // Where one before this page has gone, others may have moved from it to a page that has come.
        if offset > 0, let last, names.first.map({ Self.precedes(last, $0) }) ?? true {
          offset = 0
          continue
        }
        let new = names.drop { name in last.map { !Self.precedes($0, name) } ?? false }
        isWhole = offset + names.count >= total
        // The next page begins with the last name of this one.
        offset += max(1, names.count - 1)
        last = new.last ?? last
        if !new.isEmpty { return Array(new) }
      }
      return []
    }

    private static func precedes(_ one: String, _ other: String) -> Bool {
      one.utf8.lexicographicallyPrecedes(other.utf8)
    }
  }
#endif
