// Each event is a line of a file, a flat JSON object:
//
//     {"process":"worker 1","clock":"5bb1…"}
//     {"invoke":1,"writer":"w1","action":"w1-1","at":1200}
//     {"return":1,"outcome":"acknowledged","position":7,"hash":"a1b2","at":1900}
//     {"invoke":2,"writer":"w1","read":"linearizable","at":2000}
//     {"begin":"r1","after":0,"hash":"0","at":1000}
//     {"apply":"r1","position":7,"actions":["w1-1"],"hash":"a1b2"}
//
// Times are in nanoseconds, hashes are hexadecimal. Unknown names are ignored, as notes for people.

extension Event {
  /// The event as a line, including the newline.
  public var line: [UInt8] {
    var line = LineWriter()
    switch self {
    case .process(let name, let clock):
      line.add("process", name)
      line.add("clock", clock)
    case .invocation(let call, let writer, let action, let at):
      line.add("invoke", call)
      line.add("writer", writer)
      line.add("action", action)
      line.add("at", at)
    case .read(let call, let writer, let claim, let at):
      line.add("invoke", call)
      line.add("writer", writer)
      line.add("read", claim.rawValue)
      line.add("at", at)
    case .response(let call, let outcome, let position, let hash, let at):
      line.add("return", call)
      line.add("outcome", outcome.rawValue)
      if let position { line.add("position", position) }
      if let hash { line.add("hash", String(hash, radix: 16)) }
      line.add("at", at)
    case .incarnation(let replica, let after, let hash, let at):
      line.add("begin", replica)
      line.add("after", after)
      line.add("hash", String(hash, radix: 16))
      line.add("at", at)
    case .applied(let replica, let position, let actions, let hash):
      line.add("apply", replica)
      line.add("position", position)
      line.add("actions", actions)
      line.add("hash", String(hash, radix: 16))
    }
    return line.ended()
  }

  /// Parses a line without its newline. Nil if it is no event.
  public init?(line: ArraySlice<UInt8>) {
    var parser = LineParser(line)
    guard let fields = parser.fields(), let event = Event(fields) else { return nil }
    self = event
  }

  private init?(_ fields: LineFields) {
    if let call = fields.invoke {
      guard let writer = fields.writer, let at = fields.at else { return nil }
      if let action = fields.action {
        self = .invocation(call: call, writer: writer, action: action, at: at)
      } else if let claim = fields.read.flatMap(Claim.init(rawValue:)) {
        self = .read(call: call, writer: writer, claim: claim, at: at)
      } else {
        return nil
      }
    } else if let call = fields.returned {
      guard let outcome = fields.outcome.flatMap(Outcome.init(rawValue:)), let at = fields.at else { return nil }
      self = .response(call: call, outcome: outcome, position: fields.position, hash: fields.hash, at: at)
    } else if let replica = fields.apply {
      guard let position = fields.position, let actions = fields.actions, let hash = fields.hash else { return nil }
      self = .applied(replica: replica, position: position, actions: actions, hash: hash)
    } else if let replica = fields.begin {
      guard let after = fields.after, let hash = fields.hash, let at = fields.at else { return nil }
      self = .incarnation(replica: replica, after: after, hash: hash, at: at)
    } else if let name = fields.process, let clock = fields.clock {
      self = .process(name: name, clock: clock)
    } else {
      return nil
    }
  }
}

private struct LineWriter {
  private var bytes: [UInt8] = []

  init() { bytes.reserveCapacity(100) }

  private mutating func begin(_ name: String) {
    bytes.append(bytes.isEmpty ? UInt8(ascii: "{") : UInt8(ascii: ","))
    write(name)
    bytes.append(UInt8(ascii: ":"))
  }

  mutating func add(_ name: String, _ value: Int) {
    begin(name)
    bytes += String(value).utf8
  }

  mutating func add(_ name: String, _ value: String) {
    begin(name)
    write(value)
  }

  mutating func add(_ name: String, _ values: [String]) {
    begin(name)
    bytes.append(UInt8(ascii: "["))
    for (index, value) in values.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      write(value)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  private mutating func write(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
      case 0..<32:
        bytes += #"\u00"#.utf8
        if byte < 16 { bytes.append(UInt8(ascii: "0")) }
        bytes += String(byte, radix: 16).utf8
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  mutating func ended() -> [UInt8] {
    bytes += [UInt8(ascii: "}"), UInt8(ascii: "\n")]
    return bytes
  }
}
