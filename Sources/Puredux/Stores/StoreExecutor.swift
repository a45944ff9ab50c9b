/// Where the stores of a tree run.
///
/// A tree has one serial executor: its root store, its child stores and everything that is done with their states share it,
/// which is what lets an action pass through a whole path of stores without a hop.
public struct StoreExecutor: Sendable {
  enum Kind {
    case own
    case mainActor
    case brought(any SerialExecutor)
  }

  let kind: Kind

  /// An executor of the tree's own, on the global thread pool. The fastest to reach.
  public static var own: StoreExecutor { StoreExecutor(kind: .own) }

  /// The main actor's.
  public static var mainActor: StoreExecutor { StoreExecutor(kind: .mainActor) }

  /// An executor that the caller brings, kept alive by the tree.
  public static func serial(_ executor: any SerialExecutor) -> StoreExecutor {
    StoreExecutor(kind: .brought(executor))
  }
}
