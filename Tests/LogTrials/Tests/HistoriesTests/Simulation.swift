import Histories

/// A correct log with replicas and writers, simulated step by step, including all permitted failures.
struct Simulation {
  /// A writer in a process, with one call at a time.
  private struct Writer {
    let name: String
    let file: Int
    var pending: (call: Int, action: String?, claim: Claim, invoked: Int)?
    /// The furthest position in its results.
    var told = 0
    /// An action with an unknown outcome.
    var unknown: String?
  }

  private struct Replica {
    let name: String
    let file: Int
    /// The number of its entries in the log.
    var count: Int
    let first: Int
  }

  private var random: SeededGenerator
  private(set) var recording = Recording()
  private var writers: [Writer] = []
  private var replicas: [Replica] = []
  /// Accepted actions that are not in the log yet, in order.
  private var onTheWay: [(file: Int, action: String)] = []
  private var calls: [Int: Int] = [:]
  private var time = 1000
  private var actions = 0
  /// The furthest position in any result, for linearizable reads.
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

  /// Begins a process on one of two machines, each with a clock.
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

  /// Appends pending actions: in order for each process, in any order among processes.
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
      // The number of entries in the shown state. Zero only if no result was before.
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

  /// The actions in flight arrive later or never. The last line may be torn.
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

  /// The replica may have applied unrecorded entries. It begins again with a snapshot of any earlier state, or with the
  /// initial state.
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
