extension TreeEffects {
  /// What belongs to the stores of a tree besides their states: an entry for each store that has any of it, and for
  /// those above it, so that what is below a store is found without looking at anything else.
  struct Entries {
    /// A store, or any object that there is one of per store.
    typealias Place = any AnyObject & Sendable

    struct Entry {
      /// Kept, as its address identifies the entry.
      let place: Place
      var runner: EffectRunner?
      /// The store's effects by their ids, for as long as there may be any.
      var slots: EffectSlots?
      var endings: [Int: @Sendable () -> Void] = [:]
      private var end: End?
      fileprivate var above: ObjectIdentifier?
      fileprivate var below: Set<ObjectIdentifier> = []

      fileprivate init(place: Place) {
        self.place = place
      }

      fileprivate var isOver: Bool { runner == nil && slots == nil && endings.isEmpty && below.isEmpty }

      /// Records that the store ends. False if that is nothing new, for it and for all stores below it.
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

    /// Changes the entry of the first store of a path, which leads from there up to the root.
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

    /// Changes the entry of a store, if there is one. Returns the entries in which nothing is left: they have been
    /// dropped, and are to be released outside the lock.
    mutating func change(_ id: ObjectIdentifier, _ change: (inout Entry) -> Void) -> [Entry] {
      visit(id) { entry in
        change(&entry)
        return false
      }
    }

    /// Visits a store and then the stores below it; if the closure returns false, those below are left out. Returns the
    /// entries in which nothing is left, as `change` does.
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

    /// Drops an entry in which nothing is left, and the entries above it that were kept only for it.
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
