// The reason for .ci/tsan-suppressions, without any part of this library: one task waits by a continuation, and a
// thread resumes it, possibly before it waits. An atomic hands over all that the two share. Built with
// `-sanitize=thread`, the thread sanitizer reports that `UnsafeContinuation.resume(returning:)`, which reads from the
// task's frame where the result belongs, races with what the task does there when it continues: if a task is resumed
// before it waits, the runtime does not tell the sanitizer which comes first. With an argument, what is handed over is
// an object, which the thread makes and the task changes: the sanitizer then reports a race in that, too. Once neither
// prints a report in several runs, the suppressions can go: a single run may print none.
import Foundation
import Synchronization

final class Object: Sendable {
  let number = Atomic(0)
  let text = Mutex("")

  func starts(as number: Int) {
    self.number.store(number, ordering: .relaxed)
    text.withLock { $0 = "a text that is not small" }
  }
}

struct Wide: Sendable {
  var a = 1, b = 2, c = 3, d = 4, text = "a text that is not small"
  var object: Object?
}

final class Slot: @unchecked Sendable {
  let isFull = Atomic(false)
  var continuation: UnsafeContinuation<Wide, Never>?
}

let slot = Slot()
let rounds = 200_000
let hasObjects = CommandLine.arguments.count > 1

Thread.detachNewThread {
  for _ in 0..<rounds {
    while !slot.isFull.load(ordering: .acquiring) {}
    let continuation = slot.continuation!
    slot.continuation = nil
    slot.isFull.store(false, ordering: .releasing)
    continuation.resume(returning: Wide(object: hasObjects ? Object() : nil))
  }
}

@concurrent func wait() async -> Int {
  var sum = 0
  for round in 0..<rounds {
    while slot.isFull.load(ordering: .acquiring) {}
    let wide = await withUnsafeContinuation { continuation in
      slot.continuation = continuation
      slot.isFull.store(true, ordering: .releasing)
    }
    wide.object?.starts(as: round)
    sum += wide.a
  }
  return sum
}

print(await wait())
