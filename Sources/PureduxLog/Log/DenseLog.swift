/// A log whose positions have no gaps, and which takes several entries at once.
package protocol DenseLog: OrderedLog {
  /// Appends all entries after its head, or none if it throws. After `.unavailable` either may be the case, as for one
  /// entry.
  ///
  /// - Parameter head: The expected head.
  /// - Throws: Also `.refused` if the head is elsewhere, as another writer has appended.
  func append(_ entries: [[UInt8]], behind head: UInt64) async throws(LogError)
}

extension LogError {
  package static func headIsElsewhere(_ head: UInt64) -> LogError {
    .refused("Another writer has appended to the log: it ends at \(head).")
  }
}
