import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

room.dispatch(.setTopic("Swift"))
room.dispatch(.say("Hello"))
print(await room.state.messages)  // ["Hello"]

let count = try await room.send(.say("Anybody here?")) { $0.messages.count }
print(count)  // 2

await withTaskGroup { guests in
  for guest in 1...100 {
    guests.addTask { room.dispatch(.say("I am guest \(guest).")) }
  }
}
print(await room.state.messages.count)  // 102
