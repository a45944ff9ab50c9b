import Puredux
import Testing

// Three features, each in a file of its own, make an application: a required part, an optional one, and the elements of a
// dictionary.

private struct Shop: Sendable, Equatable {
  var session = Session()
  /// Only who is signed in has one.
  var basket: Basket?
  var products: [String: Product] = ["tea": Product(), "jam": Product()]
}

private enum ShopAction: Sendable {
  case session(Session.Action)
  case basket(Basket.Action)
  case product(String, Product.Action)
}

extension ShopAction {
  var session: Session.Action? { if case .session(let action) = self { action } else { nil } }
  var basket: Basket.Action? { if case .basket(let action) = self { action } else { nil } }
  var product: (id: String, action: Product.Action)? {
    if case .product(let id, let action) = self { (id, action) } else { nil }
  }
}

private let reducers: [Reducer<Shop, ShopAction>] = [
  Session.reducer.lifted(to: \.session, action: \.session),
  Reducer { shop, _ in
    if shop.session.user == nil { shop.basket = nil } else if shop.basket == nil { shop.basket = Basket() }
  },
  Basket.reducer.lifted(toOptional: \.basket, action: \.basket, absent: { refused.add($0) }),
  Product.reducer.lifted(toElements: \.products, action: \.product),
]

private let refused = Record<Basket.Action>()

@Suite(.timeLimit(.minutes(5))) struct ShopProgram {
  @Test func `three features make a shop`() async throws {
    let clock = ManualClock()
    let saved = Record<[String: Int]>()
    let counted = Record<Void>()
    let shop = RootStore<Shop, ShopAction>(
      initialState: Shop(), reducers: reducers, clock: clock,
      interceptors: Session.interceptor { "user \($0)" }
        .lifted(state: \.session, action: \.session, into: ShopAction.session),
      Basket.interceptor { saved.add($0) }.lifted(state: \.basket, action: \.basket, into: ShopAction.basket),
      Product.interceptor {
        counted.add(())
        return 7
      }.lifted(elements: \.products, action: \.product, into: ShopAction.product))

    // Without a basket there is nothing to add to, and that is told.
    try await shop.send(.basket(.add("tea")))
    #expect(refused.all == [.add("tea")])

    shop.dispatch(.session(.signIn("Ann")))
    await shop.settled()
    #expect(await shop.state.session == Session(user: "user Ann"))

    for item in ["tea", "jam", "tea"] { shop.dispatch(.basket(.add(item))) }
    for _ in 1...3 { shop.dispatch(.product("tea", .look)) }
    await shop.settled()
    clock.advance(by: .seconds(1))
    await shop.settled()
    #expect(saved.all == [["tea": 2, "jam": 1]])
    #expect(counted.all.count == 1)
    #expect(await shop.state.products == ["tea": Product(stock: 7), "jam": Product()])

    // The session expires before what was added last is saved, and the basket goes with it.
    clock.advance(by: .milliseconds(3_598_500))
    shop.dispatch(.basket(.add("jam")))
    await shop.settled()
    clock.advance(by: .milliseconds(500))
    await shop.settled()
    #expect(await shop.state.basket == nil)
    clock.advance(by: .seconds(10))
    await shop.settled()
    #expect(saved.all.count == 1)
    #expect(await shop.statistics.runningTasks == 0)
    await shop.shutdown()
  }
}
