import PureduxTestSupport
import Testing

@testable import Puredux

/// Stores, proxies and sequences below the greatest level. Each is reported, because most of them would be silent.
@Suite(.timeLimit(.minutes(15))) struct TooDeepReportTests {
  struct Count: Sendable {
    var n = 0
    var rooms: Keyed<Int, Int> = [:]
  }

  typealias Root = RootStore<Count, Int>

  enum Making: CaseIterable {
    case states, keyPath, closure, optional, selector, key, projection, observer, childOfStore, childOfPart, childOfKey
  }

  private func root(_ reports: Record<EffectReport>) -> Root {
    Root(initialState: Count(), options: StoreOptions(reporting: { reports.add($0) })) { $0.n += $1 }
  }

  /// Makes an object.
  ///
  /// - Returns: The result of a dispatch to it, if it takes actions.
  private func make(
    _ making: Making, of proxy: Store<Count, Int>, _ anchor: StoreAnchor<Count, Int>
  ) async -> DispatchResult? {
    switch making {
    case .states:
      var count = 0
      for await _ in proxy.states(\.n) { count += 1 }
      #expect(count == 0)
      return nil
    case .keyPath: return proxy.scope(to: \.n).dispatch(1)
    case .closure: return proxy.scope { $0.n }.dispatch(1)
    case .optional: return proxy.scope(toOptional: { $0.n }).dispatch(1)
    case .selector: return proxy.scope(selecting: StateSelector(\.n)).dispatch(1)
    case .key: return proxy.scope(to: \.rooms, at: 1).dispatch(1)
    case .projection: return proxy.projection(action: { (action: Int) in action }, state: { $0.n }).dispatch(1)
    case .observer:
      proxy.scope(to: \.n).subscribe(observer: Observer { _ in .active })
      return nil
    case .childOfStore: return anchor.childStore(initialState: 0) { _, _ in }.dispatch(1)
    case .childOfPart: return anchor.part(\.n).childStore(initialState: 0) { _, _ in }.dispatch(1)
    case .childOfKey: return anchor.part(\.rooms, at: 1).childStore(initialState: 0) { _, _ in }.dispatch(1)
    }
  }

  /// A proxy and an anchor at the greatest level.
  private func lowest(of root: Root) -> (Store<Count, Int>, StoreAnchor<Count, Int>) {
    let levels = 1...AnySource.greatestLevel
    let proxy = levels.reduce(root.store()) { last, _ in last.scope { $0 } }
    let anchor = levels.reduce(root.anchor) { last, _ in
      last.childStore(initialState: 0, stateMapping: { count, _ in count }) { _, _ in }.anchor
    }
    return (proxy, anchor)
  }

  @Test func `a store or proxy below the greatest level is reported, and none above it`() async throws {
    let reports = Record<EffectReport>()
    let root = root(reports)
    let (proxy, anchor) = lowest(of: root)
    #expect(reports.all.isEmpty)
    for making in Making.allCases {
      let before = reports.all.count
      let result = await make(making, of: proxy, anchor)
      #expect(result == nil || result == .tooDeep, "\(making)")
      let new = reports.all.dropFirst(before)
      #expect(new.count == 1, "\(making)")
      guard let report = new.first else { continue }
      guard case .tooDeep = report.reason else {
        Issue.record("\(making): \(report)")
        continue
      }
      let made = [.childOfStore, .childOfPart, .childOfKey].contains(making) ? anchor.core.node.id : root.id
      #expect(report.store == made, "\(making)")
      #expect(report.effect == nil)
      #expect("\(report)".contains("of store \(made) lies below the \(AnySource.greatestLevel)th level"))
    }
    await root.shutdown()
  }

  @Test func `a store or proxy made of one that is too deep is not reported again`() async throws {
    let reports = Record<EffectReport>()
    let root = root(reports)
    let (proxy, anchor) = lowest(of: root)
    let scope = proxy.scope { $0 }
    let child = anchor.childStore(initialState: 0, stateMapping: { count, _ in count }) { _, _ in }
    #expect(reports.all.count == 2)
    for making in Making.allCases {
      _ = await make(making, of: scope, child.anchor)
      _ = await make(making, of: child.store(), child.anchor)
    }
    #expect(reports.all.count == 2)
    await root.shutdown()
  }
}
