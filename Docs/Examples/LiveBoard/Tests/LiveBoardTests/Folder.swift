import Foundation

/// A temporary directory of a test.
final class Folder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: "liveboard-\(UUID().uuidString)").path()
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  /// Whether any of its files contains a text.
  func contains(_ text: String) throws -> Bool { try !files(containing: text).isEmpty }

  /// Its files that contain a text, with their contents.
  func files(containing text: String) throws -> [String: Data] {
    try FileManager.default.subpathsOfDirectory(atPath: path).reduce(into: [:]) { files, file in
      // The file may disappear meanwhile.
      guard let bytes = FileManager.default.contents(atPath: path + "/" + file) else { return }
      if bytes.firstRange(of: Data(text.utf8)) != nil { files[file] = bytes }
    }
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
