import Foundation
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import Puredux

@Suite("Wall time") struct WallTimeTests {
  private let evening = WallTime(since1970: .seconds(1_764_093_600))

  @Test("it is added to, compared, and measured")
  func arithmetic() {
    #expect(evening + .seconds(60) > evening)
    #expect(evening + .seconds(60) - .seconds(60) == evening)
    #expect((evening + .milliseconds(1)) - evening == .milliseconds(1))
    let date = Date(timeIntervalSince1970: 1_764_093_600)
    #expect(WallTime(since1970: .seconds(date.timeIntervalSince1970)) == evening)
    #expect(Date(timeIntervalSince1970: evening.since1970 / .seconds(1)) == date)
    #expect(abs((WallTime.now.since1970 / .seconds(1)) - Date().timeIntervalSince1970) < 60)
  }

  @Test("no duration traps")
  func extremes() throws {
    let most = Duration(attoseconds: .max)
    let least = Duration(attoseconds: .min)
    let last = WallTime(since1970: most)
    let first = WallTime(since1970: least)
    #expect(last + most == last)
    #expect(last - least == last)
    #expect(first - most == first)
    #expect(first + least == first)
    #expect(first + most == last)
    #expect(last - first == first.since1970 * -2)
    for time in [first, last, evening + .nanoseconds(1), evening - .seconds(2_000_000_000) - .nanoseconds(1)] {
      #expect(try JSONDecoder().decode(WallTime.self, from: JSONEncoder().encode(time)) == time)
    }
    let far = Data("[9223372036854775807,9223372036854775807]".utf8)
    #expect(try JSONDecoder().decode(WallTime.self, from: far) == last)
    let back = Data("[-9223372036854775808,-9223372036854775808]".utf8)
    #expect(try JSONDecoder().decode(WallTime.self, from: back) == first)
  }

  @Test(
    "in JSON it is integers that a page can read exactly, and the earlier form is read, too",
    arguments: [
      ("[1764093600,0]", #"{"nanoseconds":0,"seconds":1764093600}"#, .seconds(1_764_093_600)),
      (
        "[1764093600,123456789000000000]", #"{"nanoseconds":123456789,"seconds":1764093600}"#,
        .seconds(1_764_093_600) + .nanoseconds(123_456_789)
      ),
      (
        "[1,999999999999999999]", #"{"attoseconds":999999999,"nanoseconds":999999999,"seconds":1}"#,
        Duration(secondsComponent: 1, attosecondsComponent: 999_999_999_999_999_999)
      ),
      (
        "[-1,-500000000000000001]", #"{"attoseconds":-1,"nanoseconds":-500000000,"seconds":-1}"#,
        Duration(secondsComponent: -1, attosecondsComponent: -500_000_000_000_000_001)
      ),
      (
        "[3000000000000,0]", #"{"nanoseconds":0,"seconds":3000000000000}"#, .seconds(3_000_000_000_000)
      ),
    ] as [(String, String, Duration)])
  func json(earlier: String, text: String, duration: Duration) throws {
    let (time, encoder, decoder) = (WallTime(since1970: duration), JSONEncoder(), JSONDecoder())
    encoder.outputFormatting = .sortedKeys
    #expect(String(decoding: try encoder.encode(time), as: UTF8.self) == text)
    for form in [text, earlier] {
      #expect(try decoder.decode(WallTime.self, from: Data(form.utf8)) == time)
      #expect(try decoder.decode([WallTime].self, from: Data("[\(form),\(form)]".utf8)) == [time, time])
    }
    // A program that knows only the earlier form fails here, and reads no wrong time.
    #expect(throws: DecodingError.self) { try decoder.decode([Int64].self, from: Data(text.utf8)) }
    let numbers = text.matches(of: /-?\d+/).compactMap { Int($0.0) }
    #expect(numbers.allSatisfy { abs($0) < 1 << 53 })
  }

  @Test("invalid times are refused, and no number traps")
  func undecodable() throws {
    for text in ["{}", "[]", "[1]", #"{"seconds":1}"#, "1", #""now""#, #"{"seconds":1.5,"nanoseconds":0}"#] {
      #expect(throws: DecodingError.self) { try JSONDecoder().decode(WallTime.self, from: Data(text.utf8)) }
    }
    let last = WallTime(since1970: Duration(attoseconds: .max))
    let most = Int64.max
    let far = #"{"seconds":\#(most),"nanoseconds":\#(most),"attoseconds":\#(most)}"#
    #expect(try JSONDecoder().decode(WallTime.self, from: Data(far.utf8)) == last)
  }

  @Test("a store and everything that belongs to it use its clock's time")
  func ofTheClock() async throws {
    let clock = ManualClock(wallTime: evening)
    let (ofContext, ofDispatch) = (LockedTime(), LockedTime())
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { _, context in
        ofContext.set(context.now)
        return .run { ofDispatch.set($0.now) }
      }
    ) { $0 += $1 }
    clock.advance(by: .seconds(60))
    try await store.send(1)
    await store.settled()
    #expect(ofContext.time == evening + .seconds(60))
    #expect(ofDispatch.time == evening + .seconds(60))
    #expect(store.now == evening + .seconds(60))
    #expect(store.scope(to: \.self).now == evening + .seconds(60))
    #expect(store.childStore(initialState: 0) { $0 += $1 }.now == evening + .seconds(60))
    await store.shutdown()
    #expect(store.now == evening + .seconds(60), "also after the end")
    let plain = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    #expect(abs((plain.now - .now) / .seconds(1)) < 60)
  }

