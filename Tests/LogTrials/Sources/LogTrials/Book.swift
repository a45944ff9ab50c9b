/// What the writers of a trial write.
struct Entry: Codable, Sendable, Hashable {
  let run: Int
  let writer: Int
  let number: Int

  /// What a history calls it.
  var name: String { "\(run)-\(writer)-\(number)" }

  /// The last one of a trial.
  static let end = Entry(run: -1, writer: 0, number: 1)
}

/// The state that entries make.
struct Book: Codable, Sendable {
  /// The last number of each writer of each run.
  var last: [Int: Int] = [:]
  /// How many entries it has: its position in a history.
  var count = 0
  /// Of all entries, in order, and of what was known of each writer when it wrote.
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
