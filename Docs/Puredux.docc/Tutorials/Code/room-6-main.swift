import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

room.dispatch(.setTopic("Swift"))
room.dispatch(.say("Hello"))
print(await room.state.messages)  // ["Hello"]
