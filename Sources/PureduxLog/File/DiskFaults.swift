/// Makes the disk fail, for tests.
final class DiskFaults: Sendable {
  /// The error number with which a call fails; nil if it succeeds.
  let failure: @Sendable (_ call: Call, _ bytes: Int) -> Int32?

  enum Call: Sendable { case write, sync, truncate, remove }

  init(failure: @escaping @Sendable (_ call: Call, _ bytes: Int) -> Int32?) { self.failure = failure }
}

extension FileLog {
  func fail(_ call: DiskFaults.Call, _ file: Disk?, _ count: Int) throws(Disk.Failure) {
    guard let code = faults?.failure(call, count) else { return }
    throw Disk.Failure(call: "\(call)", path: file?.path ?? directory, code: code)
  }

  /// Returns when the file is durable, also without `Options.syncs`.
  func sync(_ file: Disk) throws(Disk.Failure) {
    try fail(.sync, file, 0)
    try file.sync()
  }
}
