import Puredux
import PureduxLog

let log = try FileLog(directory: "data")
let room = try await RootStore<Room, RoomAction>(
  following: log["rooms/1"], initialState: Room(),
  options: FollowingOptions(fingerprint: .encoded),
  interceptors: .lookingUp(in: .short)
) { $0.apply($1) }

try await room.perform(.lookUp("actor"))
print(await room.state.messages.count)

await room.shutdown()
await log.close()
