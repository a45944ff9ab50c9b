import Histories

/// A log, its replicas and writers, simulated step by step: correct, with everything that may happen to them.
struct Simulation {
  /// Who calls: one thing at a time, from a process.
  private struct Writer {
    let name: String
    let file: Int
    var pending: (call: Int, action: String?, claim: Claim, invoked: Int)?
    /// The furthest position that it was told.
    var told = 0
    /// An action of which it does not know whether it was taken.
    var unknown: String?
  }

  private struct Replica {
    let name: String
    let file: Int
    /// How many entries of the log it has.
    var count: Int
    let first: Int
  }

  private var random: SeededGenerator
  private(set) var recording = Recording()
  private var writers: [Writer] = []
  private var replicas: [Replica] = []
  /// What was accepted and is not in the log, in the order in which it was.
  private var onTheWay: [(file: Int, action: String)] = []
  private var calls: [Int: Int] = [:]
  private var time = 1000
  private var actions = 0
  /// The furthest position that anybody was told, for linearizable reads.
  private var places: [String: Int] = [:]

  static func recording(seed: UInt64, steps: Int) -> Recording {
    var simulation = Simulation(random: SeededGenerator(seed: seed))
    simulation.run(steps: steps)
    return simulation.recording
  }

  private init(random: SeededGenerator) { self.random = random }

  private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  private mutating func run(steps: Int) {
    for _ in 0..<2 { beginProcess() }
    for number in 0..<3 { beginReplica("r\(number)", count: 0) }
    for _ in 0..<steps {
      time += Int.random(in: 1...20, using: &random)
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<35: invoke()
      case 35..<55: append()
      case 55..<75: respond()
      case 75..<96: apply(Int.random(in: 0..<replicas.count, using: &random))
      case 96: crashProcess()
      case 97: crashReplica()
      default: break
      }
    }
    for number in replicas.indices { while replicas[number].count < recording.log.count { apply(number) } }
  }

  // MARK: Writers

  /// On one of two machines, with a clock each.
  private mutating func beginProcess() {
    let file = recording.begin("process-\(recording.files.count)", machine: Int.random(in: 0..<2, using: &random))
    for number in 0..<3 { writers.append(Writer(name: "w\(number)", file: file)) }
  }

  private func now(_ file: Int) -> Int { time + recording.files[file].machine * 1_000_000_000 }

  private mutating func invoke() {
    let free = writers.indices.filter { writers[$0].pending == nil }
    guard let index = free.randomElement(using: &random) else { return }
    let file = writers[index].file
    calls[file, default: 0] += 1
    let call = calls[file, default: 0]
    let writer = writers[index].name
    if chance(25) {
      let claim = Claim.allCases.randomElement(using: &random) ?? .committed
      writers[index].pending = (call, nil, claim, recording.log.count)
      recording.add(.event(.read(call: call, writer: writer, claim: claim, at: now(file))), to: file)
      return
    }
    var action = "a\(actions)"
    if let unknown = writers[index].unknown, chance(50) {
      action = unknown
      writers[index].unknown = nil
    } else {
      actions += 1
    }
    writers[index].pending = (call, action, .committed, 0)
    recording.add(.event(.invocation(call: call, writer: writer, action: action, at: now(file))), to: file)
    if places[action] == nil, !onTheWay.contains(where: { $0.action == action }) { onTheWay.append((file, action)) }
  }

  /// What waits goes to the log: that of each process in its order, of different ones in any.
  private mutating func append() {
    var entry: [String] = []
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      guard let file = onTheWay.randomElement(using: &random)?.file,
        let index = onTheWay.firstIndex(where: { $0.file == file })
      else { break }
      entry.append(onTheWay.remove(at: index).action)
    }
    let position = (recording.log.last?.position ?? 0) + Int.random(in: 1...3, using: &random)
    for action in entry { places[action] = position }
    recording.log.append(Recording.Entry(position: position, actions: entry))
  }

  private mutating func respond() {
    guard let index = writers.indices.filter({ writers[$0].pending != nil }).randomElement(using: &random),
      let pending = writers[index].pending
    else { return }
    let file = writers[index].file
    func response(_ outcome: Outcome, _ position: Int?) -> Recording.Item {
      .response(call: pending.call, outcome, position: position, at: now(file))
    }
    guard let action = pending.action else {
      let oldest =
        switch pending.claim {
        case .linearizable: pending.invoked
        case .ownWrites: recording.log.firstIndex { $0.position >= writers[index].told }.map { $0 + 1 } ?? 0
        case .committed: 0
        }
      // The number of entries that the state has; of none, only where none was told.
      let isNoneAllowed = pending.claim == .committed || (pending.claim == .ownWrites && writers[index].told == 0)
      let count = Int.random(
        in: min(isNoneAllowed ? 0 : oldest, recording.log.count)...recording.log.count, using: &random)
      let position = count == 0 ? 0 : recording.log[count - 1].position
      recording.add(response(.acknowledged, position), to: file)
      writers[index].told = max(writers[index].told, position)
      writers[index].pending = nil
      return
    }
    if let position = places[action], chance(90) {
      recording.add(response(.acknowledged, chance(50) ? position : nil), to: file)
      writers[index].told = max(writers[index].told, position)
    } else if let place = onTheWay.firstIndex(where: { $0.action == action }), chance(10),
      !recording.tried.contains(action)
    {
      onTheWay.remove(at: place)
      recording.add(response(.failed, nil), to: file)
    } else if chance(20) {
      recording.add(response(.unknown, nil), to: file)
      recording.tried.insert(action)
      writers[index].unknown = action
    } else {
      return
    }
    writers[index].pending = nil
  }

  /// What the process had on its way comes later, or never. Its last line may be torn.
  private mutating func crashProcess() {
    guard let file = writers.randomElement(using: &random)?.file else { return }
    writers.removeAll { $0.file == file }
    if chance(50) { onTheWay.removeAll { $0.file == file } }
    recording.files[file].isTorn = chance(50)
    beginProcess()
  }

  // MARK: Replicas

  private mutating func beginReplica(_ name: String, count: Int) {
    let file = recording.begin("replica-\(recording.files.count)", machine: Int.random(in: 0..<2, using: &random))
    let position = count == 0 ? 0 : recording.log[count - 1].position
    recording.add(.begin(name, after: position, at: now(file)), to: file)
    replicas.append(Replica(name: name, file: file, count: count, first: count))
  }

  private mutating func apply(_ number: Int) {
    guard replicas[number].count < recording.log.count else { return }
    let position = recording.log[replicas[number].count].position
    recording.add(.apply(replicas[number].name, position: position), to: replicas[number].file)
    replicas[number].count += 1
  }

  /// It may have applied what it did not come to record, and begins with a snapshot of whatever it had, or anew.
  private mutating func crashReplica() {
    let number = Int.random(in: 1..<replicas.count, using: &random)
    let replica = replicas.remove(at: number)
    if replica.count > replica.first, chance(30) { recording.files[replica.file].items.removeLast() }
    recording.files[replica.file].isTorn = chance(30)
    beginReplica(replica.name, count: chance(30) ? 0 : Int.random(in: 0...replica.count, using: &random))
  }
}

struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var bits = state
    bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
    bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
    return bits ^ (bits >> 31)
  }
}
