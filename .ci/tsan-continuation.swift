// The reason for .ci/tsan-suppressions, without any part of this library: one task waits by a continuation, and a
// thread resumes it, possibly before it waits. An atomic hands over all that the two share. Built with
// `-sanitize=thread`, the thread sanitizer reports that `UnsafeContinuation.resume(returning:)`, which reads from the
// task's frame where the result belongs, races with what the task does there when it continues: if a task is resumed
// before it waits, the runtime does not tell the sanitizer which comes first. Once this prints no report, the
// suppression can go.
import Foundation
import Synchronization

struct Wide: Sendable { var a = 1, b = 2, c = 3, d = 4, text = "a text that is not small" }

final class Slot: @unchecked Sendable {
  let isFull = Atomic(false)
  var continuation: UnsafeContinuation<Wide, Never>?
}

let slot = Slot()
let rounds = 200_000

Thread.detachNewThread {
  for _ in 0..<rounds {
    while !slot.isFull.load(ordering: .acquiring) {}
    let continuation = slot.continuation!
    slot.continuation = nil
    slot.isFull.store(false, ordering: .releasing)
    continuation.resume(returning: Wide())
  }
}

@concurrent func wait() async -> Int {
  var sum = 0
  for _ in 0..<rounds {
    while slot.isFull.load(ordering: .acquiring) {}
    let wide = await withUnsafeContinuation { continuation in
      slot.continuation = continuation
      slot.isFull.store(true, ordering: .releasing)
    }
    sum += wide.a
  }
  return sum
}

print(await wait())
