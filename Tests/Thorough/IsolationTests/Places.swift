import Dispatch
import PureduxTestSupport
import Synchronization
import Testing

@testable import Puredux

/// Detects whether code runs on the main actor. Threads do not tell: on Linux the main queue has none of its own.
enum MainQueue {
  private static let key: DispatchSpecificKey<Void> = {
    let key = DispatchSpecificKey<Void>()
    DispatchQueue.main.setSpecific(key: key, value: ())
    return key
  }()

  static var isCurrent: Bool { DispatchQueue.getSpecific(key: key) != nil }
}

/// Records, after each call, whether the caller is on its actor.
final class Sheet: Sendable {
  private let isHome: @Sendable () -> Bool
  private let caller: String
  private let lines = Atomic(0)
  private let strayed = Record<String>()
  private let wrong = Record<String>()

  init(_ caller: String, isHome: @escaping @Sendable () -> Bool) {
    self.caller = caller
    self.isHome = isHome
  }

  static var mainActor: Sheet { Sheet("") { MainQueue.isCurrent } }

  /// The calls after which the caller was not on its actor.
  var strays: [String] { strayed.all }
  /// The calls with an unexpected result, whose checks are void.
  var mistakes: [String] { wrong.all }
  var count: Int { lines.load(ordering: .relaxed) }

  /// After a call that answers.
  @inline(never) func enter<Value>(_ call: String, _ value: Value?) {
    note(call)
    if value == nil { wrong.add(caller + call) }
  }

  /// After a call that throws.
  @inline(never) func refuse<Value>(_ call: String, _ value: Value?) {
    note(call)
    if value != nil { wrong.add(caller + call) }
  }

  @inline(never) func note(_ call: String) {
    lines.add(1, ordering: .relaxed)
    if !isHome() { strayed.add(caller + call) }
  }

  func of(_ caller: String) -> SheetOf { SheetOf(sheet: self, store: caller) }
}

/// A sheet for the calls to one store.
struct SheetOf: Sendable {
  let sheet: Sheet
  let store: String
  @inline(never) func enter<Value>(_ call: String, _ value: Value?) { sheet.enter("\(store).\(call)", value) }
  @inline(never) func refuse<Value>(_ call: String, _ value: Value?) { sheet.refuse("\(store).\(call)", value) }
  @inline(never) func note(_ call: String) { sheet.note("\(store).\(call)") }
}

/// Takes the caller off its actor and back, so that an effect of one call is not attributed to the next.
@inline(never) @concurrent
func elsewhere() async { visits.add(1, ordering: .relaxed) }
private let visits = Atomic(0)

// MARK: Actors

/// Makes all async calls, from methods in extensions of the protocol.
protocol Caller: Actor {}

/// An actor that can be asked whether the current code runs on it.
actor Resident: Caller {
  let executor = HeldExecutor()
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }
  nonisolated var sheet: Sheet { Sheet("") { [executor] in executor.isCurrent } }
}

/// An actor on the thread pool. The only way to ask whether code runs on it ends the process if it does not.
actor Inhabitant: Caller {
  nonisolated var sheet: Sheet {
    Sheet("") {
      self.preconditionIsolated()
      return true
    }
  }
}

// MARK: States

struct Words1: Sendable { var a = 1 }
struct Words2: Sendable { var a = 1, b = 2 }
struct Words3: Sendable { var a = 1, b = 2, c = 3 }
struct Words4: Sendable { var a = 1, b = 2, c = 3, d = 4 }
struct Words5: Sendable { var a = 1, b = 2, c = 3, d = 4, e = 5 }
struct Words6: Sendable { var a = 1, b = 2, c = 3, d = 4, e = 5, f = 6 }
struct Words7: Sendable { var a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7 }
struct Words8: Sendable { var a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8 }
struct Words12: Sendable { var a = Words8(), b = Words4() }
struct Words16: Sendable { var a = Words8(), b = Words8() }
struct Words32: Sendable { var a = Words16(), b = Words16() }

final class Leaf: Sendable {}
struct Texts2: Sendable { var a = "a string that is not small", b = "another string, on the heap" }
struct Texts4: Sendable { var a = Texts2(), b = Texts2() }
struct Mixed8: Sendable {
  var leaf = Leaf(), other: Leaf? = Leaf(), list = [1, 2], map = ["a": 1], text = Texts2()
}
protocol Shape: Sendable {}
struct Small: Shape { var a = 1 }
struct Large: Shape { var a = Words8() }
struct Shapes: Sendable { var a: any Shape = Small(), b: any Shape = Large() }
struct Three<Part: Sendable>: Sendable { var a: Part, b: Part, c: Part }

