import Puredux
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// The entries that one replica writes, without a tree.
@Suite struct WritingTests {
  private static let options = LogOptions.once

  private static func fold(at position: UInt64, hash: UInt64? = nil) -> Fold {
    var fold = Fold()
    fold.ended(at: position, fingerprint: hash)
    return fold
  }

  private static func applied(_ position: UInt64, hash: UInt64? = nil) -> Writing.Applied {
    Writing.Applied(fold(at: position, hash: hash), by: options)
  }

  private static func writing(actionsPerEntry: Int = 1) -> Writing {
    var limits = options.limits(entryLimit: 1 << 10)
    limits.actions = actionsPerEntry
    return Writing(
      limits: limits, writer: 7, applied: applied(0), head: 0, schema: 1, fingerprintVersion: 1)
  }

  @Test("there is no further entry until one has been handed out, and numbers follow each other")
  func oneAtATime() throws {
    var writing = Self.writing()
    let ids = try [1, 2, 3].map { try writing.submit([$0], at: .zero).get() }
    #expect(ids == [1, 2, 3])
    for number in [1, 2, 3] as [UInt64] {
      let (next, further) = (writing.next(at: .zero), writing.next(at: .zero))
      let header = try #require(next?.header)
      #expect(header.writer == 7 && header.first == number && further == nil)
      writing.handedOut()
    }
    #expect(writing.next(at: .zero) == nil)
    #expect(writing.count == 3)
  }

  @Test("an action that no entry can hold is rejected and counted")
  func tooLarge() {
    var writing = Self.writing()
    let limit = Self.options.limits(entryLimit: 1 << 10).bytes
    let sizes = [limit - 4, limit - 3].map { [UInt8](repeating: 0, count: $0) }
    let outcomes = sizes.map { writing.submit($0, at: .zero) }
    #expect(outcomes.first == .success(1))
    #expect(outcomes.last == .failure(.rejected(reason: "The action is larger than an entry of the log may be.")))
    #expect(writing.rejected == 1 && writing.count == 1)
  }

  @Test("an entry carries the mark that has been applied by then, and a hash is carried by one entry")
  func marks() {
    var writing = Self.writing()
    for byte in [1, 2, 3] as [UInt8] { _ = writing.submit([byte], at: .zero) }
    writing.advance(to: Self.applied(4, hash: 9), isHashed: true)
    writing.advance(to: Self.applied(5), isHashed: false)
    let first = writing.next(at: .zero)
    writing.handedOut()
    let second = writing.next(at: .zero)
    writing.handedOut()
    // The entry itself carries the hash of the last state.
    writing.advance(to: Self.applied(6, hash: 3), isHashed: true)
    let third = writing.next(at: .zero)
    let marks = [first, second, third].map { $0?.header.seen }
    #expect(marks == [Self.applied(5).mark, Self.applied(5).mark, Self.applied(6, hash: 3).mark])
    #expect([first, second, third].map { $0?.sample?.seen } == [Self.applied(4, hash: 9).mark, nil, nil])
    #expect(first?.sample?.first == 1)
  }

  @Test("a hash that other replicas have forgotten is not carried", arguments: [0, 1])
  func oldHash(excess: Int) {
    var writing = Self.writing()
    _ = writing.submit([1], at: .zero)
    writing.advance(to: Self.applied(1, hash: 9), isHashed: true)
    for position in 0..<UInt64(Writing.hashedAgeLimit + excess) {
      writing.advance(to: Self.applied(2 + position), isHashed: false)
    }
    let next = writing.next(at: .zero)
    #expect(next != nil && (next?.sample == nil) == (excess == 1))
  }

