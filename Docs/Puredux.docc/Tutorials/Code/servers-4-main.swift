import Puredux
import PureduxLog
import PureduxNATS

var options = NATSLog.Options()
options.replicas = 1  // A single NATS server for development; use three in production.

let log = try await NATSLog(servers: ["nats://127.0.0.1:4222"], options: options)
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
  try await room.send(.say(line))
}
await room.shutdown()
await log.close()
