import Puredux

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A program's summary of a tree's state, for lists of trees (`FollowingOptions.summary`).
public struct LogSummary: Sendable, Hashable {
  /// The largest size in bytes. A larger summary is not stored, and reported (`LogReport.summariesFail`).
  public static let byteLimit = 64 << 10

  /// The key of the tree.
  public var key: String
  /// The position at which it was written. The state may be newer, by changes that leave the summary equal, or by the
  /// store's delay (`LogOptions.summaryInterval`).
  public var position: UInt64
  /// JSON, if a store has written it.
  public var bytes: [UInt8]

  /// For engines that read summaries.
  public init(key: String, position: UInt64, bytes: [UInt8]) {
    self.key = key
    self.position = position
    self.bytes = bytes
  }

  /// Sorts members by name: equal values have equal bytes.
  static func encode(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return Array(try encoder.encode(value))
  }
}

/// The storage of a tree's summary, a cache: a lost one is rewritten when the tree is opened.
public protocol SummaryStore: Sendable {
  /// The stored summary; nil if there is none, or if it cannot be read.
  func kept() async throws(LogError) -> LogSummary?

  /// Begins to replace the stored summary, and returns at once. A summary of a later position stays, if the log has
  /// that position. Atomic with respect to other calls.
  ///
  /// - Parameters:
  ///   - bytes: At most `LogSummary.byteLimit` bytes.
  ///   - position: The last position in the summarized state.
  ///   - outcome: Called once, never within this call: true if this summary is stored now, false if a later one stays,
  ///     an error if neither is known.
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
  /// The position at which it was written (`LogSummary.position`).
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

/// A summary that another version of the program wrote, and that cannot be decoded as the requested type.
public struct UndecodableSummary: Error, Sendable, CustomStringConvertible {
  /// The summary with its key and bytes.
  public var summary: LogSummary
  /// The decoder's error, for people.
  public var text: String

  public var description: String {
    "The summary of the log \"\(summary.key)\" at position \(summary.position) cannot be decoded: \(text)."
  }
}

extension LogDirectory {
  /// Decodes the summaries of the trees whose keys have a prefix (all with `""`), without opening a tree:
  ///
  ///     for try await auction in log.summaries(of: AuctionSummary.self, prefix: "auctions/") {
  ///       print(auction.key, auction.value.highest)
  ///     }
  ///
  /// `summaries(prefix:)` continues after an undecodable summary.
  ///
  /// - Returns: A sequence that throws `UndecodableSummary` at the first summary that is not JSON of this type, or else
  ///   a `LogError`.
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
