import PureduxTestSupport
import Testing

@testable import Puredux

@Suite struct StoreEntriesTests {
  /// Takes the place of a store in the tree.
  private final class Place: Sendable {
    let above: Place?
    private let gone: Counter?

    init(below above: Place? = nil, gone: Counter? = nil) {
      self.above = above
      self.gone = gone
    }

    deinit { gone?.increment() }

    var id: ObjectIdentifier { ObjectIdentifier(self) }
    var path: some Sequence<any AnyObject & Sendable> { sequence(first: self, next: \.above).lazy.map { $0 } }
  }

  private func visited(_ entries: inout TreeEffects.Entries, from place: Place) -> [ObjectIdentifier] {
    var visited: [ObjectIdentifier] = []
    _ = entries.visit(place.id) { entry in
      visited.append(ObjectIdentifier(entry.place))
      return true
    }
    return visited
  }

  @Test func `the entries below a store are found, and no others are visited`() {
    var entries = TreeEffects.Entries()
    let root = Place()
    let children = (0..<1000).map { _ in Place(below: root) }
    let grandchildren = children.map { Place(below: $0) }
    for place in grandchildren { entries.change(along: place.path) { $0.runner = EffectRunner() } }
    for (child, grandchild) in zip(children, grandchildren) {
      #expect(visited(&entries, from: child) == [child.id, grandchild.id])
    }
    #expect(Set(visited(&entries, from: root)) == Set([root.id] + children.map(\.id) + grandchildren.map(\.id)))
    #expect(entries.runners.count == 1000)
  }

  @Test(arguments: [false, true])
  func `ending the stores of a tree one by one takes steps in proportion to their number`(isChain: Bool) {
    var entries = TreeEffects.Entries()
    var places = [Place()]
    for _ in 1..<10_000 { places.append(Place(below: isChain ? places.last : places[0])) }
    for place in places { entries.change(along: place.path) { $0.runner = EffectRunner() } }
    var steps = 0
    // The runners remain, as they do while tasks take their time.
    for place in places.reversed() where steps < 2 * places.count {
      _ = entries.visit(place.id) { entry in
        steps += 1
        return entry.ends(cancelling: true)
      }
    }
    #expect(steps < 2 * places.count)
  }

  @Test func `a store that ends again is visited again if it is cancelled only now`() {
    var entries = TreeEffects.Entries()
    let root = Place()
    let child = Place(below: root)
    entries.change(along: child.path) { $0.runner = EffectRunner() }
    var ends: [Bool] = []
    for cancelling in [false, false, true, true, false] {
      _ = entries.visit(root.id) { entry in
        let isNew = entry.ends(cancelling: cancelling)
        ends.append(isNew)
        return isNew
      }
    }
    #expect(ends == [true, true, false, true, true, false, false])
  }

  @Test func `an entry is dropped with the last that is in it or below it`() {
    var entries = TreeEffects.Entries()
    let root = Place()
    let child = Place(below: root)
    let (first, second) = (Place(below: child), Place(below: child))
    for place in [first, second, root] { entries.change(along: place.path) { $0.endings[1] = {} } }
    #expect(entries.change(first.id) { $0.endings = [:] }.map { ObjectIdentifier($0.place) } == [first.id])
    #expect(entries.change(child.id) { $0.runner = EffectRunner() }.isEmpty)
    #expect(entries.change(second.id) { $0.endings = [:] }.map { ObjectIdentifier($0.place) } == [second.id])
    #expect(entries.change(child.id) { $0.runner = nil }.map { ObjectIdentifier($0.place) } == [child.id])
    #expect(visited(&entries, from: root) == [root.id])
    #expect(entries.change(root.id) { $0.endings = [:] }.map { ObjectIdentifier($0.place) } == [root.id])
    #expect(entries.isEmpty)
    #expect(entries.change(root.id) { _ in Issue.record("changed") }.isEmpty)
  }

  @Test func `a long chain of stores is released one by one`() {
    let gone = Counter()
    var entries = TreeEffects.Entries()
    var lowest: Place? = Place(gone: gone)
    for _ in 1..<100_000 { lowest = Place(below: lowest, gone: gone) }
    let id = lowest.map(\.id)
    if let lowest { entries.change(along: lowest.path) { $0.runner = EffectRunner() } }
    lowest = nil
    if let id {
      let dropped = entries.change(id) { $0.runner = nil }
      withExtendedLifetime(dropped) { #expect(gone.count == 0) }
      #expect(dropped.count == 100_000)
    }
    #expect(gone.count == 100_000)
    #expect(entries.isEmpty)
  }
}
