import Puredux

let room = RootStore<Room, RoomAction>(initialState: Room()) { $0.apply($1) }
