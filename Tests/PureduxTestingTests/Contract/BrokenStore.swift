import Puredux
import PureduxTestSupport
import PureduxTesting

/// A fault of a store. Each breaks one guarantee.
enum Fault: CaseIterable, Sendable {
  case losesDispatches, losesSends, reorders, reordersAmongTasks, reducesTwice, tearsStates, readsLate, readsBackwards
  case doublesStates, leavesOutStates, leavesOutTheFirst, subscribesLate, keepsTooMuch
  case neverEnds, deliversAfterTheEnd, ignoresCancellation
  case asksTwice, asksNobody, asksAboutAnother, waitsForEffects, leavesEffects
  case takesAfterTheEnd, sendsAfterTheEnd, isReadAfterTheEnd
  case stalls, stallsForEver, stallsWhenRead
  case sendsEarly, readsEarly, sendOvertakesDispatches, refusesDispatches, throwsForCommits
  case ignoresDuplicateFilters, keepsTooLittle, sharesStates, swapsStates, dropsAtTheEnd, endsAllOnCancellation

  var guarantee: String {
    switch self {
    case .reorders, .reordersAmongTasks, .readsLate, .readsBackwards, .sendsEarly, .readsEarly,
      .sendOvertakesDispatches:
      "G1 One order"
    case .reducesTwice: "G2 The path"
    case .tearsStates: "G3 All or nothing"
    case .doublesStates, .leavesOutStates, .swapsStates, .ignoresDuplicateFilters: "G4 Every commit once"
    case .leavesOutTheFirst, .subscribesLate, .sharesStates: "G5 The first element"
    case .keepsTooMuch, .keepsTooLittle: "G6 Nobody waits for a subscriber"
    case .asksTwice, .asksNobody, .asksAboutAnother, .waitsForEffects, .leavesEffects: "G8 Interceptors and effects"
    case .neverEnds, .deliversAfterTheEnd, .ignoresCancellation, .dropsAtTheEnd, .endsAllOnCancellation: "G7 The end"
    case .losesDispatches, .losesSends, .takesAfterTheEnd, .sendsAfterTheEnd, .isReadAfterTheEnd, .refusesDispatches,
      .throwsForCommits:
      "G9 Nothing lost in silence"
    case .stalls, .stallsForEver, .stallsWhenRead: "G10 Liveness"
    }
  }

  var stalls: Bool {
    [.neverEnds, .ignoresCancellation, .stalls, .stallsForEver, .stallsWhenRead, .waitsForEffects].contains(self)
  }
}

final class BrokenStore: StoreType {
  typealias State = [Int]
  typealias Action = Int

  private struct Memory {
    var reads = 0
    var earlier: [Int]?
    var dispatches = 0
    var held: Int?
    var heldByTasks: [Int: Int?] = [:]
    var shared: AsyncStream<[Int]>?
  }

  let base: RootStore<[Int], Int>
  private let isIntercepted: Bool
  private let fault: Fault
  private let stalled: Gate
  private let memory = LockedValue(Memory())
  private let hasEnded = Flag()
  private let hasCancelled = Flag()
  private let dispatched = Record<Void>()

  /// - Parameter stalled: Opened when a caller waits for an event that will not happen.
  init(_ fault: Fault, with interceptor: Interceptor<[Int], Int>? = nil, stalled: Gate) {
    self.fault = fault
    self.stalled = stalled
    isIntercepted = interceptor != nil
    base = RootStore(initialState: []) { $0.append($1) }
    guard let interceptor, fault != .asksNobody else { return }
    switch fault {
    case .asksTwice: base.interceptActions(with: Interceptor(combining: [interceptor, interceptor]))
    case .asksAboutAnother:
      let other: Interceptor<[Int], Int> = interceptor.lifted(state: { $0 }, action: { _ in 7 }, into: { $0 })
      base.interceptActions(with: other)
    default: base.interceptActions(with: interceptor)
    }
  }

  func end() async {
    flush()
    if fault == .leavesEffects, isIntercepted { return }
    await base.shutdown()
    hasEnded.raise()
  }

  func store() -> Store<[Int], Int> { base.store() }

  func dispatch(_ action: Int) -> DispatchResult {
    switch fault {
    case .losesDispatches:
      let count = memory.withLock { memory in
        memory.dispatches += 1
        return memory.dispatches
      }
      return count % 3 == 0 && !hasEnded.isRaised ? .enqueued : base.dispatch(action)
    case .reorders:
      let held = memory.withLock { memory -> Int? in
        defer { memory.held = memory.held == nil ? action : nil }
        return memory.held
      }
      guard let held else { return .enqueued }
      base.dispatch(action)
      return base.dispatch(held)
    case .reordersAmongTasks:
      let held = memory.withLock { memory -> Int? in
        memory.heldByTasks[Self.task] = memory.heldByTasks[Self.task] ?? .some(nil)
        guard memory.heldByTasks.count > 2 else { return -1 }
        let held = memory.heldByTasks[Self.task] ?? nil
        memory.heldByTasks[Self.task] = .some(held == nil ? action : nil)
        return held
      }
      guard let held else { return .enqueued }
      let result = base.dispatch(action)
      return held < 0 ? result : base.dispatch(held)
    case .readsLate:
      defer { dispatched.add(()) }
      return base.dispatch(action)
    case .reducesTwice:
      base.dispatch(action)
      return base.dispatch(action)
    case .sendOvertakesDispatches:
      let result = memory.withLock { $0.held.take() }.map { base.dispatch($0) } ?? .enqueued
      if result == .terminated || hasEnded.isRaised { return .terminated }
      memory.withLock { $0.held = action }
      return result
    case .refusesDispatches:
      base.dispatch(action)
      return .terminated
    case .takesAfterTheEnd:
      let result = base.dispatch(action)
      return result == .terminated ? .enqueued : result
    default: return base.dispatch(action)
    }
  }

