struct Room: Codable, Sendable, Equatable {
  var messages: [String] = []
  var topic = "nothing yet"

  mutating func apply(_ action: RoomAction) {
    switch action {
    case .say(let text): messages.append(text)
    case .setTopic(let topic): self.topic = topic
    case .lookUp: break  // Changes nothing: an effect answers it.
    }
  }
}

enum RoomAction: Codable, Sendable, Equatable {
  case say(String)
  case setTopic(String)
  case lookUp(String)
}
