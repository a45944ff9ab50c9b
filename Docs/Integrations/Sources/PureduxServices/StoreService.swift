public import Puredux
public import PureduxDirectory
public import PureduxLog
public import ServiceLifecycle

/// Shuts down a store or a directory of stores on graceful shutdown: accepted actions are committed, sequences end
/// after their last state, and effects have a limited time to finish.
///
///     let stores = StoreService(directory)
///     let group = ServiceGroup(
///       services: [LogService(log, after: stores), stores, server], gracefulShutdownSignals: [.sigterm],
///       logger: logger)
///     try await group.run()
///
/// A service group shuts down its services one by one, from the last to the first. The order of stores and logs in the
/// array does not matter, because a log is closed after its stores have ended. Here the server shuts down first: it
/// answers the requests in progress, and waits for its streams of states, which otherwise end with their stores. End
/// them with `states().cancelOnGracefulShutdown()`.
public final class StoreService: Service {
  private let end: @Sendable () async -> Void

  /// - Parameter interceptors: How running effects end. By default they have ten seconds to finish.
  public init<State: Sendable, Action: Sendable>(
    _ store: RootStore<State, Action>, interceptors: InterceptorShutdown = .finish(within: .seconds(10))
  ) {
    end = { await store.shutdown(interceptors: interceptors) }
  }

  /// The `interceptors:` of the directory decide how the effects of its stores end.
  public init<Key: Hashable & Sendable, State: Sendable, Action: Sendable>(
    _ directory: StoreDirectory<Key, State, Action>
  ) {
    end = { await directory.shutdown() }
  }

  public func run() async throws {
    try? await gracefulShutdown()
    await shutdown()
  }

  /// Shuts the stores down, as `run()` does at its end, even if the caller is cancelled. It can be called at any time,
  /// and more than once. It returns when the stores have ended, or earlier if called by an effect of the store.
  public func shutdown() async { await Task { [end] in await end() }.value }
}

/// Closes a log after the stores that follow it have ended. Shuts down stores that are still open.
public final class LogService: Service {
  private let once: Once

  /// - Parameters:
  ///   - stores: The services of the stores that follow the log.
  ///   - close: Closes the log, such as `{ await log.close() }`.
  public convenience init(after stores: StoreService..., close: @escaping @Sendable () async -> Void) {
    self.init(stores, close: close)
  }

  /// Closes a log in files after the stores of these services have ended.
  public convenience init(_ log: FileLog, after stores: StoreService...) {
    self.init(stores) { await log.close() }
  }

  private init(_ stores: [StoreService], close: @escaping @Sendable () async -> Void) {
    once = Once {
      // Concurrently, so that a slow store does not delay the others.
      await withTaskGroup { tasks in
        for store in stores { tasks.addTask { await store.shutdown() } }
      }
      await close()
    }
  }

  public func run() async throws {
    try? await gracefulShutdown()
    await shutdown()
  }

  /// Like `StoreService.shutdown`, but an effect of these stores must not call it: it would wait for itself.
  public func shutdown() async { await once.run() }
}

/// Work that is done once, however many callers request it, even if they are cancelled.
private actor Once {
  private let body: @Sendable () async -> Void
  private var task: Task<Void, Never>?

  init(_ body: @escaping @Sendable () async -> Void) { self.body = body }

  func run() async {
    let task = task ?? Task.detached { [body] in await body() }
    self.task = task
    await task.value
  }
}
