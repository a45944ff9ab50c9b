public import Puredux

extension LogRecord {
  /// The content of an entry, for people and tools. Actions are bytes, encoded by their `LogCoding`.
  public enum Content: Sendable, Hashable {
    /// Actions of a store.
    case actions(Actions)
    /// A decision to skip an entry (`OrderedLog.skip`).
    case skip(position: UInt64, at: WallTime, reason: String)
    /// A seal: newer rules hold from here on (`RootStore.sealLog`).
    case seal(rules: UInt32, at: WallTime, reason: String)
    /// A new epoch (`OrderedLog.beginEpoch`).
    case epoch(number: UInt64, at: WallTime, reason: String)
    /// In a copy of a truncated log: stands in for a removed entry.
    case standIn(for: UInt64)
    /// An entry of a newer version of this library. A store stops here.
    case newer
    /// Not an entry of this library. A store stops here, unless a decision skips it.
    case unreadable
  }

  /// The actions that a store appended together; none if the entry carries only the writer's position and fingerprint.
  public struct Actions: Sendable, Hashable {
    /// The store's number, drawn when it was opened.
    public var writer: UInt64
    /// The number of the first action among its writer's, from 1.
    public var first: UInt64
    /// The last position that the writer had applied; 0 for none.
    public var seen: UInt64
    /// The fingerprint of the state at `seen`; 0 for none.
    public var fingerprint: UInt64
    /// The schema of the actions (`LogCoding.schema`).
    public var schema: UInt32
    /// The rules by which the actions are reduced (`LogOptions.rules`).
    public var rules: UInt32
    /// The encoded actions.
    public var actions: [[UInt8]]
  }

  /// The content of the entry. Cost: a copy of the actions' bytes.
  public var content: Content {
    switch LogEntry.decode(bytes) {
    case .entry(let header, let actions):
      .actions(
        Actions(
          writer: header.writer, first: header.first, seen: header.seen.position, fingerprint: header.seen.fingerprint,
          schema: header.schema, rules: header.rules, actions: actions.map { Array($0) }))
    case .decision(let decision):
      .skip(position: decision.skipped, at: WallTime(seconds: decision.time), reason: decision.reason)
    case .seal(let seal): .seal(rules: seal.rules, at: WallTime(seconds: seal.time), reason: seal.reason)
    case .epoch(let epoch): .epoch(number: epoch.number, at: WallTime(seconds: epoch.time), reason: epoch.reason)
    case .standIn(let position, _): .standIn(for: position)
    case .newerFormat: .newer
    case .unreadable: .unreadable
    }
  }
}

extension LogSnapshot {
  /// The content of a snapshot, without its state.
  public enum Content: Sendable, Hashable {
    /// A state of the tree.
    case state(Summary)
    /// A snapshot of a newer version of this library.
    case newer
    /// Not a snapshot of this library.
    case unreadable
  }

  /// A snapshot without its state.
  public struct Summary: Sendable, Hashable {
    /// The schema of the state.
    public var schema: UInt32
    /// The size of the state in bytes.
    public var stateBytes: Int
    /// The number of actions committed or skipped.
    public var actions: UInt64
    /// The number of skipped actions, and of records that are no entries.
    public var skipped: UInt64
    /// The newest rules of an entry; 0 for none.
    public var rules: UInt32
    /// The rules of the last seal; 0 for none.
    public var sealedRules: UInt32
    /// The number of the last epoch; 0 before any.
    public var epoch: UInt64
  }

  /// The content of the snapshot. Cost: decodes all but the state.
  public var content: Content {
    switch EncodedSnapshot.decode(bytes) {
    case .newer: .newer
    case .unreadable: .unreadable
    case .snapshot(let snapshot):
      .state(
        Summary(
          schema: snapshot.schema, stateBytes: snapshot.state.count, actions: snapshot.fold.commits,
          skipped: snapshot.fold.skipped, rules: snapshot.fold.rules, sealedRules: snapshot.fold.sealedRules,
          epoch: snapshot.fold.epoch))
    }
  }
}

extension WallTime {
  fileprivate init(seconds: UInt64) { self.init(since1970: .seconds(seconds)) }
}
