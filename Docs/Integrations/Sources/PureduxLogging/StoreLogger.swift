public import Logging
public import Puredux
public import PureduxLog
import Synchronization

/// Logs the events of stores with swift-log.
///
///     var options = StoreOptions(name: "rooms/17")
///     options.log(to: Logger(label: "rooms"))
///     let room = RootStore(initialState: Room(), options: options, reducer: reduce)
///
/// Levels follow the server community's guidelines for libraries: `trace` for frequent events, `debug` for the normal
/// course of events. Higher levels are for events that no caller learns of. A failed effect is an error, because its
/// sender has moved on. The start of a log's outage is a warning, its end a notice. A store that stops following its
/// log is a notice too: `LogOptions.log(to:)` logs the error with the reason. A rejected action, or a store that cannot
/// be made, is logged at `debug`, because its caller gets the error.
///
/// Only the name of an action is logged, because its payload may be personal data (`StoreInstrument.name(of:)`).
/// Replayed actions were logged when they were dispatched, so only the replay as a whole is logged. Ids of effects,
/// keys of directories, errors and rejection reasons are logged in full: put no secrets into them.
///
/// Above `trace`, a commit costs some 60 ns, and a successful effect some 2 µs, of which any instrument costs 1.5 µs.
/// At `trace`, a commit costs some 3 µs and an effect some 5 µs, plus the cost of the handler.
public struct StoreLogger: StoreInstrument {
  private let logger: Logger
  private let waiting = Waiting()

  /// The numbers of the stores with a log outage.
  private final class Waiting: Sendable {
    private let stores = Mutex<Set<Int>>([])

    func insert(_ store: InstrumentedStore) { _ = stores.withLock { $0.insert(store.number) } }
    @discardableResult func remove(_ store: InstrumentedStore) -> Bool {
      stores.withLock { $0.remove(store.number) } != nil
    }
  }

  public init(_ logger: Logger) { self.logger = logger }

  private func metadata(of store: InstrumentedStore, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
    more.merging(["store": "\(store.name)"]) { more, _ in more }
  }

  public func opened(_ store: InstrumentedStore) {
    logger.debug("The store is open.", metadata: metadata(of: store))
  }

  public func closed(_ store: InstrumentedStore) {
    waiting.remove(store)
    logger.debug("The store has ended.", metadata: metadata(of: store))
  }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    // Checks the level first: the name of the action is the largest cost.
    guard !commit.isReplay, logger.logLevel <= .trace else { return }
    logger.trace(
      "An action is committed.",
      metadata: metadata(
        of: store,
        ["action": "\(Self.name(of: action))", "position": "\(commit.position)", "given": "\(commit.store)"]))
  }

  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    guard !commit.isReplay, logger.logLevel <= .debug else { return }
    logger.debug(
      "An action is rejected.",
      metadata: metadata(
        of: store,
        [
          "action": "\(Self.name(of: action))", "reason": "\(reason.map { "\($0)" } ?? "none given")",
          "given": "\(commit.store)",
        ]))
  }

  public func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    // Called only if the message is logged.
    func about(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
      let effect: Logger.Metadata = ["effect": "\(event.id ?? "\(event.number)")", "of": "\(event.store)"]
      return metadata(of: store, effect.merging(more) { $1 })
    }
    switch event.kind {
    case .began: logger.trace("An effect has begun.", metadata: about())
    case .retried(let error, let delay):
      logger.debug(
        "An effect has failed, and is tried again.", metadata: about(["error": "\(error)", "delay": "\(delay)"]))
    case .turnedAway: logger.warning("An effect is not begun, as too many wait.", metadata: about())
    case .ended(.finished, let taken): logger.trace("An effect has ended.", metadata: about(["taken": "\(taken)"]))
    case .ended(.cancelled, let taken): logger.trace("An effect was cancelled.", metadata: about(["taken": "\(taken)"]))
    case .ended(.timedOut, let taken):
      logger.debug("An effect took longer than its limit.", metadata: about(["taken": "\(taken)"]))
    case .ended(.caught(let error), let taken):
      logger.debug(
        "An effect has failed, and its action says so.", metadata: about(["error": "\(error)", "taken": "\(taken)"]))
    case .ended(.failed(let error), let taken):
      logger.error("An effect has failed.", metadata: about(["error": "\(error)", "taken": "\(taken)"]))
    }
  }

  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
    var about = metadata(of: store)
    switch event {
    case .entered(.waiting(let trouble)):
      waiting.insert(store)
      about["trouble"] = "\(trouble)"
      logger.warning("The log takes or delivers nothing.", metadata: about)
    case .entered(.stopped(let reason)):
      about["reason"] = "\(reason)"
      logger.notice("The store has stopped following its log.", metadata: about)
    case .entered(.following):
      if waiting.remove(store) {
        logger.notice("The log takes and delivers again.", metadata: about)
      } else {
        logger.debug("The store follows its log.", metadata: about)
      }
    case .entered(.recovering), .entered(.ended): break
    case .replayed(let positions, let taken):
      about["positions"] = "\(positions)"
      about["taken"] = "\(taken)"
      logger.debug("The log has been replayed.", metadata: about)
    case .appended(let actions, let bytes, let taken, let error):
      about["actions"] = "\(actions)"
      about["bytes"] = "\(bytes)"
      about["taken"] = "\(taken)"
      if let error {
        about["error"] = "\(error)"
        logger.debug("The log has not taken an entry.", metadata: about)
      } else {
        logger.trace("The log has taken an entry.", metadata: about)
      }
    case .savedSnapshot(let position, let bytes, let taken, let error):
      about["position"] = "\(position)"
      about["bytes"] = "\(bytes)"
      about["taken"] = "\(taken)"
      if let error { about["error"] = "\(error)" }
      logger.debug(error == nil ? "A snapshot is saved." : "A snapshot was not saved.", metadata: about)
    }
  }

  public func directory(_ event: DirectoryEvent) {
    var about: Logger.Metadata = ["directory": "\(event.directory)", "key": "\(event.key)"]
    switch event.kind {
    case .opening: break
    case .opened(let taken):
      about["taken"] = "\(taken)"
      logger.debug("A store of a directory has been made.", metadata: about)
    case .failed(let error, let taken):
      about["error"] = "\(error)"
      about["taken"] = "\(taken)"
      logger.debug("A store of a directory could not be made.", metadata: about)
    case .closed: logger.debug("A store of a directory has been let go.", metadata: about)
    }
  }
}

extension StoreOptions {
  /// Adds a logger to the store's instrument. Errors of effects go to the logger instead of standard error. An existing
  /// `reporting` closure stays and is still called.
  public mutating func log(to logger: Logger) {
    let log = StoreLogger(logger)
    instrument = instrument.map { CombinedInstrument($0, log) } ?? log
    // The instrument receives the same effects, but not stores beyond the maximum depth.
    if reporting == nil { reporting = { if case .tooDeep = $0.reason { logger.error("\($0)") } } }
  }
}

extension LogOptions {
  /// Sends the reports of a store that follows a log to a logger, instead of standard error. Replaces an existing
  /// `reporting` closure.
  public mutating func log(to logger: Logger) {
    reporting = { report in
      switch report {
      case .stopped, .stoppedAs, .undecodable, .diverged, .olderRules, .poisoned, .cloned: logger.error("\(report)")
      case .skippedElsewhere, .takenBack, .snapshotsFail, .summariesFail, .fingerprintMissing, .fingerprintFails:
        logger.warning("\(report)")
      }
    }
  }
}
