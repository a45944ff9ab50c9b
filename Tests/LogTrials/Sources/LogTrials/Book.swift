/// An action of a trial's writers.
struct Entry: Codable, Sendable, Hashable {
  let run: Int
  let writer: Int
  let number: Int

  var name: String { "\(run)-\(writer)-\(number)" }

  /// The last entry of a trial.
  static let end = Entry(run: -1, writer: 0, number: 1)
}

/// The state of a trial's stores.
struct Book: Codable, Sendable {
  /// Each writer's last number, by run.
  var last: [Int: Int] = [:]
  var count = 0
  /// A hash of all entries in order, and of each writer's last number at that time.
  var hash: UInt64 = 0

  mutating func enter(_ entry: Entry) {
    let key = entry.run * 100 + entry.writer
    for number in [key, last[key, default: 0], entry.number] {
      hash = (hash ^ UInt64(bitPattern: Int64(number))) &* 1_099_511_628_211
      hash ^= hash >> 29
    }
    last[key] = entry.number
    count += 1
  }

  var hasEnded: Bool { last[-100] != nil }
}
