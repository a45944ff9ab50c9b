import Puredux
import PureduxTesting
import Testing

@testable import Rooms

@Suite struct RoomTests {
  @Test func `messages are kept in order`() {
    var room = Room()
    room.apply(.say("Hello"))
    room.apply(.say("Bye"))
    #expect(room == Room(messages: ["Hello", "Bye"]))
  }
}
