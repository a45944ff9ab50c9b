import Dispatch
import PureduxTestSupport
import Testing

/// Runs every interleaving of a few participants around a pure state machine.
///
/// A participant is a sequential program of atomic steps, like the shells' functions: a transition under the lock, an
/// access to an atomic, the resumption of a waiter, or local work. The search is breadth first, so each reported
/// schedule is one of the shortest. Schedules that lead to the same state are followed once, and all are counted.
///
/// Every step is visible to all participants at once; weaker memory orders are left to the thread sanitizer.
///
/// The search runs on a Dispatch thread, so that it does not block tests that wait for tasks. Only one search runs at a
/// time: printing takes a lock of the Swift runtime (6.3), and many threads that contend for it take a hundred times as
/// long.
func explore<System: Interleaved>(_ make: @escaping @Sendable () -> System) async -> Exploration {
  await withCheckedContinuation { continuation in
    explorations.async { continuation.resume(returning: explored(make)) }
  }
}

private let explorations = DispatchQueue(label: "puredux.explorations")

private func explored<System: Interleaved>(_ make: () -> System) -> Exploration {
  var exploration = Exploration()
  var layer = [Reached(system: make(), schedule: [], ways: 1)]
  while !layer.isEmpty, (layer.first?.schedule.count ?? 0) < 1000 {
    var next: [Reached<System>] = []
    var places: [Int: Int] = [:]
    for reached in layer {
      let runnable = reached.system.runnable
      if runnable.isEmpty {
        exploration.schedules += reached.ways
        do throws(Violation) { try checkEnd(make, after: reached.schedule) } catch {
          exploration.add(error, make(), after: reached.schedule)
        }
      }
      for participant in runnable {
        var system = reached.system
        let schedule = reached.schedule + [participant]
        do throws(Violation) { try system.step(participant) } catch {
          exploration.add(error, make(), after: schedule)
          continue
        }
        exploration.steps += 1
        let fingerprint = system.fingerprint
        if let place = places[fingerprint] {
          next[place].ways += reached.ways
        } else {
          places[fingerprint] = next.count
          next.append(Reached(system: system, schedule: schedule, ways: reached.ways))
        }
      }
    }
    layer = next
  }
  if let endless = layer.first { exploration.add(Violation("goes on for ever"), make(), after: endless.schedule) }
  return exploration
}

struct Exploration: Sendable {
  /// The number of schedules that ran to their end, and the number of steps taken for all of them.
  var schedules = 0
  var steps = 0
  /// The reasons of all failures, each with one of its shortest schedules.
  var failures: [String: String] = [:]

  /// Fails if there is any failure, or if fewer than `count` schedules were explored.
  func expectNoFailure(atLeast count: Int, sourceLocation: SourceLocation = #_sourceLocation) {
    for (reason, schedule) in failures { Issue.record("\(reason), by\(schedule)", sourceLocation: sourceLocation) }
    #expect(schedules >= count, "\(schedules) schedules, \(steps) steps", sourceLocation: sourceLocation)
  }

  fileprivate mutating func add<System: Interleaved>(_ violation: Violation, _ fresh: System, after schedule: [Int]) {
    guard failures[violation.reason] == nil else { return }
    var system = fresh
    let lines = schedule.map { participant in
      let line = system.crowd.describe(participant)
      try? system.step(participant)
      return "\n  " + line
    }
    failures[violation.reason] = lines.joined()
  }
}

private struct Reached<System> {
  let system: System
  let schedule: [Int]
  var ways: Int
}

/// Checks on a new system: systems that are copies share their counts of objects.
private func checkEnd<System: Interleaved>(_ make: () -> System, after schedule: [Int]) throws(Violation) {
  var system = make()
  for participant in schedule { try system.step(participant) }
  let waiting = system.crowd.unfinished.joined(separator: ", ")
  guard waiting.isEmpty else { throw Violation("\(waiting): waits for ever") }
  try system.checkEnd()
}

struct Violation: Error {
  let reason: String

  init(_ reason: String) { self.reason = reason }
}

/// A pure state machine, and the participants around it. All are values, so that the search can branch at any state.
protocol Interleaved: SendableMetatype {
  associatedtype Machine
  associatedtype Record: Hashable
  associatedtype Step: AtomicStep

  var printed: Printed<Machine> { get set }
  /// The shell's own state, and the history that the checks need.
  var record: Record { get }
  var crowd: Crowd<Step> { get set }

  /// Carries out a step, and returns the participant's next one.
  mutating func perform(_ step: Step, by participant: Int) throws(Violation) -> Next<Step>
  /// Whether a step can run now, if it waits for a condition rather than as a waiter of the machine.
  func isReady(_ step: Step) -> Bool
  func checkEnd() throws(Violation)
}

/// A machine and its printed text, which is stored until the machine changes: printing takes most of the time.
struct Printed<Machine> {
  let machine: Machine
  private var text: Int?

