import Synchronization

/// The time of a call: stamps before the call and after its answer, each used only once, and the number of commits seen
/// before.
public struct Span: Sendable {
  public var begin: Int
  public var end: Int
  public var seen: Int

  public init(_ begin: Int, _ end: Int, seen: Int = 0) {
    self.begin = begin
    self.end = end
    self.seen = seen
  }
}

public enum Outcome: Sendable, Equatable {
  case enqueued
  case committed
  case read(Snapshot)
  case stateUnavailable
  case terminated
  case unmapped
  case rejected(String?)
  /// The last action of an interrupted sequence: committed or not.
  case unknown
}

public struct Call: Sendable {
  public var action: Action
  public var views: [View]
  public var span: Span
  public var outcome: Outcome

  public init(_ action: Action, views: [View] = [], _ span: Span, _ outcome: Outcome) {
    self.action = action
    self.views = views
    self.span = span
    self.outcome = outcome
  }
}

public struct StateRead: Sendable {
  public var via: Via
  public var span: Span
  /// `read`, `stateUnavailable` or `terminated`.
  public var outcome: Outcome

  public init(_ via: Via, _ span: Span, _ outcome: Outcome) {
    self.via = via
    self.span = span
    self.outcome = outcome
  }
}

/// The deliveries of a sequence, or of one subscription of an observer.
public struct Followed: Sendable {
  public var name: String
  public var via: Via
  public var buffering: Buffering
  public var filter: Filter
  public var span: Span
  public var elements: [Snapshot] = []
  /// Whether it was read until it ended by itself.
  public var isWhole = false
  public var endStamp = 0
  /// The number of elements read before the consumer stalled until the tree's end.
  public var stalledAt: Int?

  public init(name: String, via: Via, buffering: Buffering = .unbounded, filter: Filter = .none, span: Span) {
    self.name = name
    self.via = via
    self.buffering = buffering
    self.filter = filter
    self.span = span
  }
}

/// A shutdown or release of a store.
public struct Closing: Sendable {
  public var store: Int
  public var isShutdown: Bool
  /// Whether it let effects finish.
  public var isFinishing = false
  /// Whether an interceptor shut it down.
  public var isByInterceptor: Bool
  public var span: Span

  public init(store: Int, isShutdown: Bool, isByInterceptor: Bool = false, span: Span) {
    self.store = store
    self.isShutdown = isShutdown
    self.isByInterceptor = isByInterceptor
    self.span = span
  }
}

public struct Interception: Sendable {
  public var generation: Int
  public var spec: InterceptorSpec
  public var span: Span
}

/// A commit that an interceptor was asked about.
public struct Start: Sendable {
  public var generation: Int
  public var given: Int
  public var copy: UInt32
}

public struct Work: Sendable {
  public var store: Int
  public var given: Int
  public var copy: UInt32
  public var begin: Int
  public var end: Int
}

public struct ObserverCall: Sendable {
  public var subscription: Int
  public var state: Snapshot
  public var begin: Int
  public var end: Int
  public var isDead: Bool
}

public struct Observed: Sendable {
  public var number: Int
  public var observing: Observing
  public var via: Via
  public var span: Span
  /// The times at which it was cancelled or replaced.
  public var cuts: [Span] = []
}

public struct HistoryEntry: Sendable {
  public var action: Action
  public var isRootGiven: Bool
  public var position: Int
  public var before: Ledger
  public var after: Ledger
  public var steps: Int
}

public struct HistoryRead: Sendable {
  public var store: Int
  public var span: Span
  public var seenAfter: Int
  public var entries: [HistoryEntry]
}

public struct StatisticsRead: Sendable {
  public var commits: Int
  public var span: Span
  public var seenAfter: Int
}

public struct Recorded: Sendable {
  public var program: Program
  public var commits: [Action] = []
  public var calls: [Call] = []
  public var reads: [StateRead] = []
  public var followed: [Followed] = []
  public var observed: [Observed] = []
  public var observerCalls: [ObserverCall] = []
  public var closings: [Closing] = []
  public var interceptions: [Interception] = []
  public var starts: [Start] = []
  public var works: [Work] = []
  public var histories: [HistoryRead] = []
  public var statistics: [StatisticsRead] = []
  /// Failures detected during the run.
  public var violations: [String] = []

  public init(program: Program) {
    self.program = program
  }

  public var deliveries: Int { followed.reduce(0) { $0 + $1.elements.count } + observerCalls.count }
}

/// A value behind a lock. An atomic publishes each change as well, for the thread sanitizer: it does not see into the
/// library with the contended path of `Mutex`.
public struct Guarded<Value: Sendable>: ~Copyable, Sendable {
  private let mutex: Mutex<Value>
  private let handover = Atomic(false)

  public init(_ value: Value) {
    mutex = Mutex(value)
  }

  public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
    mutex.withLock { value in
      _ = handover.load(ordering: .acquiring)
      defer { handover.store(true, ordering: .releasing) }
      return body(&value)
    }
  }
}

final class Record<Element: Sendable>: Sendable {
  private let entries = Guarded<[Element]>([])
  func add(_ element: Element) { entries.withLock { $0.append(element) } }
  var all: [Element] { entries.withLock { $0 } }
  func update(_ body: (inout [Element]) -> Void) { entries.withLock { body(&$0) } }
}

/// A gate that tasks wait at until it opens, even if they are cancelled.
final class Gate: Sendable {
  private struct Door {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let door = Guarded(Door())

  func open() {
    let waiting = door.withLock { door in
      door.isOpen = true
      defer { door.waiting = [] }
      return door.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = door.withLock { door in
        if !door.isOpen { door.waiting.append(continuation) }
        return door.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }
}
