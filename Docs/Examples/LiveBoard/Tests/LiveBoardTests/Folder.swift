import Foundation

/// A directory that goes with its test.
final class Folder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: "liveboard-\(UUID().uuidString)").path()
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  /// Whether a text is in any of its files.
  func contains(_ text: String) throws -> Bool { try !files(containing: text).isEmpty }

  /// Its files that have a text, with what else is in them.
  func files(containing text: String) throws -> [String: Data] {
    try FileManager.default.subpathsOfDirectory(atPath: path).reduce(into: [:]) { files, file in
      // It may go meanwhile.
      guard let bytes = FileManager.default.contents(atPath: path + "/" + file) else { return }
      if bytes.firstRange(of: Data(text.utf8)) != nil { files[file] = bytes }
    }
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
