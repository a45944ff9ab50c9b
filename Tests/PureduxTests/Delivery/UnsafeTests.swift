import Testing

@testable import Puredux

/// What counts its references by itself.
@Suite struct UnsafeTests {
  @Test func `what is made when it is needed is made once, and goes with its owner`() async {
    var weak: [Weak<Token>] = []
    do {
      let lazily = Lazily<Token>()
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

  @Test func `who makes it too late gets what was made first, and loses their own`() {
    let lazily = Lazily<Token>()
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
    let token = Lazily<Token>()
  }

  @Test func `a list that is called in place lets go of what is removed, and of the rest when it goes`() {
    var weak: [Weak<Token>] = []
    do {
      var list = CallList<Token>()
      for _ in 0..<4 {
        let token = Token()
        weak.append(Weak(token))
        list.append(token)
      }
      #expect(list.remove(at: 1) === weak[3].object)
      #expect(weak[1].object == nil)
      #expect(list.remove(at: 2) == nil, "it was the last")
      var called: [ObjectIdentifier] = []
      list.forEach { called.append(ObjectIdentifier($0)) }
      #expect(called == [weak[0], weak[3]].compactMap(\.object).map(ObjectIdentifier.init))
    }
    #expect(weak.allSatisfy { $0.object == nil })
    do {
      var list = CallList<Token>()
      list.append(Token())
      let all = list.removeAll()
      #expect(all.count == 1 && list.isEmpty)
      weak = [Weak(all[0])]
    }
    #expect(weak[0].object == nil)
  }

  @Test func `a command is held until it is performed, and let go of where it is refused`() async {
    let executor = HeldExecutor()
    let subject = Subject(.rootActor, executor: .serial(executor))
    let origin = subject.root.core.origin
    /// Whether the tree takes a command that holds a token, and the token.
    func order() -> (Bool, Weak<Token>) {
      let token = Token()
      return (origin.order { _ in _ = token }, Weak(token))
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
