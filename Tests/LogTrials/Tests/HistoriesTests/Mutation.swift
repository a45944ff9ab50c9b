import Histories

/// Changes that make a correct history incorrect, and the resulting violations.
enum Mutation: String, CaseIterable, Sendable {
  /// Changes to the log, and so to all replicas.
  case drop, double, swap
  /// Changes to one replica's records.
  case dropOnOne, swapOnOne, changeOnOne, repeatOnOne
  /// Changes to callers' records.
  case refuse, forget, readOlder, readBeyond
  /// Changes to a line.
  case garble

  var expected: Violation.Kind {
    switch self {
    case .drop: .lost
    case .double: .doubled
    case .swap: .reordered
    case .dropOnOne: .notAPrefix
    case .swapOnOne, .changeOnOne: .diverged
    case .repeatOnOne: .notRising
    case .refuse: .refusedYetApplied
    case .forget, .readBeyond: .ofNobody
    case .readOlder: .stale
    case .garble: .unreadable
    }
  }

  /// Changes a recording. Returns false if the recording has nothing to change in this way.
  func apply(to recording: inout Recording, using random: inout SeededGenerator) -> Bool {
    switch self {
    case .drop: recording.drop(using: &random)
    case .double: recording.double(using: &random)
    case .swap: recording.swap(using: &random)
    case .dropOnOne, .swapOnOne, .changeOnOne, .repeatOnOne: recording.change(self, using: &random)
    case .refuse: recording.refuse(using: &random)
    case .forget: recording.forget(using: &random)
    case .readOlder: recording.readOlder(using: &random)
    case .readBeyond: recording.readBeyond(using: &random)
    case .garble: recording.garble(using: &random)
    }
  }
}

extension Recording {
  /// A call and the places of its lines.
  private struct Call {
    let file: Int
    let writer: String
    let action: String?
    let claim: Claim?
    let invocation: Int
    let invoked: Int
    var response: Int?
    var returned = Int.max
    var outcome = Outcome.unknown
    var position: Int?
  }

  private var calls: [Call] {
    var calls: [Call] = []
    for (file, recorded) in files.enumerated() {
      var pending: [Int: Int] = [:]
      for (line, item) in recorded.items.enumerated() {
        switch item {
        case .event(.invocation(let call, let writer, let action, let at)):
          pending[call] = calls.count
          calls.append(
            Call(file: file, writer: writer, action: action, claim: nil, invocation: line, invoked: at))
        case .event(.read(let call, let writer, let claim, let at)):
          pending[call] = calls.count
          calls.append(
            Call(file: file, writer: writer, action: nil, claim: claim, invocation: line, invoked: at))
        case .response(let call, let outcome, let position, let at):
          guard let index = pending[call] else { continue }
          (calls[index].response, calls[index].returned) = (line, at)
          (calls[index].outcome, calls[index].position) = (outcome, position)
        default: break
        }
      }
    }
    return calls
  }

  private var flat: [(entry: Int, index: Int, action: String)] {
    log.indices.flatMap { entry in log[entry].actions.indices.map { (entry, $0, log[entry].actions[$0]) } }
  }

  fileprivate mutating func drop(using random: inout SeededGenerator) -> Bool {
    let acknowledged = Set(calls.filter { $0.outcome == .acknowledged }.compactMap(\.action))
    guard let one = flat.filter({ acknowledged.contains($0.action) }).randomElement(using: &random) else {
      return false
    }
    log[one.entry].actions.remove(at: one.index)
    return true
  }

  fileprivate mutating func double(using random: inout SeededGenerator) -> Bool {
    guard let one = flat.randomElement(using: &random) else { return false }
    log[Int.random(in: one.entry..<log.count, using: &random)].actions.append(one.action)
    return true
  }

  /// Swaps two actions of one writer, or two of which the first was acknowledged before the second was called, by the
  /// same clock.
  fileprivate mutating func swap(using random: inout SeededGenerator) -> Bool {
    let calls = Dictionary(grouping: calls.filter { $0.action != nil }, by: \.action)
    let flat = flat
    var pairs: [(Int, Int)] = []
    for one in flat.indices {
      for other in flat.indices where one < other {
        guard let first = calls[flat[one].action], let second = calls[flat[other].action], first.count == 1,
          second.count == 1, files[first[0].file].machine == files[second[0].file].machine
        else { continue }
        let isSameWriter = first[0].file == second[0].file && first[0].writer == second[0].writer
        if isSameWriter || (first[0].outcome == .acknowledged && first[0].returned < second[0].invoked) {
          pairs.append((one, other))
        }
      }
    }
    guard let (one, other) = pairs.randomElement(using: &random) else { return false }
    log[flat[one].entry].actions[flat[one].index] = flat[other].action
    log[flat[other].entry].actions[flat[other].index] = flat[one].action
    return true
  }

