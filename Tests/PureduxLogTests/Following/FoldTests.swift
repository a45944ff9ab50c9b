import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

@Suite struct FoldTests {
  @Test(
    "repeated, late or early actions are taken once each, in their writer's order",
    arguments: (0..<20).map { _ in UInt64.random(in: 0 ... .max) })
  func once(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var fold = Fold()
    var taken: [UInt64: [UInt64]] = [:]
    var position: UInt64 = 0
    // Writers send their actions in any order and repeatedly, until twenty of each writer have been taken.
    while taken.values.count(where: { $0.count >= 20 }) < 3 {
      let writer = UInt64.random(in: 1...3, using: &random)
      let number = UInt64.random(in: 1...20, using: &random)
      position += 1
      let count = UInt64.random(in: 0...4, using: &random)
      var other = fold
      let isTaken = (0..<count).contains { other.take(number + $0, of: writer, at: position) == .commit }
      #expect(fold.takes(number, count: count, of: writer) == isTaken, "seed \(seed)")
      switch fold.take(number, of: writer, at: position) {
      case .commit: taken[writer, default: []].append(number)
      case .repeated: #expect(taken[writer, default: []].contains(number), "seed \(seed)")
      case .early: #expect(UInt64(taken[writer, default: []].count) < number - 1, "seed \(seed)")
      case .unknown: #expect(taken[writer] == nil && number > 1, "seed \(seed)")
      }
      fold.ended(at: position, fingerprint: nil)
    }
    for numbers in taken.values { #expect(numbers == Array(1...20), "seed \(seed)") }
    #expect(fold.commits == 60)
  }

  @Test("a stored fold continues as the original")
  func stored() throws {
    var fold = Fold()
    for position in 1...500 {
      _ = fold.take(UInt64(position), of: 7, at: UInt64(position))
      _ = fold.take(1, of: UInt64(1000 + position), at: UInt64(position))
      fold.ended(at: UInt64(position), fingerprint: UInt64(position))
    }
    let stored = SnapshotContent(state: 3, fold: fold)
    let bytes = try stored.encode(by: .json())
    var read = try SnapshotContent<Int>(bytes, by: .json())
    #expect(read.state == 3 && read.fold.mark == fold.mark && read.fold.commits == 1000)
    for number in [501, 502] as [UInt64] {
      #expect(read.fold.take(number, of: 7, at: 501) == fold.take(number, of: 7, at: 501))
    }
    read.fold.ended(at: 501, fingerprint: nil)
    fold.ended(at: 501, fingerprint: nil)
    #expect(read.fold.mark == fold.mark)
    for count in stride(from: 0, to: bytes.count, by: 97) {
      #expect(failure(of: Array(bytes.prefix(count))) == "unreadable")
    }
    #expect(failure(of: bytes, by: .json(schema: 0)) == "newer")
    #expect(failure(of: [4] + bytes.dropFirst()) == "newer")
    // The second format has one number more, and the third has another one.
    #expect(failure(of: [2] + bytes.dropFirst()) == "unreadable")
    #expect(failure(of: [3] + bytes.dropFirst()) == "unreadable")
    fold.seal(3)
    fold.note(4)
    fold.decide(7)
    fold.decide(2)
    let sealed = try SnapshotContent(state: 3, fold: fold).encode(by: .json())
    let again = try SnapshotContent<Int>(sealed, by: .json()).fold
    #expect(again.sealedRules == 3 && again.rules == 4 && again.decided == [2, 7])
    #expect(failure(of: [1] + sealed.dropFirst()) == "unreadable")
    let other = try SnapshotContent(state: "three", fold: fold).encode(by: .json())
    #expect(failure(of: other).hasPrefix("undecodable"))
  }

  @Test("a snapshot with a number that no log has, or with an entry after its position, is unreadable")
  func impossible() {
    /// A snapshot with one writer and one skipped entry.
    func bytes(
      position: UInt64 = 9, commits: UInt64 = 3, skipped: UInt64 = 1, last: UInt64 = 3, place: UInt64 = 9,
      decided: UInt64 = 8
    ) -> [UInt8] {
      var bytes = ByteWriter()
      bytes.put(UInt8(2))
      bytes.put(UInt32(1))
      for number in [position, Fold.firstChain, 0, commits, skipped] { bytes.put(number) }
      bytes.put(UInt32(1))
      for number in [7, last, place] as [UInt64] { bytes.put(number) }
      for number in [0, 1, 1] as [UInt32] { bytes.put(number) }
      bytes.put(decided)
      bytes.put(Array("3".utf8))
      return bytes.bytes
    }
    let limit = UInt64(Int64.max)
    #expect(failure(of: bytes()) == "")
    #expect(failure(of: bytes(position: limit, commits: limit, skipped: limit, last: limit, place: limit)) == "")
    for number in [limit + 1, .max] {
      let crafted = [
        bytes(position: number), bytes(commits: number), bytes(skipped: number), bytes(last: number),
        bytes(place: number), bytes(decided: number),
      ]
      #expect(crafted.map { failure(of: $0) } == crafted.map { _ in "unreadable" })
    }
    #expect(failure(of: bytes(place: 10)) == "unreadable" && failure(of: bytes(decided: 10)) == "unreadable")
  }

  @Test("each kind of entry is read as it was written, and anything else is reported")
  func sorts() {
    let decision = LogEntry.Decision(
      skipped: 17, time: 1_800_000_000, reason: "written by Tuesday's version: caf\u{E9}")
    let seal = LogEntry.Seal(rules: 2, time: 1_800_000_000, reason: "bids by tens")
    var entries: [([UInt8], LogEntry.Decoded)] = [
      (LogEntry.encode(decision), .decision(decision)), (LogEntry.encode(seal), .seal(seal)),
    ]
    for version in [nil, 0, 7] as [UInt32?] {
      for rules in [0, 1, .max] as [UInt32] {
        let header = LogEntry.Header(
          writer: 7, first: 3, seen: .init(position: 9), schema: 1, fingerprintVersion: version, rules: rules)
        let bytes = LogEntry.encode(header, actions: [[1, 2], []])
        #expect(bytes.count <= LogEntry.overhead + 6)
        entries.append((bytes, .entry(header, [[1, 2], []])))
      }
    }
    for (bytes, decoded) in entries {
      #expect(LogEntry.decode(bytes) == decoded)
      for count in bytes.indices { #expect(LogEntry.decode(Array(bytes.prefix(count))) == .unreadable) }
      #expect(LogEntry.decode(bytes + [0]) == .unreadable)
      var other = bytes
      (other[3], other[4]) = (2, 7)
      #expect(LogEntry.decode(other) == .newerFormat)
    }
  }

  @Test("the latest writers are remembered, the same on every replica, and forgotten ones are reported")
  func forgotten() {
    var (one, other) = (Fold(), Fold())
    for writer in 1...5000 as ClosedRange<UInt64> {
      for number in 1...2 as ClosedRange<UInt64> {
        #expect(one.take(number, of: writer, at: writer) == .commit)
        #expect(other.take(number, of: writer, at: writer) == .commit)
      }
      one.ended(at: writer, fingerprint: nil)
      other.ended(at: writer, fingerprint: nil)
    }
    #expect(one == other)
    #expect(one.take(3, of: 1, at: 5001) == .unknown)
    #expect(one.take(3, of: 4999, at: 5001) == .commit)
  }

  @Test("another replica's order is compared as far back as it is remembered")
  func agreement() {
    var fold = Fold()
    var marks: [LogEntry.Mark] = []
    for position in 1...1000 as ClosedRange<UInt64> {
      _ = fold.take(position, of: 1, at: position * 3)
      fold.ended(at: position * 3, fingerprint: nil)
      marks.append(fold.mark)
    }
    for mark in marks.suffix(Fold.markLimit) {
      #expect(fold.agrees(with: mark))
      #expect(!fold.agrees(with: LogEntry.Mark(position: mark.position, chain: mark.chain ^ 1)))
    }
    #expect(fold.agrees(with: LogEntry.Mark(position: 3, chain: 5)))
    #expect(fold.agrees(with: LogEntry.Mark()))
    // Entries that others have applied but this replica has not are missing.
    #expect(!Fold().agrees(with: marks[0]))
    #expect(!fold.agrees(with: LogEntry.Mark(position: 3001, chain: fold.chain)))
    #expect(!fold.agrees(with: LogEntry.Mark(position: 2998, chain: fold.chain)))
  }

  @Test("an entry is read as it was written, and anything else is reported")
  func entries() {
    let mark = LogEntry.Mark(position: 9, chain: 11)
    for actions in [[], [[]], [[1], [], [2, 3]]] as [[[UInt8]]] {
      for version in [nil, 0, 8] as [UInt32?] {
        let header = LogEntry.Header(writer: 5, first: 6, seen: mark, schema: 7, fingerprintVersion: version)
        let bytes = LogEntry.encode(header, actions: actions)
        #expect(bytes.count <= LogEntry.overhead - 4 + actions.reduce(0) { $0 + 4 + $1.count })
        #expect(LogEntry.decode(bytes) == .entry(header, actions.map { $0[...] }))
        for count in bytes.indices { #expect(LogEntry.decode(Array(bytes.prefix(count))) == .unreadable) }
        #expect(LogEntry.decode(bytes + [0]) == .unreadable)
        var newer = bytes
        newer[3] += 2
        #expect(LogEntry.decode(newer) == .newerFormat)
      }
    }
    for first in [.max, 0] as [UInt64] {
      let header = LogEntry.Header(writer: 1, first: first, seen: mark, schema: 1)
      #expect(LogEntry.decode(LogEntry.encode(header, actions: [[1]])) == .unreadable)
    }
  }

  @Test("each refusal of the log halves the size of entries, down to one action")
  func refusedEntries() {
    var outbox = Outbox(limits: Outbox.Limits(actions: 8, bytes: 1000, entries: 1, pendingBytes: 1000))
    for _ in 0..<8 { outbox.append([1], at: .zero) }
    for count in [8, 4, 2, 1, 1] {
      let entry = outbox.next(at: .zero)
      #expect(entry?.actions.count == count)
      #expect(entry?.first == 1)
      outbox.ended(entry?.id ?? 0, .refused("It is too large."), at: .zero)
      let next = outbox.next(at: .zero)
      #expect(next == nil)
      let isTried = outbox.retry(at: .zero, patience: .seconds(1))
      #expect(isTried)
    }
    // An unavailable log does not change the size.
    outbox.ended(outbox.next(at: .zero)?.id ?? 0, .unavailable(""), at: .zero)
    _ = outbox.retry(at: .zero, patience: .seconds(1))
    let last = outbox.next(at: .zero)
    #expect(last?.actions.count == 1)
  }

  @Test(
    "a limit for bytes never holds back a single large action, and withdrawals leave no gaps in the numbers",
    arguments: (0..<40).map { _ in UInt64.random(in: 0 ... .max) })
  func outbox(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let limits = Outbox.Limits(actions: 3, bytes: 20, entries: 2, pendingBytes: 100)
    var outbox = Outbox(limits: limits)
    var (applied, time) = (0, Duration.zero)
    // The accepted actions that have not been withdrawn, in order. An action's number is its index plus one.
    var accepted: [(id: UInt64, bytes: [UInt8])] = []
    // The number of these that have been given to the log at some time.
    var given = 0
    var withdrawals = 0
    // An exact model of the entries that reached the log: each action's number, in order, once it was its turn.
    var underWay: [Outbox.Entry] = []
    while applied < 200 {
      time += .milliseconds(1)
      switch Int.random(in: 0..<7, using: &random) {
      case 0...2 where accepted.count < 200:
        let bytes = (0..<Int.random(in: 0..<30, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        accepted.append((outbox.append(bytes, at: time), bytes))
      case 3 where !accepted.isEmpty && withdrawals < 100:
        // Mostly withdraws a recent action.
        let place = max(0, accepted.count - Int.random(in: 1...6, using: &random))
        let isWithdrawn = outbox.withdraw(accepted[place].id)
        #expect(isWithdrawn == (place >= given), "seed \(seed)")
        if isWithdrawn {
          accepted.remove(at: place)
          withdrawals += 1
        }
      case 4: _ = outbox.retry(at: time, patience: .milliseconds(5))
      case 5: outbox.foundGap()
      default: break
      }
      // Sometimes more actions wait than may be under way.
      while Int.random(in: 0..<3, using: &random) > 0, let entry = outbox.next(at: time) {
        #expect((1...3).contains(entry.actions.count), "seed \(seed)")
        #expect(entry.first >= UInt64(applied) + 1, "seed \(seed)")
        let start = Int(entry.first) - 1
        let expected = accepted[start..<start + entry.actions.count].map(\.bytes)
        #expect(Array(entry.actions) == expected, "seed \(seed)")
        given = max(given, start + entry.actions.count)
        underWay.append(entry)
      }
      #expect(outbox.count == accepted.count - applied, "seed \(seed)")
      #expect(
        outbox.bytes == accepted[applied...].reduce(0) { $0 + $1.bytes.count + Outbox.overhead }, "seed \(seed)")
      #expect(outbox.first == accepted.dropFirst(applied).first?.id, "seed \(seed)")
      guard !underWay.isEmpty, Bool.random(using: &random) else { continue }
      let entry = underWay.remove(at: Int.random(in: underWay.indices, using: &random))
      switch Int.random(in: 0..<3, using: &random) {
      case 0: outbox.ended(entry.id, .unavailable(""), at: time)
      default:
        outbox.ended(entry.id, nil, at: time)
        for offset in entry.actions.indices.map({ $0 - entry.actions.startIndex }) {
          guard entry.first + UInt64(offset) == UInt64(applied) + 1 else { continue }
          let id = outbox.applied(at: time)
          #expect(id == accepted[applied].id, "seed \(seed)")
          applied += 1
        }
      }
    }
    #expect(outbox.count == 0, "seed \(seed)")
    #expect(outbox.bytes == 0, "seed \(seed)")
    #expect(outbox.firstPending == 201, "seed \(seed) \(accepted.count) \(applied)")
    #expect(withdrawals > 0, "seed \(seed)")
  }
}

private func failure(of bytes: [UInt8], by coding: LogCoding<Int> = .json()) -> String {
  do {
    _ = try SnapshotContent<Int>(bytes, by: coding)
    return ""
  } catch {
    return "\(error)"
  }
}
