import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

func announce(_ topic: Store<String, RoomAction>) async {
  for await topic in topic.states(removeStateDuplicates: .equal) { print("topic:", topic) }
}

let announcer = Task { [topic = room.scope(to: \.topic)] in await announce(topic) }

try await room.send(.setTopic("Swift"))
print(try await room.scope(to: \.topic).state)  // Swift

await room.shutdown()
await announcer.value
