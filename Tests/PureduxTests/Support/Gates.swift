import Dispatch
import Synchronization

@testable import Puredux

/// A door that tasks wait at until it is opened.
final class Gate: Sendable {
  private struct Door {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let door = Guarded(Door())

  func open() {
    let waiting = door.withLock { door in
      door.isOpen = true
      defer { door.waiting = [] }
      return door.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Waits, whether the task is cancelled or not.
  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = door.withLock { door in
        if !door.isOpen { door.waiting.append(continuation) }
        return door.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }
}

/// Opens when the current task is cancelled.
func untilCancelled() async {
  let gate = Gate()
  await withTaskCancellationHandler {
    await gate.wait()
  } onCancel: {
    gate.open()
  }
}

/// A serial executor that can be held: what is asked of a tree on it stays undone until it is let go.
final class HeldExecutor: SerialExecutor, Sendable {
  private let queue = DispatchQueue(label: "held")
  private let isHeld = Guarded(false)

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
  }

  func hold() {
    isHeld.withLock { isHeld in
      if !isHeld { queue.suspend() }
      isHeld = true
    }
  }

  /// Waits for the job that runs now.
  func waitForRunningJob() {
    queue.sync {}
  }

  func letGo() {
    isHeld.withLock { isHeld in
      if isHeld { queue.resume() }
      isHeld = false
    }
  }

  deinit { letGo() }
}

/// A list that several tasks write to.
final class Record<Element: Sendable>: Sendable {
  private let entries = Guarded<[Element]>([])
  func add(_ element: Element) { entries.withLock { $0.append(element) } }
  var all: [Element] { entries.withLock { $0 } }
}

/// Holds an object weakly, to see whether it is gone.
struct Weak<Object: AnyObject & Sendable>: Sendable {
  private(set) weak var object: Object?
  init(_ object: Object) { self.object = object }
}

/// An object that tells when it is gone.
final class Token: Sendable {
  let gone = Gate()
  deinit { gone.open() }
}

/// A reproducible generator.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// Something that one task tells another.
final class Flag: Sendable {
  private let flag = Atomic(false)
  var isRaised: Bool { flag.load(ordering: .relaxed) }
  func raise() { flag.store(true, ordering: .relaxed) }
}
