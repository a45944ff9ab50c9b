// What .ci/tsan-suppressions is for, without anything of this library: one task waits by a continuation, and a thread
// resumes it, maybe before it waits. All that the two share is handed over by an atomic. Built with `-sanitize=thread`,
// the thread sanitizer says that `UnsafeContinuation.resume(returning:)`, which reads in the task's frame where the result
// belongs, races with what the task does there when it runs on: the runtime, where a task is resumed before it waits,
// does not tell the sanitizer who comes after whom. Once this prints no report any more, the suppression can go.
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