  /// Changes one replica's record of a position that another replica has recorded as well.
  fileprivate mutating func change(_ mutation: Mutation, using random: inout SeededGenerator) -> Bool {
    var lines: [(file: Int, line: Int, replica: String, position: Int)] = []
    for (file, recorded) in files.enumerated() {
      for (line, item) in recorded.items.enumerated() {
        if case .apply(let replica, let position) = item { lines.append((file, line, replica, position)) }
      }
    }
    let count = Dictionary(lines.map { ($0.position, 1) }, uniquingKeysWith: +)
    // A replica's last entry cannot be missed.
    let shared = lines.filter { count[$0.position, default: 0] > 1 && $0.line + 1 < files[$0.file].items.count }
    let several = Set(log.filter { $0.actions.count > 1 }.map(\.position))
    let fitting = mutation == .swapOnOne ? shared.filter { several.contains($0.position) } : shared
    guard let one = fitting.randomElement(using: &random) else { return false }
    switch mutation {
    case .dropOnOne: files[one.file].items.remove(at: one.line)
    case .repeatOnOne: files[one.file].items.insert(.apply(one.replica, position: one.position), at: one.line)
    default:
      guard case .applied(_, _, var actions, var hash) = applied(one.replica, one.position) else { return false }
      if mutation == .changeOnOne {
        hash ^= 1 << UInt64.random(in: 0..<64, using: &random)
      } else {
        actions.swapAt(0, 1)
      }
      files[one.file].items[one.line] =
        .event(.applied(replica: one.replica, position: one.position, actions: actions, hash: hash))
    }
    return true
  }

  /// An action that is in the log, and was called once.
  private func applied(using random: inout SeededGenerator) -> Call? {
    let inLog = Set(flat.map(\.action))
    let calls = Dictionary(grouping: calls.filter { $0.action.map(inLog.contains) ?? false }, by: \.action)
    return calls.values.filter { $0.count == 1 && $0[0].response != nil }.map { $0[0] }
      .sorted { ($0.file, $0.invocation) < ($1.file, $1.invocation) }.randomElement(using: &random)
  }

  fileprivate mutating func refuse(using random: inout SeededGenerator) -> Bool {
    guard let call = applied(using: &random), let line = call.response,
      case .response(let number, _, _, let at) = files[call.file].items[line]
    else { return false }
    files[call.file].items[line] = .response(call: number, .failed, position: nil, at: at)
    return true
  }

  fileprivate mutating func forget(using random: inout SeededGenerator) -> Bool {
    guard let call = applied(using: &random), let line = call.response else { return false }
    files[call.file].items.remove(at: line)
    files[call.file].items.remove(at: call.invocation)
    return true
  }

  private mutating func read(_ call: Call, at position: Int) -> Bool {
    guard let line = call.response, case .response(let number, let outcome, _, let at) = files[call.file].items[line]
    else { return false }
    files[call.file].items[line] = .response(call: number, outcome, position: position, at: at)
    return true
  }

  fileprivate mutating func readOlder(using random: inout SeededGenerator) -> Bool {
    let calls = calls
    var places: [String: Int] = [:]
    for place in flat { places[place.action] = log[place.entry].position }
    var tooOld: [(Call, Int)] = []
    for read in calls where read.response != nil && read.claim.map({ $0 != .committed }) ?? false {
      let before = calls.filter { other in
        other.outcome == .acknowledged && other.returned < read.invoked
          && (read.claim == .linearizable
            ? files[other.file].machine == files[read.file].machine
            : other.file == read.file && other.writer == read.writer)
      }
      let furthest = before.compactMap { $0.action.map { places[$0] ?? 0 } ?? $0.position }.max() ?? 0
      for position in [0] + log.map(\.position) where position < furthest { tooOld.append((read, position)) }
    }
    guard let (call, position) = tooOld.randomElement(using: &random) else { return false }
    return read(call, at: position)
  }

  fileprivate mutating func readBeyond(using random: inout SeededGenerator) -> Bool {
    guard let call = calls.filter({ $0.claim != nil && $0.response != nil }).randomElement(using: &random),
      let last = log.last?.position
    else { return false }
    return read(call, at: last + Int.random(in: 1...1000, using: &random))
  }

  fileprivate mutating func garble(using random: inout SeededGenerator) -> Bool {
    let file = Int.random(in: 0..<files.count, using: &random)
    files[file].items[Int.random(in: 0..<files[file].items.count, using: &random)] = .garbage
    return true
  }
}
