import Foundation
import Puredux
import Synchronization
import Testing

@testable import JobQueue
@testable import jobs

/// The lines that a desk prints.
private final class Lines: Sendable {
  private let lines = Mutex<[String]>([])

  var all: [String] { lines.withLock { $0 } }

  func append(_ line: String) { lines.withLock { $0.append(line) } }
}

/// The requests of other processes as files, and the lines that a worker prints.
@Suite(.timeLimit(.minutes(5))) struct DeskTests {
  private func withDesk(
    _ lines: Lines = Lines(), _ body: (_ desk: Desk, _ directory: URL) async throws -> Void
  ) async throws {
    let data = FileManager.default.temporaryDirectory.appendingPathComponent("jobs-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: data) }
    let queue = Queue(initialState: JobQueue()) { $0.reduce($1) }
    let desk = Desk(place: try Place.parse(["--data", data.path]), queue: queue, report: { lines.append($0) })
    try FileManager.default.createDirectory(at: desk.place.desk, withIntermediateDirectories: true)
    try await body(desk, desk.place.desk)
    await queue.shutdown()
  }

  private func exists(_ file: URL) -> Bool { FileManager.default.fileExists(atPath: file.path) }

  @Test func `a request that is withdrawn meanwhile does not end the worker, and an invalid one is set aside`()
    async throws
  {
    let lines = Lines()
    try await withDesk(lines) { desk, directory in
      var pending = Desk.Pending()
      try await desk.take(directory.appendingPathComponent("1.json"), &pending)
      #expect(lines.all.isEmpty)
      let file = directory.appendingPathComponent("2.json")
      try Data("nonsense".utf8).write(to: file)
      try await desk.take(file, &pending)
      #expect(!exists(file) && exists(file.appendingPathExtension("refused")))
      #expect(lines.all.count == 1)
      #expect(await desk.queue.state.jobs.isEmpty)
    }
  }

  @Test func `a request whose answer cannot be written is committed once, and answered later`() async throws {
    let lines = Lines()
    try await withDesk(lines) { desk, directory in
      var pending = Desk.Pending()
      let file = directory.appendingPathComponent("1.json")
      try JSONEncoder().encode(JobQueue.Action.submit(Request(key: "a", command: "x"))).write(to: file)
      // No file can replace a directory.
      try FileManager.default.createDirectory(at: file.answer, withIntermediateDirectories: false)
      for _ in 1...2 { try await desk.takeAll(&pending) }
      #expect(exists(file) && !exists(file.appendingPathExtension("refused")))
      #expect(await desk.queue.state.jobs.count == 1)
      #expect(lines.all.count == 1 && lines.all.first?.contains("1.json is committed") == true)
      // The queue drops the job, so another commit would add it again.
      try await desk.queue.send(.cancel(1))
      for number in 1...JobQueue.kept {
        try await desk.queue.send(.submit(Request(key: "later \(number)", command: "y")))
      }
      try await desk.takeAll(&pending)
      try FileManager.default.removeItem(at: file.answer)
      try await desk.takeAll(&pending)
      #expect(try String(contentsOf: file.answer, encoding: .utf8) == "1  x  waiting")
      #expect(!exists(file))
      let jobs = await desk.queue.state.jobs
      #expect(jobs.count == JobQueue.kept && !jobs.contains { $0.request.key == "a" })
      #expect(lines.all.count == 1 && pending.progress.isEmpty && pending.reported.isEmpty)
    }
  }

  @Test func `a request that somebody deletes after its answer is no problem`() async throws {
    let lines = Lines()
    try await withDesk(lines) { desk, directory in
      var pending = Desk.Pending()
      pending.progress["1.json"] = .answered
      try await desk.take(directory.appendingPathComponent("1.json"), &pending)
      #expect(pending.progress.isEmpty && lines.all.isEmpty)
    }
  }

  @Test func `a request that cannot be read is reported once, and no request is remembered longer than its file`()
    async throws
  {
    let lines = Lines()
    try await withDesk(lines) { desk, directory in
      var pending = Desk.Pending()
      // A directory has no bytes to read.
      let unreadable = directory.appendingPathComponent("1.json")
      try FileManager.default.createDirectory(at: unreadable, withIntermediateDirectories: false)
      for _ in 1...2 { try await desk.takeAll(&pending) }
      #expect(lines.all.count == 1 && lines.all.first?.contains("1.json cannot be read") == true)
      let committed = directory.appendingPathComponent("2.json")
      try JSONEncoder().encode(JobQueue.Action.submit(Request(key: "a", command: "x"))).write(to: committed)
      try FileManager.default.createDirectory(at: committed.answer, withIntermediateDirectories: false)
      try await desk.takeAll(&pending)
      #expect(Array(pending.progress.keys) == ["2.json"] && pending.reported == ["1.json", "2.json"])
      for file in [unreadable, committed] { try FileManager.default.removeItem(at: file) }
      try await desk.takeAll(&pending)
      #expect(pending.progress.isEmpty && pending.reported.isEmpty)
      #expect(lines.all.count == 2)
    }
  }

  @Test func `answers that no process has read are removed when the next worker starts`() async throws {
    try await withDesk { desk, directory in
      let (old, new) = (directory.appendingPathComponent("1.json"), directory.appendingPathComponent("2.json"))
      for file in [old, old.answer, new.answer] { try Data("1  x  waiting".utf8).write(to: file) }
      let date = Date(timeIntervalSinceNow: -2 * Desk.answerAge)
      for file in [old, old.answer] {
        try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
      }
      desk.removeOldAnswers()
      #expect(!exists(old.answer))
      #expect(exists(old) && exists(new.answer), "a process may still wait for its answer")
    }
  }

  @Test func `the display keeps no line of a job that the queue has dropped`() {
    var (queue, lines) = (JobQueue(), ChangedLines())
    for number in 1...JobQueue.kept {
      queue.reduce(.submit(Request(key: "\(number)", command: "x")))
      queue.reduce(.cancel(number))
    }
    #expect(lines.next(in: queue).isEmpty)
    for number in 1...3 {
      queue.reduce(.submit(Request(key: "later \(number)", command: "y")))
      #expect(lines.next(in: queue) == ["\(JobQueue.kept + number)  y  waiting"])
    }
    #expect(Set(lines.last.keys) == Set(queue.jobs.map(\.id)) && lines.last[1] == nil)
  }

  #if !NATS
    @Test func `the error of a program without the trait has no credentials of the cluster`() async throws {
      let place = try Place.parse(["--log", "nats://hush@a:4222"])
      let error = await #expect(throws: (any Error).self) { _ = try await place.open() }
      #expect(!"\(try #require(error))".contains("hush"))
    }
  #endif
}
