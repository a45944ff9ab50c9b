/// A dictionary whose values may become obsolete. A sweep whenever it has doubled removes them, in amortized constant
/// time.
struct SweptTable<Key: Hashable, Value> {
  private var values: [Key: Value] = [:]
  private var sweepCount = 64

  subscript(key: Key) -> Value? { values[key] }

  var keys: Dictionary<Key, Value>.Keys { values.keys }

  var entries: [Key: Value] { values }

  mutating func value(of key: Key, orMake make: () -> Value, isOver: (Value) -> Bool) -> Value {
    if let value = values[key] { return value }
    if values.count >= sweepCount {
      values = values.filter { !isOver($0.value) }
      sweepCount = max(64, values.count * 2)
    }
    let made = make()
    values[key] = made
    return made
  }

  mutating func remove(_ key: Key) -> Value? { values.removeValue(forKey: key) }
}
