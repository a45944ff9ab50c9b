/// Looks up the meanings of words: a service that takes time and may fail.
struct WordList: Sendable {
  var meaning: @Sendable (String) async throws -> String

  static let short = WordList { word in
    try await Task.sleep(for: .milliseconds(10))
    return "a word of \(word.count) letters"
  }
}
