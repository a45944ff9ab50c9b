import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }

let states = room.states(bufferingPolicy: .bufferingNewest(1))
let reader = Task {
  for await room in states {
    print(room.messages.count, "messages")
    try await Task.sleep(for: .milliseconds(100))  // A slow client.
  }
}

for number in 1...1_000 { try await room.send(.say("\(number)")) }

await room.shutdown()
try await reader.value
