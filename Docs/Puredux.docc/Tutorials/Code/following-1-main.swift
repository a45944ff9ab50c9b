import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

let states = room.states()
let reader = Task {
  for await room in states { print(room.messages.count, "messages") }
}

for text in ["Hello", "Anybody here?", "Bye"] { try await room.send(.say(text)) }
