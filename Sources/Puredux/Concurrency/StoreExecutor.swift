/// Where the stores of a tree run.
///
/// A tree has one serial executor, shared by its root store, its child stores and everything that is done with their
/// states. This is what lets an action pass through a whole path of stores without a hop.
public struct StoreExecutor: Sendable {
  enum Kind {
    case own
    case mainActor
    case brought(any SerialExecutor)
  }

  let kind: Kind

  /// Whether each thing that a tree does is a job of its own.
  @usableFromInline var goesStepByStep: Bool {
    guard case .brought(let executor) = kind else { return false }
    return (executor as? any StepByStep)?.isStepByStep == true
  }

  /// An executor of the tree's own, on the global thread pool. The fastest to reach.
  ///
  /// It is a default actor's: Swift runs such an actor's jobs on the task executor of the calling task, if that task
  /// prefers one. A task whose executor pauses in the middle of a `send` therefore holds up the tree for everyone. If
  /// callers' tasks prefer executors that may pause, provide one with `.serial`.
  public static var own: StoreExecutor { StoreExecutor(kind: .own) }

  /// The main actor's.
  public static var mainActor: StoreExecutor { StoreExecutor(kind: .mainActor) }

  /// An executor that the caller provides, kept alive by the tree. The tree depends on no other: it keeps running while
  /// the thread pool is blocked.
  public static func serial(_ executor: any SerialExecutor) -> StoreExecutor {
    StoreExecutor(kind: .brought(executor))
  }
}

extension StoreExecutor {
  /// An executor for tests, on which a tree does one thing in each job.
  package protocol StepByStep: SerialExecutor {
    var isStepByStep: Bool { get }
  }
}
