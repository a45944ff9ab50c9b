import Puredux
import PureduxTestSupport

/// What the user's code does to a tree that is calling it: in every place where it is called, everything that the
/// public face offers.
enum Reentry {
  /// Where a tree runs.
  enum Ground: CaseIterable, Sendable {
    case mainActor, own, held, manual
  }

  /// Where a tree calls the user's code.
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

    /// Whether it is called on the tree's executor.
    var isOnExecutor: Bool {
      switch self {
      case .interceptorBody, .observer, .observerCaptureDeinit, .treeExecutor: false
      default: true
      }
    }

    /// Whether the object that goes there came with the root's state.
    var isCargoOfState: Bool { self == .stateDeinit || self == .bufferDeinit || self == .historyDeinit }

    /// An executor of the user's own is what only that ground has.
    func isFound(on ground: Ground) -> Bool { self != .treeExecutor || ground == .manual }
  }

  /// What is done there.
  enum Operation: CaseIterable, Sendable {
    case dispatch, send, sendReading, state, statistics
    case subscribe, next, observe, intercept, scopes, history
    case makeChild, makeAndDropChild, dropChild, shutDownChild
    case shutDown, shutDownInTask, dropRoot
    case otherTree, runJobs

    /// Whether the child's sequences may end before the tree's.
    var endsChild: Bool { self == .dropChild || self == .shutDownChild || self == .dropRoot }

    /// Only that ground's jobs can be run by hand.
    func isPossible(on ground: Ground) -> Bool { self != .runJobs || ground == .manual }
  }

  /// An action, with what goes when it goes.
  struct Deed: Sendable {
    let id: Int
    var cargo: Passenger?
  }

  /// The root's state.
  struct World: Sendable {
    var trace: [Int] = []
    var cargo: Passenger?
    let witness: Witness
    let stage: Stage

    var scene: Scene { Scene(root: trace) }

    /// Two properties that call the user's code.
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

  /// What every store of the tree shows: the actions that the root and the children on its path have reduced.
  struct Scene: Sendable, Equatable {
    var root: [Int]
    var locals: [[Int]] = []
  }

  /// Calls the user's code to be compared.
  struct ComparedScene: Sendable, Equatable {
    let scene: Scene
    let stage: Stage
    let place: Place

    static func == (lhs: ComparedScene, rhs: ComparedScene) -> Bool {
      lhs.stage.pass(lhs.place)
      return lhs.scene == rhs.scene
    }
  }

  /// Calls the user's code to be looked up.
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

  /// What a duplicate filter remembers.
  struct Memo: Sendable, Equatable {
    let count: Int
    let cargo: Passenger?
    static func == (lhs: Memo, rhs: Memo) -> Bool { lhs.count == rhs.count }
  }

  /// Calls the user's code when it goes.
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

  /// Opens a gate when it goes.
  final class Witness: Sendable {
    private let gate: Gate
    init(_ gate: Gate) { self.gate = gate }
    func look() {}
    deinit { gate.open() }
  }

  /// On a tree's executor, whether the tree is still there or not.
  @safe actor Anchor {
    private nonisolated let executor: UnownedSerialExecutor
    /// A proxy, which keeps the tree's executor.
    private nonisolated let keeper: any Sendable

    init(of root: RootStore<World, Deed>) {
      keeper = root.store()
      unsafe executor = unsafe root.unownedExecutor
    }

    // SAFETY: `keeper` keeps what it refers to.
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
