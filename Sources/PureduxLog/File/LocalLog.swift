/// A log whose trees have directories on this machine.
protocol LocalLog: OrderedLog {
  /// The directory of the tree; nil if it does not exist yet.
  func localDirectory() async throws(LogError) -> Directory?
}
