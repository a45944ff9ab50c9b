import Testing

@testable import PureduxLog

/// When a snapshot is saved, without a tree. Whether its state may be saved is in `ReadingTests`.
@Suite struct SnapshotScheduleTests {
  @Test("one snapshot is saved at a time, and entries that come meanwhile count for the next")
  func oneAtATime() {
    var schedule = SnapshotSchedule(lastPosition: 0)
    #expect(!schedule.isDue(afterBytes: 0))
    schedule.add(10)
    #expect(schedule.isDue(afterBytes: 0) && schedule.isDue(afterBytes: 10) && !schedule.isDue(afterBytes: 11))
    schedule.begin()
    schedule.add(10)
    #expect(!schedule.isDue(afterBytes: 10))
    schedule.end()
    #expect(schedule.isDue(afterBytes: 10))
  }

  @Test("the last position never goes back")
  func positions() {
    var schedule = SnapshotSchedule(lastPosition: 3)
    #expect(schedule.saved(at: 7) == 3)
    #expect(schedule.saved(at: 5) == 7)
    #expect(schedule.lastPosition == 7)
  }

  @Test("every failure is counted, and one that does not pass is reported once until a snapshot is saved")
  func failures() {
    var failures = SnapshotFailures()
    let errors: [LogError] = [.unavailable(""), .full(""), .refused(""), .damaged(position: 1, ""), .unavailable("")]
    #expect(errors.map { failures.add($0) } == [false, false, true, false, false])
    failures.end()
    #expect(errors.map { failures.add($0) } == [false, false, true, false, false])
    #expect(failures.count == 10)
  }
}
