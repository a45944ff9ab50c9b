import PureduxTestSupport
import Testing

@testable import Puredux

/// Objects that count their own references.
@Suite struct LazyTests {
  @Test func `a lazily made object is made once, and is released with its owner`() async {
    var weak: [Weak<Token>] = []
    do {
      let lazily = Lazy<Token>()
      #expect(lazily.withObject { _ in true } == nil)
      let tokens = await withTaskGroup { tasks in
        let owner = Owner()
        for _ in 0..<8 { tasks.addTask { owner.token { Token() } } }
        return await tasks.reduce(into: []) { $0.append($1) }
      }
      #expect(tokens.allSatisfy { $0 === tokens[0] })
      weak = [Weak(lazily { Token() }), Weak(tokens[0])]
      #expect(lazily { Token() } === weak[0].object)
      withExtendedLifetime(tokens) { #expect(weak[1].object != nil) }
    }
    #expect(weak.allSatisfy { $0.object == nil })
  }

  @Test func `a late maker gets the first object, and its own is released`() {
    let lazily = Lazy<Token>()
    var lost: Weak<Token>?
    var first: Weak<Token>?
    let token = lazily {
      first = Weak(lazily { Token() })
      let late = Token()
      lost = Weak(late)
      return late
    }
    #expect(token === first?.object)
    #expect(lost?.object == nil)
  }

  private final class Owner: Sendable {
    let token = Lazy<Token>()
  }

  @Test func `a command is held until it is performed, and released if it is refused`() async {
    let executor = HeldExecutor()
    let subject = Subject(.rootActor, executor: .serial(executor))
    let node = subject.root.core.node
    /// Returns whether the tree takes a command that holds a token, and the token.
    func order() -> (Bool, Weak<Token>) {
      let token = Token()
      return (node.enqueue { _ in _ = token }, Weak(token))
    }
    executor.hold()
    let (isOrdered, token) = order()
    #expect(isOrdered)
    #expect(token.object != nil)
    executor.letGo()
    _ = await subject.root.state
    #expect(token.object == nil)
    await subject.root.shutdown()
    let (isOrderedLate, late) = order()
    #expect(!isOrderedLate)
    #expect(late.object == nil)
  }
}
