import Foundation
import Hummingbird
import Puredux
import PureduxDirectory
import PureduxInspector
import PureduxLog
import ServiceLifecycle

/// A demo shop with a store, a child store, effects, a log and a directory.
struct Shop: Sendable {
  struct Order: Sendable {
    enum Stage: Sendable { case ordered, packed(at: Int), failed(String) }

    let id: Int
    let item: String
    var stage = Stage.ordered
  }

  var name = "The corner shop"
  var orders: [Order] = []
  var takings = 0
  var stock = ["bread": 12, "jam": 3, "tea": 5]
  var card: String? = "4929 1234 5678 9012"
}

enum ShopAction: Sendable {
  case order(String)
  case packed(Int)
  case failed(Int, String)
  case close

  @Sendable static func orders(_ shop: inout Shop, _ action: ShopAction) {
    switch action {
    case .order(let item): shop.orders.append(Shop.Order(id: shop.orders.count + 1, item: item))
    case .packed(let id): shop.orders[id - 1].stage = .packed(at: id)
    case .failed(let id, let reason): shop.orders[id - 1].stage = .failed(reason)
    case .close: break
    }
  }

  @Sendable static func till(_ shop: inout Shop, _ action: ShopAction) {
    guard case .order(let item) = action else { return }
    shop.takings += 3
    shop.stock[item, default: 1] -= 1
  }
}

struct NobodyThere: Error {}

@main struct Demo {
  static func main() async throws {
    let arguments = CommandLine.arguments.dropFirst()
    // With `--quiet`, the demo does nothing by itself: the browser test does.
    let isQuiet = arguments.contains("--quiet")
    let port = arguments.compactMap { Int($0) }.first ?? 8085
    // Before any file or connection is opened, which would get the descriptor of a closed output.
    print("http://127.0.0.1:\(port)/inspect?token=demo")
    guard fflush(nil) == 0 else { exit(1) }

    let inspector = Inspector()
    let history = History<Shop, ShopAction>(limit: 50)
    let shop = RootStore<Shop, ShopAction>(
      initialState: Shop(),
      reducers: [Reducer("orders", ShopAction.orders), Reducer("till", ShopAction.till)],
      options: StoreOptions(reporting: { _ in }, name: "shop", instrument: inspector),
      interceptors: .effects { action, context in
        guard case .order(let item) = action, let order = context.state.orders.last else { return nil }
        if item == "parcel" {
          return .run { _ in throw NobodyThere() }
            .retried(.constant(.milliseconds(200), attempts: 2))
            .catching { .failed(order.id, "\($0)") }.id("deliver \(order.id)")
        }
        return .run { dispatch in
          try await dispatch.sleep(for: .seconds(4))
          dispatch(.packed(order.id))
        }.id("pack", .concurrent(limit: 2))
      },
      middleware: [
        .guarding { action, shop in
          if case .order(let item) = action, shop.stock[item] == 0 { "There is no \(item) left." } else { nil }
        }
      ],
      history: history)
    let counter = shop.childStore(initialState: 0) { count, _ in count += 1 }
    inspector.show(shop, named: "shop", history: history) { $0.card = $0.card.map { _ in "(redacted)" } }
    inspector.show(counter, named: "shop") { $0.0.card = nil }

    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("inspector-demo-\(UUID())")
    let log = try FileLog(directory: folder.path)
    var options = FollowingOptions<[String: Int], String>(fingerprint: .encoded)
    options.store.instrument = inspector
    let votes = try await RootStore<[String: Int], String>(
      following: log["votes"], initialState: [:], options: options
    ) { votes, name in votes[name, default: 0] += 1 }
    inspector.show(votes, named: "votes")

    let rooms = StoreDirectory<String, [String], String>(
      idleLimit: .seconds(isQuiet ? 600 : 20), name: "rooms", instrument: inspector
    ) { name in
      if name == "cellar" { throw NobodyThere() }
      return RootStore(
        initialState: [], options: StoreOptions(name: "rooms/\(name)", instrument: inspector)
      ) { lines, line in lines.append(line) }
    }
    try await rooms.withStore("lounge") { try await $0.send("Hello") }
    try? await rooms.withStore("cellar") { _ in }

    let router = Router()
    inspector.mount(on: router, token: "demo")
    router.post("order/:item") { _, context in
      let item = try context.parameters.require("item").removingPercentEncoding ?? ""
      do {
        try await counter.send(.order(item))
        return HTTPResponse.Status.created
      } catch StoreError.rejected {
        return .conflict
      }
    }
    router.post("vote/:name") { _, context in
      try await votes.send(try context.parameters.require("name"))
      return HTTPResponse.Status.created
    }
    router.post("rooms/:name") { _, context in
      try await rooms.withStore(try context.parameters.require("name")) { try await $0.send("Hello") }
      return HTTPResponse.Status.created
    }
    let customers = Task {
      if isQuiet { return }
      for turn in 0... {
        try await Task.sleep(for: .seconds(2))
        shop.dispatch(.order(["tea", "bread", "jam", "parcel"][turn % 4]))
        try await votes.send(["Ada", "Grace", "Alan"][turn % 3])
        try await rooms.withStore("room \(turn % 40 / 4)") { try await $0.send("Hello") }
      }
    }
    let application = Application(
      router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)))
    var group = ServiceGroupConfiguration(
      services: [application], gracefulShutdownSignals: [.sigterm, .sigint], logger: application.logger)
    // A browser that does not read its page blocks a write.
    group.maximumGracefulShutdownDuration = .seconds(5)
    try await ServiceGroup(configuration: group).run()
    customers.cancel()
    await rooms.shutdown()
    await shop.shutdown()
    await votes.shutdown()
    await log.close()
    try? FileManager.default.removeItem(at: folder)
  }
}
