import Puredux
import PureduxDirectory
import PureduxLog

let log = try FileLog(directory: "data")
let rooms = StoreDirectory<Int, Room, RoomAction>(idleLimit: .seconds(60)) { number in
  try await RootStore(
    following: log["rooms/\(number)"], initialState: Room(),
    options: FollowingOptions(fingerprint: .encoded),
    interceptors: .lookingUp(in: .short)
  ) { $0.apply($1) }
}

for number in 1...3 {
  try await rooms.withStore(number) { room in
    try await room.perform(.lookUp("actor"))
    print("room", number, await room.state.messages.count)
  }
}

await rooms.shutdown()
await log.close()
