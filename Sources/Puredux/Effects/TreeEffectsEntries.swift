extension TreeEffects {
  /// An entry for each store that has a runner, slots or endings, and for those above it, so that the stores below
  /// another are found without a full search.
  struct Entries {
    /// A store, or any object that there is one of per store.
    typealias Place = any AnyObject & Sendable

    struct Entry {
      /// Held, because its address identifies the entry.
      let place: Place
      var runner: EffectRunner?
      var slots: EffectSlots?
      var endings: [Int: @Sendable () -> Void] = [:]
      private var end: End?
      fileprivate var above: ObjectIdentifier?
      fileprivate var below: Set<ObjectIdentifier> = []

      fileprivate init(place: Place) {
        self.place = place
      }

      fileprivate var isOver: Bool { runner == nil && slots == nil && endings.isEmpty && below.isEmpty }

      /// Records that the store ends. False if its end, and that of all stores below it, was already recorded.
      mutating func ends(cancelling: Bool) -> Bool {
        guard end == nil || (end == .finishing && cancelling) else { return false }
        end = cancelling ? .cancelling : .finishing
        return true
      }
    }

    private enum End { case finishing, cancelling }

    private var entries: [ObjectIdentifier: Entry] = [:]

    var isEmpty: Bool { entries.isEmpty }
    var runners: [EffectRunner] { entries.values.compactMap(\.runner) }

    var slots: [EffectSlots] { entries.values.compactMap(\.slots) }

    func runner(of id: ObjectIdentifier) -> EffectRunner? { entries[id]?.runner }
    func slots(of id: ObjectIdentifier) -> EffectSlots? { entries[id]?.slots }

    mutating func change(along path: some Sequence<Place>, _ change: (inout Entry) -> Void) {
      var below: ObjectIdentifier?
      for place in path {
        let id = ObjectIdentifier(place)
        let isNew = entries[id] == nil
        if let below {
          entries[below]?.above = id
          entries[id, default: Entry(place: place)].below.insert(below)
        } else {
          change(&entries[id, default: Entry(place: place)])
        }
        guard isNew else { return }
        below = id
      }
    }

    /// Changes an existing entry. Returns the dropped entries, in which nothing is left, to be released outside the
    /// lock.
    mutating func change(_ id: ObjectIdentifier, _ change: (inout Entry) -> Void) -> [Entry] {
      visit(id) { entry in
        change(&entry)
        return false
      }
    }

    /// Visits a store and then the stores below it; if the closure returns false, those below are left out. Returns the
    /// dropped entries, like `change`.
    mutating func visit(_ id: ObjectIdentifier, _ body: (inout Entry) -> Bool) -> [Entry] {
      var waiting = [id]
      var visited: [ObjectIdentifier] = []
      while let id = waiting.popLast() {
        guard let index = entries.index(forKey: id) else { continue }
        visited.append(id)
        if body(&entries.values[index]) { waiting.append(contentsOf: entries.values[index].below) }
      }
      var dropped: [Entry] = []
      for id in visited { drop(id, into: &dropped) }
      return dropped
    }

    private mutating func drop(_ id: ObjectIdentifier, into dropped: inout [Entry]) {
      var next: ObjectIdentifier? = id
      while let id = next, let entry = entries[id], entry.isOver {
        entries[id] = nil
        dropped.append(entry)
        next = entry.above
        if let next { entries[next]?.below.remove(id) }
      }
    }
  }
}
