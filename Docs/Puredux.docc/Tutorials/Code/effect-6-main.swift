import Puredux

let room = RootStore<Room, RoomAction>(
  initialState: Room(), interceptors: .lookingUp(in: .short)
) { $0.apply($1) }

try await room.perform(.lookUp("actor"))
print(await room.state.messages)  // ["actor: a word of 5 letters"]
