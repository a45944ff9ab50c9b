#if NATS
  import PureduxLog

  /// Reads sorted names page by page, while names are added and removed.
  struct Pages: Sendable {
    typealias Fetch = @Sendable (_ offset: Int) async throws(LogError) -> (names: [String], total: Int)

    private var offset = 0
    private var last: String?
    private var isWhole = false

    /// Empty at the end. A name that exists all the while is returned once.
    mutating func next(_ fetch: Fetch) async throws(LogError) -> [String] {
      while !isWhole {
        let (names, total) = try await fetch(offset)
        // A name before this page was removed. Others may have moved to an earlier page.
        if offset > 0, let last, names.first.map({ Self.precedes(last, $0) }) ?? true {
          offset = 0
          continue
        }
        let new = names.drop { name in last.map { !Self.precedes($0, name) } ?? false }
        isWhole = offset + names.count >= total
        // The overlap of one name shows whether names have moved.
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
