import Testing

@testable import PureduxLog

/// When a summary is written, without a tree.
@Suite struct SummaryScheduleTests {
  @Test("there is a writer as long as entries have been applied after the last summary, or a failure may pass")
  func writer() {
    var schedule = SummarySchedule()
    #expect(schedule.makeDue() == true)
    schedule.writer = Task {}
    #expect(schedule.makeDue() == false)
    schedule.begin()
    #expect(schedule.makeDue() == false)
    // Entries have been applied while the summary was written.
    #expect(schedule.end(after: nil) == false)
    schedule.begin()
    let passing: [LogError] = [.unavailable(""), .full("")]
    #expect(passing.map { schedule.end(after: $0) } == [false, false])
    #expect(schedule.writer != nil)
    #expect(schedule.end(after: .refused("")) == true)
    #expect(schedule.writer == nil)
    #expect(schedule.makeDue() == true)
  }

  @Test("the position of the known summary goes back to none only")
  func known() {
    var schedule = SummarySchedule()
    schedule.note((5, [5]))
    // Two answers were on their way.
    schedule.note((4, [4]))
    #expect(schedule.kept?.position == 5 && schedule.hasLooked)
    // The summary before this store was looked at too late.
    schedule.look(at: LogSummary(key: "", position: 3, bytes: [3]))
    #expect(schedule.kept?.position == 5)
    schedule.note(nil)
    #expect(schedule.kept == nil)
    schedule.note((4, [4]))
    #expect(schedule.kept?.bytes == [4])
  }

  @Test("a failure is reported once until a summary is written")
  func failures() {
    var schedule = SummarySchedule()
    let first = [schedule.fail(), schedule.fail()]
    schedule.note(nil)
    #expect(schedule.fail() == false)
    schedule.note((1, []))
    #expect(schedule.fail() == true)
    #expect(first == [true, false])
  }
}
