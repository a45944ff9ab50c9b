import Puredux
import PureduxLog
import PureduxNATS

// nats://10.0.0.1:4222 nats://10.0.0.2:4222 nats://10.0.0.3:4222
let servers = Array(CommandLine.arguments.dropFirst())

let log = try await NATSLog(servers: servers)
let room = try await RootStore<Room, RoomAction>(
  following: log["rooms/1"], initialState: Room(),
  options: FollowingOptions(fingerprint: .encoded),
  interceptors: .lookingUp(in: .short)
) { $0.apply($1) }

room.subscribe(
  observer: Observer(bufferingPolicy: .bufferingNewest(1)) { room in
    print(room.messages.count, room.messages.last ?? "")
    return .active
  })

while let line = readLine() {
  do {
    try await room.send(.say(line), within: .seconds(20))
  } catch {
    print("Not sent:", error)
  }
}
await room.shutdown()
await log.close()
