import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// The next and the previous version of a program either read acknowledged entries with the same result, or stop and
/// name a position (G11). Tests every change of a program, with and without its countermeasures.
@Suite(.timeLimit(.minutes(15))) struct VersionsTests {
  enum Change: CaseIterable, Sendable {
    case memberAdded, memberRemoved, memberRenamed, typeChanged, caseAdded, stateChanged, guardTightened
    case reducerChanged, traps
  }

  enum Keeping: CaseIterable, Sendable {
    case entries, snapshot
    /// A snapshot, and no entries before it.
    case truncated
  }

  enum Direction: CaseIterable, Sendable { case forward, back }

  struct Cell: CustomTestStringConvertible, Sendable {
    var change: Change
    var keeping: Keeping
    var isCompared: Bool
    var place: LogPlace
    var direction: Direction

    var testDescription: String { "\(change), \(keeping), \(isCompared ? "fingerprint, " : "")\(place), \(direction)" }

    static var all: [Cell] {
      Change.allCases.flatMap { change in
        Keeping.allCases.flatMap { keeping in
          [false, true].flatMap { isCompared in
            LogPlace.allCases.flatMap { place in
              Direction.allCases.map {
                Cell(change: change, keeping: keeping, isCompared: isCompared, place: place, direction: $0)
              }
            }
          }
        }
      }
    }

    /// Whether a changed reducer goes unnoticed without a hash: the case that `Docs/Operations/Changing.md` warns of.
    var isBlind: Bool {
      guard !isCompared, keeping == .entries else { return false }
      return change == .reducerChanged || change == .guardTightened && direction == .forward
    }
  }

  /// A version of a program: the actions that it writes, and its state after opening, as texts.
  struct Version: Sendable {
    let written: [String]
    let open: @Sendable (any OrderedLog, LogOptions, _ writing: Cell?, _ isCompared: Bool) async throws -> [String]

    init<Action: Codable & Sendable, State: Meaning>(
      _ actions: [Action], of type: State.Type = Auction.self, step: Int = 1, suffix: String = "",
      traps: Bool = false, _ text: @escaping @Sendable (Action) -> String
    ) {
      let guarding = Middleware<State, Action> { action, context, next in
        if let amount = Int(text(action)), amount < context.state.highest + step { return }
        next(action)
      }
      let reducer: @Sendable (inout State, Action) -> Void = { state, action in
        if traps, text(action) == "20" { fatalError("It is to be stopped before.") }
        state.taken.append(text(action) + suffix)
      }
      written = actions.map { text($0) + suffix }
      open = { (log, options, cell, isCompared) async throws -> [String] in
        let hashing: @Sendable (State) -> UInt64 = { $0.hash }
        let store = try await RootStore<State, Action>(
          following: log, initialState: State(),
          options: FollowingOptions(log: options, fingerprint: isCompared ? .hashed(hashing) : .unchecked),
          middleware: [guarding], reducer: reducer)
        return try await VersionsTests.run(store, writing: cell == nil ? [] : actions, cell?.keeping)
      }
    }
  }

  private static func run<State: Meaning, Action>(
    _ store: RootStore<State, Action>, writing actions: [Action], _ keeping: Keeping?
  ) async throws -> [String] {
    for action in actions { try await store.send(action) }
    if keeping == .snapshot || keeping == .truncated { try await store.saveSnapshot() }
    if keeping == .truncated { try await store.truncateLog() }
    let taken = await store.state.taken
    await store.shutdown()
    return taken
  }

  protocol Meaning: Codable, Sendable {
    init()
    var taken: [String] { get set }
  }

  struct Auction: Meaning { var taken: [String] = [] }
  struct NextAuction: Meaning {
    var taken: [String] = []
    var seller = "nobody"
  }

  struct Bid: Codable, Sendable { var amount: Int }
  struct BidWithCurrency: Codable, Sendable {
    var amount: Int
    var currency = "EUR"
  }
  struct RenamedBid: Codable, Sendable { var value: Int }
  struct BidInWords: Codable, Sendable { var amount: String }
  enum Action: Codable, Sendable { case bid(Int) }
  enum NextAction: Codable, Sendable {
    case bid(Int)
    case close
  }

  static func versions(of change: Change) -> (before: Version, next: Version) {
    let bids = [1, 2, 3, 11, 20]
    let before = Version(bids.map { Bid(amount: $0) }) { "\($0.amount)" }
    let withCurrency = Version(bids.map { BidWithCurrency(amount: $0) }) { "\($0.amount)" }
    switch change {
    case .memberAdded: return (before, withCurrency)
    case .memberRemoved: return (withCurrency, before)
    case .memberRenamed: return (before, Version(bids.map { RenamedBid(value: $0) }) { "\($0.value)" })
    case .typeChanged: return (before, Version(bids.map { BidInWords(amount: "\($0)") }) { $0.amount })
    case .caseAdded:
      return (
        Version(bids.map { Action.bid($0) }) { if case .bid(let amount) = $0 { "\(amount)" } else { "" } },
        Version([NextAction.bid(1), .close]) { if case .bid(let amount) = $0 { "\(amount)" } else { "closed" } }
      )
    case .stateChanged: return (before, Version(bids.map { Bid(amount: $0) }, of: NextAuction.self) { "\($0.amount)" })
    case .guardTightened: return (before, Version([10, 20, 30].map { Bid(amount: $0) }, step: 10) { "\($0.amount)" })
    case .reducerChanged: return (before, Version(bids.map { Bid(amount: $0) }, suffix: "!") { "\($0.amount)" })
    case .traps: return (before, Version(bids.map { Bid(amount: $0) }, traps: true) { "\($0.amount)" })
    }
  }

  @Test("acknowledged results do not change, or the store stops and names a position", arguments: Cell.all)
  func matrix(cell: Cell) async throws {
    let (before, next) = Self.versions(of: cell.change)
    // The version before does not contain the entry that ends the next one.
    let isTrap = cell.change == .traps
    if isTrap, cell.direction == .back { return }
    let (writer, reader) = cell.direction == .forward ? (before, next) : (next, before)
    try await cell.place.withLog { log in
      let written = try await writer.open(log, .once, cell, cell.isCompared)
      #expect(written == writer.written)
      let marks = try TemporaryDirectory()
      var options = LogOptions.once
      if isTrap, cell.keeping == .entries {
        let program = try #require(await ProgramIdentity.current())
        // Two processes have died of the entry, as in `PoisonTests`.
        if let log = log as? any LocalLog, let directory = try await log.localDirectory() {
          for _ in 0..<2 { try RecoveryMark(FileNames.recovery, in: directory, program: program).begin(5) }
        } else {
          options.recoveryDirectory = marks.path
          for _ in 0..<2 {
            try RecoveryMark("=tree", in: Directory(marks.path), program: program).begin(5)
          }
        }
      }
      (options.snapshotBytes, options.truncatesBehindSnapshots) = (1, true)
      do {
        let read = try await reader.open(log, options, nil, cell.isCompared)
        if cell.isBlind { #expect(read != written) } else { #expect(read == written) }
      } catch StoreError.stopped(let stop) {
        #expect(stop.position.map { 1...UInt64(writer.written.count) ~= $0 } == true, "\(stop)")
        #expect(!cell.isBlind)
        // Nothing is lost. The version before is another program, which does not know of this one's deaths.
        if isTrap, let log = log as? any LocalLog { try await log.localDirectory()?.remove(FileNames.recovery) }
        #expect(try await writer.open(log, .once, nil, cell.isCompared) == written)
      }
    }
  }
}

extension VersionsTests.Meaning {
  fileprivate var highest: Int { taken.compactMap { Int($0.filter(\.isNumber)) }.max() ?? 0 }
  fileprivate var hash: UInt64 { taken.joined(separator: ",").utf8.reduce(7) { $0 &* 31 &+ UInt64($1) } }
}

extension LogStop {
  fileprivate var position: UInt64? {
    switch self {
    case .diverged(let position), .newerSchema(let position), .undecodable(let position), .unreadable(let position),
      .newerRules(let position), .olderRules(let position), .poisoned(let position), .cloned(let position):
      position
    case .removed: nil
    }
  }
}
