import Puredux

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A program's summary of a tree's state, for lists of trees (`FollowingOptions.summary`).
public struct LogSummary: Sendable, Hashable {
  /// The largest number of bytes. A larger summary is not stored, which is reported (`LogReport.summariesFail`).
  public static let byteLimit = 64 << 10

  /// The key of the tree.
  public var key: String
  /// The position in the log at which it was written. The state may be newer, by changes that leave the summary the
  /// same, or by the store's delay (`LogOptions.summaryInterval`).
  public var position: UInt64
  /// JSON, if a store has written it.
  public var bytes: [UInt8]

  /// For engines that read summaries.
  public init(key: String, position: UInt64, bytes: [UInt8]) {
    self.key = key
    self.position = position
    self.bytes = bytes
  }

  /// Sorts members by name, so that equal values have equal bytes.
  static func encode(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return Array(try encoder.encode(value))
  }
}

/// The storage of a tree's summary. A summary is a cache: if it is lost, it is written again when the tree is opened.
public protocol SummaryStore: Sendable {
  /// The stored summary; nil if there is none, or if it cannot be read.
  func kept() async throws(LogError) -> LogSummary?

  /// Begins to replace the stored summary, and returns at once. One of a later position stays, unless the log does not
  /// have that position. Atomic with respect to other calls.
  ///
  /// - Parameters:
  ///   - bytes: At most `LogSummary.byteLimit` bytes.
  ///   - position: The position of the last entry in the summarized state.
  ///   - outcome: Called once, but never within this call: with true if this summary is stored now, with false if a
  ///     later one stays, or with an error if neither is known.
  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void)
}

extension SummaryStore {
  package func save(_ bytes: [UInt8], at position: UInt64) async throws(LogError) -> Bool {
    let outcome = await withCheckedContinuation { continuation in
      save(bytes, at: position) { continuation.resume(returning: $0) }
    }
    return try outcome.get()
  }
}

/// A decoded summary.
public struct DecodedSummary<Value: Sendable>: Sendable {
  /// The key of the tree.
  public var key: String
  /// The position in the log at which it was written (`LogSummary.position`).
  public var position: UInt64
  /// The decoded value.
  public var value: Value

  /// For tests of code that reads summaries.
  public init(key: String, position: UInt64, value: Value) {
    self.key = key
    self.position = position
    self.value = value
  }
}

extension DecodedSummary: Equatable where Value: Equatable {}
extension DecodedSummary: Hashable where Value: Hashable {}

/// A summary that cannot be decoded as the requested type: another version of the program has written it.
public struct UndecodableSummary: Error, Sendable, CustomStringConvertible {
  /// The summary, with its key and its bytes.
  public var summary: LogSummary
  /// The decoder's error, for people.
  public var text: String

  public var description: String {
    "The summary of the log \"\(summary.key)\" at position \(summary.position) cannot be decoded: \(text)."
  }
}

extension LogDirectory {
  /// The decoded summaries of the trees whose keys begin with a text (all with `""`), without opening a tree:
  ///
  ///     for try await auction in log.summaries(of: AuctionSummary.self, prefix: "auctions/") {
  ///       print(auction.key, auction.value.highest)
  ///     }
  ///
  /// To continue after a summary that cannot be decoded, use `summaries(prefix:)`.
  ///
  /// - Returns: A sequence that throws `UndecodableSummary`, with the key, at the first summary that cannot be decoded
  ///   from JSON, and otherwise a `LogError`.
  public func summaries<Value: Decodable & Sendable>(
    of type: Value.Type, prefix: String
  ) -> AsyncThrowingStream<DecodedSummary<Value>, any Error> {
    let summaries = summaries(prefix: prefix)
    return AsyncThrowingStream {
      var iterator = summaries.makeAsyncIterator()
      guard let summary = try await iterator.next() else { return nil }
      do {
        let value = try JSONDecoder().decode(Value.self, from: Data(summary.bytes))
        return DecodedSummary(key: summary.key, position: summary.position, value: value)
      } catch {
        throw UndecodableSummary(summary: summary, text: describe(error))
      }
    }
  }
}