  @Test("a sleep until a time ends at that time, and at once if it has passed", arguments: [-1, 0, 1, 90])
  func sleeping(seconds: Int) async {
    let clock = ManualClock(wallTime: evening)
    let time = evening + .seconds(seconds)
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects(
        ofState: .onChange(of: { $0 == 0 }) { isOpen in
          isOpen
            ? .run { dispatch in
              try await dispatch.sleep(until: time); dispatch(1)
            } : nil
        })
    ) { $0 += $1 }
    await store.settled()
    if seconds > 0 {
      await clock.advance(by: .seconds(seconds) - .nanoseconds(1), settling: store)
      #expect(await store.state == 0)
      await clock.advance(by: .nanoseconds(1), settling: store)
    }
    #expect(await store.state == 1)
  }

  @Test("if the machine's clock is set back, the time is awaited again; if it is set forward, only the rest")
  func setMeanwhile() async {
    for (change, total) in [(Duration.seconds(-30), 90), (.seconds(30), 60)] {
      let clock = ManualClock(wallTime: evening)
      let time = evening + .seconds(60)
      let store = RootStore<Int, Int>(
        initialState: 0, options: StoreOptions(clock: clock),
        interceptors: .effects { action, _ in
          action == 0
            ? .run { dispatch in
              try await dispatch.sleep(until: time); dispatch(1)
            } : nil
        }
      ) { $0 += $1 }
      store.dispatch(0)
      await store.settled()
      clock.set(clock.wallTime + change)
      await clock.advance(by: .seconds(total - 1), settling: store)
      #expect(await store.state == 0)
      await clock.advance(by: .seconds(1), settling: store)
      #expect(await store.state == 1)
    }
  }

  @Test("a sleep until a time ends with its store, however far the time is")
  func cancelled() async {
    let clock = ManualClock(wallTime: evening)
    let far = evening + Duration(attoseconds: .max)
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { _, _ in
        .run { try await $0.sleep(until: far) }
      }
    ) { $0 += $1 }
    store.dispatch(0)
    await store.settled()
    #expect(clock.nextDeadline != nil)
    await store.shutdown()
    #expect(clock.nextDeadline == nil)
  }

  private final class LockedTime: Sendable {
    private let value = LockedValue<WallTime?>(nil)
    var time: WallTime? { value.withLock { $0 } }
    func set(_ time: WallTime) { value.withLock { $0 = time } }
  }
}
