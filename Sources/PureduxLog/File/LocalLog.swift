protocol LocalLog: OrderedLog {
  func localDirectory() async throws(LogError) -> Directory?
}
