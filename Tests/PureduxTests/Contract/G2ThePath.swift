import Puredux
import PureduxTestSupport
import Testing

/// An action is reduced by its store and by each of the store's ancestors, once each, from the store up to the root.
@Suite(.timeLimit(.minutes(15))) struct G2ThePath {
  /// The root, two children, and a grandchild below each.
  enum Place: String, CaseIterable, Sendable {
    case root, a, b, aa, bb

    var path: [Place] {
      switch self {
      case .root: [.root]
      case .a: [.a, .root]
      case .b: [.b, .root]
      case .aa: [.aa, .a, .root]
      case .bb: [.bb, .b, .root]
      }
    }
  }

  @Test(arguments: Place.allCases, [false, true])
  func `the action passes up, once each, and nowhere else`(place: Place, sends: Bool) async throws {
    let reductions = Record<Place>()
    let root = RootStore<Int, Int>(initialState: 0) { _, _ in reductions.add(.root) }
    let a = root.childStore(initialState: 0) { _, _ in reductions.add(.a) }
    let b = root.childStore(initialState: 0) { _, _ in reductions.add(.b) }
    let aa = a.childStore(initialState: 0) { _, _ in reductions.add(.aa) }
    let bb = b.childStore(initialState: 0) { _, _ in reductions.add(.bb) }
    let handlers: [Place: any ActionHandler<Int>] = [
      .root: root, .a: a.store(), .b: b, .aa: aa, .bb: bb.scope { $0.1 },
    ]
    let handler = try #require(handlers[place])
    if sends { try await handler.send(1) } else { handler.dispatch(1) }
    _ = await root.state
    #expect(reductions.all == place.path)
    withExtendedLifetime((a, b, aa, bb)) {}
  }

  @Test(arguments: Kind.allCases)
  func `every kind of store passes an action through its whole path`(kind: Kind) async throws {
    let subject = Subject(kind)
    subject.store.dispatch(7)
    #expect(try await subject.store.state == subject.expected(after: [7]))
  }
}
