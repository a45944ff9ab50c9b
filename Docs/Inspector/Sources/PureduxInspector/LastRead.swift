import Puredux
import Synchronization

/// The last value read from a tree. A busy tree answers late, or never.
final class LastRead<Value: Sendable>: Sendable {
  private struct Content {
    var value: Value?
    var time: ContinuousClock.Instant?
    /// The start of the current read.
    var begun: ContinuousClock.Instant?
  }

  private let content = Mutex(Content())

  var value: Value? { content.withLock { $0.value } }

  /// For how long the tree has not answered; nil if no read has been open for half a second.
  var silence: Duration? {
    content.withLock { $0.begun }.map { .now - $0 }.flatMap { $0 < .milliseconds(500) ? nil : $0 }
  }

  /// Begins a read, unless one is open or the value is recent enough.
  func begin(ifOlderThan age: Duration) -> Bool {
    content.withLock { content in
      let now = ContinuousClock.now
      if content.begun != nil { return false }
      if let time = content.time, now - time < age { return false }
      content.begun = now
      return true
    }
  }

  /// - Parameter value: The new value; nil keeps the previous one.
  func end(_ value: Value?) {
    content.withLock { content in
      content.value = value ?? content.value
      content.time = .now
      content.begun = nil
    }
  }
}

/// Starts all reads and waits for them, up to the limit. Unfinished reads continue.
func perform(_ readings: [@Sendable () async -> Void], within limit: Duration) async {
  guard !readings.isEmpty else { return }
  let (answers, answered) = AsyncStream.makeStream(of: Void.self)
  for reading in readings {
    Task.detached {
      await reading()
      answered.yield()
    }
  }
  await withTaskGroup { group in
    group.addTask {
      var left = readings.count
      for await _ in answers {
        left -= 1
        if left == 0 { return }
      }
    }
    group.addTask { try? await Task.sleep(for: limit) }
    await group.next()
    group.cancelAll()
  }
}
