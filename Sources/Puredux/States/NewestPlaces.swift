extension Cursors.NewestPlaces {
  @usableFromInline struct LimitCounts: Sendable {
    @usableFromInline struct Count: Sendable {
      @usableFromInline let limit: Int32
      @usableFromInline var number: Int32

      @inlinable init(limit: Int32, number: Int32) {
        self.limit = limit
        self.number = number
      }
    }

    /// In ascending order of the few limits.
    @usableFromInline var counts: ContiguousArray<Count> = []
    @usableFromInline var total = 0

    @inlinable init() {}

    @inlinable var isEmpty: Bool { total == 0 }
    @inlinable var largest: Int { Int(counts.last?.limit ?? 0) }

    @inlinable mutating func add(_ number: Int32, of limit: Int32) {
      total += Int(number)
      let place = place(of: limit)
      if place == counts.count {
        counts.append(Count(limit: limit, number: number))
      } else if counts[place].limit == limit {
        counts[place].number += number
      } else {
        counts.insert(Count(limit: limit, number: number), at: place)
      }
    }

    @inlinable mutating func removeOne(of limit: Int32) {
      let place = place(of: limit)
      guard place < counts.count, counts[place].limit == limit else { return }
      total -= 1
      counts[place].number -= 1
      guard counts[place].number == 0 else { return }
      if place == counts.count - 1 { counts.removeLast() } else { counts.remove(at: place) }
    }

    /// Keeps the other's storage.
    @inlinable mutating func takeAll(of other: inout LimitCounts) {
      if counts.count < other.counts.count { swap(&self, &other) }
      // Single insertions, unless they cost more than a merge.
      if other.counts.count <= 8 {
        for count in other.counts { add(count.number, of: count.limit) }
      } else {
        merge(other)
      }
      other.counts.removeAll(keepingCapacity: true)
      other.total = 0
    }

    @inline(never) @inlinable mutating func merge(_ other: LimitCounts) {
      var merged = ContiguousArray<Count>()
      merged.reserveCapacity(counts.count + other.counts.count)
      var place = 0
      for count in other.counts {
        while place < counts.count, counts[place].limit < count.limit {
          merged.append(counts[place])
          place += 1
        }
        if place < counts.count, counts[place].limit == count.limit {
          merged.append(Count(limit: count.limit, number: counts[place].number + count.number))
          place += 1
        } else {
          merged.append(count)
        }
      }
      merged += counts[place...]
      counts = merged
      total += other.total
    }

    @inlinable func place(of limit: Int32) -> Int {
      var (low, high) = (0, counts.count)
      while low < high {
        let middle = (low + high) / 2
        if counts[middle].limit < limit { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }
}

extension Cursors {
  /// The newest cursors. One with unread states is before a state, counted in the *group* that the state's mark names,
  /// or it is *sliding*. A sliding cursor's next state was dropped, so it continues with the oldest state within its
  /// limit.
  ///
  /// Each cursor can read a suffix of the states, so the first is needed only by the cursors before it and by the
  /// largest sliding limit. A state without cursors costs nothing, and a publication does not touch stalled cursors.
  @usableFromInline struct NewestPlaces: Sendable {
    @usableFromInline var groups: ContiguousArray<LimitCounts> = []
    @usableFromInline var freeGroups: ContiguousArray<Int32> = []
    @usableFromInline var sliding = LimitCounts()
    @usableFromInline var atEnd = LimitCounts()
    @usableFromInline var behind = 0

    @inlinable init() {}

    @inlinable mutating func makeGroup() -> Int32 {
      if let free = freeGroups.popLast() { return free }
      groups.append(LimitCounts())
      return Int32(groups.count)
    }

    @inlinable mutating func makeGroupOfThoseAtEnd() -> Int32 {
      let group = makeGroup()
      behind += atEnd.total
      swap(&groups[Int(group) - 1], &atEnd)
      return group
    }

    @inlinable mutating func moveToEnd(from group: Int32, limit: Int32) {
      behind -= 1
      groups[Int(group) - 1].removeOne(of: limit)
      atEnd.add(1, of: limit)
    }

    @inlinable mutating func makeGroup(of limit: Int32) -> Int32 {
      let group = makeGroup()
      add(limit, to: group)
      return group
    }

    @inlinable mutating func add(_ limit: Int32, to group: Int32) {
      behind += 1
      groups[Int(group) - 1].add(1, of: limit)
    }

    @inlinable mutating func remove(_ limit: Int32, from group: Int32) -> Bool {
      behind -= 1
      groups[Int(group) - 1].removeOne(of: limit)
      guard groups[Int(group) - 1].isEmpty else { return false }
      freeGroups.append(group)
      return true
    }

    @inlinable mutating func removeSliding(_ limit: Int32) {
      behind -= 1
      sliding.removeOne(of: limit)
    }

    /// Inlined into a loop, it would make the groups unique before the first iteration.
    @inline(never) @inlinable mutating func slide(_ group: Int32) {
      sliding.takeAll(of: &groups[Int(group) - 1])
      freeGroups.append(group)
    }

    @inline(__always) @inlinable func largestLimit(atFirst group: Int32) -> Int {
      group == 0 ? sliding.largest : max(sliding.largest, groups[Int(group) - 1].largest)
    }
  }
}
