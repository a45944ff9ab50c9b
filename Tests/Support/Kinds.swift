import Puredux
import PureduxLog
import PureduxLogTesting

/// A summary, of constant size, of the actions that a store has reduced.
package struct Ledger: Sendable, Equatable {
  package var count = 0
  package var last = 0

  package init(count: Int = 0, last: Int = 0) {
    self.count = count
    self.last = last
  }

  package mutating func enter(_ action: Int) {
    count += 1
    last = action
  }
}

/// The state of any store in a test tree, with the ledgers on the path to the store.
package struct Snapshot: Sendable, Equatable {
  package var root = Ledger()
  package var locals: [Ledger] = []
  /// A copy of the root's ledger, under one key.
  package var keyed: Keyed<Int, Ledger> = [1: Ledger()]

  package init(root: Ledger = Ledger(), locals: [Ledger] = []) {
    self.root = root
    self.locals = locals
  }

  package static func == (lhs: Snapshot, rhs: Snapshot) -> Bool { lhs.root == rhs.root && lhs.locals == rhs.locals }

  package func with(_ local: Ledger) -> Snapshot {
    var other = self
    other.locals.append(local)
    return other
  }

  /// Whether all stores on the path have reduced the same actions.
  package var isWhole: Bool { locals.allSatisfy { $0 == root } }
}

package enum Kind: Int, CaseIterable, Sendable {
  case rootActor, rootProxy, scope, scopeOfScope, optionalScope, selected, keyed, projection, attendedRoot
  case child, childProxy, scopeOfChild, projectionOfProjection, attendedChild, grandchild
  case childOfPart, childOfKey, grandchildOfPart
  case rootSequence, scopeSequence, childSequence
  case fileRoot, fileChild, unreliableRoot, unreliableGrandchild, unreliableChildOfKey
  case databaseRoot, databaseChild

  private static let every: [Kind] = allKinds.filter { $0.isAvailable }
  private static let allKinds: [Kind] = (0...).lazy.map(Kind.init(rawValue:)).prefix { $0 != nil }.compactMap(\.self)

  private var isAvailable: Bool {
    guard self == .databaseRoot || self == .databaseChild else { return true }
    #if PostgreSQL
      return PostgreSQLServer.programs != nil
    #else
      return false
    #endif
  }

  /// Kinds that follow a log are tested only in a thorough run.
  package static let allCases: [Kind] = isThorough ? every : inMemory
  /// G5 and G8 promise less for kinds that follow a log (G12).
  package static let inMemory = every.filter { !$0.followsLog }
  package static let children = allCases.filter { $0.depth > 0 }

  package var depth: Int {
    switch self {
    case .rootActor, .rootProxy, .scope, .scopeOfScope, .optionalScope, .selected, .keyed, .projection, .attendedRoot,
      .rootSequence, .scopeSequence, .fileRoot, .unreliableRoot, .databaseRoot:
      0
    case .child, .childProxy, .scopeOfChild, .projectionOfProjection, .attendedChild, .childSequence, .fileChild,
      .childOfPart, .childOfKey, .unreliableChildOfKey, .databaseChild:
      1
    case .grandchild, .unreliableGrandchild, .grandchildOfPart: 2
    }
  }

  /// Whether its stores have middleware, histories and an emission rule, which change nothing.
  package var isAttended: Bool { self == .attendedRoot || self == .attendedChild }

  private var followsLog: Bool { rawValue >= Kind.fileRoot.rawValue }

  package var log: (any OrderedLog)? {
    switch self {
    case .fileRoot, .fileChild: return TemporaryLog()
    case .unreliableRoot, .unreliableGrandchild, .unreliableChildOfKey:
      return UnreliableLog(MemoryLog(), seed: UInt64.random(in: 0 ... .max))
    case .databaseRoot, .databaseChild:
      #if PostgreSQL
        return SharedDatabaseLog()
      #else
        return nil
      #endif
    default: return nil
    }
  }

  package var isSequence: Bool { self == .rootSequence || self == .scopeSequence || self == .childSequence }
}

