import Foundation

/// A directory that goes with its test.
final class Folder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: "liveboard-\(UUID().uuidString)").path()
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  /// Whether a text is in any of its files.
  func contains(_ text: String) throws -> Bool {
    let files = FileManager.default.enumerator(atPath: path)
    while let file = files?.nextObject() as? String {
      // It may go meanwhile.
      guard let bytes = FileManager.default.contents(atPath: path + "/" + file) else { continue }
      if bytes.firstRange(of: Data(text.utf8)) != nil { return true }
    }
    return false
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
