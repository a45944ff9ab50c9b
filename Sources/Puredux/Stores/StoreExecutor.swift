/// Where the stores of a tree run.
///
/// A tree has one serial executor: its root store, its child stores and everything that is done with their states share it,
/// which is what lets an action pass through a whole path of stores without a hop.
public struct StoreExecutor: Sendable {
  @usableFromInline
  let owner: any SerialExecutorOwner

  /// An executor of the tree's own, on the global thread pool. The fastest to reach.
  public static var own: StoreExecutor { StoreExecutor(owner: OwnExecutor()) }

  /// The main actor's.
  public static var mainActor: StoreExecutor { StoreExecutor(owner: MainActorExecutor()) }

  /// An executor that the caller brings, kept alive by the tree.
  public static func serial(_ executor: any SerialExecutor) -> StoreExecutor {
    StoreExecutor(owner: BroughtExecutor(executor: executor))
  }
}

@usableFromInline
protocol SerialExecutorOwner: Sendable {
  var unownedExecutor: UnownedSerialExecutor { get }
}

private actor OwnExecutor: SerialExecutorOwner {}

private struct MainActorExecutor: SerialExecutorOwner {
  var unownedExecutor: UnownedSerialExecutor { unsafe MainActor.sharedUnownedExecutor }
}

private struct BroughtExecutor: SerialExecutorOwner {
  let executor: any SerialExecutor
  var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }
}