package struct Subject: Sendable {
  package let root: RootStore<Snapshot, Int>
  package let children: [StateStore<Snapshot, Int>]
  package let store: any StoreType<Snapshot, Int>
  private let kind: Kind

  package init(
    _ kind: Kind, executor: StoreExecutor = .own, clock: any Clock<Duration> = ContinuousClock(),
    interceptors: Interceptor<Snapshot, Int>? = nil, reporting: (@Sendable (EffectReport) -> Void)? = nil,
    carrying: CarriedValues? = nil, middleware: [Middleware<Snapshot, Int>] = [], emits: Emission<Snapshot> = .always,
    history: History<Snapshot, Int>? = nil, reducing also: @escaping @Sendable (Int) -> Void = { _ in }
  ) {
    self.kind = kind
    let reducer: @Sendable (inout Snapshot, Int) -> Void = { state, action in
      state.root.enter(action)
      state.keyed[1]?.enter(action)
      also(action)
    }
    let options = StoreOptions(executor: executor, clock: clock, reporting: reporting, carrying: carrying)
    if let log = kind.log {
      root = RootStore(
        followingEmpty: log, initialState: Snapshot(), actions: .json(),
        options: FollowingOptions(log: .quick, store: options, emits: emits, history: history),
        middleware: middleware, reducer: reducer)
    } else {
      root = RootStore(
        initialState: Snapshot(), options: options,
        middleware: kind.isAttended ? [.passingOn] + middleware : middleware, emits: emits,
        history: history ?? (kind.isAttended ? History(limit: 5) : nil), reducer: reducer)
    }
    if let interceptors { root.interceptActions(with: interceptors) }
    var children: [StateStore<Snapshot, Int>] = []
    switch kind {
    case .childOfPart, .grandchildOfPart: children.append(root.part(\.root).ledgerChild())
    case .childOfKey, .unreliableChildOfKey: children.append(root.part(\.keyed, at: 1).ledgerChild())
    default: if kind.depth > 0 { children.append(kind.isAttended ? root.attendedChild() : root.ledgerChild()) }
    }
    if kind.depth > 1 {
      children.append(kind == .grandchildOfPart ? children[0].part(\.self).ledgerChild() : children[0].ledgerChild())
    }
    self.children = children
    store =
      switch kind {
      case .rootActor, .rootSequence, .fileRoot, .unreliableRoot, .databaseRoot: root
      case .rootProxy: root.store()
      case .scope, .scopeSequence: root.scope { $0 }
      case .scopeOfScope: root.scope { $0.root }.scope { Snapshot(root: $0) }
      case .optionalScope: root.scope(toOptional: { .some($0) })
      case .selected: root.scope(to: \.self)
      case .keyed: root.scope(to: \.keyed, at: 1).scope { Snapshot(root: $0 ?? Ledger(count: -1)) }
      case .projection: root.projection(action: { $0 }, state: { $0 })
      case .attendedRoot: root
      case .child, .grandchild, .childSequence, .fileChild, .unreliableGrandchild, .childOfPart, .childOfKey,
        .grandchildOfPart, .unreliableChildOfKey, .databaseChild:
        children[kind.depth - 1]
      case .childProxy: children[0].store()
      case .scopeOfChild: children[0].scope { $0 }
      case .projectionOfProjection:
        children[0].projection(action: { -$0 }, state: { $0 }).projection(action: { -$0 }, state: { $0 })
      case .attendedChild: children[0]
      }
  }

  package func states(
    bufferingPolicy: AsyncStream<Snapshot>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Snapshot> = .neverEqual
  ) -> any AsyncSequence<Snapshot, Never> & Sendable {
    if kind.isSequence {
      return store.states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating) as StateSequence
    }
    return store.states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// The state if the tree was given only these actions.
  package func expected(after actions: [Int]) -> Snapshot {
    let ledger = Ledger(count: actions.count, last: actions.last ?? 0)
    return Snapshot(root: ledger, locals: children.map { _ in ledger })
  }

  package func expectedStates(during actions: [Int]) -> [Snapshot] {
    (0...actions.count).map { expected(after: Array(actions.prefix($0))) }
  }
}

extension StoreParent<Snapshot, Int> {
  package func ledgerChild() -> StateStore<Snapshot, Int> {
    childStore(initialState: Ledger(), stateMapping: { $0.with($1) }, reducer: { $0.enter($1) })
  }

  package func attendedChild() -> StateStore<Snapshot, Int> {
    childStore(
      initialState: Ledger(), reducers: [Reducer { $0.enter($1) }], stateMapping: { $0.with($1) },
      middleware: [.passingOn], emits: .when { _, _ in true }, history: History(limit: 5))
  }
}

extension StoreParent where Action == Int {
  package func ledgerChild<Part: LedgerPart>() -> StateStore<Snapshot, Int> where State == Part {
    childStore(
      initialState: Ledger(), stateMapping: { Snapshot(root: $0.ledger, locals: [$1]) }, reducer: { $0.enter($1) })
  }
}

package protocol LedgerPart: Sendable {
  var ledger: Ledger { get }
}

extension Ledger: LedgerPart {
  package var ledger: Ledger { self }
}

extension Ledger?: LedgerPart {
  /// The key that the tests use is always present.
  package var ledger: Ledger { self ?? Ledger(count: -1) }
}

extension Middleware {
  package static var passingOn: Middleware { Middleware { action, _, next in next(action) } }
}

extension AsyncSequence where Failure == Never, Element: Sendable {
  /// Up to and including the first element that satisfies the condition.
  package func collect(until isLast: (Element) -> Bool = { _ in false }) async -> [Element] {
    var elements: [Element] = []
    for await element in self {
      elements.append(element)
      if isLast(element) { break }
    }
    return elements
  }

  package func collect(_ count: Int) async -> [Element] {
    guard count > 0 else { return [] }
    var elements: [Element] = []
    for await element in self {
      elements.append(element)
      if elements.count == count { break }
    }
    return elements
  }
}
