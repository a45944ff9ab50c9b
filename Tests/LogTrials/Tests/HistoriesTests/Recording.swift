import Histories

/// A simulation's history before it is written as lines. Records refer to the log, so that a change of the log affects
/// all of them.
struct Recording {
  struct Entry {
    var position: Int
    var actions: [String]
  }

  enum Item {
    case event(Event)
    /// With the state of the position, if there is one.
    case response(call: Int, Outcome, position: Int?, at: Int)
    case begin(String, after: Int, at: Int)
    case apply(String, position: Int)
    /// A line that is no event.
    case garbage
  }

  struct File {
    let name: String
    let machine: Int
    var items: [Item]
    var isTorn = false
  }

  var log: [Entry] = []
  var files: [File] = []
  /// Actions that had an unknown outcome once.
  var tried: Set<String> = []

  mutating func begin(_ name: String, machine: Int) -> Int {
    files.append(
      File(name: name, machine: machine, items: [.event(.process(name: name, clock: "machine \(machine)"))]))
    return files.count - 1
  }

  mutating func add(_ item: Item, to file: Int) { files[file].items.append(item) }

  /// The hash of the state after each position.
  private var hashes: [Int: UInt64] {
    var hashes = [0: UInt64(1)]
    var hash: UInt64 = 1
    for entry in log {
      for action in entry.actions { for byte in action.utf8 { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 } }
      hashes[entry.position] = hash
    }
    return hashes
  }

  /// A replica's record of a position.
  func applied(_ replica: String, _ position: Int) -> Event {
    let actions = log.first { $0.position == position }?.actions ?? []
    return .applied(replica: replica, position: position, actions: actions, hash: hashes[position] ?? 0)
  }

  var history: History {
    let hashes = hashes
    let entries = Dictionary(uniqueKeysWithValues: log.map { ($0.position, $0.actions) })
    var history = History()
    for file in files {
      var lines: [UInt8] = []
      for item in file.items {
        switch item {
        case .event(let event): lines += event.line
        case .response(let call, let outcome, let position, let at):
          lines +=
            Event.response(
              call: call, outcome: outcome, position: position, hash: position.flatMap { hashes[$0] }, at: at
            ).line
        case .begin(let replica, let after, let at):
          lines += Event.incarnation(replica: replica, after: after, hash: hashes[after] ?? 0, at: at).line
        case .apply(let replica, let position):
          lines +=
            Event.applied(
              replica: replica, position: position, actions: entries[position] ?? [], hash: hashes[position] ?? 0
            ).line
        case .garbage: lines += Array("{\"apply\":\n".utf8)
        }
      }
      if file.isTorn { lines += Array("{\"apply\":\"r".utf8) }
      history.add(lines, named: file.name)
    }
    return history
  }
}
