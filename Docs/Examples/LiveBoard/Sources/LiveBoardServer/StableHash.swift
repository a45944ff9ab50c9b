/// A hash with the same value in every process, unlike Swift's `Hasher`.
struct StableHash {
  private(set) var value: UInt64 = 14_695_981_039_346_656_037

  mutating func combine(_ number: Int) {
    value = (value ^ UInt64(truncatingIfNeeded: number)) &* 1_099_511_628_211
    value ^= value >> 29
  }

  mutating func combine(_ text: String) {
    for byte in text.utf8 { value = (value ^ UInt64(byte)) &* 1_099_511_628_211 }
    combine(text.utf8.count)
  }

  mutating func combine(_ place: Board.Place?) {
    guard let place else { return combine(0) }
    combine(1 + place.column)
    combine(place.position)
    combine(place.text)
    combine(place.kind)
    combine(place.author ?? "")
  }

  mutating func combine(_ kind: Board.Kind?) {
    switch kind {
    case nil: combine(0)
    case .task: combine(1)
    case .note(let colour): combine(colour.rawValue)
    }
  }
}
