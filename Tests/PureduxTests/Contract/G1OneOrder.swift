import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Synchronization
import Testing

/// A tree has one total order of commits and of all other requests.
@Suite(.timeLimit(.minutes(15))) struct G1OneOrder {
  @Test(arguments: Kind.allCases)
  func `one task's calls keep their order, dispatch and send mixed, through any stores of the tree`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let proxy = subject.root.store()
    let scope = subject.store.scope { $0.root.last }
    let states = subject.root.states()
    let actions = Array(1...300)
    for action in actions {
      switch action % 6 {
      case 0: try await subject.store.send(action)
      case 1: proxy.dispatch(action)
      case 2: try await scope.send(action)
      case 3: scope.dispatch(action)
      case 4: #expect(try await subject.store.send(action) { $0.root.last } == action)
      default: subject.store.dispatch(action)
      }
    }
    #expect(await states.collect(301).map(\.root.last) == [0] + actions)
  }

  @Test(arguments: Kind.allCases)
  func `eight producers' calls keep each producer's order, and all subscribers see the same order`(kind: Kind)
    async throws
  {
    let intercepted = Record<Int>()
    let reduced = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: Interceptor(
        where: {
          intercepted.add($0); return false
        }, { _, _ in }),
      reducing: { reduced.add($0) })
    let ours = subject.states()
    let roots = subject.root.states()
    await withTaskGroup { group in
      for producer in 0..<8 {
        group.addTask {
          for number in 1...100 {
            let action = producer * 1000 + number
            if number.isMultiple(of: 10) {
              try? await subject.store.send(action)
            } else {
              subject.store.dispatch(action)
            }
          }
        }
      }
    }
    let order = await roots.collect(801).dropFirst().map(\.root.last)
    #expect(await ours.collect(801).dropFirst().map(\.root.last) == order)
    #expect(intercepted.all == order)
    #expect(reduced.all == order)
    for producer in 0..<8 {
      #expect(order.filter { $0 / 1000 == producer } == (1...100).map { producer * 1000 + $0 })
    }
  }

  @Test(arguments: Kind.allCases)
  func `setting an interceptor takes its place in the order`(kind: Kind) async throws {
    let first = Record<Int>()
    let second = Record<Int>()
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor), interceptors: .recording(first))
    executor.hold()
    subject.store.dispatch(1)
    subject.root.interceptActions(with: .recording(second))
    subject.store.dispatch(2)
    executor.letGo()
    _ = try await subject.store.state
    #expect(first.all == [1])
    #expect(second.all == [2])
  }

  @Test(arguments: Kind.allCases)
  func `a read comes after earlier dispatches`(kind: Kind) async throws {
    let subject = Subject(kind)
    for action in 1...200 {
      subject.store.dispatch(action)
      #expect(try await subject.store.state.root.count == action)
    }
  }

  /// Compares random requests of one task with a model that performs them one after the other.
  @Test(arguments: 0..<20)
  func `a random run agrees with the sequential model`(round: Int) async throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededGenerator(seed: seed)
    var model = Model()
    let root = RootStore<Snapshot, Int>(initialState: Snapshot()) { $0.root.enter($1) }
    var stores: [Int: StateStore<Snapshot, Int>] = [:]
    var sequences: [(stream: AsyncStream<Snapshot>, id: Int)] = []
    for action in 1...400 {
      let parent = stores.keys.sorted().randomElement(using: &random)
      let id = Bool.random(using: &random) ? parent : nil
      let store: any StoreType<Snapshot, Int> = id.flatMap { stores[$0] } ?? root
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<10:
        store.dispatch(action)
        model.commit(action, to: id)
      case 10..<13:
        model.commit(action, to: id)
        #expect(try await store.send(action) { $0 } == model.state(of: id), "seed \(seed)")
      case 13..<16:
        let stream = Bool.random(using: &random) ? store.states() : store.scope { $0 }.states()
        sequences.append((stream, model.subscribe(to: id)))
      case 16, 17:
        let child = id.flatMap { stores[$0] }?.ledgerChild() ?? root.ledgerChild()
        stores[model.addChild(of: id)] = child
      case 18:
        guard let id else { continue }
        stores[id] = nil
        model.release(id)
      default:
        #expect(try await store.state == model.state(of: id), "seed \(seed)")
      }
    }
    await root.shutdown()
    for sequence in sequences {
      #expect(await sequence.stream.collect() == model.deliveries[sequence.id], "seed \(seed)")
    }
  }
}

extension Interceptor where Action == Int {
  /// Records the actions in commit order, and has no effects.
  static func recording(_ record: Record<Int>) -> Interceptor {
    Interceptor(
      where: {
        record.add($0)
        return false
      }, { _, _ in })
  }
}

/// A sequential model of a tree of ledgers.
private struct Model {
  private struct Child {
    var parent: Int?
    var ledger = Ledger()
    /// Whether the test holds the store. A child store below it keeps it alive, too.
    var isHeld = true
  }
  private var root = Ledger()
  private var children: [Int: Child] = [:]
  private var subscriptions: [(store: Int?, id: Int)] = []
  private(set) var deliveries: [[Snapshot]] = []
  private var childCount = 0

  func state(of id: Int?) -> Snapshot {
    guard let id, let child = children[id] else { return Snapshot(root: root) }
    return state(of: child.parent).with(child.ledger)
  }

  mutating func commit(_ action: Int, to id: Int?) {
    var next = id
    while let id = next {
      children[id]?.ledger.enter(action)
      next = children[id]?.parent
    }
    root.enter(action)
    for subscription in subscriptions { deliveries[subscription.id].append(state(of: subscription.store)) }
  }

  mutating func subscribe(to id: Int?) -> Int {
    deliveries.append([state(of: id)])
    subscriptions.append((id, deliveries.count - 1))
    return deliveries.count - 1
  }

  mutating func addChild(of id: Int?) -> Int {
    childCount += 1
    children[childCount] = Child(parent: id)
    return childCount
  }

  mutating func release(_ id: Int) {
    children[id]?.isHeld = false
    var next: Int? = id
    while let id = next, let child = children[id], !child.isHeld, !children.values.contains(where: { $0.parent == id })
    {
      children[id] = nil
      subscriptions.removeAll { $0.store == id }
      next = child.parent
    }
  }
}
