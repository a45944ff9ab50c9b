/// A log whose trees have a place on this machine.
protocol LocalLog: OrderedLog {
  /// The directory of the tree; none where there is none yet.
  func localDirectory() async throws(LogError) -> Directory?
}
