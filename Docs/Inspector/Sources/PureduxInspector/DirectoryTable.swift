import Puredux
import Synchronization

/// The directories, each with its keys.
final class DirectoryTable: Sendable {
  enum Phase: String, Sendable, Encodable { case opening, open, failed, closed }

  struct Key: Sendable {
    /// Unique, also among keys with the same text.
    let sequence: Int
    let text: String
    let phase: Phase
    let since: WallTime
    var taken: Duration?
    var error: String?
  }

  struct Content: Sendable {
    var opening = 0
    var open = 0
    /// The total numbers of failed and closed stores.
    var failed = 0
    var closed = 0
    /// The keys of opening and open stores, up to the limit.
    var keys: [String: Key] = [:]
    /// The keys of the last failed or closed stores.
    var past = Ring<Key>(limit: 20)
  }

  private struct State {
    var directories: [String: Content] = [:]
    var sequence = 0
  }

  /// The number of listed directories.
  static let directoryLimit = 100

  /// The number of listed keys of each directory.
  private let limit: Int
  private let state = Mutex(State())

  init(limit: Int) { self.limit = max(limit, 1) }

  var all: [(name: String, content: Content)] {
    state.withLock { $0.directories }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  func note(_ event: DirectoryEvent) {
    let name = event.directory.cut(to: 200)
    let text = event.key.cut(to: 200)
    let error: String? = if case .failed(let error, _) = event.kind { "\(error)".cut(to: 300) } else { nil }
    state.withLock { state in
      guard state.directories[name] != nil || state.directories.count < Self.directoryLimit else { return }
      state.sequence += 1
      state.directories[name, default: Content()].note(
        event.kind, text, error: error, sequence: state.sequence, limit: limit)
    }
  }
}

extension DirectoryTable.Content {
  fileprivate mutating func note(
    _ kind: DirectoryEvent.Kind, _ text: String, error: String?, sequence: Int, limit: Int
  ) {
    func key(_ phase: DirectoryTable.Phase, _ taken: Duration? = nil) -> DirectoryTable.Key {
      DirectoryTable.Key(sequence: sequence, text: text, phase: phase, since: .now, taken: taken, error: error)
    }
    switch kind {
    case .opening:
      opening += 1
      add(key(.opening), limit: limit)
    case .opened(let taken):
      opening -= 1
      open += 1
      add(key(.open, taken), limit: limit)
    case .failed(_, let taken):
      opening -= 1
      failed += 1
      keys[text] = nil
      past.append(key(.failed, taken))
    case .closed:
      open -= 1
      closed += 1
      keys[text] = nil
      past.append(key(.closed))
    }
  }

  private mutating func add(_ key: DirectoryTable.Key, limit: Int) {
    if keys[key.text] != nil || keys.count < limit { keys[key.text] = key }
  }
}
