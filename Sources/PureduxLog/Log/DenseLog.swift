/// A log that gives its entries positions without gaps, and knows how many it takes at once.
package protocol DenseLog: OrderedLog {
  /// Appends entries at the positions that follow its head: all of them, or none where it throws. Which of the two
  /// where that is `.unavailable` may be left open, as for one entry.
  ///
  /// - Parameter head: Where the head is to be. Throws `.refused` where it is elsewhere, as somebody else has written.
  func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError)
}

extension LogError {
  package static func headIsElsewhere(_ head: UInt64) -> LogError {
    .refused("Somebody else has written to the log: it ends at \(head).")
  }
}
