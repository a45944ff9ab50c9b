extension TreeEffects {
  /// What belongs to the stores of a tree beside their states: an entry for each store that has any of it, and for
  /// those above it, so that what is below a store is found without looking at anything else.
  struct Entries {
    /// A store, or whatever there is one of for each.
    typealias Place = any AnyObject & Sendable

    struct Entry {
      /// Kept, as its address is the name of the entry.
      let place: Place
      var runner: EffectRunner?
      /// Where its effects are found by their ids: while there may be any.
      var slots: EffectSlots?
      var endings: [Int: @Sendable () -> Void] = [:]
      private var end: End?
      fileprivate var above: ObjectIdentifier?
      fileprivate var below: Set<ObjectIdentifier> = []

      fileprivate init(place: Place) {
        self.place = place
      }

      fileprivate var isOver: Bool { runner == nil && slots == nil && endings.isEmpty && below.isEmpty }

      /// Notes that the store ends. False where there is nothing new in that, for it and for all below it.
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

    /// Changes what there is of the first store of a path, which leads from there up to the root.
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

    /// Changes what there is of a store, if anything. Returns the entries in which nothing is left: dropped, and to be
    /// released outside of the lock.
    mutating func change(_ id: ObjectIdentifier, _ change: (inout Entry) -> Void) -> [Entry] {
      visit(id) { entry in
        change(&entry)
        return false
      }
    }

    /// Visits a store and then what is below it; a closure that answers no leaves out what is below. Returns the
    /// entries in which nothing is left, as `change` does.
    mutating func visit(_ id: ObjectIdentifier, _ body: (inout Entry) -> Bool) -> [Entry] {
      var waiting = [id]
      var visited: [ObjectIdentifier] = []
      while let id = waiting.popLast() {
        guard let index = entries.index(forKey: id) else { continue }
        visited.append(id)
        if body(&entries.values[index]) { waiting.append(contentsOf: entries.values[index].below) }
      }
      // The lower ones first: a place is kept by those below it, and a long chain of them is not to be released
      // recursively.
      var dropped: [Entry] = []
      for id in visited.reversed() { drop(id, into: &dropped) }
      return dropped
    }

    /// Drops an entry in which nothing is left, and those above it that were kept for nothing else.
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
