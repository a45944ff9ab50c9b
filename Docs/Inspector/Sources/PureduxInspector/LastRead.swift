import Puredux
import Synchronization

/// What was read last of a tree that may be at work: it answers when it comes to it, or never.
final class LastRead<Value: Sendable>: Sendable {
  private struct Content {
    var value: Value?
    var time: ContinuousClock.Instant?
    /// Since when it is being read.
    var begun: ContinuousClock.Instant?
  }

  private let content = Mutex(Content())

  var value: Value? { content.withLock { $0.value } }

  /// How long the tree has not answered; nil where it is not asked, or was just now.
  var silence: Duration? {
    content.withLock { $0.begun }.map { .now - $0 }.flatMap { $0 < .milliseconds(500) ? nil : $0 }
  }

  /// Begins to read, unless that is being done, or was less than that ago.
  func begin(ifOlderThan age: Duration) -> Bool {
    content.withLock { content in
      let now = ContinuousClock.now
      if content.begun != nil { return false }
      if let time = content.time, now - time < age { return false }
      content.begun = now
      return true
    }
  }

  /// - Parameter value: What was read; without one, what was read before stays.
  func end(_ value: Value?) {
    content.withLock { content in
      content.value = value ?? content.value
      content.time = .now
      content.begun = nil
    }
  }
}

/// Reads, and waits for all to be read, but no longer than that: the rest goes on.
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
