// The reason for .ci/tsan-suppressions, without this library: a task waits with a continuation, and a thread resumes
// it, possibly before the task waits. An atomic hands over all shared data.
//
// If a task is resumed before it waits, the runtime does not tell the sanitizer which came first. Built with
// `-sanitize=thread`, this program reports a race: `UnsafeContinuation.resume(returning:)` reads from the task's frame
// the place of the result, and the continuing task writes there. With an argument, the result is an object made by the
// thread and changed by the task, and the sanitizer also reports a race in that object.
//
// When neither run reports a race in several attempts, the suppressions can go: a single run may report none.
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
