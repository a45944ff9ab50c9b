struct Room: Sendable, Equatable {
  var messages: [String] = []
  var topic = "nothing yet"
}