  @Test("an entry under this number that was not given to the log is a clone's")
  func clone() throws {
    var writing = Self.writing()
    let clones = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1)
    let others = LogEntry.Header(writer: 8, first: 1, seen: .init(), schema: 1)
    let (own, foreign) = ([1] as ArraySlice<UInt8>, [2] as ArraySlice<UInt8>)
    _ = writing.submit([1], at: .zero)
    #expect(writing.isNoClones(others, [foreign], last: 1) == true)
    #expect(writing.writer == 7)
    // The log has no action of this replica: it takes another number, and its action keeps its place.
    #expect(writing.isNoClones(clones, [foreign], last: 1) == true)
    #expect(writing.writer != 7)
    let next = writing.next(at: .zero)
    let header = try #require(next?.header)
    #expect(header.writer == writing.writer && header.first == 1)
    #expect(writing.isNoClones(header, [own], last: 1) == true)
    #expect(writing.isNoClones(header, [foreign], last: 1) == false)
  }

  @Test("an entry that sets the number back is a clone's, too", arguments: [false, true])
  func setBack(isUnderWay: Bool) throws {
    var writing = Self.writing()
    func give(_ number: UInt64) {
      _ = writing.submit([UInt8(number)], at: .zero)
      _ = writing.next(at: .zero)
      writing.handedOut()
    }
    for number in 1...3 as ClosedRange<UInt64> {
      give(number)
      #expect(writing.delivered(number, of: 7, .commit, at: .zero) == number)
    }
    if isUnderWay { give(4) }
    let first = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1)
    // A repetition that commits nothing, and one that commits all actions again.
    #expect(writing.isNoClones(first, [[1]], last: nil) == true)
    #expect(writing.isNoClones(first, [[1], [2], [3]], last: 3) == true)
    #expect(writing.writer == 7)
    #expect(writing.isNoClones(first, [[1]], last: 1) == !isUnderWay)
    #expect((writing.writer == 7) == isUnderWay)
  }

  @Test("an action that the log delivers is the first one that waits, or none of them")
  func delivered() throws {
    var writing = Self.writing(actionsPerEntry: 2)
    let ids = try [1, 2].map { try writing.submit([$0], at: .zero).get() }
    _ = writing.next(at: .zero)
    #expect(writing.delivered(1, of: 8, .commit, at: .zero) == nil)
    #expect(writing.delivered(2, of: 7, .commit, at: .zero) == nil)
    #expect(writing.delivered(1, of: 7, .commit, at: .zero) == ids[0])
    #expect(writing.delivered(1, of: 7, .repeated, at: .zero) == nil)
    #expect(writing.delivered(2, of: 7, .commit, at: .zero) == ids[1])
    #expect(writing.isEmpty)
  }

  @Test("without a tree, a writer gives its log the actions in order, and after a stop it takes none")
  func alone() {
    let log = RecordingLog()
    var options = Self.options
    // Nothing is sent again meanwhile.
    options.retryInterval = .seconds(1_000_000)
    let replica = Replica(
      log: log, head: 0, stored: Fold(), recovery: nil, codings: LogCodings<Int, Int>.json(), options: options,
      fingerprint: nil, clock: ElapsedClock(ContinuousClock()))
    let summaries = Summaries(replica, nil)
    let writer = LogWriter(replica, Phases(replica, summaries, onPhase: nil))
    for number in 1...6 { #expect(writer.submit(number) == .success(UInt64(number))) }
    // Four entries are on their way at most.
    #expect(log.actions == [["1"], ["2"], ["3"], ["4"]])
    #expect(writer.withdraw(6) && !writer.withdraw(4))
    _ = replica.standing.withLock { $0.life.noteStop(.removed) }
    #expect(writer.submit(7) == .failure(.stopped(.removed)))
    log.answer()
    writer.pump()
    #expect(log.actions.count == 4 && !writer.withdraw(5))
    replica.standing.withLock { $0.writing.watcher }?.cancel()
  }
}

/// Keeps the actions of the entries that it is given, and answers when it is told to.
private final class RecordingLog: OrderedLog {
  private struct Contents {
    var actions: [[String]] = []
    var outcomes: [@Sendable (Result<UInt64, LogError>) -> Void] = []
  }

  private let contents = LockedValue(Contents())

  var actions: [[String]] { contents.withLock { $0.actions } }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    guard case .entry(_, let actions) = LogEntry.decode(entry) else { return }
    contents.withLock { contents in
      contents.actions.append(actions.map { String(decoding: $0, as: UTF8.self) })
      contents.outcomes.append(outcome)
    }
  }

  func answer() {
    let outcomes = contents.withLock { $0.outcomes }
    for (place, outcome) in outcomes.enumerated() { outcome(.success(UInt64(place + 1))) }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    AsyncThrowingStream { $0.finish() }
  }

  func head() async throws(LogError) -> UInt64 { 0 }
  func truncate(through position: UInt64) async throws(LogError) {}
}
