import Foundation
import Hummingbird
import HummingbirdTesting
import NIOCore
import NIOPosix
import Puredux
import PureduxInspector
import PureduxTesting
import Synchronization
import Testing

/// A list with a secret.
struct Items: Sendable {
  var texts: [String] = []
  var count = 0
  var password = "hunter2"

  static let keep = Reducer<Items, ItemAction>("keep") { items, action in
    if case .add(let text) = action { items.texts.append(text) }
  }
  static let tally = Reducer<Items, ItemAction>("tally") { items, action in
    if case .add = action { items.count += 1 }
  }
}

enum ItemAction: Sendable {
  case add(String)
  /// Begins an effect that sleeps until it is cancelled.
  case work
  case fail(String)
}

struct Failure: Error, CustomStringConvertible {
  let description: String
}

extension RootStore where State == Items, Action == ItemAction {
  static func items(
    _ name: String, _ inspector: Inspector, history: History<Items, ItemAction>? = nil,
    executor: StoreExecutor = .own
  ) -> RootStore {
    RootStore(
      initialState: Items(), reducers: [Items.keep, Items.tally],
      options: StoreOptions(
        executor: executor, reporting: { _ in }, name: name, instrument: inspector),
      interceptors: .effects { action, _ in
        switch action {
        case .work:
          .run { dispatch in
            try await dispatch.send(.add("begun"))
            try await dispatch.sleep(for: .seconds(10_000))
          }.id("<work>")
        case .fail(let reason): .run { _ in throw Failure(description: reason) }.id("fail")
        case .add: nil
        }
      },
      middleware: [
        .guarding { action, _ in if case .add("nothing") = action { "There is <nothing> to add." } else { nil } }
      ],
      history: history)
  }
}

/// A counter that can be awaited.
final class Tally: Sendable {
  private let content = Mutex((count: 0, awaited: [(count: Int, gate: Gate)]()))

  var count: Int { content.withLock { $0.count } }

  func add() {
    let reached = content.withLock { content in
      content.count += 1
      return content.awaited.filter { $0.count <= content.count }
    }
    for awaited in reached { awaited.gate.open() }
  }

  func reaches(_ count: Int) async {
    let gate = Gate()
    content.withLock { content in
      if content.count >= count { gate.open() } else { content.awaited.append((count, gate)) }
    }
    await gate.wait()
  }
}

/// A value in a JSON response.
struct JSON: Equatable {
  private let value: NSObject?

  init(_ buffer: ByteBuffer) throws {
    value =
      try JSONSerialization.jsonObject(with: Data(buffer: buffer), options: .fragmentsAllowed) as? NSObject
  }

  private init(value: Any?) { self.value = value as? NSObject }

  subscript(name: String) -> JSON { JSON(value: (value as? [String: Any])?[name]) }
  subscript(index: Int) -> JSON { JSON(value: elements.indices.contains(index) ? (value as? [Any])?[index] : nil) }
  var elements: [JSON] { (value as? [Any])?.map { JSON(value: $0) } ?? [] }
  var text: String? { value as? String }
  var texts: [String] { elements.compactMap(\.text) }
  var number: Int? { (value as? NSNumber)?.intValue }
  var fraction: Double? { (value as? NSNumber)?.doubleValue }
  var isMissing: Bool { value == nil }
}

let token = "a token; with=signs/and ü"
let bearer: HTTPFields = [.authorization: "Bearer \(token)"]

/// Limits with a short interval, so that pages show changes immediately.
let atOnce = {
  var limits = Inspector.Limits()
  limits.interval = .zero
  return limits
}()

/// Runs a body with a client of a server with the pages of an inspector.
func withPages(_ inspector: Inspector, _ body: @escaping @Sendable (any TestClientProtocol) async throws -> Void)
  async throws
{
  let router = Router()
  inspector.mount(on: router, token: token)
  try await Application(router: router).test(.router) { try await body($0) }
}

extension TestClientProtocol {
  func get(_ path: String, _ headers: HTTPFields = bearer) async throws -> TestResponse {
    try await execute(uri: path, method: .get, headers: headers)
  }

  func json(_ path: String) async throws -> JSON {
    try JSON(try await get(path).body)
  }

  /// The data of the page of the only store, or of the store with a number.
  func store(_ number: Int? = nil) async throws -> JSON {
    let all = try await json("/inspect/data/stores")["stores"]["stores"].elements
    return try await json("/inspect/data/stores/\(number ?? all.last?["number"].number ?? 0)")
  }
}

/// A connection for a single request, whose response is read incrementally.
final class EventConnection {
  private var text = ""
  private var parts: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator

  private init(_ parts: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator) { self.parts = parts }

  /// Reads until a condition holds for all received bytes. Returns false if the server closes the connection first.
  func reads(until holds: (String) -> Bool) async throws -> Bool {
    while !holds(text) {
      guard let part = try await parts.next() else { return false }
      text += String(buffer: part)
    }
    return true
  }

  func expect(location: SourceLocation = #_sourceLocation, _ holds: (String) -> Bool) async throws {
    let hasCome = try await reads(until: holds)
    #expect(hasCome, sourceLocation: location)
  }

  static func open(port: Int, _ path: String, _ body: (EventConnection) async throws -> Void) async throws {
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: "127.0.0.1", port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
        }
      }
    try await channel.executeThenClose { inbound, outbound in
      let head = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\r\n"
      try await outbound.write(ByteBuffer(string: head))
      try await body(EventConnection(inbound.makeAsyncIterator()))
    }
  }
}
