struct Room: Sendable, Equatable {
  var messages: [String] = []
  var topic = "nothing yet"
}

enum RoomAction: Sendable, Equatable {
  case say(String)
  case setTopic(String)
}
