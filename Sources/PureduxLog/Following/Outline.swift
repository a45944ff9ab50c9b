import Puredux

struct Outline: Sendable {
  enum Kind: Sendable {
    case entry(LogEntry.Header)
    case decision(skipping: UInt64)
    case seal(rules: UInt32)
    case epoch(UInt64)
    case standIn
    case unreadable
    case newerFormat
  }

  enum Failure: Sendable {
    case newerSchema
    case newerRules
    case olderRules(UInt32)
    case poisoned
    case undecodable(String)
  }

  let position: UInt64
  let bytes: Int
  let kind: Kind
  let actionCount: Int
  let failure: Failure?
  var own: [ArraySlice<UInt8>] = []
}

enum Interruption: Sendable {
  case failure(Outline.Failure, position: UInt64)
  case overruled(position: UInt64, by: UInt64)
  /// Sealed for unknown rules: the last position that the program may apply.
  case sealed(position: UInt64)
  /// A stand-in for an entry that only a snapshot has, which the store did not begin with.
  case truncated(position: UInt64)
}

/// Decodes entries, off the tree's executor.
///
/// Invariant: the actions are in order, as many as all outlines count. An action is nil if it cannot be decoded, or its
/// entry is skipped or must not be applied.
struct EntryDecoder<Action: Sendable>: Sendable {
  let actions: LogCoding<Action>
  let newestRules: UInt32
  let oldestRules: UInt32
  let writer: UInt64
  let goal: UInt64
  let skipped: [UInt64: UInt64]
  let recovery: RecoveryMark?

  func decode(_ records: [LogRecord]) -> ([Outline], [Action?]) {
    var outlines: [Outline] = []
    var decoded: [Action?] = []
    outlines.reserveCapacity(records.count)
    decoded.reserveCapacity(records.count)
    for record in records { outlines.append(outline(of: record, into: &decoded)) }
    return (outlines, decoded)
  }

  private func outline(of record: LogRecord, into decoded: inout [Action?]) -> Outline {
    var kind = Outline.Kind.unreadable
    var failure: Outline.Failure?
    var own: [ArraySlice<UInt8>] = []
    let before = decoded.count
    switch LogEntry.decode(record.bytes) {
    case .unreadable: failure = .undecodable("It was not written by this library.")
    case .newerFormat: kind = .newerFormat
    case .decision(let decision): kind = .decision(skipping: decision.skipped)
    case .seal(let seal): kind = .seal(rules: seal.rules)
    case .epoch(let epoch): kind = .epoch(epoch.number)
    case .standIn: kind = .standIn
    case .entry(let header, let encoded):
      kind = .entry(header)
      if header.schema > actions.newestSchema || header.rules > newestRules {
        failure = header.schema > actions.newestSchema ? .newerSchema : .newerRules
      } else if skipped[record.position] == nil, recovery?.isFatal(record.position) == true {
        failure = .poisoned
      }
      if failure != nil || skipped[record.position] != nil {
        decoded += [Action?](repeating: nil, count: encoded.count)
        break
      }
      if header.writer == writer { own = encoded }
      if record.position <= goal { recovery?.begin(record.position) }
      for bytes in encoded {
        do {
          decoded.append(try actions.decode(bytes, header.schema))
        } catch {
          decoded.append(nil)
          failure = failure ?? .undecodable(describe(error))
        }
      }
      if header.rules < oldestRules, !encoded.isEmpty { failure = .olderRules(header.rules) }
    }
    return Outline(
      position: record.position, bytes: record.bytes.count, kind: kind, actionCount: decoded.count - before,
      failure: failure, own: own)
  }
}
