/// A log whose positions have no gaps, and which can append several entries at once.
package protocol DenseLog: OrderedLog {
  /// Appends all entries after `head`, the expected head, or none if it throws. After `.unavailable`, either is
  /// possible.
  ///
  /// - Throws: Also `.refused` if the head differs, because another writer has appended.
  func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError)
}

extension LogError {
  package static func headIsElsewhere(_ head: UInt64) -> LogError {
    .refused("Another writer has appended to the log: it ends at \(head).")
  }
}
