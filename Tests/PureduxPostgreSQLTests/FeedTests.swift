#if PostgreSQL
  import PureduxLog
  import PureduxLogTesting
  import Testing

  @testable import PureduxPostgreSQL

  /// A reader's feed without a database: local and remote appends, reads, notifications and polls in any order, some
  /// late.
  struct FeedTests {
    /// A log and one reader.
    private struct Simulation {
      let feed: Feed
      var random: SeededGenerator
      /// The number of committed entries, each of which is its position.
      var head: UInt64 = 0
      /// Local appends that the feed has not been offered yet.
      var untold: [ClosedRange<UInt64>] = []
      /// The read in progress: its position, and the head that the database has found.
      var reading: (after: UInt64, head: UInt64?)?
      /// Heads that were queried and not delivered yet.
      var looks: [UInt64] = []
      var handedOut: [UInt64] = []

      init(seed: UInt64) {
        let knowledge = Knowledge()
        _ = knowledge.learn(1)
        feed = Feed(after: 0, of: knowledge)
        random = SeededGenerator(seed: seed)
      }

      mutating func step() {
        switch Int.random(in: 0..<9, using: &random) {
        case 0:
          let count = UInt64(Int.random(in: 0..<3, using: &random) + 1)
          untold.append(head + 1...head + count)
          head += count
        case 1:
          head += 1
          if Int.random(in: 0..<2, using: &random) == 0 { feed.wake() }
        case 2: tell()
        case 3: look()
        case 4: looks.append(head)
        case 5: if !looks.isEmpty { _ = feed.found(head: looks.removeFirst(), of: 1) }
        case 6:
          if reading != nil, Int.random(in: 0..<4, using: &random) == 0 {
            reading = nil
            feed.failed()
          }
        default: goOn()
        }
      }

      private mutating func tell() {
        guard !untold.isEmpty else { return }
        let range = untold.removeFirst()
        feed.offer(range.map { [UInt8(truncatingIfNeeded: $0)] }, to: 1, behind: range.lowerBound - 1)
      }

      private mutating func look() {
        guard let (after, found) = reading else { return }
        reading = (after, found ?? head)
      }

      /// The reader takes a step, or receives the answer to its read.
      mutating func goOn() {
        if let (after, found) = reading {
          guard let found else { return look() }
          let last = min(found, after + 3)
          if last > after { handedOut += Array(after + 1...last) }
          feed.read(through: last > after ? last : nil, hasMore: last < found)
          reading = nil
          return
        }
        switch feed.next() {
        case .records(let records): handedOut += records.map(\.position)
        case .read(let after): reading = (after, nil)
        case .wait: break
        }
      }

      /// All pending events arrive, and at last a poll.
      mutating func end() {
        while !untold.isEmpty { tell() }
        for look in looks { _ = feed.found(head: look, of: 1) }
        for _ in 0..<3 * Int(head) + 30 { goOn() }
        _ = feed.found(head: head, of: 1)
        for _ in 0..<3 * Int(head) + 30 { goOn() }
      }
    }

    @Test("each entry is delivered once and in order, whatever the order of events")
    func random() {
      for _ in 0..<5000 {
        let seed = UInt64.random(in: .min ... .max)
        var simulation = Simulation(seed: seed)
        for _ in 0..<60 { simulation.step() }
        simulation.end()
        let expected = simulation.head == 0 ? [] : Array(1...simulation.head)
        #expect(simulation.handedOut == expected, "seed \(seed)")
      }
    }

    @Test("ready entries are bounded, and the rest is read")
    func bounded() {
      let knowledge = Knowledge()
      _ = knowledge.learn(1)
      let feed = Feed(after: 0, of: knowledge)
      #expect(feed.next() == .read(after: 0))
      feed.read(through: nil, hasMore: false)
      let entry = [UInt8](repeating: 0, count: 300 << 10)
      for base in 0..<UInt64(10) { feed.offer([entry], to: 1, behind: base) }
      guard case .records(let records) = feed.next() else {
        Issue.record("Nothing is ready.")
        return
      }
      #expect(records.map(\.position) == [1, 2, 3])
      #expect(feed.next() == .read(after: 3))
    }

    @Test("a reader ignores appends to another tree of its key")
    func another() {
      let knowledge = Knowledge()
      _ = knowledge.learn(1)
      let feed = Feed(after: 0, of: knowledge)
      #expect(feed.next() == .read(after: 0))
      feed.read(through: nil, hasMore: false)
      feed.offer([[1]], to: 2, behind: 0)
      #expect(feed.next() == .read(after: 0))
      feed.read(through: nil, hasMore: false)
      // The new tree's head is where the old tree's was.
      #expect(!feed.found(head: 0, of: 2))
      #expect(feed.next() == .read(after: 0))
    }

    @Test("missing entries are damage at the second finding, and an answer to an earlier question is none")
    func knowledge() {
      let knowledge = Knowledge()
      let (one, other) = (ObjectIdentifier(Session.self), ObjectIdentifier(Writer.self))
      #expect(knowledge.found(head: 5, knowing: 0, by: one) == nil)
      knowledge.saw(7)
      // This answer was requested earlier.
      #expect(knowledge.found(head: 6, knowing: 5, by: one) == nil)
      #expect(knowledge.position == 7)
      guard case .unavailable? = knowledge.found(head: 6, knowing: 7, by: one) else {
        Issue.record("It is damaged at once, or not at all.")
        return
      }
      #expect(knowledge.found(head: 7, knowing: 7, by: one) == nil)
      // Another session has another server, and is warned separately.
      guard case .unavailable? = knowledge.found(head: 6, knowing: 7, by: other) else {
        Issue.record("It is damaged at once, or not at all.")
        return
      }
      for isDamaged in [false, true] {
        let problem = knowledge.found(head: 6, knowing: 7, by: one)
        if case .damaged(position: 7, _)? = problem { #expect(isDamaged) } else { #expect(!isDamaged) }
      }
      #expect(knowledge.damage != nil)
      #expect(knowledge.appended(1, behind: 6, knowing: 7) == knowledge.damage)
    }
  }
#endif