/// A state of unknown type, so that calls with it are generic code.
protocol Sample: Sendable {
  associatedtype State: Sendable
  var state: State { get }
  var name: String { get }
}

struct Example<State: Sendable>: Sample, CustomTestStringConvertible {
  let name: String
  let state: State
  init(_ name: String, _ state: State) {
    self.name = name
    self.state = state
  }
  var testDescription: String { name }
}

enum Samples {
  static let all: [any Sample] = [
    Example("1 word", Words1()), Example("2 words", Words2()), Example("3 words", Words3()),
    Example("4 words", Words4()), Example("5 words", Words5()), Example("6 words", Words6()),
    Example("7 words", Words7()), Example("8 words", Words8()), Example("12 words", Words12()),
    Example("16 words", Words16()), Example("32 words", Words32()), Example("a string", "text"),
    Example("2 strings", Texts2()), Example("4 strings", Texts4()), Example("references", Mixed8()),
    Example("an array", [1, 2]), Example<any Shape>("a small existential", Small()),
    Example<any Shape>("a large existential", Large()), Example("2 existentials", Shapes()),
    Example("an optional of 1 word", Optional(1)), Example("an optional of 8 words", Optional(Words8())),
    Example("an optional of strings", Optional(Texts4())), Example("a generic of words", Three(a: 1, b: 2, c: 3)),
    Example("a generic of 6 words", Three(a: Words2(), b: Words2(), c: Words2())),
    Example("a generic of strings", Three(a: Texts2(), b: Texts2(), c: Texts2())),
  ]
}

// MARK: Stores

enum Ground: CaseIterable, Sendable {
  /// `brought` is an executor that the caller brings; `callers` is the caller's own, or the main actor's if it has
  /// none.
  case own, mainActor, brought, callers

  func executor(of caller: HeldExecutor? = nil) -> StoreExecutor {
    switch self {
    case .own: .own
    case .mainActor: .mainActor
    case .brought: .serial(HeldExecutor())
    case .callers: caller.map { .serial($0) } ?? .mainActor
    }
  }
}

struct Scene<State: Sendable>: Sendable {
  let state: State
  let executor: StoreExecutor
  let root: RootStore<State, Int>
  let child: StateStore<State, Int>
  let grandchild: StateStore<State, Int>
  /// Its state is one word larger.
  let pair: StateStore<(State, Int), Int>
  let scope: Store<State, Int>
  let part: Store<Int, Int>
  let optional: Store<State, Int>
  let selected: Store<State, Int>
  let projection: Store<State, Int>
  /// An optional scope without a state.
  let absent: Store<State, Int>
  /// With a history, and middleware that rejects negative actions.
  let attended: RootStore<State, Int>
  let attendedChild: StateStore<State, Int>
  let history = History<State, Int>(limit: 4)

  init(_ state: State, on executor: StoreExecutor) {
    self.state = state
    self.executor = executor
    root = RootStore(initialState: state, options: StoreOptions(executor: executor)) { current, _ in current = state }
    child = root.childStore(initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
    grandchild = child.childStore(initialState: state, stateMapping: { _, own in own }, reducer: { _, _ in })
    pair = root.childStore(initialState: 0) { $0 += $1 }
    scope = root.scope { $0 }
    part = child.scope { _ in 1 }
    optional = child.scope(toOptional: { .some($0) })
    selected = root.scope(selecting: StateSelector("all") { $0 })
    projection = child.projection(action: { (action: Int) in action == 0 ? nil : action }, state: { $0 })
    absent = root.scope(toOptional: { _ -> State? in nil })
    attended = RootStore(
      initialState: state, options: StoreOptions(executor: executor),
      middleware: [Middleware { action, context, next in action < 0 ? context.reject("Negative.") : next(action) }],
      history: history
    ) { current, _ in current = state }
    attendedChild = attended.childStore(
      initialState: 0, stateMapping: { state, _ in state }, reducer: { $0 += $1 })
  }

  var actions: AsyncStream<Int> {
    AsyncStream { continuation in
      continuation.yield(1)
      continuation.yield(2)
      continuation.finish()
    }
  }

  func entries() async -> [History<State, Int>.Entry] {
    _ = try? await attended.send(1)
    return history.entries
  }
}

struct Refusal: Error {}
struct LargeRefusal: Error { var a = Words4(), b = "a string that is not small" }
