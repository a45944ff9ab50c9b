import Puredux

let room = RootStore<Room, RoomAction>(
  initialState: Room(), interceptors: .lookingUp(in: .short)
) { $0.apply($1) }

try await room.perform(.lookUp("actor"))
print(await room.state.messages)  // ["actor: a word of 5 letters"]

room.dispatch(.lookUp("await"))
await room.shutdown(interceptors: .finish(within: .seconds(5)))
print(await room.state.messages.count)  // 2
