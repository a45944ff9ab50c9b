/// A random program of tasks that use, release and end the stores of a directory.
public struct DirectoryProgram: Codable, Sendable, Equatable {
  /// In nanoseconds of a clock that is advanced by hand.
  public var idleLimit = 0
  public var countLimit = Int.max
  public var finishes = false
  public var makers: [Maker] = []
  public var tasks: [[Step]] = []
  public var ending = Ending.shutDown

  public init() {}

  public struct Maker: Codable, Sendable, Equatable {
    public var yields = 0
    /// If set, every call whose number is a multiple of this fails.
    public var failsEvery: Int?
    public var asks: [Int] = []
    public var shutsDown = false

    public init() {}
  }

  public enum Step: Codable, Sendable, Equatable {
    case use(Int, sends: Int, yields: Int)
    case open(Int, handle: Int)
    case send(handle: Int)
    /// Sends an action whose effect runs for a while, and may end the directory.
    case work(handle: Int, yields: Int, shutsDown: Bool)
    case drop(handle: Int)
    case shutDownStore(handle: Int)
    case cancelled(Int)
    case shutDown
    case keys
    case move(Int)
    case yield(Int)
  }

  public enum Ending: Codable, Sendable, Equatable {
    case shutDown
    /// The directory is released without a shutdown.
    case drop
  }
}

extension DirectoryProgram {
  public init(seed: UInt64, features: Features = .all) {
    var random = SeededGenerator(seed: seed)
    random = SeededGenerator(seed: random.next() ^ 0xD12)
    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    idleLimit = [0, 0, 5, 20, 1_000][below(5)]
    if below(3) == 0 { countLimit = below(3) }
    finishes = below(3) == 0
    let keys = 1 + below(4)
    for key in 0..<keys {
      var maker = Maker()
      maker.yields = below(6)
      if below(4) == 0 { maker.failsEvery = 1 + below(3) }
      if features.contains(.makerCycles) {
        if below(3) == 0 { maker.asks = (0..<(1 + below(2))).map { _ in below(keys) } }
      } else if key > 0, below(3) == 0 {
        maker.asks = [below(key)]
      }
      maker.shutsDown = below(20) == 0
      makers.append(maker)
    }
    let mayShutDown = below(3) == 0
    for _ in 0..<(1 + below(4)) {
      tasks.append(
        (0..<(3 + below(12))).map { _ in
          switch below(16) {
          case 0...4: .use(below(keys), sends: below(4), yields: below(8))
          case 5...6: .open(below(keys), handle: below(3))
          case 7...8: .send(handle: below(3))
          case 9: .work(handle: below(3), yields: below(20), shutsDown: mayShutDown && below(3) == 0)
          case 10: .drop(handle: below(3))
          case 11: below(3) == 0 ? .shutDownStore(handle: below(3)) : .drop(handle: below(3))
          case 12: .cancelled(below(keys))
          case 13: mayShutDown && below(2) == 0 ? .shutDown : .keys
          case 14: .move(1 + below(30))
          default: .yield(1 + below(10))
          }
        })
    }
    if features.contains(.droppedDirectories), below(3) == 0 { ending = .drop }
  }

  var simplifications: [() -> DirectoryProgram?] {
    var all: [() -> DirectoryProgram?] = []
    func add(_ change: @escaping (inout DirectoryProgram) -> Void) {
      all.append {
        var changed = self
        change(&changed)
        return changed
      }
    }
    for task in tasks.indices { add { $0.tasks.remove(at: task) } }
    for task in tasks.indices { for step in tasks[task].indices { add { $0.tasks[task].remove(at: step) } } }
    for key in makers.indices {
      add { $0.makers[key] = Maker() }
      add { $0.makers[key].yields = 0 }
      add { $0.makers[key].failsEvery = nil }
      add { $0.makers[key].asks = [] }
      add { $0.makers[key].shutsDown = false }
    }
    add { $0.idleLimit = 0 }
    add { $0.countLimit = .max }
    add { $0.finishes = false }
    add { $0.ending = .shutDown }
    return all
  }
}

extension DirectoryProgram: CustomStringConvertible {
  public var description: String {
    var lines = [
      "directory, idle limit \(idleLimit), count limit \(countLimit)\(finishes ? ", finishing" : ""), ending: \(ending)"
    ]
    for (key, maker) in makers.enumerated() {
      var line = "key \(key): made after \(maker.yields) yields"
      if let number = maker.failsEvery { line += ", each \(number)th call fails" }
      if !maker.asks.isEmpty { line += ", asks for \(maker.asks)" }
      if maker.shutsDown { line += ", shuts the directory down" }
      lines.append(line)
    }
    for (number, task) in tasks.enumerated() {
      lines.append("task \(number):")
      lines += task.enumerated().map { "  \($0.offset): \($0.element)" }
    }
    return lines.joined(separator: "\n")
  }
}
