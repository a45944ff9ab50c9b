import Dispatch
import PureduxTestSupport
import Testing

/// Runs every interleaving of a few participants around a pure state machine.
///
/// A participant is a sequential program of atomic steps, as the shells' functions are: a transition under the lock, an
/// access to an atomic, the resumption of a waiter, what is done for itself. Breadth first, so that a schedule that is
/// reported is one of the shortest. Schedules that come to the same are followed once, and counted all.
///
/// Every step is seen by all at once: what a weaker order of memory accesses allows is the thread sanitizer's business.
///
/// On a thread of its own, so that tests that wait for tasks do not wait for this.
func explore<System: Interleaved>(_ make: @escaping @Sendable () -> System) async -> Exploration {
  await withCheckedContinuation { continuation in
    DispatchQueue.global().async { continuation.resume(returning: explored(make)) }
  }
}

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
  /// How many schedules ran to their end, and how many steps were taken for that.
  var schedules = 0
  var steps = 0
  /// What can go wrong, each with one of the shortest schedules that lead to it.
  var failures: [String: String] = [:]

  /// Fails where anything went wrong, and where less was explored than there is.
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
  /// How many schedules lead here.
  var ways: Int
}

/// On a system of its own, so that what it counts of objects is its own, too.
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

/// A pure state machine, and the participants around it. Everything is values, so that a state can be gone on from more
/// than once.
protocol Interleaved: SendableMetatype {
  associatedtype Machine
  associatedtype Record: Hashable
  associatedtype Step: AtomicStep

  var printed: Printed<Machine> { get set }
  /// What the shell keeps beside the machine, and what the checks need to know of the past.
  var record: Record { get }
  var crowd: Crowd<Step> { get set }

  /// Carries out a step, and says what the participant does next.
  mutating func perform(_ step: Step, by participant: Int) throws(Violation) -> Next<Step>
  /// Whether what a step waits for, without a waiter of the machine's, has come.
  func isReady(_ step: Step) -> Bool
  func checkEnd() throws(Violation)
}

/// A machine, and how it prints until it changes: that takes longer than all the rest.
struct Printed<Machine> {
  let machine: Machine
  private var text: Int?

  init(_ machine: Machine) { self.machine = machine }

  /// What a machine is made of is its own business, so that its states are told apart by how they print.
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
  /// The first of what is done on the tree's executor in one go.
  case entersExecutor
  /// The rest of that.
  case onExecutor
}

enum Next<Step: Hashable>: Hashable {
  case step(Step)
  /// A step that is taken off the executor.
  case stepOutside(Step)
  /// A waiter of the participant's has been left with the machine.
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
  /// Who is on the executor, and within that who was called from there.
  private var executor: [Int] = []

  init() {}

  /// A new participant; one that begins within what is done on the executor keeps it until it ends or waits.
  mutating func join(_ name: String, _ first: Next<Step>, within: Bool = false) {
    // The place of one that is through is as good as a new one, and leaves fewer states to tell apart.
    let place = participants.firstIndex { $0.name == name && $0.next == .end } ?? participants.count
    if place < participants.count {
      participants[place].next = first
    } else {
      participants.append(Participant(name: name, next: first))
    }
    if within { executor.append(place) }
  }

  /// Those who are not through.
  var unfinished: [String] { participants.filter { $0.next != .end }.map(\.name) }

  func count(named name: String) -> Int { participants.count { $0.name == name && $0.next != .end } }

  func isOnExecutor(_ participant: Int) -> Bool { executor.contains(participant) }

  mutating func makeWait(of participant: Int) -> Wait {
    participants[participant].waits += 1
    return Wait(participant: participant, number: participants[participant].waits)
  }

  /// - Parameter isWithin: Whether the participant goes on at once, within what is done on the executor by who resumes
  ///   it.
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

  /// The step that a participant is about to take, without the modules and types that its parts are of.
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

  /// Tells states apart.
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