  init(_ machine: Machine) { self.machine = machine }

  /// States are distinguished by their printed text, since the machine's parts are private.
  fileprivate var fingerprint: Int {
    mutating get {
      let text = text ?? String(describing: machine).hashValue
      self.text = text
      return text
    }
  }
}

protocol AtomicStep: Hashable {
  var place: StepPlace { get }
}

enum StepPlace {
  case anywhere
  /// The first step of a job on the tree's executor.
  case entersExecutor
  /// A later step of that job.
  case onExecutor
}

enum Next<Step: Hashable>: Hashable {
  case step(Step)
  /// The participant's next step, after it has left the executor.
  case stepOutside(Step)
  /// The participant has left a waiter with the machine.
  case wait
  case end
}

/// Stands for a continuation.
struct Wait: Hashable {
  let participant: Int
  let number: Int
}

struct Crowd<Step: AtomicStep>: Hashable {
  private struct Participant: Hashable {
    let name: String
    var next: Next<Step>
    var waits = 0
  }
  private var participants: [Participant] = []
  /// The participant on the executor, followed by the participants called from within it.
  private var executor: [Int] = []

  init() {}

  /// Adds a participant. With `within`, it begins inside the executor's job and keeps the executor until it ends or
  /// waits.
  mutating func join(_ name: String, _ first: Next<Step>, within: Bool = false) {
    // A new participant takes the place of one that has ended: that leaves fewer states to distinguish.
    let place = participants.firstIndex { $0.name == name && $0.next == .end } ?? participants.count
    if place < participants.count {
      participants[place].next = first
    } else {
      participants.append(Participant(name: name, next: first))
    }
    if within { executor.append(place) }
  }

  var unfinished: [String] { participants.filter { $0.next != .end }.map(\.name) }

  func count(named name: String) -> Int { participants.count { $0.name == name && $0.next != .end } }

  func isOnExecutor(_ participant: Int) -> Bool { executor.contains(participant) }

  mutating func makeWait(of participant: Int) -> Wait {
    participants[participant].waits += 1
    return Wait(participant: participant, number: participants[participant].waits)
  }

  /// - Parameter isWithin: Whether the participant continues at once, inside the job of its resumer.
  mutating func resume(_ wait: Wait, with next: Next<Step>, within isWithin: Bool = false) throws(Violation) {
    let participant = participants[wait.participant]
    guard participant.next == .wait, participant.waits == wait.number else {
      throw Violation("a waiter is resumed twice")
    }
    participants[wait.participant].next = next
    if isWithin, case .step = next { executor.append(wait.participant) }
  }

  fileprivate func next(of participant: Int) -> Step? {
    if case .step(let step) = participants[participant].next { step } else { nil }
  }

  fileprivate var indices: Range<Int> { participants.indices }

  fileprivate func mayTake(_ step: Step, _ participant: Int) -> Bool {
    guard let top = executor.last, top != participant else { return true }
    return !executor.contains(participant) && step.place == .anywhere
  }

  fileprivate mutating func takes(_ step: Step, _ participant: Int) {
    if step.place != .anywhere, !executor.contains(participant) { executor.append(participant) }
  }

  fileprivate mutating func took(_ participant: Int, next: Next<Step>) {
    participants[participant].next = if case .stepOutside(let step) = next { .step(step) } else { next }
    guard let place = executor.firstIndex(of: participant) else { return }
    switch next {
    case .wait, .end, .stepOutside: executor.remove(at: place)
    case .step(let step) where place == 0 && step.place != .onExecutor: executor.remove(at: place)
    case .step: break
    }
  }

  /// The participant's next step, without the names of modules and enclosing types.
  fileprivate func describe(_ participant: Int) -> String {
    let step = next(of: participant).map { "\($0)" } ?? "waits"
    let types = /\w+\.(\(unknown context at \$\w+\)\.)?(\w+\.)*/
    return "\(participant) \(participants[participant].name): " + step.replacing(types, with: "")
  }
}

extension Interleaved {
  var machine: Machine {
    get { printed.machine }
    set { printed = Printed(newValue) }
  }

  func isReady(_ step: Step) -> Bool { true }

  fileprivate var runnable: [Int] {
    crowd.indices.filter { participant in
      guard let step = crowd.next(of: participant) else { return false }
      return crowd.mayTake(step, participant) && isReady(step)
    }
  }

  fileprivate mutating func step(_ participant: Int) throws(Violation) {
    guard let step = crowd.next(of: participant) else { return }
    crowd.takes(step, participant)
    let next = try perform(step, by: participant)
    crowd.took(participant, next: next)
  }

  fileprivate var fingerprint: Int {
    mutating get {
      var hasher = Hasher()
      hasher.combine(crowd)
      hasher.combine(record)
      hasher.combine(printed.fingerprint)
      return hasher.finalize()
    }
  }
}
