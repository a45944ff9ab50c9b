import Puredux
import PureduxTestSupport

/// Calls from the user's code to the tree that is calling it: every public operation, in every place where user code is
/// called.
enum Reentry {
  /// Where a tree runs.
  enum Ground: CaseIterable, Sendable {
    case mainActor, own, held, manual
  }

  enum Place: CaseIterable, Sendable {
    case rootReducer, secondReducer, childReducer, recordedReducer
    case middlewareBefore, middlewareAfter, childMiddleware
    case stateMapping, scope, optionalScope, projectionAction, projectionState
    case selector, selectorInput, selectorEquatable, keyPathGetter, indexHash, indexEquatable
    case filter, filterEquatable, filterValue, emission
    case interceptorCondition, interceptorPattern, interceptorBody, reading, observer
    case stateDeinit, actionDeinit, bufferDeinit, memoryDeinit, historyDeinit
    case interceptorCaptureDeinit, reducerCaptureDeinit, observerCaptureDeinit
    case treeExecutor, consumerExecutor

    /// Whether the code is called on the tree's executor.
    var isOnExecutor: Bool {
      switch self {
      case .interceptorBody, .observer, .observerCaptureDeinit, .treeExecutor: false
      default: true
      }
    }

    /// Whether the object released there belonged to the root's state.
    var isCargoOfState: Bool { self == .stateDeinit || self == .bufferDeinit || self == .historyDeinit }

    /// Only the manual ground has an executor of the user's own.
    func isFound(on ground: Ground) -> Bool { self != .treeExecutor || ground == .manual }
  }

  enum Operation: CaseIterable, Sendable {
    case dispatch, send, sendReading, state, statistics
    case subscribe, next, observe, intercept, scopes, history
    case makeChild, makeAndDropChild, dropChild, shutDownChild
    case shutDown, shutDownInTask, dropRoot
    case otherTree, runJobs

    /// Whether the child's sequences may end before the tree's.
    var endsChild: Bool { self == .dropChild || self == .shutDownChild || self == .dropRoot }

    /// Only the manual ground's jobs can be run by hand.
    func isPossible(on ground: Ground) -> Bool { self != .runJobs || ground == .manual }
  }

  /// An action, with an object that is released with it.
  struct Deed: Sendable {
    let id: Int
    var cargo: Passenger?
  }

  struct World: Sendable {
    var trace: [Int] = []
    var cargo: Passenger?
    let witness: Witness
    let stage: Stage

    var scene: Scene { Scene(root: trace) }

    /// This property and the next call the user's code.
    var askedScene: Scene {
      stage.pass(.keyPathGetter)
      return scene
    }
    var askedInput: ComparedScene {
      stage.pass(.selectorInput)
      return ComparedScene(scene: scene, stage: stage, place: .selectorEquatable)
    }

    subscript(index: Index) -> Scene { scene }
  }

  /// The state of every store of the tree: the actions that the root and the children on its path have reduced.
  struct Scene: Sendable, Equatable {
    var root: [Int]
    var locals: [[Int]] = []
  }

  /// Calls the user's code when it is compared.
  struct ComparedScene: Sendable, Equatable {
    let scene: Scene
    let stage: Stage
    let place: Place

    static func == (lhs: ComparedScene, rhs: ComparedScene) -> Bool {
      lhs.stage.pass(lhs.place)
      return lhs.scene == rhs.scene
    }
  }

  /// Calls the user's code when it is looked up.
  struct Index: Sendable, Hashable {
    let stage: Stage

    static func == (lhs: Index, rhs: Index) -> Bool {
      lhs.stage.pass(.indexEquatable)
      return true
    }

    func hash(into hasher: inout Hasher) {
      stage.pass(.indexHash)
    }
  }

  /// The value that a duplicate filter remembers.
  struct Memo: Sendable, Equatable {
    let count: Int
    let cargo: Passenger?
    static func == (lhs: Memo, rhs: Memo) -> Bool { lhs.count == rhs.count }
  }

  /// Calls the user's code when it is released.
  final class Passenger: Sendable {
    private let stage: Stage
    private let place: Place

    init(_ stage: Stage, _ place: Place) {
      self.stage = stage
      self.place = place
    }

    func ride() {}

    deinit { stage.pass(place) }
  }

  final class Witness: Sendable {
    private let gate: Gate
    init(_ gate: Gate) { self.gate = gate }
    func look() {}
    deinit { gate.open() }
  }

  /// An actor on the tree's executor, even after the tree has been released.
  @safe actor Anchor {
    private nonisolated let executor: UnownedSerialExecutor
    /// A proxy, which keeps the executor alive.
    private nonisolated let keeper: any Sendable

    init(of root: RootStore<World, Deed>) {
      keeper = root.store()
      unsafe executor = unsafe root.unownedExecutor
    }

    // SAFETY: `keeper` keeps alive the executor that this refers to.
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor }

    func perform(_ body: @Sendable () -> Void) { body() }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    nonisolated func immediately(
      _ body: @escaping @Sendable (isolated (any Actor)?) async -> Void
    ) -> Task<Void, Never> {
      assumeIsolated { anchor in
        Task.immediate { await body(anchor) }
      }
    }
  }
}