  private static var task: Int { unsafe withUnsafeCurrentTask { unsafe $0?.hashValue ?? 0 } }

  private func flush() {
    let held = memory.withLock { [$0.held.take(), $0.heldByTasks[Self.task]?.take()] }
    for held in held { if let held { base.dispatch(held) } }
  }

  func send(_ action: Int) async throws(StoreError) {
    switch fault {
    case .losesSends: return
    case .stalls: await stall()
    case .stallsForEver:
      stalled.open()
      await Gate().wait()
    case .sendsAfterTheEnd: if hasEnded.isRaised { return }
    case .sendsEarly:
      if base.dispatch(action) == .terminated { throw .terminated }
      return
    case .sendOvertakesDispatches: try await base.send(action, isolation: nil)
    default: break
    }
    flush()
    if fault == .sendOvertakesDispatches { return }
    try await base.send(action, isolation: nil)
    if fault == .throwsForCommits { throw .rejected(reason: nil) }
    if fault == .waitsForEffects, await StoreProbe(base.store()).effects().unnamed > 0 {
      stalled.open()
      await base.settled()
    }
  }

  func send<Result: Sendable>(
    _ action: Int, reading: @escaping @Sendable ([Int]) -> Result
  ) async throws(StoreError) -> Result {
    flush()
    if fault == .readsEarly {
      let state = await base.state
      try await base.send(action, isolation: nil)
      return reading(state)
    }
    guard fault == .readsLate, dispatched.all.count > 0 else {
      return try await base.send(action, isolation: nil, reading: reading)
    }
    try await base.send(action, isolation: nil)
    // Waits until another action has been dispatched.
    await dispatched.untilCount(dispatched.all.count + 1)
    return reading(try await base.store().state)
  }

  var state: [Int] {
    get async throws(StoreError) {
      flush()
      let reads = memory.withLock { memory in
        memory.reads += 1
        return memory.reads
      }
      if fault == .stallsWhenRead { await stall() }
      let state = try await base.store().state
      if fault == .readsBackwards {
        if reads == 6 { memory.withLock { $0.earlier = state } }
        if reads == 8 { return memory.withLock { $0.earlier } ?? state }
      }
      return fault == .tearsStates && reads > 20 ? state + [-1] : state
    }
  }

  private func stall() async {
    stalled.open()
    await untilCancelled()
  }

  func states(
    bufferingPolicy: AsyncStream<[Int]>.Continuation.BufferingPolicy, removeStateDuplicates equating: Equating<[Int]>
  ) -> AsyncStream<[Int]> {
    let base = base.store()
    let policy: AsyncStream<[Int]>.Continuation.BufferingPolicy =
      switch fault {
      case .keepsTooMuch: .unbounded
      case .keepsTooLittle: .bufferingNewest(1)
      default: bufferingPolicy
      }
    let equating = fault == .ignoresDuplicateFilters ? .neverEqual : equating
    if fault == .sharesStates {
      let made: AsyncStream<[Int]> = base.states(bufferingPolicy: policy, removeStateDuplicates: equating)
      return memory.withLock { memory in
        let shared = memory.shared ?? made
        memory.shared = shared
        return shared
      }
    }
    if fault == .isReadAfterTheEnd, hasEnded.isRaised {
      return AsyncStream {
        $0.yield([0]); $0.finish()
      }
    }
    if fault == .subscribesLate {
      let late = LockedValue<StateSequence<[Int]>?>(nil)
      return AsyncStream {
        let sequence = late.withLock { late in
          if late == nil { late = base.states(bufferingPolicy: policy, removeStateDuplicates: equating) }
          return late
        }
        return await sequence?.next()
      }
    }
    let sequence = base.states(bufferingPolicy: policy, removeStateDuplicates: equating) as StateSequence
    let memory = LockedValue((count: 0, last: [Int]?.none))
    let swapped = LockedValue<[Int]?>(nil)
    return AsyncStream { [fault, stalled, hasEnded, hasCancelled] in
      let (count, last) = memory.withLock { memory in
        memory.count += 1
        return memory
      }
      switch fault {
      case .doublesStates where count % 10 == 0: return last
      case .dropsAtTheEnd where hasEnded.isRaised: return nil
      case .endsAllOnCancellation:
        if hasCancelled.isRaised { return nil }
        return await withTaskCancellationHandler {
          await sequence.next()
        } onCancel: {
          hasCancelled.raise()
        }
      case .swapsStates where count % 10 == 0:
        let first = await sequence.next()
        swapped.withLock { $0 = first }
      case .swapsStates: if let state = swapped.withLock({ $0.take() }) { return state }
      case .leavesOutTheFirst where count == 1: _ = await sequence.next()
      case .leavesOutStates where count % 10 == 0: _ = await sequence.next()
      case .ignoresCancellation:
        return await withTaskCancellationHandler {
          await Task { await sequence.next() }.value
        } onCancel: {
          stalled.open()
        }
      default: break
      }
      if let state = await sequence.next() {
        memory.withLock { $0.last = state }
        return state
      }
      switch fault {
      case .neverEnds:
        if !Task.isCancelled { stalled.open() }
        await untilCancelled()
        return nil
      case .deliversAfterTheEnd: return memory.withLock { $0.last.take() }
      default: return nil
      }
    }
  }
}

extension StateSequence {
  fileprivate func next() async -> State? {
    var iterator = makeAsyncIterator()
    return await iterator.next()
  }
}
