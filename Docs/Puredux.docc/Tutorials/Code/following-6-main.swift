import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

/// A guest's unsent message. It is private, and ends with the child store.
struct Draft: Sendable {
  var text = ""
}

let ann = room.childStore(initialState: Draft(text: "Hel")) { draft, action in
  if case .say = action { draft.text = "" }
}
try await ann.send(.say("Hello"))

let (whole, draft) = await ann.state
print(whole.messages, draft.text.isEmpty)  // ["Hello"] true

await room.shutdown()
