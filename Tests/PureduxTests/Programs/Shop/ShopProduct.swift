import Puredux

/// One of many products. Its stock is looked up on request.
struct Product: Sendable, Equatable {
  var stock: Int?

  enum Action: Sendable, Equatable { case look, counted(Int) }

  static let reducer = Reducer<Product, Action> { product, action in
    if case .counted(let stock) = action { product.stock = stock }
  }

  static func interceptor(count: @escaping @Sendable () async throws -> Int) -> Interceptor<Product, Action> {
    .effects { action, context in
      guard action == .look, context.state.stock == nil else { return nil }
      return .run { dispatch in dispatch(.counted(try await count())) }.id("look", .first)
    }
  }
}
