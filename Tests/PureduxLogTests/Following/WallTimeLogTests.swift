import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@Suite("A time in the state") struct WallTimeLogTests {
  private struct Auction: Codable, Equatable {
    var endsAt: WallTime?
    var isOver = false

    mutating func apply(_ action: AuctionAction) {
      switch action {
      case .open(let endsAt): self.endsAt = endsAt
      case .end:
        endsAt = nil
        isOver = true
      }
    }
  }

  private enum AuctionAction: Codable {
    case open(endsAt: WallTime), end
  }

  private func auction(_ log: any OrderedLog, _ clock: ManualClock) async throws -> RootStore<Auction, AuctionAction> {
    try await RootStore(
      following: log, initialState: Auction(),
      options: FollowingOptions(store: StoreOptions(clock: clock), fingerprint: .unchecked),
      interceptors: .effects(
        ofState: .onChange(of: \.endsAt) { endsAt in
          endsAt.map { endsAt in
            .run {
              try await $0.sleep(until: endsAt); $0(.end)
            }
          }
        })
    ) { $0.apply($1) }
  }

  @Test("an auction whose process dies ends at its time in the next process, or at once if the time has passed")
  func afterRestart() async throws {
    let five = WallTime(since1970: .seconds(1_764_090_000))
    let memory = MemoryLog()
    let first = MortalLog(memory)
    let clock = ManualClock(wallTime: five)
    let dying = try await auction(first, clock)
    try await dying.send(.open(endsAt: dying.now + .seconds(3_600)))
    clock.advance(by: .seconds(1_800))
    await first.kill(dying)

    let later = ManualClock(wallTime: five + .seconds(2_700))
    let second = MortalLog(memory)
    let next = try await auction(second, later)
    await next.settled()
    later.advance(by: .seconds(899))
    await next.settled()
    #expect(await next.state == Auction(endsAt: five + .seconds(3_600)))
    await second.kill(next)

    let tooLate = ManualClock(wallTime: five + .seconds(100_000))
    let last = try await auction(memory, tooLate)
    try await last.first(where: \.isOver)
    await last.shutdown()
  }

  @Test("and at its time, not before")
  func onTime() async throws {
    let five = WallTime(since1970: .seconds(1_764_090_000))
    let memory = MemoryLog()
    let before = try await auction(memory, ManualClock(wallTime: five))
    try await before.send(.open(endsAt: five + .seconds(3_600)))
    await before.shutdown()
    let clock = ManualClock(wallTime: five + .seconds(3_000))
    let store = try await auction(memory, clock)
    await store.settled()
    clock.advance(by: .seconds(599))
    await store.settled()
    #expect(await store.state.isOver == false)
    clock.advance(by: .seconds(1))
    try await store.first(where: \.isOver)
    await store.shutdown()
  }
}
