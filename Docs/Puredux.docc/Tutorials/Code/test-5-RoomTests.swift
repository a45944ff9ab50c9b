import Puredux
import PureduxTesting
import Testing

@testable import Rooms

struct Unknown: Error {}

@Suite struct RoomTests {
  @Test func `messages are kept in order`() {
    var room = Room()
    room.apply(.say("Hello"))
    room.apply(.say("Bye"))
    #expect(room == Room(messages: ["Hello", "Bye"]))
  }

  private func store(_ meaning: @escaping @Sendable (String) async throws -> String) -> TestStore<Room, RoomAction> {
    TestStore(initialState: Room(), interceptors: .lookingUp(in: WordList(meaning: meaning))) { $0.apply($1) }
  }

  @Test func `the meaning of a word is posted`() async {
    let store = store { _ in "something that acts" }
    await store.send(.lookUp("actor"))
    await store.receive(.say("actor: something that acts")) { $0.messages = ["actor: something that acts"] }
    await store.finish()
  }

  @Test func `a word is looked up three times, a second apart`() async {
    let store = store { _ in throw Unknown() }
    await store.send(.lookUp("actor"))
    await store.advance(by: .seconds(2))
    await store.receive(.say("actor: nobody knows")) { $0.messages = ["actor: nobody knows"] }
    await store.finish()
  }

  @Test func `only the newest word is answered`() async {
    let answer = Gate()
    let store = store { word in
      if word == "actor" { await answer.wait() }
      return "a word"
    }
    await store.send(.lookUp("actor"))
    await store.send(.lookUp("await"))
    await store.receive(.say("await: a word")) { $0.messages = ["await: a word"] }
    answer.open()
    await store.finish()
  }
}
