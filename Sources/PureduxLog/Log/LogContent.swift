public import Puredux

extension LogRecord {
  /// What an entry says, for people and tools, as far as the library reads it: actions are bytes, as their `LogCoding`
  /// has made them.
  public enum Content: Sendable, Hashable {
    /// Actions of a store.
    case actions(Actions)
    /// It was decided that the entry at a position is skipped (`OrderedLog.skip`).
    case skip(position: UInt64, at: WallTime, reason: String)
    /// Newer rules hold from here on (`RootStore.sealLog`).
    case seal(rules: UInt32, at: WallTime, reason: String)
    /// An epoch begins (`OrderedLog.beginEpoch`).
    case epoch(number: UInt64, at: WallTime, reason: String)
    /// It stands in for the entry at a position of the log that this one is a copy of, which had been truncated.
    case standIn(for: UInt64)
    /// A newer version of this library has written it. A store stops here.
    case newer
    /// It is none of this library's. A store stops here, unless it was decided that it is skipped.
    case unreadable
  }

  /// Actions that a store has appended together: none where it only says what it had come to.
  public struct Actions: Sendable, Hashable {
    /// The store, by a number that it has drawn when it was opened.
    public var writer: UInt64
    /// The number of the first action among those of its writer, from 1 on.
    public var first: UInt64
    /// The position of the last entry that the writer had applied; 0 for none.
    public var seen: UInt64
    /// The fingerprint that the state had there; 0 for none.
    public var fingerprint: UInt64
    /// The schema of the actions (`LogCoding.schema`).
    public var schema: UInt32
    /// The rules that they are reduced by (`LogOptions.rules`).
    public var rules: UInt32
    /// Each action, as the coding has made it.
    public var actions: [[UInt8]]
  }

  /// What it says. Costs a copy of the actions' bytes.
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
  /// What a snapshot says, as far as the library reads it.
  public enum Content: Sendable, Hashable {
    /// A state of the tree.
    case state(Summary)
    /// A newer version of this library has written it.
    case newer
    /// It is none of this library's.
    case unreadable
  }

  /// What a snapshot has beside the bytes of its state.
  public struct Summary: Sendable, Hashable {
    /// The schema of the state.
    public var schema: UInt32
    /// How many bytes the state has.
    public var stateBytes: Int
    /// How many actions were committed or skipped.
    public var actions: UInt64
    /// How many of those were skipped.
    public var skipped: UInt64
    /// The newest rules of an entry; 0 for none.
    public var rules: UInt32
    /// The rules of the last seal; 0 for none.
    public var sealedRules: UInt32
    /// The number of the last epoch; 0 before any.
    public var epoch: UInt64
  }

  /// What it says. Costs a reading of what it has beside the bytes of the state.
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
