#if NATS
  import PureduxLog
  import PureduxLogTesting
  import Testing

  @testable import PureduxNATS

  @Suite struct ConsumptionTests {
    static let start = ContinuousClock.now

    static func entry(_ position: UInt64, _ number: UInt64, pending: UInt64 = 0) -> Inbox.Message {
      let place = Subjects.Place(position: position, number: number, pending: pending)
      return Inbox.Message(kind: .entry(place), bytes: [UInt8(position & 0xFF)])
    }

    @Test("entries in order are delivered, in batches of limited bytes")
    func order() {
      var consumption = Consumption(after: 10)
      guard case .makeConsumer(after: 10) = consumption.next() else {
        Issue.record("another step")
        return
      }
      consumption.begin(1, at: Self.start)
      guard case .wait = consumption.next() else {
        Issue.record("another step")
        return
      }
      for number in 1...4 as ClosedRange<UInt64> {
        let taken1 = consumption.take(Self.entry(10 + number * 5, number), under: 1, at: Self.start)
        #expect(taken1 == .hasRecords)
      }
      guard case .records(let first, after: 10) = consumption.next(bytes: 100) else {
        Issue.record("another step")
        return
      }
      #expect(first.map(\.position) == [15, 20])
      guard case .records(let second, after: 20) = consumption.next() else {
        Issue.record("another step")
        return
      }
      #expect(second.map(\.position) == [25, 30])
      guard case .wait = consumption.next() else {
        Issue.record("another step")
        return
      }
      #expect(consumption.handedOut == 30)
    }

    @Test("a missing number, a heartbeat of more than came and a lost connection need a new consumer")
    func losses() {
      for loss in [
        Self.entry(9, 3), Inbox.Message(kind: .status(100, reply: nil, lastSent: 2)),
      ] {
        var consumption = Consumption(after: 0)
        consumption.begin(1, at: Self.start)
        _ = consumption.take(Self.entry(5, 1), under: 1, at: Self.start)
        let taken2 = consumption.take(loss, under: 1, at: Self.start)
        #expect(taken2 == .isLost)
        let taken3 = consumption.takeAbandoned()
        #expect(taken3 == [1])
        // Received entries are delivered first. The next consumer begins after them.
        guard case .records(let records, after: 0) = consumption.next() else {
          Issue.record("another step")
          return
        }
        #expect(records.map(\.position) == [5])
        guard case .makeConsumer(after: 5) = consumption.next() else {
          Issue.record("another step")
          return
        }
        consumption.begin(2, at: Self.start)
        // Messages of the old consumer are ignored.
        let taken4 = consumption.take(Self.entry(6, 2), under: 1, at: Self.start)
        #expect(taken4 == .nothing)
        let taken5 = consumption.take(Self.entry(6, 1), under: 2, at: Self.start)
        #expect(taken5 == .hasRecords)
      }
    }

    @Test("a server's question is answered when no entries wait for delivery")
    func questions() {
      var consumption = Consumption(after: 0)
      consumption.begin(1, at: Self.start)
      let question = Inbox.Message(kind: .status(100, reply: "answer", lastSent: nil))
      let taken6 = consumption.take(question, under: 1, at: Self.start)
      #expect(taken6 == .hasQuestion)
      let taken7 = consumption.takeQuestion()
      #expect(taken7 == "answer")
      let taken8 = consumption.takeQuestion()
      #expect(taken8 == nil)
      _ = consumption.take(Self.entry(1, 1), under: 1, at: Self.start)
      let taken9 = consumption.take(question, under: 1, at: Self.start)
      #expect(taken9 == .hasRecords)
      let taken10 = consumption.takeQuestion()
      #expect(taken10 == nil)
      _ = consumption.next()
      let taken11 = consumption.takeQuestion()
      #expect(taken11 == "answer")
    }

    @Test("a waiting reader is not woken for each entry while more follow, unless they do not arrive")
    func batches() {
      var consumption = Consumption(after: 0)
      consumption.begin(1, at: Self.start)
      for number in 1...255 as ClosedRange<UInt64> {
        let effect = consumption.take(Self.entry(number, number, pending: 1000), under: 1, at: Self.start)
        #expect(effect == .nothing)
        #expect(consumption.hasRecords)
      }
      let question = Inbox.Message(kind: .status(100, reply: "answer", lastSent: nil))
      for wakes in [question, Self.entry(256, 256)] {
        var copy = consumption
        let effect = copy.take(wakes, under: 1, at: Self.start)
        #expect(effect == .hasRecords)
      }
      let effect = consumption.take(Self.entry(256, 256, pending: 1000), under: 1, at: Self.start)
      #expect(effect == .hasRecords)
      _ = consumption.next()
      let next = consumption.take(Self.entry(257, 257, pending: 999), under: 1, at: Self.start)
      #expect(next == .nothing)
      var large = Self.entry(258, 258, pending: 998)
      large.bytes = [UInt8](repeating: 0, count: 256 << 10)
      let last = consumption.take(large, under: 1, at: Self.start)
      #expect(last == .hasRecords)
    }

    /// The result for consumers that send the entry at position 9 after a delay, and until then a heartbeat every two
    /// seconds.
    private func consume(each delay: Duration) -> (consumption: Consumption, arrival: Duration?, starved: Duration?) {
      var consumption = Consumption(after: 0)
      var begun = Duration.zero
      var starved: Duration?
      for tick in 0..<1200 {
        let time = Duration.milliseconds(250) * tick
        let now = Self.start + time
        if consumption.token == nil {
          begun = time
          consumption.begin(UInt64(tick + 1), at: now)
          consumption.made(UInt64(tick + 1), at: now)
        } else if let token = consumption.token, time - begun >= delay {
          if consumption.take(Self.entry(9, 1), under: token, at: now) == .hasRecords {
            return (consumption, time, starved)
          }
        } else if let token = consumption.token, (time - begun).components.seconds % 2 == 0, tick % 4 == 0 {
          _ = consumption.take(Inbox.Message(kind: .status(100, reply: nil, lastSent: 0)), under: token, at: now)
        }
        _ = consumption.look(at: now, known: 9, silence: .seconds(5))
        if consumption.starvations > 2 { starved = starved ?? time }
      }
      return (consumption, nil, starved)
    }

    @Test("a live consumer that does not send existing entries is replaced, and the third one is counted")
    func starved() throws {
      var (consumption, arrival, starved) = consume(each: .seconds(1000))
      #expect(arrival == nil)
      #expect(try #require(starved) <= .seconds(20))
      let token = try #require(consumption.token)
      _ = consumption.take(Self.entry(9, 1), under: token, at: Self.start + .seconds(300))
      #expect(consumption.starvations == 0)
    }

    @Test("a consumer that is slower than a heartbeat gets to send", arguments: [0, 1, 2, 3, 5, 7])
    func slow(seconds: Int) throws {
      let (_, arrival, starved) = consume(each: .seconds(seconds))
      #expect(try #require(arrival) <= .seconds(20))
      #expect(starved == nil)
    }

    @Test("silence, and an existing entry that is not delivered, need a new consumer")
    func silence() {
      var consumption = Consumption(after: 7)
      func isLost(after time: Duration, known: UInt64) -> Bool {
        consumption.look(at: Self.start + time, known: known, silence: .seconds(5))
      }
      #expect(!isLost(after: .seconds(100), known: 9))
      consumption.begin(1, at: Self.start)
      // Creating a consumer has a limit of its own.
      #expect(!isLost(after: .seconds(100), known: 9))
      consumption.made(1, at: Self.start)
      #expect(!isLost(after: .seconds(5), known: 7))
      let heartbeat = Inbox.Message(kind: .status(100, reply: nil, lastSent: 0))
      let taken = consumption.take(heartbeat, under: 1, at: Self.start + .seconds(4))
      #expect(taken == .nothing)
      #expect(!isLost(after: .seconds(9), known: 7))
      #expect(isLost(after: .milliseconds(9001), known: 7))
      #expect(consumption.token == nil)
      // Existing entries may take a second, and twice as long with each consumer that sends nothing.
      for (token, limit) in [(2, 1), (3, 2), (4, 4)] as [(UInt64, Int)] {
        consumption.begin(token, at: Self.start)
        consumption.made(token, at: Self.start)
        #expect(!isLost(after: .zero, known: 8))
        #expect(!isLost(after: .seconds(limit), known: 8))
        #expect(isLost(after: .milliseconds(limit * 1000 + 1), known: 8))
      }
      consumption.begin(5, at: Self.start)
      consumption.made(5, at: Self.start)
      _ = consumption.take(Self.entry(8, 1), under: 5, at: Self.start)
      #expect(!isLost(after: .seconds(2), known: 9))
      _ = consumption.next()
      #expect(!isLost(after: .seconds(2), known: 9))
      #expect(!isLost(after: .seconds(3), known: 9))
      #expect(isLost(after: .milliseconds(3001), known: 9))
    }

    @Test(
      "every entry is delivered once and in order, whatever consumers lose, repeat and send late", arguments: 0..<200)
    func random(seed: UInt64) {
      var random = SeededGenerator(seed: seed)
      let positions = (1...60).map { UInt64($0 * 3) }
      var consumption = Consumption(after: 0)
      var consumers: [(token: UInt64, sent: Int, number: UInt64)] = []
      var read: [UInt64] = []
      var time = Self.start
      for _ in 0..<10_000 where read.count < positions.count {
        time += .milliseconds(10)
        switch consumption.next(bytes: Int.random(in: 1...300, using: &random)) {
        case .records(let records, let after):
          #expect(after == read.last ?? 0, "seed \(seed)")
          read += records.map(\.position)
        case .makeConsumer(let after):
          let token = UInt64(consumers.count + 1)
          consumers.append((token, positions.firstIndex { $0 > after } ?? positions.count, 0))
          consumption.begin(token, at: time)
          consumption.made(token, at: time)
        case .wait:
          let index =
            Int.random(in: 0..<4, using: &random) == 0
            ? Int.random(in: consumers.indices, using: &random) : consumers.count - 1
          let isLost = Int.random(in: 0..<5, using: &random) == 0
          if consumers[index].sent < positions.count {
            let position = positions[consumers[index].sent]
            consumers[index].sent += 1
            consumers[index].number += 1
            let message = Self.entry(position, consumers[index].number)
            if !isLost { _ = consumption.take(message, under: consumers[index].token, at: time) }
          } else {
            let heartbeat = Inbox.Message(kind: .status(100, reply: nil, lastSent: consumers[index].number))
            if !isLost { _ = consumption.take(heartbeat, under: consumers[index].token, at: time) }
          }
          if isLost { _ = consumption.look(at: time, known: positions[59], silence: .milliseconds(200)) }
        }
      }
      #expect(read == positions, "seed \(seed)")
    }
  }

  @Suite struct SubjectsTests {
    @Test("keys of any text have names of their own, of signs that subjects and buckets take")
    func tokens() {
      let keys = ["", "a", "A", "a/b", "a.b", "a*", "a>", "a b", "=", "=2f", "/", "\u{0}", "é", "e\u{301}", "日本", "k"]
      let tokens = keys.map { Subjects.token(of: $0) }
      #expect(Set(tokens).count == keys.count)
      for case let token? in tokens {
        #expect(token.utf8.allSatisfy { Subjects.isPlain($0) || $0 == UInt8(ascii: "=") })
      }
      #expect(Subjects.token(of: String(repeating: "a", count: 1000)) != nil)
      #expect(Subjects.token(of: String(repeating: "a", count: 1001)) == nil)
      #expect(!Subjects.isName("a.b"))
      #expect(!Subjects.isName(""))
    }

    @Test("the position in either form of an entry's subject, and none in other subjects")
    func places() {
      func place(_ text: String) -> [UInt64]? {
        Subjects.place(in: text.utf8.map { CChar(bitPattern: $0) }).map { [$0.position, $0.number, $0.pending] }
      }
      #expect(place("$JS.ACK.stream.name-7.1.120.34.1700000000.5") == [120, 34, 5])
      #expect(place("$JS.ACK.hub.a1b2.stream.name-7.1.120.34.1700000000.5") == [120, 34, 5])
      #expect(place("$JS.ACK.hub.a1b2.stream.name-7.1.120.34.1700000000.5.token") == [120, 34, 5])
      #expect(place("$JS.ACK.18446744073709551615.7.1.18446744073709551615.34.1.5") == [.max, 34, 5])
      for other in ["", "$", "$JS.ACK.", "$JS.ACK.a.b.1.2.3", "$JS.FC.a.b.c.d.e.f.g", "_INBOX.a.1"] {
        #expect(place(other) == nil)
      }
    }

    @Test("numbers at the end of subjects")
    func numbers() {
      func number(_ text: String) -> UInt64? { Subjects.lastNumber(of: text.utf8.map { CChar(bitPattern: $0) }) }
      #expect(number("_INBOX.puredux-a1.204") == 204)
      #expect(number("_INBOX.puredux-a1.") == nil)
      #expect(number("") == nil)
      #expect(number("a.99999999999999999999") == nil)
    }

    @Test("the answer to a publication")
    func answers() {
      func position(_ text: String, _ kind: Inbox.Message.Kind = .answer) -> Result<UInt64, LogError> {
        JetStream.position(in: Inbox.Message(kind: kind, bytes: Array(text.utf8)))
      }
      #expect(position(#"{"stream":"puredux", "seq":12}"#) == .success(12))
      #expect(position(#"{"stream":"puredux", "seq": 12,"duplicate": true}"#) == .success(12))
      #expect(
        position(#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"seq":0}"#)
          == .failure(.full("maximum messages exceeded (10077)")))
      #expect(
        position(#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#)
          == .failure(.unavailable("unavailable (10008)")))
      #expect(position("") == .failure(.unavailable("The answer cannot be read.")))
      #expect(
        position("", .status(503, reply: nil, lastSent: nil))
          == .failure(.unavailable("Nobody answers for the stream (503).")))
    }
  }
#endif
