import Puredux

struct Basket: Sendable, Equatable {
  var items: [String: Int] = [:]
  var savedCount = 0

  enum Action: Sendable, Equatable { case add(String), saved }

  static let reducer = Reducer<Basket, Action> { basket, action in
    switch action {
    case .add(let item): basket.items[item, default: 0] += 1
    case .saved: basket.savedCount += 1
    }
  }

  static func interceptor(save: @escaping @Sendable ([String: Int]) async throws -> Void) -> Interceptor<Basket, Action>
  {
    .effects(
      ofState: .onChange(of: \.items) { items in
        if items.isEmpty { return nil }
        return .run { dispatch in
          try await save(items)
          dispatch(.saved)
        }.after(.seconds(1))
      })
  }
}
