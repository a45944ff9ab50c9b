import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

let topics = room.states(\.topic, removeStateDuplicates: .equal)
let reader = Task {
  for await topic in topics { print("topic:", topic) }
}

for text in ["Hello", "Anybody here?", "Bye"] { try await room.send(.say(text)) }
try await room.send(.setTopic("Swift"))

await room.shutdown()
await reader.value
