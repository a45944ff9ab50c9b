import Histories

/// A handwritten history. Files are named after their processes, and have the clock `here` unless another one is
/// passed.
struct Script {
  private(set) var files: [(name: String, events: [Event])] = []
  private var calls = 0

  /// The hash of a sequence of actions.
  static func hash(_ actions: [String]) -> UInt64 {
    actions.reduce(17) { hash, action in action.utf8.reduce(hash &* 31 &+ 7) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
    }
  }

  mutating func add(_ events: Event..., to file: String, clock: String = "here") {
    if !files.contains(where: { $0.name == file }) { files.append((file, [.process(name: file, clock: clock)])) }
    for index in files.indices where files[index].name == file { files[index].events += events }
  }

  /// A call between two times. Without a second time, it has not returned.
  mutating func call(
    _ action: String, by writer: String = "w1", _ from: Int, _ to: Int?, _ outcome: Outcome = .acknowledged,
    position: Int? = nil, hash: UInt64? = nil, in file: String = "writers", clock: String = "here"
  ) {
    calls += 1
    add(.invocation(call: calls, writer: writer, action: action, at: from), to: file, clock: clock)
    guard let to else { return }
    add(.response(call: calls, outcome: outcome, position: position, hash: hash, at: to), to: file, clock: clock)
  }

  mutating func read(
    _ claim: Claim, by writer: String = "w1", _ from: Int, _ to: Int, position: Int, hash: UInt64? = nil,
    in file: String = "writers", clock: String = "here"
  ) {
    calls += 1
    add(.read(call: calls, writer: writer, claim: claim, at: from), to: file, clock: clock)
    add(.response(call: calls, outcome: .acknowledged, position: position, hash: hash, at: to), to: file, clock: clock)
  }

  /// A replica that begins with the state of some actions and applies others, one per position.
  mutating func replica(
    _ name: String, behind snapshot: [String] = [], _ actions: [String], at time: Int = 0, in file: String? = nil,
    clock: String = "here"
  ) {
    let file = file ?? name
    add(
      .incarnation(replica: name, after: snapshot.count, hash: Self.hash(snapshot), at: time), to: file, clock: clock)
    var all = snapshot
    for action in actions {
      all.append(action)
      add(.applied(replica: name, position: all.count, actions: [action], hash: Self.hash(all)), to: file, clock: clock)
    }
  }

  var history: History {
    var history = History()
    for file in files { history.add(file.events.flatMap(\.line), named: file.name) }
    return history
  }

  var verdict: Verdict { history.checked() }
}

extension Verdict {
  var kinds: Set<Violation.Kind> { Set(counts.keys) }
}

extension Verdict.Figures {
  static func with(_ change: (inout Self) -> Void) -> Self {
    var figures = Self()
    change(&figures)
    return figures
  }
}
