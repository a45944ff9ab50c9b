import Puredux

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// What a program has written of a tree's state for lists of trees (`FollowingOptions.summary`).
public struct LogSummary: Sendable, Hashable {
  /// How many bytes one may have: a larger one is not kept, and that is reported (`LogReport.summariesFail`).
  public static let byteLimit = 64 << 10

  /// The key of the tree.
  public var key: String
  /// The position in the log that it was written at. The state may have gone on since: by what has not changed it, or
  /// for as long as a store waits (`LogOptions.summaryInterval`).
  public var position: UInt64
  /// JSON, where a store has written it.
  public var bytes: [UInt8]

  /// For an engine that reads one.
  public init(key: String, position: UInt64, bytes: [UInt8]) {
    self.key = key
    self.position = position
    self.bytes = bytes
  }

  /// As stores write it: members in the order of their names, so that equal values have equal bytes.
  static func encode(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return Array(try encoder.encode(value))
  }
}

/// Where the summary of a tree is kept. A summary is a cache of what a store has said of its state: one that is lost is
/// written anew when the tree is opened.
public protocol SummaryStore: Sendable {
  /// The summary that is kept, or none; none, too, where it cannot be read.
  func kept() async throws(LogError) -> LogSummary?

  /// Begins to keep a summary in place of the one before, and returns at once. One of a later position stays, unless
  /// that is more than the log has; this is decided in one step with what others save.
  ///
  /// - Parameters:
  ///   - bytes: The summary, of at most `LogSummary.byteLimit` bytes.
  ///   - position: The position of the last entry that the state has which it is of.
  ///   - outcome: Called once, from anywhere but within this call: with whether this summary is what is kept, false
  ///     where a later one stays; or with why that is not known.
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

/// A summary, as the value that it was written as.
public struct DecodedSummary<Value: Sendable>: Sendable {
  /// The key of the tree.
  public var key: String
  /// The position in the log that it was written at (`LogSummary.position`).
  public var position: UInt64
  /// What the program has written.
  public var value: Value

  /// For tests of what reads summaries.
  public init(key: String, position: UInt64, value: Value) {
    self.key = key
    self.position = position
    self.value = value
  }
}

extension DecodedSummary: Equatable where Value: Equatable {}
extension DecodedSummary: Hashable where Value: Hashable {}

/// A summary that cannot be decoded as what was asked for: another version of the program has written it.
public struct UndecodableSummary: Error, Sendable, CustomStringConvertible {
  /// The summary, with its key and its bytes.
  public var summary: LogSummary
  /// What the decoder says, for people.
  public var text: String

  public var description: String {
    "The summary of the log \"\(summary.key)\" at position \(summary.position) cannot be decoded: \(text)."
  }
}

extension LogDirectory {
  /// The summaries of the trees whose keys begin with a text, or of all with `""`, without opening a tree:
  ///
  ///     for try await auction in log.summaries(of: AuctionSummary.self, prefix: "auctions/") {
  ///       print(auction.key, auction.value.highest)
  ///     }
  ///
  /// As `summaries(prefix:)`, which goes on where one of them cannot be decoded.
  ///
  /// - Returns: A sequence that ends with `UndecodableSummary`, which has the key, at the first that cannot be decoded
  ///   from JSON, and otherwise throws a `LogError`.
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
