import Puredux

/// Looks up the meanings of words: a service that takes time and may fail.
struct WordList: Sendable {
  var meaning: @Sendable (String) async throws -> String

  static let short = WordList { word in
    try await Task.sleep(for: .milliseconds(10))
    return "a word of \(word.count) letters"
  }
}

extension Interceptor<Room, RoomAction> {
  static func lookingUp(in words: WordList) -> Interceptor {
    .effects { action, _ in
      guard case .lookUp(let word) = action else { return nil }
      return .run { dispatch in
        dispatch(.say("\(word): \(try await words.meaning(word))"))
      }
      .id("look up", .latest)
      .retried(.constant(.seconds(1), attempts: 3))
      .catching { _ in .say("\(word): nobody knows") }
    }
  }
}
