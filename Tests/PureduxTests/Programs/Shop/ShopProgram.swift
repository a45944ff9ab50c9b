import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

// Three features, each in a file of its own, make an application: a required part, an optional part, and the elements
// of a dictionary.

private struct Shop: Sendable, Equatable {
  var session = Session()
  /// Only a signed-in user has a basket.
  var basket: Basket?
  var products: [String: Product] = ["tea": Product(), "jam": Product()]
}

private enum ShopAction: Sendable, Equatable {
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

@Suite(.timeLimit(.minutes(15))) struct ShopProgram {
  @Test func `three features make a shop`() async {
    let saved = Record<[String: Int]>()
    let counting = Gate()
    let shop = TestStore<Shop, ShopAction>(
      initialState: Shop(), reducers: reducers,
      interceptors: Session.interceptor { "user \($0)" }
        .lifted(state: \.session, action: \.session, into: ShopAction.session),
      Basket.interceptor { saved.add($0) }.lifted(state: \.basket, action: \.basket, into: ShopAction.basket),
      Product.interceptor {
        await counting.wait()
        return 7
      }.lifted(elements: \.products, action: \.product, into: ShopAction.product))

    // Without a basket the action changes nothing, and that is reported.
    await shop.send(.basket(.add("tea")))
    #expect(refused.all == [.add("tea")])

    await shop.send(.session(.signIn("Ann"))) { $0.session.isSigningIn = true }
    await shop.receive(.session(.signedIn("user Ann"))) {
      $0.session = Session(user: "user Ann")
      $0.basket = Basket()
    }
    for item in ["tea", "jam", "tea"] {
      await shop.send(.basket(.add(item))) { $0.basket?.items[item, default: 0] += 1 }
    }
    // Several requests at once count the stock only once.
    for _ in 1...3 { await shop.send(.product("tea", .look)) }
    counting.open()
    await shop.receive(.product("tea", .counted(7))) { $0.products["tea"]?.stock = 7 }

    await shop.advance(by: .seconds(1))
    await shop.receive(.basket(.saved)) { $0.basket?.savedCount = 1 }
    #expect(saved.all == [["tea": 2, "jam": 1]])

    // The session expires before the last item is saved, and the basket disappears with it.
    await shop.advance(by: .milliseconds(3_598_500))
    await shop.send(.basket(.add("jam"))) { $0.basket?.items["jam"] = 2 }
    await shop.advance(by: .milliseconds(500))
    await shop.receive(.session(.expired)) {
      $0.session = Session()
      $0.basket = nil
    }
    await shop.advance(by: .seconds(10))
    #expect(saved.all.count == 1)
    await shop.finish()
  }
}
